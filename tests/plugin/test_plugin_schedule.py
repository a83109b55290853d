"""Under ``-n`` each worker sees far ahead, and no case is worked on twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from plugin_project import good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

#: Cases with an even number take long, so that workers end at different times.
ENGINE = """
import asyncio
import json
import time


class UnevenEngine:
    name = "uneven"
    version = "1"

    async def extract(self, conversation, ctx):
        number = int(ctx.case_id[-3:])
        started = time.time()
        await asyncio.sleep(0.6 if number <= 24 else 0.02)
        with open("worked.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps([ctx.case_id, started, time.time()]) + "\\n")
        dimensions, _, content = conversation[0].content.partition(": ")
        return [{"content": content, "dimensions": dimensions.split("+"), "memory_type": "persona", "priority": 80,
                 "time_velocity": "static"}]
"""


def worked(project: Project) -> list[list[Any]]:
    text = (project.path / "worked.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def in_flight(spans: list[list[Any]]) -> int:
    """The largest number of cases that were worked on at once."""
    moments = sorted([(start, 1) for _, start, _ in spans] + [(end, -1) for _, _, end in spans])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


@pytest.fixture
def uneven(project: Project) -> Project:
    project.write("uneven_engine.py", ENGINE)
    project.write(
        "conftest.py",
        """
        import pytest
        from uneven_engine import UnevenEngine


        @pytest.fixture(scope="session")
        def memeval_engine():
            return UnevenEngine()
        """,
    )
    return project


@pytest.mark.parametrize("chosen", [(), ("--dist", "worksteal")], ids=["ours", "worksteal"])
def test_workers_see_ahead_and_steal_only_what_is_not_begun(uneven: Project, chosen: tuple[str, ...]) -> None:
    """The slow half is the first worker's: 4 in flight in each would take it 3.6 s, with the other's help half."""
    uneven.cases(good_cases(60))
    result = uneven.run("-n", "2", "--memeval-concurrency", "4", "-v", *chosen)
    result.assert_outcomes(passed=60)
    result.stdout.fnmatch_lines(["scheduling tests via CaseScheduling"])
    spans = worked(uneven)
    assert Counter(name for name, _, _ in spans) == Counter(f"eval-{n:03}" for n in range(1, 61))
    assert in_flight(spans) >= 7
    assert "prepared_in_vain" not in uneven.report()["environment"]
    resumed = uneven.report()
    uneven.run("-p", "no:xdist", "--memeval-output", "serial").assert_outcomes(passed=60)
    assert stable(resumed) == stable(uneven.report("serial"))


@pytest.mark.slow
def test_the_users_own_choice_and_plain_tests_are_left_alone(uneven: Project) -> None:
    uneven.cases(good_cases(4))
    result = uneven.run("-n", "2", "--dist", "loadfile", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["scheduling tests via LoadFileScheduling"])
    result = uneven.run("-n", "2", "--memeval-concurrency", "1", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["scheduling tests via CaseScheduling"])  # which leaves it to xdist's default
    result = uneven.run("-n", "2", "--memeval-concurrency", "1", "--dist", "worksteal", "-v")
    result.assert_outcomes(passed=4)
    uneven.write(
        "test_plain.py", "import pytest\n\n\n@pytest.mark.parametrize('n', range(9))\ndef test_n(n):\n    pass\n"
    )
    uneven.run("-n", "2", "test_plain.py").assert_outcomes(passed=9)


def test_a_projects_own_scheduler_comes_first(uneven: Project) -> None:
    uneven.cases(good_cases(4))
    with (uneven.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            """
from xdist.scheduler import LoadScheduling


class Own(LoadScheduling):
    pass


def pytest_xdist_make_scheduler(config, log):
    return Own(config, log)
"""
        )
    result = uneven.run("-n", "2", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["scheduling tests via Own"])


class _Worker:
    """A worker of which one can die before xdist hears of it."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = type("Gateway", (), {"id": name, "spec": name})()
        self.dead = False
        self.given: list[int] = []
        self.asked = 0

    def sendcommand(self, name: str, indices: list[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        if name == "runtests":
            self.given += indices
        else:
            self.asked += 1

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sendcommand("runtests", indices=indices)

    def send_steal(self, indices: list[int]) -> None:
        self.sendcommand("steal", indices=indices)

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_worker_that_has_died_unheard_does_not_end_the_session(pytester: pytest.Pytester) -> None:
    from xdist.remote import Producer

    from pytest_memeval.workers.schedule import StealingCases, outlive

    config = pytester.parseconfig("-p", "xdist", "-n", "2", "--tx", "2*popen")
    scheduler = StealingCases(config, Producer("test", enabled=False))
    living, dying = _Worker("gw0"), _Worker("gw1")
    names = [f"a.yaml::c{number}" for number in range(12)]
    for worker in (living, dying):
        outlive(worker, lambda: False)
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, names)
    scheduler.schedule()
    assert sorted(living.given + dying.given) == list(range(12))
    dying.dead = True
    for index in list(living.given):
        scheduler.mark_test_complete(living, index)  # in the end it wants some of the other's
    assert dying.asked == 0
    crashed = scheduler.remove_node(dying)
    assert crashed == names[dying.given[0]]
    assert set(dying.given[1:]) <= set(living.given)
