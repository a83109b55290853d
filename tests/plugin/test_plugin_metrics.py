"""Metrics of a project's own in pytest runs: from a conftest, an option, an installed package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugin_project import MODES, Project, good_cases, stable

CONFTEST = """
import pytest
from line_engine import LineEngine
from pytest_memeval import metric


@pytest.fixture(scope="session")
def memeval_engine():
    return LineEngine()


@metric
def from_conftest(case, outputs):
    if case.case_id == "eval-003":
        raise ValueError("no such thing")
    return len(outputs.l1)
"""


def package(folder: Path, name: str, group: str, point: str, module: str, source: str) -> None:
    """An installed package with one entry point, as far as Python's metadata go."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{point}\n", encoding="utf-8")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")


@pytest.fixture
def site(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = project.path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[2]}")
    return folder


@MODES
def test_every_way_to_add_one(project: Project, site: Path, mode: tuple[str, ...]) -> None:
    package(
        site, "spare", "memeval.metrics", "installed = spare_metrics:always", "spare_metrics",
        "def always(case, outputs):\n    return True\n",
    )  # fmt: skip
    project.write("conftest.py", CONFTEST)
    project.write("mine.py", "def by_option(case, outputs):\n    return {'x': 0.5}\n")
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    project.cases(good_cases(4), gates=["P0 metrics.installed >= 1", "P0 metrics.from_conftest >= 1"])
    result = project.run("--memeval-metric", "mine:by_option", *mode, fresh=True)
    result.assert_outcomes(passed=3, errors=1)
    report = project.report()
    assert report["metrics"]["installed"] == 1
    assert report["metrics"]["by_option"] == {"x": 0.5}
    assert report["metrics"]["from_conftest"] == 1
    assert report["metrics"]["metric_errors"] == {"from_conftest": 1}
    assert [gate["status"] for gate in report["gates"]] == ["passed", "unmeasured"]
    result.stdout.fnmatch_lines(["*cases/v001.yaml:5: [[]metrics.from_conftest[]] metric_exception: ValueError: no *"])
    if mode:
        alone = project.run("--memeval-metric", "mine:by_option", "--memeval-output", "alone", fresh=True)
        assert alone.ret == 1
        assert stable(project.report("alone")) == stable(report)


def test_an_installed_engine_has_a_short_name(project: Project, site: Path) -> None:
    source = "from line_engine import LineEngine\n\n\nclass Spare(LineEngine):\n    name = 'spare-lines'\n"
    package(site, "spare", "memeval.engines", "spare = spare_engine:Spare", "spare_engine", source)
    project.write("conftest.py", "")
    project.cases(good_cases(2))
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    result = project.run("--memeval-engine", "spare", fresh=True)
    result.assert_outcomes(passed=2)
    assert project.report()["engine"]["name"] == "spare-lines"
    result = project.run("--memeval-engine", "spere", fresh=True)
    result.stderr.fnmatch_lines(["*unknown engine 'spere' (your own is named module:attribute); did you mean 'spare'*"])
    (site / "spare_engine.py").write_text("raise RuntimeError('half installed')", encoding="utf-8")
    result = project.run("--memeval-engine", "spare", fresh=True)
    result.stdout.fnmatch_lines(["*entry point 'spare' of package spare*half installed*"])


#: What names no metric → what is said.
NO_METRIC = {
    "mine:always_": "'mine:always_' cannot be imported: module 'mine' has no attribute 'always_';",
    "mne:always": "'mne:always' cannot be imported: No module named 'mne'; did you mean 'mine'?",
    "mine:number": "metric number: int is no function",
    "mine": "'mine' is not of the form module:function",
    "__main__:nothing_there": "'__main__:nothing_there' cannot be imported",
    "mine:two words": "'mine:two words' cannot be imported",
}


@MODES
@pytest.mark.parametrize(("name", "said"), NO_METRIC.items())
def test_an_option_that_names_no_metric_ends_the_run_before_its_first_case(
    project: Project, mode: tuple[str, ...], name: str, said: str
) -> None:
    project.write("mine.py", "number = 1\n\n\ndef always(case, outputs):\n    return True\n")
    project.cases(good_cases(2))
    result = project.run("--memeval-metric", "mine:always", "--memeval-metric", name, *mode, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = result.stderr.str().strip().splitlines()
    assert line.startswith(f"ERROR: --memeval-metric: {said}")
    assert not (project.path / "out").exists()


@MODES
@pytest.mark.parametrize("kind", ["distill", "qa"])
def test_a_metric_whose_module_is_found_late_is_one_sentence_of_each_file(
    project: Project, mode: tuple[str, ...], kind: str
) -> None:
    project.write("conftest.py", "")
    project.write("below/mine.py", "")  # on nobody's path, unless a test module beside it is collected
    if kind == "distill":
        project.cases(good_cases(2))
    else:
        question = {"id": "q", "question": "Who?", "answer": "Ada"}
        one = {"case_id": "a", "conversation": "I am Ada.", "questions": [question]}
        project.write("cases/v001.yaml", f"kind: qa\nmeta: {{gates: []}}\ncases: {json.dumps([one])}\n")
    result = project.run("--memeval-metric", "mine:nothing", *mode, fresh=True)
    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED)  # xdist calls it the latter
    text = result.stdout.str()
    assert "--memeval-metric: 'mine:nothing' cannot be imported: No module named 'mine'" in text
    assert "Traceback" not in text
    assert "SettingsError" not in text
