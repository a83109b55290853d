"""Cases built in code are read as a file's: what a file could not have is a problem, other names stand for ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_bench import full_case

from pytest_memeval.assets.registry import load_registry
from pytest_memeval.assets.templates import load_templates
from pytest_memeval.cases.in_code import checked, problem_text
from pytest_memeval.cases.loader import load_case_set, validate_case
from pytest_memeval.cases.models import (
    EvalCase,
    GtConflictAction,
    GtMemory,
    GtScene,
    InjectGroundTruth,
    L1GroundTruth,
    L2GroundTruth,
    L15GroundTruth,
    SearchGroundTruth,
    SearchQuery,
)
from pytest_memeval.metrics.thresholds import parse_threshold
from pytest_memeval.values import Memory, Message, Scene

REGISTRY = load_registry(None)
TEMPLATES = load_templates(None, REGISTRY)
SECTION = TEMPLATES.modes["daily"].sections[0]


def built(**values: Any) -> EvalCase:
    given: dict[str, Any] = {
        "conversation": (Message("m", "user", "I teach maths."),),
        "expected_l1": L1GroundTruth((GtMemory("I teach maths.", ("identity",)),)),
        "existing_memories": (Memory("m1", "I taught maths.", ("identity",)),),
    }
    return EvalCase("spoken", **{**given, **values})


def labelled(**values: Any) -> dict[str, Any]:
    return {"expected_l1": L1GroundTruth((GtMemory(**{"content": "x", "dimensions": ("identity",), **values}),))}


def said(case: EvalCase) -> list[str]:
    found = checked(case, REGISTRY, TEMPLATES)
    assert all((problem.line, problem.case_id) == (0, case.case_id) for problem in found.problems)
    return [problem.message for problem in found.problems]


def query(*relevant: str, **values: Any) -> dict[str, Any]:
    return {"expected_search": SearchGroundTruth((SearchQuery(**{"query": "q", "relevant": relevant, **values}),))}


def action(index: int = 0, name: str = "update", *ids: str) -> GtConflictAction:
    return GtConflictAction(index, name, ids)


L1 = "expected_l1.memories[0]"
FAULTS: list[tuple[dict[str, Any], str]] = [
    (labelled(dimensions=("identiy",)), f"{L1}.dimensions[0]: unknown dimension 'identiy'; did you mean 'identity'?"),
    (labelled(dimensions=()), f"{L1}.dimensions: a memory needs at least one dimension"),
    (labelled(dimensions="identity"), f"{L1}.dimensions: a list is needed here, not 'identity'"),
    (
        labelled(dimensions=tuple(REGISTRY.ids)),
        f"{L1}.dimensions: {len(REGISTRY.ids)} dimensions, the registry allows ",
    ),
    (labelled(memory_type="persna"), f"{L1}.memory_type: unknown memory_type 'persna'; did you mean 'persona'?"),
    (labelled(time_velocity="statc"), f"{L1}.time_velocity: unknown time_velocity 'statc'; did you mean 'static'?"),
    (labelled(priority=800), f"{L1}.priority: priority 800 is outside 0 to 100"),
    (labelled(priority=float("nan")), f"{L1}.priority: 'nan' is not a number"),
    (labelled(content=" "), f"{L1}.content: a labelled memory needs a content: this one is blank"),
    (labelled(content="\ud800"), f"{L1}.content: half of a surrogate pair is not a character"),
    (
        {"existing_memories": (Memory("m1", "x", ("habbits",)),)},
        "existing_memories[0].dimensions[0]: unknown dimension 'habbits'; did you mean 'habits'?",
    ),
    (
        {"existing_memories": (Memory("m1", "x"), Memory("m1", "y"))},
        "existing_memories[1].memory_id: memory_id 'm1' a second time",
    ),
    (
        {"existing_scenes": (Scene("s", "x", ("m2",)),)},
        "existing_scenes[0].memory_ids[0]: no existing memory 'm2'; known: m1",
    ),
    (
        {"expected_l15": L15GroundTruth((action(0, "stor"),))},
        "expected_l15.actions[0].action: unknown action 'stor'; did you mean 'store'?",
    ),
    (
        {"expected_l15": L15GroundTruth((action(0, "update", "m7"),))},
        "expected_l15.actions[0].candidate_ids[0]: no existing memory 'm7'; known: m1",
    ),
    (
        {"expected_l15": L15GroundTruth((action(3),))},
        "expected_l15.actions[0].new_memory_index: memory index 3 is out of range: expected_l1 has 1 (0 to 0)",
    ),
    (
        {"expected_l15": L15GroundTruth((action(), action()))},
        "expected_l15.actions[1].new_memory_index: a second action for memory 0",
    ),
    (
        {"expected_l2": L2GroundTruth(scenes=(GtScene("Work", (0, 4)),))},
        "expected_l2.scenes[0].memories[1]: memory index 4 is out of range: expected_l1 has 1 (0 to 0)",
    ),
    (
        {"expected_l2": L2GroundTruth(template_section={"dayly": {0: SECTION.id}})},
        "expected_l2.template_section.dayly: no template for mode 'dayly'; did you mean 'daily'?",
    ),
    (
        {"expected_l2": L2GroundTruth(template_section={"daily": {0: f"{SECTION.id}x"}})},
        f"expected_l2.template_section.daily.0: mode 'daily' has no section '{SECTION.id}x'; did you mean ",
    ),
    (
        {"expected_inject": InjectGroundTruth("codin", (), (0,))},
        "expected_inject.mode: no template for mode 'codin'; did you mean 'coding'?",
    ),
    (
        {"expected_inject": InjectGroundTruth("coding", (), (1,))},
        "expected_inject.referenced_memory_indices[0]: memory index 1 is out of range: expected_l1 has 1 (0 to 0)",
    ),
    (query("spoken#1"), "expected_search.queries[0].relevant[0]: memory index 1 is out of range: expected_l1 has 1 "),
    (
        query("one"),
        "expected_search.queries[0].relevant[0]: 'one' is neither the index of a labelled memory nor an id ",
    ),
    (query("0", grades=(1.0, 2.0)), "expected_search.queries[0].grades: 2 grades for 1 relevant memories"),
    (query("0", query=" "), "expected_search.queries[0]: the query is empty"),
    ({"difficulty": "hrd"}, "difficulty: unknown difficulty 'hrd'; did you mean 'hard'?"),
    ({"source": "rel"}, "source: unknown source 'rel'; did you mean 'real'?"),
    ({"tags": ("xfail",)}, "tags[0]: tag 'xfail' is a reserved marker name"),
    ({"timeout": -1}, "timeout: '-1' must be more than 0"),
    (
        {"annotations": {"b": L1GroundTruth((GtMemory("x", ("identiy",)),))}},
        "annotations.b.memories[0].dimensions[0]: unknown dimension 'identiy'; did you mean 'identity'?",
    ),
    (
        {"expect": (parse_threshold("l1.per_dimension_recall.identiy", ">= 0.5"),)},
        "expect: ",
    ),
    ({"expect": ("l1.memory_recall >= 0.5",)}, "expect: a Threshold is needed here, not a str"),
    ({"expected_l1": {"memories": []}}, "expected_l1: an object of class L1GroundTruth is needed here, not a dict"),
    (
        {"expected_l1": L1GroundTruth(({"content": "x"},))},  # type: ignore[arg-type]  # what is tested
        "expected_l1.memories[0]: an object of class GtMemory is needed here, not a dict",
    ),
    (
        {"expected_l15": L15GroundTruth("store")},  # type: ignore[arg-type]  # what is tested
        "expected_l15.actions: a tuple of GtConflictAction is needed here, not a str",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), FAULTS, ids=[sentence[:60] for _, sentence in FAULTS])
def test_what_a_file_could_not_have_is_a_problem_with_its_place(values: dict[str, Any], sentence: str) -> None:
    found = said(built(**values))
    assert any(one.startswith(sentence) for one in found), found
    assert not any("in line" in one for one in found)


def test_all_problems_are_told_in_their_order() -> None:
    case = built(**labelled(dimensions=("identiy",), memory_type="persna"), expected_inject=InjectGroundTruth("codin"))
    assert [one.partition(":")[0] for one in said(case)] == [
        f"{L1}.dimensions[0]",
        f"{L1}.memory_type",
        "expected_inject.mode",
    ]


@pytest.mark.parametrize("make", [built, full_case])
def test_a_sound_case_is_left_as_it_is(make: Callable[[], EvalCase]) -> None:
    case = make()
    found = checked(case, REGISTRY, TEMPLATES)
    assert [problem.message for problem in found.problems] == []
    assert found is case


def test_other_names_stand_for_their_ids() -> None:
    dimension = next(one for one in REGISTRY.dimensions if one.id == "identity")
    alias = dimension.display_name if dimension.display_name != dimension.id else dimension.aliases[0]
    case = built(
        **labelled(dimensions=(alias,)),
        existing_memories=(Memory("m1", "x", (alias,)),),
        expected_l2=L2GroundTruth(("Work",), (), {"daily": {0: SECTION.title}}),
        **query("0"),
    )
    found = checked(case, REGISTRY, TEMPLATES)
    assert found.problems == ()
    assert found.expected_l1 is not None
    assert found.expected_l1.memories[0].dimensions == found.existing_memories[0].dimensions == ("identity",)
    assert found.expected_l2 is not None
    assert (found.expected_l2.scene_labels, found.expected_l2.template_section) == (
        ("Work",),
        {"daily": {0: SECTION.id}},
    )
    assert found.expected_search is not None
    assert found.expected_search.queries[0].relevant == ("spoken#0",)
    assert found.conversation is case.conversation


def test_a_loaded_case_keeps_its_place(tmp_path: Path) -> None:
    entry = {
        "case_id": "a",
        "conversation": "x",
        "expected_l1": {"memories": [{"content": "x", "dimensions": ["identity"]}]},
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    (case,) = load_case_set(path).cases
    assert checked(case, REGISTRY, TEMPLATES) is case
    (problem,) = checked(replace(case, **labelled(dimensions=("identiy",))), REGISTRY, TEMPLATES).problems
    assert problem_text(problem).startswith(
        f"{path}:1: [case] expected_l1.memories[0].dimensions[0]: unknown dimension"
    )


def test_it_is_told_with_the_cases_id() -> None:
    (problem,) = checked(built(difficulty="hrd"), REGISTRY, TEMPLATES).problems
    assert problem_text(problem) == "[case] spoken: difficulty: unknown difficulty 'hrd'; did you mean 'hard'?"


def test_validate_case_checks_labels_too() -> None:
    bad = built(**labelled(dimensions=("identiy",)), conversation=(), existing_memories=())
    assert [problem.message.partition(";")[0] for problem in validate_case(bad)] == [
        f"{L1}.dimensions[0]: unknown dimension 'identiy'",
        "the case has no input: it needs a 'conversation'",
    ]
    assert validate_case(built(), REGISTRY, TEMPLATES) == validate_case(built()) == ()
