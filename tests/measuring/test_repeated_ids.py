"""Two memories under one id: refused wherever an output comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_bench import REGISTRY, TEXTS, ListEngine, finished, full_case, memory, open_run

from pytest_memeval.measuring.repeated_ids import refuse_repeated_ids
from pytest_memeval.output_shapes import OutputError
from pytest_memeval.rescore import Rescoring, rescore_case
from pytest_memeval.restoring import restore
from pytest_memeval.results import CaseResult, RunInfo
from pytest_memeval.scoring import ScoringOptions
from pytest_memeval.values import Decision, Memory

TWINS = [memory("a", TEXTS[0]), memory("a", TEXTS[1], "habits"), memory("c", TEXTS[2], "skills")]


@given(st.lists(st.none() | st.sampled_from("abcd"), max_size=6))
def test_ids_are_refused_exactly_where_one_is_there_twice(ids: list[str | None]) -> None:
    memories = [Memory(identity, f"text {at}") for at, identity in enumerate(ids)]
    named = [identity for identity in ids if identity is not None]
    if len(set(named)) == len(named):
        refuse_repeated_ids(memories)
        return
    with pytest.raises(OutputError) as raised:
        refuse_repeated_ids(memories)
    words = str(raised.value).split()
    first, second = int(words[1]), int(words[3])
    assert first < second
    assert ids[first] == ids[second] == words[-1].strip("'")


class Normalising(ListEngine):
    def normalize(self, memories: list[Memory], ctx: Any) -> Any:
        return [replace(one, id="a") for one in memories]


def stored_as_one(memories: list[Memory], ctx: Any) -> list[Decision]:
    return [Decision(at, "store", result_id="x" if at != 1 else None) for at, _ in enumerate(memories)]


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "truth"])
@pytest.mark.parametrize(
    ("engine", "stage", "sentence"),
    [
        (ListEngine({"extract": lambda *_: TWINS}), "l1", "memories 0 and 1 have the same id 'a'"),
        (ListEngine({"extract": lambda *_: [{"id": n // 2, "content": "x"} for n in (2, 3)]}), "l1", "same id '1'"),
        (Normalising(), "l1", "memories 0 and 1 have the same id 'a'"),
        (ListEngine({"resolve": stored_as_one}), "l15", "memories 0 and 2 are both stored under the same id 'x'"),
    ],
    ids=["extract", "mappings", "normalize", "resolve"],
)
def test_what_an_engine_returns(engine: Any, stage: str, sentence: str, chained: bool) -> None:
    result = finished(full_case(), engine, chained=chained)
    [error] = result.errors
    assert (error.stage, error.kind) == (stage, "bad_output")
    assert sentence in error.message
    assert result.stages[stage] == "errored"
    if chained:
        assert result.stages["l2"] == result.stages["template"] == "void"


def test_a_store_without_a_result_id_is_under_the_memorys_own() -> None:
    engine = ListEngine({"resolve": lambda *_: [Decision(0, "store"), Decision(1, "store", result_id="n0")]})
    [error] = finished(full_case(), engine).errors
    assert "memories 0 and 1 are both stored under the same id 'n0'" in error.message


@pytest.mark.parametrize(
    "answers",
    [
        {"resolve": lambda *_: [Decision(at, "update", ("m1",), "tea", "m1") for at in range(3)]},
        {"resolve": lambda *_: [Decision(0, "store"), Decision(1, "merge", ("m1", "n0"), "both", "n0")]},
        # Two decisions on one memory are told apart by another figure.
        {"resolve": lambda *_: [Decision(0, "store", result_id="x"), Decision(0, "store", result_id="x")]},
    ],
    ids=["updates", "merge", "twice decided"],
)
def test_what_is_no_fault(answers: dict[str, Any]) -> None:
    assert finished(full_case(), ListEngine(answers)).errors == ()


def test_what_is_put_in_a_stages_place() -> None:
    with open_run(full_case(), ListEngine()) as run:
        run.provide("l1", TWINS)
        error = run.result("l1").error
    assert error is not None
    assert error.kind == "bad_output"


def test_memories_without_ids_are_none_of_the_same() -> None:
    engine = ListEngine({"extract": lambda *_: [replace(one, id=None) for one in TWINS]})
    assert finished(full_case(expected_l2=None, expected_inject=None), engine).errors == ()


# -- what an earlier version recorded --------------------------------------------------------------------------------


def recorded(outputs: dict[str, Any], *, chained: bool = True) -> CaseResult:
    """A finished case's record with other outputs in it."""
    result = finished(full_case(), ListEngine(), chained=chained)
    return replace(result, outputs={**result.outputs, **outputs})


def memories(*ids: str) -> list[dict[str, Any]]:
    return [
        {"id": identity, "content": text, "dimensions": ["identity"]} for identity, text in zip(ids, TEXTS, strict=True)
    ]


STAGES = ("l1", "l15", "l2", "template", "inject")
STORES = [{"memory_index": at, "action": "store", "result_id": "x"} for at in (0, 2)]
BAD = pytest.mark.parametrize(
    ("outputs", "stage"), [({"l1": memories("a", "a", "c")}, "l1"), ({"l15": STORES}, "l15")], ids=["l1", "l15"]
)


@BAD
def test_a_record_is_not_taken_over(outputs: dict[str, Any], stage: str) -> None:
    with open_run(full_case(), ListEngine()) as run:
        assert not restore(run, recorded(outputs))
        assert run.results == {}
        assert restore(run, recorded({}))


@BAD
@pytest.mark.parametrize("chained", [True, False], ids=["chained", "truth"])
def test_a_record_scored_again_is_an_error(outputs: dict[str, Any], stage: str, chained: bool) -> None:
    record = recorded(outputs, chained=chained)
    stage_input = "chained" if chained else "truth"
    info = RunInfo("run", "2026-01-01T00:00:00+00:00", 1.0, ("all",), stage_input, STAGES)
    again = rescore_case(record, full_case(), Rescoring(ScoringOptions()), info, REGISTRY)
    assert again.outcome == "errored"
    [error] = again.errors
    assert (error.stage, error.kind) == (stage, "bad_output")
    assert again.stages[stage] == "errored"
    later = {"l1": ("l15", "l2", "template"), "l15": ("l2", "template")}[stage]
    assert {again.stages[one] for one in later} == {"void" if chained else "scored"}
    assert again.stages["inject"] == "scored"
    assert again.sections["inject"].values().get("pipeline_coverage") is None
    assert (
        rescore_case(recorded({}, chained=chained), full_case(), Rescoring(ScoringOptions()), info, REGISTRY).errors
        == ()
    )
