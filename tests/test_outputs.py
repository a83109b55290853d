"""Stage outputs as JSON and back, and what is said of those that have the wrong shape."""

from __future__ import annotations

import enum
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.output_shapes import (
    OutputError,
    blocks_of,
    decisions_of,
    hits_of,
    inject_of,
    memories_of,
    scenes_of,
    sections_of,
    template_of,
)
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import Block, Decision, Hit, Memory, Scene, Section

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
    block = {"title": "t", "memory_ids": ["a"], "present": True, "text": ""}
    found = Outputs.from_json({"inject": [block]})
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


BLOCK: Any = {"title": "t", "memory_ids": [], "present": True, "text": ""}


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
        (blocks_of, [{**BLOCK, "present": "yes"}], "block 0: present must be true or false, got 'yes'"),
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


#: Class → a mapping with all its fields, which are read, and those that may be left out.
FULL: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "memory": (
        memories_of,
        {
            "id": "m",
            "content": "x",
            "dimensions": ["a"],
            "memory_type": "persona",
            "priority": 3,
            "time_velocity": "static",
            "source_message_ids": ["msg_1"],
            "created_at": "2026-01-01T00:00:00Z",
            "extra": {"a": 1},
        },
        (
            *("id", "dimensions", "memory_type", "priority", "time_velocity", "source_message_ids", "created_at"),
            "extra",
        ),
    ),
    "decision": (
        decisions_of,
        {
            "memory_index": 0,
            "action": "merge",
            "target_ids": ["m1"],
            "merged_content": "x",
            "result_id": "m",
            "reason": "same",
        },
        ("target_ids", "merged_content", "result_id", "reason"),
    ),
    "scene": (scenes_of, {"id": "s", "title": "t", "memory_ids": ["m"], "change": "created"}, ("memory_ids", "change")),
    "section": (sections_of, {"id": "s", "title": "t", "memory_ids": ["m"]}, ("id", "title", "memory_ids")),
    "block": (blocks_of, {"title": "t", "memory_ids": ["m"], "present": True, "text": "x"}, ()),
    "hit": (
        hits_of,
        {"id": "h", "score": 1.5, "content": "x", "source_ids": ["m"]},
        ("score", "content", "source_ids"),
    ),
}
#: Fields that may be None.
MAY_BE_NONE = {
    *("memory.id", "memory.memory_type", "memory.priority", "memory.time_velocity", "memory.created_at"),
    *(
        "decision.merged_content",
        "decision.result_id",
        "decision.reason",
        "scene.change",
        "section.id",
        "section.title",
    ),
    "hit.score",
}
FIELDS = [(name, key) for name, (_, full, _) in FULL.items() for key in full]


@pytest.mark.parametrize(("name", "key"), FIELDS)
def test_only_what_has_a_default_may_be_left_out(name: str, key: str) -> None:
    read, full, optional = FULL[name]
    assert read([full])
    without = {own: value for own, value in full.items() if own != key}
    if key in optional:
        assert read([without])
    else:
        with pytest.raises(OutputError, match=f"^{name} 0: '{key}' is missing$"):
            read([without])


@pytest.mark.parametrize(("name", "key"), FIELDS)
def test_none_is_a_value_only_where_it_is_the_default(name: str, key: str) -> None:
    read, full, _ = FULL[name]
    if f"{name}.{key}" in MAY_BE_NONE:
        assert read([{**full, key: None}])
    else:
        with pytest.raises(OutputError, match=f"^{name} 0: {key} must be .*, got None$"):
            read([{**full, key: None}])


@pytest.mark.parametrize(("name", "key"), [field for field in FIELDS if field != ("memory", "extra")])
def test_a_value_of_another_type_is_named_with_its_field(name: str, key: str) -> None:
    read, full, _ = FULL[name]
    for wrong in (b"x", 0.5 if key not in ("priority", "score") else True, object(), {"a": 1}):
        with pytest.raises(OutputError, match=f"^{name} 0: {key} must be "):
            read([{**full, key: wrong}])
    if isinstance(full[key], str) and key not in ("id", "result_id"):  # a number is an id, and no text
        with pytest.raises(OutputError, match=f"^{name} 0: {key} must be "):
            read([{**full, key: 5}])


def test_the_fields_are_those_of_the_classes() -> None:
    from dataclasses import fields

    for name, cls in {
        "memory": Memory, "decision": Decision, "scene": Scene, "section": Section, "block": Block, "hit": Hit,
    }.items():  # fmt: skip
        assert [field.name for field in fields(cls)] == list(FULL[name][1])


def test_whole_numbers_of_any_kind_and_uuids_are_ids() -> None:
    import uuid

    identity = uuid.UUID(int=7)
    [found] = sections_of([{"id": 7, "memory_ids": [identity, 3]}])
    assert found == Section("7", "7", (str(identity), "3"))


class TestNumbersThatJsonDoesNotHave:
    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_they_survive_json(self, number: float) -> None:
        given = Outputs(l1=[Memory("m", "x", priority=number, extra={"a": number, "b": [{"c": (number, 1)}]})])
        text = json.dumps(given.to_json(), allow_nan=False)
        assert Outputs.from_json(json.loads(text)).l1 is not None
        [found] = memories_of(json.loads(text)["l1"])
        assert repr(found.priority) == repr(number)
        written = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")
        assert found.extra == {"a": written, "b": [{"c": [written, 1]}]}

    @pytest.mark.parametrize(
        ("given", "read"),
        [
            ("NaN", "nan"),
            ("Infinity", "inf"),
            ("-Infinity", "-inf"),
            (Decimal("NaN"), "nan"),
            (Decimal("sNaN"), "nan"),
            (Decimal("-Infinity"), "-inf"),
            (Decimal("1e400"), "inf"),
            (Fraction(-(10**400)), "-inf"),
            (10**400, "inf"),
            pytest.param(-(10**5000), "-inf", id="5000 digits"),
            (1e308, "1e+308"),
            (3, "3"),
        ],
    )
    def test_every_kind_of_number_is_read(self, given: Any, read: str) -> None:
        [found] = memories_of([Memory("m", "x", priority=given)])
        assert repr(found.priority) == read

    @pytest.mark.parametrize("text", ["nan", "Inf", "+Infinity", "NaN ", "1", ""])
    def test_no_other_text_is_a_number(self, text: str) -> None:
        with pytest.raises(OutputError, match="priority must be a number, got str"):
            memories_of([{"content": "x", "priority": text}])

    def test_they_are_texts_everywhere_else(self) -> None:
        [found] = memories_of([{"id": "NaN", "content": "Infinity", "dimensions": ["NaN"], "memory_type": "NaN"}])
        assert (found.id, found.content, found.dimensions, found.memory_type) == ("NaN", "Infinity", ("NaN",), "NaN")

    def test_an_extra_that_holds_itself_is_left_as_it_is(self) -> None:
        own: dict[str, Any] = {"n": math.nan}
        own["own"] = own
        [data] = Outputs(l1=[Memory("m", "x", extra=own)]).to_json()["l1"]
        assert data["extra"]["n"] == "NaN"

    @pytest.mark.parametrize("score", [math.nan, math.inf, "NaN", 10**400])
    def test_a_score_has_to_be_finite(self, score: Any) -> None:
        with pytest.raises(OutputError, match="hit 0: score must be a finite number"):
            hits_of([{"id": "h", "score": score}])


def test_a_hit_without_a_score_has_none() -> None:
    assert hits_of(["a", {"id": "b"}, Hit("c", 0.0)]) == [Hit("a"), Hit("b", None), Hit("c", 0.0)]
    assert Outputs(search={"q": hits_of(["a"])}).to_json() == {"search": {"q": [{"id": "a", "score": None}]}}
