"""Ctrl-C pressed again, or while the report is written: the report is whole, and no traceback hides it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import pytest
from plugin_project import Project, good_cases

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")

SLOW = """
import asyncio
import time
from pathlib import Path

import pytest
from line_engine import LineEngine


class Slow(LineEngine):
    async def extract(self, conversation, ctx):
        await asyncio.sleep(0.02 if ctx.case_id < "eval-005" else 0.5)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Slow()
"""
#: The report takes its time, as that of a large run does, and its summary.
SLOW_REPORT = """

from pytest_memeval.runs.recorder import Recorder

finish = Recorder.finish


def slowly(self, **given):
    Path("finishes").touch()
    time.sleep(0.7)
    try:
        return finish(self, **given)
    finally:
        time.sleep(0.7)


Recorder.finish = slowly


def pytest_terminal_summary(config):
    if not hasattr(config, "workerinput"):
        Path("sums-up").touch()
        time.sleep(0.5)
"""
MODES = pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])


def run(project: Project, mode: Sequence[str], press: Callable[[subprocess.Popen[bytes]], None]) -> tuple[int, str]:
    unused = (f"-pno:{name}" for name in ("randomly", "hypothesispytest", "anyio"))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *unused, "--memeval-output", "out", *mode],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        press(process)
        told, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, told.decode("utf-8")


def wait_for(there: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while not there():
        assert process.poll() is None, process.communicate()[0].decode("utf-8")
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("mode", "to_all"),
    [((), False), (("-n", "2"), False), (("-n", "2"), True)],
    ids=["serial", "n2-controller", "n2-terminal"],
)
@pytest.mark.parametrize("gap", [0.03, 0.3, 1.2])
def test_an_impatient_user_gets_the_report(
    project: Project, mode: tuple[str, ...], gap: float, *, to_all: bool
) -> None:
    project.write("conftest.py", SLOW + SLOW_REPORT)
    project.cases(good_cases(60))

    def press(process: subprocess.Popen[bytes]) -> None:
        wait_for(lambda: (project.path / "out").exists() and len(_journalled(project)) >= 3, process)
        for wait in (gap, gap, gap):
            if process.poll() is None:
                (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
                time.sleep(wait)

    status, text = run(project, mode, press)
    assert status == pytest.ExitCode.INTERRUPTED, text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert "The run was cut short" in text
    report = project.report()
    assert report["partial"] == "aborted"
    assert report["counts"]["not_run"] > 0
    assert {entry["case_id"] for entry in report["per_case"]} >= {"eval-001", "eval-002"}


@MODES
@pytest.mark.parametrize("at", ["finishes", "sums-up"])
def test_an_interrupt_when_all_is_over_changes_nothing(project: Project, mode: tuple[str, ...], at: str) -> None:
    project.write("conftest.py", SLOW + SLOW_REPORT)
    project.cases(good_cases(4))

    def press(process: subprocess.Popen[bytes]) -> None:
        wait_for((project.path / "finishes").exists, process)
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        if at == "sums-up":
            wait_for((project.path / "sums-up").exists, process)
            os.kill(process.pid, signal.SIGINT)

    status, text = run(project, mode, press)
    if at == "finishes":
        assert status == pytest.ExitCode.OK, text
        assert "Traceback" not in text
        assert "4 passed" in text
    report = project.report()
    assert report["counts"] == {"scored": 4, "errored": 0, "skipped": 0, "not_run": 0, "total": 4}
    assert report["partial"] is None


def _journalled(project: Project) -> list[str]:
    found = list((project.path / "out").glob("journal*.jsonl"))
    return found[0].read_text(encoding="utf-8").splitlines() if found else []
