"""What cases share, when one of them holds the event loop that it is under way on: nobody else waits for it in vain."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from plugin_project import case, good_cases

if TYPE_CHECKING:
    from plugin_project import Project

MODES = pytest.mark.parametrize("mode", [("--memeval-concurrency", "3"), (), ("-n", "2")])
HELD = "the case's time limit of 1.2 s is over; it held the event loop all the time"


def charged(project: Project) -> dict[str, list[str]]:
    """Case id → what its errors say, of the cases that have any."""
    entries = project.report()["per_case"]
    return {
        one["case_id"]: [error["message"][: len(HELD)] for error in one["errors"]] for one in entries if one["errors"]
    }


#: Every case asks the same, and one holds the loop before the answer is there.
ASKING = """
import asyncio
import time
import pytest
from line_engine import LineEngine
from pytest_memeval import ChatReply


class House:
    name, model, version = "house", "m", "1"

    async def complete(self, messages, **given):
        await asyncio.sleep(0.5)
        return ChatReply("ok")


class Engine(LineEngine):
    concurrent = True

    async def extract(self, conversation, ctx):
        if conversation[0].content.endswith("block"):
            await asyncio.sleep(0.2)
            time.sleep(8)
        await ctx.llm.complete([{"role": "user", "content": "the same for all"}], stage="l1")
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


@MODES
def test_a_question_under_way_is_asked_again(project: Project, mode: tuple[str, ...]) -> None:
    project.write("house.py", ASKING)
    project.write("conftest.py", "from house import memeval_engine\n")
    project.cases([*good_cases(1), case("blocks", "identity: this one will block"), *good_cases(6)[1:]])
    options = ("--memeval-llm", "house:House", "--memeval-cache", "auto", "--memeval-timeout", "1.2")
    project.run(*options, *mode, fresh=True).assert_outcomes(passed=6, errors=1)
    assert charged(project) == {"blocks": [HELD]}


#: Every case but one searches in the set's memories, and that one holds the loop while they are loaded.
SEARCHING = """
import asyncio
import time
import pytest


class Engine:
    name, concurrent = "words", True
    found = None

    async def load(self, memories, scenes, ctx):
        await asyncio.sleep(0.6)
        # Whatever another attempt has put in is not met here.
        assert not list(ctx.folder.iterdir())
        ctx.memory_db.execute("CREATE TABLE seen (x)")
        (ctx.folder / "seen").touch()
        self.found = [{"id": one.id, "score": 1.0, "content": one.content} for one in memories]

    async def search(self, query, params, ctx):
        ctx.memory_db.execute("SELECT x FROM seen")
        return self.found

    async def extract(self, conversation, ctx):
        text = conversation[0].content
        if text.endswith("block"):
            await asyncio.sleep(0.3)
            time.sleep(HOLDS)
        return [{"content": text.partition(": ")[2], "dimensions": ["identity"]}]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


@MODES
@pytest.mark.parametrize("holds", ["8", "3.5"], ids=["long", "comes-back"])
def test_a_corpus_is_loaded_again(project: Project, holds: str, mode: tuple[str, ...]) -> None:
    project.write("conftest.py", SEARCHING.replace("HOLDS", holds))
    labels = {"expected_search_results": {"number": [0]}}
    cases = [{**one, **labels} for one in good_cases(12)]
    project.cases([*cases[:2], case("blocks", "identity: this one will block"), *cases[2:]])
    project.run("--memeval-timeout", "1.2", *mode, fresh=True).assert_outcomes(passed=12, errors=1)
    assert charged(project) == {"blocks": [HELD]}
    assert project.report()["search"]["queries"] == 12


#: The first case, which is not prepared ahead, holds the loop; how many work at once is counted on each loop.
COUNTING = """
import asyncio
import time
import pytest
from line_engine import LineEngine


class Engine(LineEngine):
    concurrent = True
    at_work = {}

    async def extract(self, conversation, ctx):
        if conversation[0].content.endswith("block"):
            time.sleep(8)
        here = self.at_work.setdefault(asyncio.get_running_loop(), set())
        here.add(ctx.case_id)
        with open("at_once", "a", encoding="utf-8") as file:
            file.write(f"{len(here)}\\n")
        await asyncio.sleep(0.2)
        here.discard(ctx.case_id)
        return super().extract(conversation, ctx)


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


def test_no_more_cases_are_at_work_at_once_afterwards(project: Project) -> None:
    project.write("conftest.py", COUNTING)
    project.cases([case("blocks", "identity: this one will block"), *good_cases(14)])
    result = project.run("--memeval-timeout", "1.2", "--memeval-concurrency", "2", fresh=True)
    result.assert_outcomes(passed=14, errors=1)
    assert max(map(int, (project.path / "at_once").read_text(encoding="utf-8").split())) == 2


#: One evaluator does one sample at a time; another one holds the loop while its sample waits for that.
EVALUATING = """
import asyncio
import time
from pytest_memeval.rag import BaseEvaluator


class Slow(BaseEvaluator):
    metrics = ("slow",)
    max_concurrency = 1

    async def evaluate_sample(self, sample):
        await asyncio.sleep(0.8)
        return {"slow": 1.0}


class Blocks(BaseEvaluator):
    metrics = ("blocks",)

    async def evaluate_sample(self, sample):
        await asyncio.sleep(0.2)
        if "blocks" in sample.query:
            time.sleep(8)
        return {"blocks": 1.0}
"""


@pytest.mark.parametrize("place", range(3))
def test_who_holds_the_loop_while_it_waits_for_a_place_is_charged(project: Project, place: int) -> None:
    project.write("parts.py", EVALUATING)
    (project.path / "conftest.py").unlink()
    rows = [
        {"id": f"s-{at}", "question": "Where is it?", "ground_truth": "There", "answer": "There"} for at in range(3)
    ]
    rows[place]["question"] = "Which one blocks?"
    project.write("a.memeval.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    evaluators = ("--memeval-evaluator", "parts:Slow", "--memeval-evaluator", "parts:Blocks")
    result = project.run("a.memeval.jsonl", *evaluators, "--memeval-timeout", "1.2", fresh=True)
    result.assert_outcomes(passed=2, errors=1)
    assert charged(project) == {f"s-{place}": [HELD]}
