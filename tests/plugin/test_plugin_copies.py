"""Whatever a project's own code does to the objects that it is given: nothing of it is in any figure or record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_samples import locomo_record
from plugin_project import MODES, Project, case, stable

from pytest_memeval.cli.main import main

#: Empties every list and mapping that can be reached from what it is given, where the run is told to.
SPOIL = """
import os
from dataclasses import fields, is_dataclass


def spoil(*values):
    if os.environ.get("SPOIL"):
        for value in values:
            empty(value)


def empty(value):
    if is_dataclass(value):
        for field in fields(value):
            empty(getattr(value, field.name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            empty(item)
        if isinstance(value, list):
            value.clear()
    elif isinstance(value, dict):
        for item in value.values():
            empty(item)
        value.clear()
        value["spoilt"] = True
"""

PARTS = """
import json
from spoil import spoil
from pytest_memeval.qa import BaseMemory
from pytest_memeval.rag import BaseEvaluator, EvalResult


class Full:
    name = "full"
    version = "1"

    def __init__(self):
        self.kept = []

    def load(self, memories, scenes, ctx):
        spoil(memories, scenes)

    def extract(self, conversation, ctx):
        texts = [message.content for message in conversation]
        extra = {"of": [{"turn": 1}]}
        note = [f"{len(texts)} turns"]
        ctx.record("note", text="read", turns=note)
        asked = [{"role": "user", "content": "What is it?"}]
        answer = ctx.llm.complete_sync(asked, stage="l1_extraction")
        found = [
            {"id": f"n{place}", "content": text, "dimensions": ["identity"], "extra": extra}
            for place, text in enumerate(texts)
        ]
        self.kept += [extra, note, found]
        spoil(conversation)
        return found

    def resolve(self, memories, ctx):
        spoil(self.kept)
        found = [
            {"memory_index": place, "action": "store", "result_id": memory.id} for place, memory in enumerate(memories)
        ]
        spoil(memories)
        return found

    def aggregate(self, memories, ctx):
        found = [{"id": "s", "title": "all", "memory_ids": [memory.id for memory in memories], "change": "created"}]
        spoil(memories)
        return found

    def query_template(self, mode, ctx):
        return [{"id": "goals", "title": "goals", "memory_ids": ["n0"]}]

    def inject(self, mode, conversation, ctx):
        spoil(conversation)
        return [{"title": "goals", "memory_ids": ["n0"], "present": True, "text": "x"}]

    def search(self, query, params, ctx):
        spoil(params)
        return [{"id": "one#0", "source_ids": ["one#0"]}]


class Model:
    name = "model"

    async def complete(self, messages, *, stage, response_format=None, **rest):
        text = messages[0]["content"]
        spoil(messages, response_format)
        return f"asked {len(text)}"


def matcher(predicted, truth):
    found = [(place, place, 1.0) for place in range(min(len(predicted), len(truth)))]
    spoil(predicted, truth)
    return found


class Memory(BaseMemory):
    name = "own"

    def __init__(self):
        self.said = []

    def ingest_session(self, session):
        self.said += [(message.id, message.content) for message in session.messages]
        spoil(session)

    def ingest(self, message):
        raise AssertionError

    def retrieve(self, query):
        found = [{"id": name, "content": text, "source_ids": [name]} for name, text in self.said]
        self.found = found
        return found

    def reset(self):
        self.said = []


class First(BaseEvaluator):
    metrics = ("first",)

    async def evaluate_sample(self, sample):
        score = len(sample.context) + len(sample.meta)
        spoil(sample)
        return EvalResult(sample, {"first": score})


class Second(First):
    metrics = ("second",)

    async def evaluate_sample(self, sample):
        result = await super().evaluate_sample(sample)
        return EvalResult(sample, {"second": result.scores["first"]})


class Generator:
    def generate(self):
        from pytest_memeval.rag import EvalSample

        shared = ["a passage"]
        return [EvalSample("Where?", shared, "Here.", meta={"more": {"n": 1}}) for _ in range(2)]
"""

CONFTEST = """
import pytest
from parts import Full
from spoil import spoil
from pytest_memeval import metric

KINDS = ("distill", "qa", "rag")


@pytest.fixture(scope="session")
def memeval_engine():
    return Full()


def size(*values):
    return sum(len(repr(value)) for value in values)


@metric(kinds=KINDS)
def a_first(case, outputs):
    found = size(case, outputs)
    spoil(case, outputs)
    return found


TABLE = {}


@metric(kinds=KINDS)
async def b_second(case, outputs):
    TABLE.clear()  # the same one in every case
    TABLE["size"] = size(case, outputs)
    spoil(case, outputs)
    return TABLE


@metric(kinds=KINDS)
def c_third(case, outputs):
    return size(case, outputs)
"""

TESTS = """
import pytest
from spoil import spoil

NAMED = pytest.mark.memeval(case="cases/v001.yaml::one", gate=True)


@NAMED
def test_what_it_is_given(
    memeval_case, memeval_l1, memeval_l15, memeval_l2, memeval_template, memeval_inject, memeval_search
):
    given = (memeval_l1, memeval_l15, memeval_l2, memeval_template, memeval_inject, memeval_search)
    assert all(result.output for result in given)
    assert memeval_l1.calls
    spoil(memeval_case, *given)


@NAMED
def test_a_stage_that_it_asks_for_later(memeval_l1, request):
    spoil(memeval_l1)
    assert len(request.getfixturevalue("memeval_l15").output) == 2


@NAMED
def test_the_next_one(memeval_case, memeval_l1):
    assert len(memeval_l1.output) == 2
    assert memeval_l1.metrics.values()["memory_recall"] == 1
    assert memeval_case.extra == {"own": {"list": [1, 2]}}
    assert memeval_case.expected_l2.template_section == {"work": {0: "goals"}}
"""

#: Two cases, three tests by hand, four samples, six questions.
PASSED = 15

OPTIONS = (
    *("--memeval-llm", "parts:Model", "--memeval-matcher", "parts:matcher", "--memeval-memory", "parts:Memory"),
    *("--memeval-evaluator", "parts:First", "--memeval-evaluator", "parts:Second", "-p", "no:randomly"),
)


@pytest.fixture
def spoiling(project: Project) -> Project:
    project.write("spoil.py", SPOIL)
    project.write("parts.py", PARTS)
    project.write("conftest.py", CONFTEST)
    project.write("test_by_hand.py", TESTS)
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    labels = {
        "expected_l15": {"actions": [{"new_memory_index": 0, "action": "store"}]},
        "expected_l2": {"template_section": {"work": {"0": "goals"}}},
        "expected_inject": {
            "mode": "work",
            "subsequent_conversation": "[msg#1] user: and now?",
            "referenced_memory_indices": [0],
        },
        "expected_search_results": [{"query": "what", "relevant": ["0"]}],
        "extra": {"own": {"list": [1, 2]}},
    }
    project.cases([case(name, "identity: one thing", "identity: another", **labels) for name in ("one", "two")])
    rows = [
        {"kind": "rag", "case_id": f"r{n}", "query": "Where?", "contexts": ["a", "b"], "response": "Here.",
         "group": "g", "more": {"deep": [1]}}
        for n in range(2)
    ]  # fmt: skip
    project.write("rows.memeval.jsonl", "\n".join(map(json.dumps, rows)) + "\n")
    project.write("made.memeval.yaml", "kind: rag\ngenerate: parts:Generator\n")
    project.write("locomo.json", json.dumps([locomo_record("conv-1")]))
    project.write("asked.memeval.yaml", "meta: {}\ndataset: {format: locomo, path: locomo.json}\n")
    return project


@MODES
def test_nothing_that_is_handed_out_is_the_runs_own(
    spoiling: Project, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for trials in ((), ("--memeval-trials", "2")):
        monkeypatch.delenv("SPOIL", raising=False)
        plain = spoiling.run(*OPTIONS, *trials, "--memeval-output", "plain", *mode, fresh=True)
        monkeypatch.setenv("SPOIL", "1")
        spoilt = spoiling.run(*OPTIONS, *trials, "--memeval-output", "spoilt", *mode, fresh=True)
        assert plain.parseoutcomes() == spoilt.parseoutcomes() == {"passed": PASSED}
        report = spoiling.report("plain")
        assert {entry["kind"] for entry in report["per_case"]} == {"distill", "qa", "rag"}
        assert report["metrics"]["metric_errors"] == {}
        assert {entry["outcome"] for entry in report["per_case"]} == {"scored"}
        assert stable(spoiling.report("spoilt")) == stable(report)


OWN_FIXTURE = """
from dataclasses import replace


@pytest.fixture
def memeval_l1(memeval_l1):
    CHANGE
"""


@MODES
@pytest.mark.parametrize(
    "change",
    [
        "del memeval_l1.output[1:]; return memeval_l1",
        "return replace(memeval_l1, output=memeval_l1.output[:1], metrics=None)",
        "return memeval_l1.output[:1]",
    ],
)
def test_a_fixture_of_the_projects_that_changes_a_result_has_its_way(
    spoiling: Project, mode: tuple[str, ...], change: str
) -> None:
    spoiling.write("conftest.py", CONFTEST + OWN_FIXTURE.replace("CHANGE", change))
    spoiling.run(*OPTIONS, *mode, "cases", fresh=True).assert_outcomes(passed=2)
    report = spoiling.report()
    assert [len(entry["outputs"]["l1"]) for entry in report["per_case"]] == [1, 1]
    assert [len(entry["outputs"]["l15"]) for entry in report["per_case"]] == [1, 1]
    assert report["l1"]["memory_recall"] == 0.5


def test_a_run_that_was_spoilt_is_scored_again_and_gone_on_with_as_it_was(
    spoiling: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOIL", "1")
    spoiling.write("test_by_hand.py", "")
    spoiling.run(*OPTIONS, "cases", fresh=True)
    before = spoiling.report()
    again = spoiling.run(*OPTIONS, "cases", "--memeval-resume", "out", "--memeval-output", "again", fresh=True)
    again.assert_outcomes(passed=2)
    assert spoiling.report("again")["environment"]["resumed"]["cases"] == 2
    assert stable(spoiling.report("again"))["per_case"] == stable(before)["per_case"]
    assert main(["rescore", "out", "--matcher", "parts:matcher", "--output", str(spoiling.path / "scored")]) == 0
    after = spoiling.report("scored")
    for section in ("l1", "l15", "l2", "inject", "search", "metrics"):
        assert after[section] == before[section]
