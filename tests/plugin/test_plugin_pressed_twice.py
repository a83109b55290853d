"""Ctrl-C pressed again, or while the report is written: the report is whole, and no traceback hides it."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from interrupted_runs import POSIX_ONLY, SENT, Run, journalled
from plugin_project import Project, good_cases

pytestmark = POSIX_ONLY

SLOW = """
import asyncio
import signal
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


@SENT
@pytest.mark.parametrize("gap", [0.03, 0.3, 1.2])
def test_an_impatient_user_gets_the_report(
    project: Project, mode: tuple[str, ...], gap: float, *, to_all: bool
) -> None:
    project.write("conftest.py", SLOW + SLOW_REPORT)
    project.cases(good_cases(60))

    with Run(project, *mode) as run:
        run.wait_for(lambda: journalled(project).count("\n") >= 3)
        for _ in range(3):
            if run.is_going:
                run.interrupt(to_all=to_all)
                time.sleep(gap)
        text = run.ends(within=60)
    assert "Traceback" not in text
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

    with Run(project, *mode) as run:
        run.wait_for((project.path / "finishes").exists)
        time.sleep(0.1)
        run.interrupt()
        if at == "sums-up":
            run.wait_for((project.path / "sums-up").exists)
            run.interrupt()
        text = run.said()
    if at == "finishes":
        assert run.process.returncode == pytest.ExitCode.OK, text
        assert "Traceback" not in text
        assert "4 passed" in text
    report = project.report()
    assert report["counts"] == {"scored": 4, "errored": 0, "skipped": 0, "not_run": 0, "total": 4}
    assert report["partial"] is None


#: What other plugins and the project do when pytest has said its last line.
SLOW_EXIT = """

import atexit

import pytest_memeval.interrupts

pytest_memeval.interrupts.DEAF = {deaf}


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        Path("leaves").touch()
        time.sleep({leaves})


def at_exit():
    Path("exits").touch()
    time.sleep({exits})


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        atexit.register(at_exit)
"""


@MODES
@pytest.mark.parametrize("at", ["leaves", "exits"])
@pytest.mark.parametrize("missed", [False, True], ids=["passed", "failed"])
def test_an_interrupt_after_the_last_line_changes_nothing(
    project: Project, mode: tuple[str, ...], at: str, *, missed: bool
) -> None:
    project.write("conftest.py", SLOW + SLOW_EXIT.format(deaf=30, leaves=0.5, exits=0.5))
    cases = good_cases(2)
    cases[0]["expect"] = {"l1.memory_recall": "> 1" if missed else ">= 1"}
    project.cases(cases)

    with Run(project, *mode) as run:
        run.wait_for((project.path / at).exists)
        for _ in range(3):
            run.interrupt()
            time.sleep(0.02)
        text = run.said()
    assert run.process.returncode == (pytest.ExitCode.TESTS_FAILED if missed else pytest.ExitCode.OK), text
    assert "Traceback" not in text
    assert "KeyboardInterrupt" not in text
    assert (project.path / "exits").exists()


@MODES
@pytest.mark.parametrize("at", ["leaves", "exits"])
def test_what_never_ends_after_the_last_line_is_ended_by_one(project: Project, mode: tuple[str, ...], at: str) -> None:
    seconds = {"leaves": 0.0, "exits": 0.0, at: 300.0}
    project.write("conftest.py", SLOW + SLOW_EXIT.format(deaf=0.0, **seconds))
    project.cases(good_cases(2))

    with Run(project, *mode) as run:
        run.wait_for((project.path / at).exists)
        run.interrupt()
        text = run.said()
    assert run.process.returncode == pytest.ExitCode.OK, text
    assert "Traceback" not in text
    assert "2 passed" in text


def test_a_session_inside_of_another_program_gives_the_signal_back(project: Project) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        project.cases(good_cases(2))
        project.run().assert_outcomes(passed=2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


#: Calls pytest, and is interrupted when the session is over and pytest not yet back.
PROGRAM = """
import os, signal, sys, time
import pytest
from pytest_memeval import interrupts

interrupts.DEAF = 0.1


class Late:
    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self, config):
        time.sleep(0.2)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            print("the program hears of it")


status = pytest.main(sys.argv[1:], plugins=[Late()])
print("the program goes on", int(status), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@MODES
def test_an_interrupt_ends_no_program_that_called_pytest(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    project.write("program.py", PROGRAM)
    result = project.pytester.run(sys.executable, "program.py", "-pno:hypothesispytest", *mode)
    result.stdout.fnmatch_lines(["the program hears of it", "the program goes on 0 True"])
