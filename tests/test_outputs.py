"""Stage outputs as JSON and back, and what is said of those that have the wrong shape."""

from __future__ import annotations

import enum
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.output_shapes import (
    OutputError,
    blocks_of,
    decisions_of,
    inject_of,
    memories_of,
    scenes_of,
    sections_of,
    template_of,
)
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import Block, Decision, Memory, Scene, Section

words = st.text(max_size=8)
ids = st.lists(words, max_size=3).map(tuple)
maybe = st.none() | words
memories = st.builds(
    Memory,
    id=maybe,
    content=words,
    dimensions=ids,
    memory_type=maybe,
    priority=st.none() | st.integers(0, 100) | st.floats(0, 100),
    time_velocity=maybe,
    source_message_ids=ids,
    created_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    extra=st.dictionaries(words, st.integers()),
)
outputs = st.builds(
    Outputs,
    l1=st.none() | st.lists(memories, max_size=3),
    l15=st.none() | st.lists(st.builds(Decision, st.integers(-1, 5), words, ids, maybe, maybe, maybe), max_size=3),
    l2=st.none() | st.lists(st.builds(Scene, words, words, ids, maybe), max_size=3),
    template=st.none()
    | st.dictionaries(words, st.lists(st.builds(Section, words, words, ids), max_size=2), max_size=2),
    inject_labelled=st.none() | st.lists(st.builds(Block, words, ids, st.booleans(), words), max_size=2),
    inject_pipeline=st.none() | st.lists(st.builds(Block, words, ids, st.booleans(), words), max_size=2),
)


@given(outputs)
def test_outputs_survive_json(given_: Outputs) -> None:
    assert Outputs.from_json(json.loads(json.dumps(given_.to_json()))) == given_


def test_nothing_and_empty_differ() -> None:
    assert Outputs.from_json({}) == Outputs()
    assert Outputs.from_json({"l1": []}).l1 == []
    assert Outputs().to_json() == {}
    assert Outputs(l1=[], inject_pipeline=[]).to_json() == {"l1": [], "inject": {"pipeline": []}}


def test_a_bare_list_of_blocks_is_the_pipelines() -> None:
    found = Outputs.from_json({"inject": [{"title": "t", "memory_ids": ["a"]}]})
    assert found.inject_pipeline == [Block("t", ("a",), True, "")]
    assert found.inject_labelled is None


def test_instances_and_mappings_are_read_alike() -> None:
    plain = {"memory_id": "m", "content": "x", "created_at": "2026-01-01T00:00:00"}
    first = Memory("m", "x", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert memories_of([plain]) == memories_of([first]) == [first]
    assert sections_of([{"title": "Daily"}, {"id": "d"}]) == [Section("Daily", "Daily"), Section("d", "d")]


#: What no annotation lets through, and an engine without annotations may give all the same.
THREE: Any = 3
NOTHING: Any = None


class Kind(enum.Enum):
    IDENTITY = "identity"


class Act(enum.StrEnum):
    STORE = "store"


def test_f09_enums_and_number_types_become_plain() -> None:
    given: Any = {"dimensions": (Kind.IDENTITY,), "priority": Decimal("8.5")}
    [found] = memories_of([Memory("m", "x", **given)])
    assert found.dimensions == ("identity",)
    assert found.priority == 8.5
    [decision] = decisions_of([{"memory_index": 0, "action": Act.STORE}])
    assert type(decision.action) is str
    assert decision.action == "store"


def test_sets_have_one_order_and_numbers_serve_as_ids() -> None:
    [found] = memories_of([{"id": 7, "content": "x", "dimensions": {"b", "a"}}])
    assert (found.id, found.dimensions) == ("7", ("a", "b"))


@pytest.mark.parametrize(
    ("read", "value", "sentence"),
    [
        (memories_of, "text", "expected a list of memory objects, got str"),
        (memories_of, None, "expected a list of memory objects, got None .an empty list says that there is nothing."),
        (memories_of, {"memories": []}, "expected a list of memory objects, got dict"),
        (memories_of, ["likes tea"], "memory 0: expected Memory or a mapping, got str"),
        (memories_of, [{"content": "x"}, {}], "memory 1: 'content' is missing"),
        (memories_of, [{"contnet": "x"}], "memory 0: unknown key 'contnet'; did you mean 'content'"),
        (memories_of, [{"content": None}], "memory 0: content must be text, got None"),
        (memories_of, [Memory("m", THREE)], "memory 0: content must be text, got int 3"),
        (memories_of, [{"content": "x", "dimensions": "identity"}], "dimensions must be a list, got str 'identity'"),
        (memories_of, [{"content": "x", "dimensions": [None]}], "dimensions must be text, got None"),
        (memories_of, [{"content": "x", "priority": "high"}], "priority must be a number, got str 'high'"),
        (memories_of, [{"content": "x", "priority": True}], "priority must be a number, got bool True"),
        (
            memories_of,
            [{"content": "x", "created_at": "9999-12-31T23:59:59-10:00"}],
            "created_at is too near the calendar's end",
        ),
        (memories_of, [{"content": "x", "created_at": "soon"}], "created_at must be an ISO time, got 'soon'"),
        (memories_of, [{"content": "x", "extra": [1]}], "extra must be a mapping, got list"),
        (decisions_of, [{"action": "store"}], "decision 0: 'memory_index' is missing"),
        (decisions_of, [{"memory_index": "0", "action": "store"}], "memory_index must be a whole number, got '0'"),
        (decisions_of, [Decision(NOTHING, "store")], "memory_index must be a whole number, got None"),
        (decisions_of, [{"memory_index": 0, "action": None}], "action must be text, got None"),
        (decisions_of, [{"memory_index": 0, "acton": "store"}], "did you mean 'action'"),
        (scenes_of, [{"id": "s"}], "scene 0: 'title' is missing"),
        (sections_of, [{"memory_ids": []}], "section 0: a section needs an id or a title"),
        (sections_of, [{"id": "a", "memory_ids": "m1"}], "memory_ids must be a list"),
        (blocks_of, [{"present": "yes"}], "block 0: present must be true or false, got 'yes'"),
        (template_of, [], "expected a mapping of mode to a list of sections, got list"),
        (template_of, {"daily": None}, "mode daily: expected a list of section objects, got None"),
        (inject_of, [], "expected a mapping with 'labelled' or 'pipeline' blocks, got list"),
        (inject_of, {"pipelin": []}, "unknown key 'pipelin'; did you mean 'pipeline'"),
    ],
)
def test_wrong_shapes_are_told_with_place_and_value(read: Any, value: object, sentence: str) -> None:
    with pytest.raises(OutputError, match=sentence):
        read(value)


def test_stored_outputs_name_the_stage_at_fault() -> None:
    with pytest.raises(OutputError, match=r"^l15: decision 0: unknown key 'x'"):
        Outputs.from_json({"l15": [{"x": 1}]})
    with pytest.raises(OutputError, match=r"^template: mode daily: section 0"):
        Outputs.from_json({"template": {"daily": [{}]}})
