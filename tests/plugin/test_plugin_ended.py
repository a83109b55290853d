"""Ctrl-C behind a slow case: what had come to its end before its turn is in journal and report, and is taken by a run
that goes on; serial and in two processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from interrupted_runs import POSIX_ONLY, SENT, Run
from plugin_project import Project, case, good_cases, stable

pytestmark = POSIX_ONLY

#: What is asked first in a process, or what the file names, goes on until the run is interrupted: when as many others
#: as the file says, or more, have begun, and nothing goes on but what hangs. Each call is noted when it begins, and
#: when it is over.
HOLD = """
import asyncio
import os
import pathlib


class Hold:
    def __init__(self):
        path = pathlib.Path("hold")
        others, _, head = path.read_text().partition(" ") if path.exists() else ("0", "", "")
        self.others, self.head, self.held = int(others), head or None, False
        self.begun, self.over = 0, 0

    async def call(self, name, hangs=False):
        note(f"asked {name}")
        if self.others and self.head in (None, name):
            first, self.head, self.held = not self.held, name, True
            if first:
                await self.ready()
            await asyncio.sleep(90)
        self.begun += 1
        if hangs and self.others:
            self.over += 1
            await asyncio.sleep(90)
        await asyncio.sleep(0.03)

    def is_over(self, name):
        note(f"over {name}")
        self.over += 1

    async def ready(self):
        quiet, seen = 0, 0
        while quiet < 100:
            await asyncio.sleep(0.01)
            still = seen == self.begun == self.over >= self.others
            quiet, seen = quiet + 1 if still else 0, self.begun
        pathlib.Path(f"ready-{os.getpid()}").touch()


def note(text):
    with open("notes.txt", "a", encoding="utf-8") as file:
        file.write(text + "\\n")


held = Hold()
"""
ENGINE = """
import pytest
from hold import held


class HeldEngine:
    name = "held"
    version = "1"

    async def extract(self, conversation, ctx):
        text = conversation[0].content
        await held.call(ctx.case_id, hangs=text == "hang")
        held.is_over(ctx.case_id)
        print("said by", ctx.case_id)
        if text == "raise":
            raise RuntimeError("engine broke here")
        dimensions, _, content = text.rpartition(": ")
        return [{"id": "m0", "content": content, "dimensions": [dimensions], "memory_type": "persona", "priority": 80}]


@pytest.fixture(scope="session")
def memeval_engine():
    return HeldEngine()
"""
#: So many cases at once, and so many in the window.
AT_ONCE, WINDOW = 4, 8

MODES = pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "n2"])


@dataclass
class Held:
    project: Project

    def interrupt(
        self, *options: str, others: int = WINDOW, head: str = "", to_all: bool = False, output: str = "cut"
    ) -> str:
        """A run that is interrupted when nothing but its first cases goes on; what it said."""
        project, count = self.project, 2 if "-n" in options else 1
        (project.path / "hold").write_text(f"{others} {head}".strip(), encoding="utf-8")
        with Run(project, "--memeval-concurrency", str(AT_ONCE), *options, output=output) as run:
            run.wait_for(lambda: len(list(project.path.glob("ready-*"))) == count)
            run.interrupt(to_all=to_all)
            text = run.ends()
        (project.path / "hold").unlink()
        return text

    def notes(self, what: str) -> list[str]:
        path = self.project.path / "notes.txt"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return sorted(line.partition(" ")[2] for line in lines if line.startswith(f"{what} "))

    def forget(self) -> None:
        (self.project.path / "notes.txt").unlink()

    def journal(self, folder: str = "cut") -> dict[str, dict[str, Any]]:
        """Case id → record."""
        text = (self.project.path / folder / "journal.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        found = {line["case_id"]: line for line in lines}
        assert len(found) == len(lines), "a case is recorded twice"
        return found


@pytest.fixture
def held(project: Project) -> Held:
    project.write("hold.py", HOLD)
    project.write("conftest.py", ENGINE)
    return Held(project)


def mixed(count: int) -> list[dict[str, Any]]:
    """Good cases, among which some raise, some miss a threshold of their own, and one goes on for ever."""
    cases = good_cases(count)
    for number in range(2, count, 6):
        cases[number] = case(f"eval-{number + 1:03}", "raise", truth=[("identity", "x")])
        cases[number + 1]["expect"] = {"l1.memory_recall": ">= 0.5"}
        cases[number + 1]["expected_l1"]["memories"][0]["content"] = "quite another"
    cases[4] = case("eval-005", "hang", truth=[("identity", "x")])
    return cases


@SENT
def test_what_had_ended_is_recorded_as_its_item_would_have(held: Held, mode: tuple[str, ...], *, to_all: bool) -> None:
    cases = {entry["case_id"]: entry for entry in mixed(40)}
    held.project.cases(list(cases.values()))
    text = held.interrupt(*mode, to_all=to_all)
    over, asked = held.notes("over"), held.notes("asked")
    processes = 2 if mode else 1
    assert len(asked) == len(set(asked)) == len(over) + processes + 1  # the first of each, and the one that hangs
    journal = held.journal()
    assert sorted(journal) == over
    raised = {name for name in over if cases[name]["conversation"][0]["content"] == "raise"}
    missed = {name for name in over if "expect" in cases[name]}
    assert raised
    assert missed
    for name, record in journal.items():
        assert record["outcome"] == ("errored" if name in raised else "scored")
        assert bool(record["missed_expectations"]) is (name in missed)
        assert record["resume_key"]
        if name not in raised:
            assert record["outputs"]["l1"]
            assert record["sections"]["l1"]
            assert record["timings"]["l1"] >= 0.01
        else:
            assert [error["kind"] for error in record["errors"]] == ["engine_exception"]
    report = held.project.report("cut")
    assert report["partial"] == "aborted"
    counts = {"scored": len(over) - len(raised), "errored": len(raised), "skipped": 0}
    assert report["counts"] == {**counts, "not_run": 40 - len(over), "total": 40}
    assert {entry["case_id"] for entry in report["per_case"]} == set(over)
    # pytest counts them as it does any other, and shows each failure in its list.
    numbers = {"failed": len(missed), "passed": len(over) - len(raised) - len(missed), "error": len(raised)}
    last = text.strip().splitlines()[-1]
    for word, number in numbers.items():
        assert f"{number} {word}" in last
    for name in (*raised, *missed):
        assert f"::{name} - [" in text


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ((), ()),
        (("-n", "2"), ()),
        ((), ("--memeval-trials", "2")),
        ((), ("--memeval-keep-db",)),
        (("-n", "2"), ("--memeval-keep-db", "--memeval-trials", "2")),
    ],
    ids=["serial", "n2", "trials", "databases", "n2-trials-databases"],
)
def test_a_run_that_goes_on_asks_for_none_of_them(held: Held, mode: tuple[str, ...], options: tuple[str, ...]) -> None:
    """Interrupted twice, and gone on with each time: in the end each case was asked for once, but for the first ones,
    whose calls were cut off; the report is that of a whole run."""
    trials = 2 if "--memeval-trials" in options else 1
    held.project.cases(good_cases(60))
    held.interrupt(*mode, *options, others=WINDOW * trials)
    last = "cut"
    assert sorted(held.journal(last)) == sorted(set(held.notes("over")))
    # A run that is interrupted has the databases of those cases alone that it came to.
    if "--memeval-keep-db" not in options:
        for path in held.project.path.glob("ready-*"):
            path.unlink()
        last = "again"
        held.interrupt(*mode, *options, "--memeval-resume", "cut", others=WINDOW * trials, output=last)
        assert sorted(held.journal(last)) == sorted(set(held.notes("over")))
    over = held.notes("over")
    assert len(over) == trials * len(set(over))
    held.forget()
    result = held.project.run(*mode, *options, "--memeval-resume", last, fresh=True)
    result.assert_outcomes(passed=60)
    asked = held.notes("asked")
    assert len(asked) == trials * len(set(asked)) + trials * _in_vain(held)
    assert sorted({*asked, *over}) == sorted(entry["case_id"] for entry in good_cases(60))
    assert not set(asked) & set(over)
    report = held.project.report()
    assert report["environment"]["resumed"]["cases"] == len(set(over))
    if "--memeval-keep-db" in options:
        assert len(list((held.project.path / "out" / "databases").iterdir())) == 60 * trials
    held.project.run(*mode, *options, "--memeval-output", "whole", fresh=True).assert_outcomes(passed=60)
    assert stable(report) == stable(held.project.report("whole"))


def _in_vain(held: Held) -> int:
    number: int = held.project.report()["environment"].get("prepared_in_vain", 0)
    return number


def test_the_case_at_hand_is_recorded_once(held: Held) -> None:
    """An interrupt after the call of the item at hand, whose record is made all the same, with others over behind."""
    with (held.project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nimport os, pathlib, time\n\n\n"
            "@pytest.hookimpl(tryfirst=True)\n"
            "def pytest_runtest_teardown(item):\n"
            "    if item.name == 'eval-001':\n"
            "        while len(pathlib.Path('notes.txt').read_text().split('over')) < 10: time.sleep(0.01)\n"
            "        time.sleep(0.2)\n"
            "        pathlib.Path(f'ready-{os.getpid()}').touch()\n"
            "        time.sleep(60)\n"
        )
    held.project.cases(good_cases(20))
    held.interrupt(others=0)
    assert sorted(held.journal()) == [f"eval-{number:03}" for number in range(1, 10)]
    assert len(held.notes("asked")) == 9


METRICS = """

import time
from pathlib import Path

import pytest_memeval


@pytest_memeval.metric
def half(case, outputs):
    print("half of", case.case_id)
    return 0.5


@pytest_memeval.metric
async def whole(case, outputs):
    return 1.0


@pytest_memeval.metric
def slow(case, outputs):
    if Path("slow").exists() and case.case_id.endswith("4"):
        time.sleep(90)
    return 1.0
"""


@MODES
@pytest.mark.parametrize("slow", [False, True])
def test_metrics_of_the_projects_own_are_in_it_and_keep_nobody_waiting(
    held: Held, mode: tuple[str, ...], *, slow: bool
) -> None:
    with (held.project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(METRICS)
    if slow:
        (held.project.path / "slow").touch()
    held.project.cases(good_cases(40))
    text = held.interrupt(*mode)
    journal = held.journal()
    # One that takes too long is not waited for: its case, and those behind it, are not over.
    assert (set(journal) < set(held.notes("over"))) if slow else (sorted(journal) == held.notes("over"))
    assert not slow or not any(name.endswith("4") for name in journal)
    assert journal
    for record in journal.values():
        assert set(record["sections"]["metrics"]["ratios"]) == {"half", "whole", "slow"}
    # What a case says belongs to its item.
    assert "half of" not in text
    assert "said by" not in text


def test_what_an_item_would_not_have_been_run_with_is_not_recorded(held: Held) -> None:
    """A fixture that has skipped another item, and would have skipped this one; and a hook of the project's that needs
    an item that was set up."""
    with (held.project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(
            """

@pytest.fixture(scope="session")
def licence():
    pytest.skip("there is none")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name.endswith("3"):
            item.fixturenames = [*item.fixturenames, "licence"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if item.name.endswith("4"):
        item.funcargs["request"]
    return (yield)
"""
        )
    held.project.cases(good_cases(40))
    held.interrupt(others=18, head="eval-012")
    over = set(held.notes("over"))
    assert {"eval-013", "eval-014"} <= over
    journal = held.journal()
    assert {name for name, record in journal.items() if record["outcome"] == "scored"} == over - {
        "eval-013",
        "eval-014",
    }
    assert journal["eval-003"]["outcome"] == "skipped"
    assert set(journal) == over - {"eval-013", "eval-014"} | {"eval-003"}


EVALUATOR = """
from hold import held
from pytest_memeval.rag import BaseEvaluator


class Words(BaseEvaluator):
    metrics = ("words",)
    retries = 0

    async def evaluate_sample(self, sample):
        await held.call(sample.id)
        held.is_over(sample.id)
        if sample.id.endswith("5"):
            raise RuntimeError("out of order")
        return {"words": len(sample.response.split())}
"""


@SENT
def test_samples(held: Held, mode: tuple[str, ...], *, to_all: bool) -> None:
    held.project.write("words.py", EVALUATOR)
    rows = [
        {"id": f"s{number:02}", "question": "q", "contexts": ["c"], "answer": "a " * number} for number in range(40)
    ]
    held.project.write("a.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    whole = ("a.memeval.jsonl", "--memeval-evaluator", "words:Words", *mode)
    held.interrupt(*whole, to_all=to_all)
    _goes_on(held, whole, broken="5")


MEMORY = """
from hold import held
from pytest_memeval.qa import BaseMemory
from pytest_memeval.values import Hit


class Slow(BaseMemory):
    name, version = "slow", "1"

    def __init__(self):
        self.messages = []

    def ingest(self, message):
        self.messages.append(message)

    async def retrieve(self, query):
        await held.call(query)
        held.is_over(query)
        if query.endswith("5?"):
            raise RuntimeError("sank")
        return [Hit(m.id, 1.0, m.content, (m.id,)) for m in self.messages]

    def reset(self):
        self.messages = []
"""


@SENT
def test_questions(held: Held, mode: tuple[str, ...], *, to_all: bool) -> None:
    held.project.write("slow_memory.py", MEMORY)
    messages = [{"id": "m1", "role": "user", "content": "I sail."}]
    cases = [
        {
            "case_id": name,
            "conversation": messages,
            "questions": [
                {"id": f"q{number}", "question": f"What does {name} do at {number}?", "answer": "I sail."}
                for number in range(24)
            ],
        }
        for name in ("one", "two")
    ]
    held.project.write("own.memeval.yaml", json.dumps({"kind": "qa", "meta": {"gates": []}, "cases": cases}))
    whole = ("own.memeval.yaml", "--memeval-memory", "slow_memory:Slow", *mode)
    held.interrupt(*whole, to_all=to_all)
    _goes_on(held, whole, broken="5")


def _goes_on(held: Held, whole: Sequence[str], *, broken: str) -> None:
    """What had ended is recorded, and taken by the next run, but for the cases that are ``broken``."""
    over = held.notes("over")
    journal = held.journal()
    assert len(journal) == len(over)
    errored = [name for name, record in journal.items() if record["outcome"] == "errored"]
    assert len(errored) == sum(name.rstrip("?").endswith(broken) for name in over)
    assert errored
    assert all(record["resume_key"] for record in journal.values())
    report = held.project.report("cut")
    assert report["counts"]["scored"] == len(over) - len(errored)
    assert report["counts"]["errored"] == len(errored)
    held.forget()
    held.project.run(*whole, "--memeval-resume", "cut", fresh=True)
    again = held.project.report()
    assert again["environment"]["resumed"]["cases"] == len(over) - len(errored)
    assert len(held.notes("asked")) == again["counts"]["total"] - len(over) + len(errored) + _in_vain(held)
    held.project.run(*whole, "--memeval-output", "whole", fresh=True)
    assert stable(again) == stable(held.project.report("whole"))
