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
                raise RuntimeError("engine broke here")
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
    project.write("conftest.py", CONFTEST.format(at_once=at_once))
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
    project.write("conftest.py", CONFTEST.format(at_once=4))
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
