"""How long a run of many results takes to end: of itself, and from the first Ctrl-C on. Figures to read, no limits."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from benchmark_processes import run_command

CASES = 10_000

CONFTEST = """\
import asyncio
import atexit
import os
import pathlib
import signal
import time

import pytest

MARK = pathlib.Path(__file__).with_name("marked")


class Engine:
    name = "quick"
    version = "1"

    async def extract(self, conversation, ctx):
        number = int(ctx.case_id[1:])
        if number == {last}:
            MARK.write_text(str(time.time()))
            if {interrupt}:
                os.kill(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid(), signal.SIGINT)
                await asyncio.sleep(60)
        text = conversation[0].content
        memory = {{"content": text, "dimensions": ["identity"], "memory_type": "persona", "priority": 80 - number % 9}}
        return [memory, {{**memory, "content": "nobody said so"}}][: 1 + number % 2]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
@pytest.mark.parametrize(
    ("interrupt", "workers"), [(False, 0), (True, 0), (True, 2)], ids=["own-end", "ctrl-c", "ctrl-c-n2"]
)
def test_the_end_of_many_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, interrupt: bool, workers: int
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    rows = []
    for number in range(CASES + 1):
        text = f"person number {number} is called {number * 7919 % 100_003}"
        memory = {"content": text, "dimensions": ["identity"], "memory_type": "persona", "priority": 80}
        rows.append(
            {
                "case_id": f"c{number}",
                "conversation": [{"id": "msg_1", "role": "user", "content": text}],
                "expected_l1": {"memories": [memory]},
            }
        )
    (tmp_path / "many.yaml").write_text(json.dumps({"meta": {"gates": []}, "cases": rows}), encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST.format(last=CASES, interrupt=interrupt), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(tmp_path / "pyc"),
        "XDG_CACHE_HOME": str(tmp_path / "user-cache"),
    }
    options: tuple[str, ...] = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_memeval.plugin",
        "--memeval-output",
        "out",
    )
    if workers:
        options = (*options, "-p", "xdist", "-n", str(workers))
    status = pytest.ExitCode.INTERRUPTED if interrupt else pytest.ExitCode.OK
    run = run_command(
        [sys.executable, "-m", "pytest", *options, "many.yaml"], tmp_path, tmp_path / "said", environment, status=status
    )
    ended = time.time()
    asked = float((tmp_path / "marked").read_text(encoding="utf-8"))
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    # Under -n the other worker has a share of its own, which need not be over yet.
    assert report["counts"]["scored"] >= (CASES // 2 if workers else CASES - 8)
    how = "the first Ctrl-C" if interrupt else "the last answer"
    with capsys.disabled():
        print(
            f"\n{len(report['per_case'])} results: {ended - asked:.2f} s from {how} to the end of the process;"
            f" cpu of the whole run {run.cpu:.1f} s, peak {run.peak:.0f} MB; load {os.getloadavg()[0]:.1f}"
        )
