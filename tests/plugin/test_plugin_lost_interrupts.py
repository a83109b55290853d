"""An interrupt that Python drops, as one that comes while an object is being freed, ends a worker all the same."""

from __future__ import annotations

import pytest
from interrupted_runs import POSIX_ONLY, Run
from plugin_project import Project, good_cases

pytestmark = POSIX_ONLY

#: From its third case on a worker frees something, and takes its time for it, once; then it goes on as it did, or is
#: held up.
CONFTEST = """
import os
import time
from pathlib import Path

import pytest
from line_engine import LineEngine


class Slow:
    def __del__(self):
        Path(f"frees-{os.getpid()}").touch()
        for _ in range(500):
            time.sleep(0.01)


class Frees(LineEngine):
    asked = 0

    def extract(self, conversation, ctx):
        self.asked += 1
        Path(f"asked-{ctx.case_id}").touch()
        time.sleep(0.05)
        if self.asked == 3:
            Slow()
            if HELD_UP:
                time.sleep(60)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Frees()


def pytest_unconfigure(config):
    if hasattr(config, "workerinput"):
        Path(f"ended-{os.getpid()}").touch()
"""


@pytest.mark.parametrize("held_up", [False, True], ids=["goes-on", "held-up"])
@pytest.mark.parametrize("to_all", [False, True], ids=["controller", "terminal"])
def test_a_worker_ends_though_the_interrupt_was_lost(project: Project, *, held_up: bool, to_all: bool) -> None:
    project.write("conftest.py", CONFTEST.replace("HELD_UP", str(held_up)))
    project.cases(good_cases(400))
    with Run(project, "--memeval-concurrency", "1", "-n", "2") as run:
        run.wait_for(lambda: len(list(project.path.glob("frees-*"))) == 2)
        run.interrupt(to_all=to_all)
        text = run.ends(within=60)
    ended, frees = (
        {path.name.partition("-")[2] for path in project.path.glob(f"{what}-*")} for what in ("ended", "frees")
    )
    assert ended == frees, text  # by themselves: nobody had to kill them
    assert len(list(project.path.glob("asked-*"))) == 2 * 3  # none after the one that lost it
    report = project.report()
    assert report["partial"] == "aborted"
    assert report["counts"]["not_run"] > 300
    assert len(project.journal()) == len(report["per_case"]) - _said_nothing(report)


def _said_nothing(report: dict[str, object]) -> int:
    entries = report["per_case"]
    assert isinstance(entries, list)
    return sum(entry["outcome"] == "not_run" for entry in entries)


#: A worker's engine is interrupted where its object is freed, and nobody else is.
ONE = CONFTEST.replace("for _ in range(500):", "os.kill(os.getpid(), 2)").replace("    time.sleep(0.01)\n", "")


def test_a_worker_that_loses_an_interrupt_of_its_own_goes_no_further(project: Project) -> None:
    project.write("conftest.py", ONE.replace("HELD_UP", "False"))
    project.cases(good_cases(100))
    result = project.run("--memeval-concurrency", "1", "-n", "2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    counts = project.report()["counts"]
    assert counts["scored"] <= 2 * 5, counts
    assert counts["total"] == 100


#: Ordinary tests that see to signals themselves, among cases.
OWN_SIGNALS = """
import signal

import pytest


@pytest.mark.parametrize("time", range(6))
def test_own(time):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_nothing_is_put_in_the_place_of_anything():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])
def test_tests_that_interrupt_themselves_are_left_alone(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(4), "cases/a.yaml")
    project.write("cases/test_b.py", OWN_SIGNALS)
    project.cases(good_cases(4), "cases/c.yaml")
    result = project.run("cases/a.yaml", "cases/test_b.py", "cases/c.yaml", *mode, fresh=True)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=8 + 7)
    assert project.report()["counts"]["scored"] == 8


STARTING = """
import os
import signal
from types import FunctionType

import pytest
from execnet import gateway_bootstrap
from line_engine import LineEngine

bootstrap, started = gateway_bootstrap.bootstrap, []


def interrupted():
    signal.raise_signal(signal.SIGINT)  # the whole group's: the worker that is being started is gone
    raise EOFError("expected 1 bytes, got 0")


def third_time(io, spec):
    started.append(spec)
    if len(started) == 3 and AT_ALL:
        # As in execnet, which waits for a word of the worker there.
        FunctionType(interrupted.__code__, {"__name__": "execnet.gateway_base", "signal": signal})()
    if len(started) == 3:
        raise EOFError("expected 1 bytes, got 0")
    return bootstrap(io, spec)


gateway_bootstrap.bootstrap = third_time


class Dies(LineEngine):
    def extract(self, conversation, ctx):
        if ctx.case_id == "eval-005":
            os._exit(3)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Dies()
"""


@POSIX_ONLY
def test_an_interrupt_while_a_worker_takes_anothers_place_ends_the_run_as_any(project: Project) -> None:
    project.write("conftest.py", STARTING.replace("AT_ALL", "True"))
    project.cases(good_cases(40))
    with Run(project, "--memeval-concurrency", "1", "-n", "2", "--max-worker-restart", "5") as run:
        said = run.said()
    assert run.process.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "KeyboardInterrupt" in said
    assert "EOFError" not in said
    assert project.report()["partial"] == "aborted"
    assert project.report()["counts"]["scored"] == len(set(project.journal())) - 1 > 0


def test_a_worker_that_cannot_be_started_is_no_interrupt(project: Project) -> None:
    project.write("conftest.py", STARTING.replace("AT_ALL", "False"))
    project.cases(good_cases(40))
    result = project.run("--memeval-concurrency", "1", "-n", "2", fresh=True)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines("*EOFError: expected 1 bytes, got 0*")
