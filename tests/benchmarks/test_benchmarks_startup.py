"""What the plugin adds to a pytest start that does not use it: figures to read, no limits to fail."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from benchmark_processes import compared, run_pytest

RUNS = 15


@pytest.mark.slow
def test_a_start_with_and_without_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Other plugins would only add noise to both.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project = tmp_path / "project"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (project / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    # pytest looks for what "-p" names among the entry points of all that is installed: so it does on both sides.
    (project / "nothing.py").write_text("", encoding="utf-8")
    used, unused = [], []
    for _ in range(RUNS + 1):
        used.append(run_pytest(project, "-p", "pytest_memeval.plugin", cache=tmp_path))
        unused.append(run_pytest(project, "-p", "nothing", cache=tmp_path))
    # The first of each compiles the modules.
    del used[0], unused[0]
    assert all("1 passed" in run.output for run in (*used, *unused))
    added = statistics.median(one.wall - two.wall for one, two in zip(used, unused, strict=True))
    with capsys.disabled():
        print("\n" + compared("start", used, unused, ("with", "without")))
        print(f"added to a start: {1_000 * added:.1f} ms, median of {RUNS} pairs")
