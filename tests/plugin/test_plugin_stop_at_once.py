"""``-x`` and ``--maxfail`` under ``-n``: no worker begins another case once the failure is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

#: One case fails when the other worker is at work; all others end when their worker is told to shut down, as xdist does
#: it however the run ends.
CONFTEST = """
import asyncio
import json
import os
import pathlib

import pytest

LOG = pathlib.Path(__file__).with_name("notes.log")
AT_ONCE = {at_once}


def note(at, case=""):
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(json.dumps(dict(at=at, case=case, worker=os.environ.get("PYTEST_XDIST_WORKER"))) + "\\n")


def noted(at, *, mine):
    rows = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines() if line.endswith("}}")]
    own = os.environ.get("PYTEST_XDIST_WORKER")
    return [row for row in rows if row["at"] == at and (row["worker"] == own) is mine]


class Engine:
    name = "told"
    version = "1"

    async def extract(self, conversation, ctx):
        note("start", ctx.case_id)
        try:
            if ctx.case_id == "bad":
                while len(noted("start", mine=False)) < AT_ONCE:
                    await asyncio.sleep(0.02)
                {end}
            while not noted("told", mine=True):
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            note("cancelled", ctx.case_id)
            raise
        dimension, _, content = conversation[0].content.partition(": ")
        return [dict(content=content, dimensions=[dimension], memory_type="persona", priority=80)]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    LOG.touch()
    for worker in session.config.pluginmanager.get_plugins():
        if type(worker).__name__ == "WorkerInteractor":
            watch(worker)


def watch(worker):
    handle = worker.handle_command

    def handle_command(command):
        handle(command)
        if command[0] == "shutdown":
            note("told")

    worker.handle_command = handle_command
"""
RAISES, DIES = 'raise RuntimeError("engine broke here")', "os._exit(3)"
PLAIN = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_plain(number):
    pass
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_no_worker_begins_a_case_when_the_run_is_to_stop(project: Project, option: str, at_once: int) -> None:
    count = 24
    project.write("conftest.py", CONFTEST.format(at_once=at_once, end=RAISES))
    project.cases([case("bad", "identity: x", truth=[("identity", "x")]), *good_cases(count - 1)])
    project.write("cases/v002/test_plain.py", PLAIN)
    result = project.run("-n", "2", option, "--memeval-concurrency", str(at_once))
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (project.path / "notes.log").read_text(encoding="utf-8").splitlines()
    ]
    (broken,) = {row["worker"] for row in rows if row["case"] == "bad"}
    other = [row for row in rows if row["worker"] != broken]
    told = other.index(next(row for row in other if row["at"] == "told"))
    assert [row for row in other[told:] if row["at"] == "start"] == []
    started = [row["case"] for row in other if row["at"] == "start"]
    assert len(started) == at_once
    # The case at hand is over as any test would be; those ahead of their turn were stopped.
    cancelled = {row["case"] for row in other if row["at"] == "cancelled"}
    assert len(cancelled) == at_once - 1
    assert [entry["case_id"] for entry in project.report()["per_case"] if entry["case_id"] in cancelled] == []
    counts = project.report()["counts"]
    assert (counts["scored"], counts["errored"], counts["not_run"]) == (1, 1, count - 2)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    # Other tests are pytest-xdist's: a worker ends with those that it was given.
    result.assert_outcomes(passed=1 + (3 if at_once > 1 else 0), errors=1)


@pytest.mark.timeout(120)
def test_a_failing_test_stops_the_cases_too(project: Project) -> None:
    project.write("conftest.py", CONFTEST.format(at_once=4, end=RAISES))
    project.cases(good_cases(16), name="cases/z.yaml")
    project.write(
        "cases/test_fails.py",
        """
        import time
        from conftest import noted

        def test_fails():
            while len(noted("start", mine=False)) < 4:
                time.sleep(0.02)
            assert False
        """,
    )
    result = project.run("-n", "2", "-x", "--memeval-concurrency", "4")
    result.assert_outcomes(passed=1, failed=1)
    assert project.report()["counts"]["not_run"] == 15


@pytest.mark.timeout(120)
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_a_case_that_killed_its_worker_counts(project: Project, option: str, at_once: int) -> None:
    """Ahead of others it is run again first, by itself: until then it is not known which one it was."""
    count = 24
    project.write("conftest.py", CONFTEST.format(at_once=at_once, end=DIES))
    project.cases([case("bad", "identity: x", truth=[("identity", "x")]), *good_cases(count - 1)])
    result = project.run("-n", "2", option, "--memeval-concurrency", str(at_once))
    rows = [json.loads(line) for line in (project.path / "notes.log").read_text(encoding="utf-8").splitlines()]
    broken = [row["worker"] for row in rows if row["case"] == "bad"]
    assert len(broken) == (1 if at_once == 1 else 2)
    other = [row for row in rows if row["worker"] not in broken]
    told = other.index(next(row for row in other if row["at"] == "told"))
    assert [row for row in other[told:] if row["at"] == "start"] == []
    assert len([row for row in other if row["at"] == "start"]) == at_once
    assert len([row for row in other if row["at"] == "cancelled"]) == at_once - 1
    report = project.report()
    assert report["counts"] == {"scored": 1, "errored": 1, "skipped": 0, "not_run": count - 2, "total": count}
    assert report["partial"] == "aborted"
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    result.assert_outcomes(passed=1, errors=1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("option", "begun"), [("-x", 1), ("--maxfail=2", 2), ("--maxfail=3", 3)])
def test_no_worker_that_takes_a_dead_ones_place_begins_a_case(project: Project, option: str, begun: int) -> None:
    project.cases([*(case(f"dead-{n}", "die", truth=[]) for n in range(3)), *good_cases(3)])
    # By file, so that they are run in their order.
    result = project.run("-n", "1", option, "--memeval-concurrency", "1", "--dist", "loadfile")
    report = project.report()
    kinds = {entry["case_id"]: entry["error"]["kind"] for entry in report["per_case"]}
    assert kinds == {f"dead-{n}": "worker_crashed" for n in range(begun)}
    assert (report["partial"], report["counts"]["not_run"]) == ("aborted", 6 - begun)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=begun)


@pytest.mark.timeout(120)
def test_the_worker_that_is_left_ends_with_what_it_has(project: Project) -> None:
    """Where none takes the place of one that died, pytest-xdist has the others end: no case is begun after theirs."""
    count = 24
    project.write("conftest.py", CONFTEST.format(at_once=4, end=DIES))
    project.cases([case("bad", "identity: x", truth=[("identity", "x")]), *good_cases(count - 1)])
    result = project.run("-n", "2", "-q", "--max-worker-restart", "0", "--memeval-concurrency", "4")
    scored = count // 2
    result.assert_outcomes(passed=scored, errors=1)
    assert "rerun" not in result.parseoutcomes()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = project.report()
    left = count - 1 - scored
    assert report["counts"] == {"scored": scored, "errored": 1, "skipped": 0, "not_run": left, "total": count}
    assert report["partial"] == "aborted"
    (error,) = [entry["error"]["message"] for entry in report["per_case"] if entry["error"]]
    assert "up to 3 other case(s) were under way in it" in error
    # The counts have no line of their own with -q.
    result.stdout.fnmatch_lines(
        ["The run was cut short; its P0 gates are unmeasured.", f"{left} selected case(s) left no result."]
    )
