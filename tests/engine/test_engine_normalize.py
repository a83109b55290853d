from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.registry import Dimension, Registry, load_registry
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.values import Memory

REGISTRY = Registry(
    dimensions=(
        Dimension("identity", "身份", aliases=("who", "个人信息")),
        Dimension("tech_stack", "技术栈", aliases=("tools",)),
        Dimension("preferences", "偏好"),
    ),
    memory_types=("persona", "episodic"),
    time_velocities=("static", "dynamic"),
)


def normalized(*labels: str, **fields: Any) -> tuple[Memory, list[tuple[str, dict[str, Any]]]]:
    records: list[tuple[str, dict[str, Any]]] = []
    memory = Memory("m", "text", labels, **fields)
    result = normalize_memories([memory], REGISTRY, lambda kind, **rest: records.append((kind, rest)))
    return result[0], records


@pytest.mark.parametrize("label", ["identity", "Identity", " IDENTITY ", "ｉｄｅｎｔｉｔｙ", "身份", "who", "个人信息"])
def test_ids_names_and_aliases_whatever_their_case_and_width(label: str) -> None:
    memory, records = normalized(label)
    assert memory.dimensions == ("identity",)
    assert records == []


def test_a_misspelt_label_is_accepted_and_noted() -> None:
    memory, records = normalized("identity", "preferencs")
    assert memory.dimensions == ("identity", "preferences")
    (kind, fields) = records[0]
    assert kind == "fuzzy_label"
    assert fields["label"] == "preferencs"
    assert fields["dimension"] == "preferences"
    assert fields["memory_index"] == 0
    assert 0.85 <= fields["score"] < 1


def test_an_unknown_label_is_dropped_and_noted_with_its_memory() -> None:
    records: list[tuple[str, dict[str, Any]]] = []
    memories = [Memory("a", "x", ("who",)), Memory("b", "y", ("weather", "tools"))]
    result = normalize_memories(memories, REGISTRY, lambda kind, **rest: records.append((kind, rest)))
    assert [memory.dimensions for memory in result] == [("identity",), ("tech_stack",)]
    assert records == [("dropped_label", {"label": "weather", "memory_index": 1})]


def test_labels_of_one_dimension_count_once_at_the_first_place() -> None:
    memory, _ = normalized("tools", "who", "identity", "tech_stack", "偏好")
    assert memory.dimensions == ("tech_stack", "identity", "preferences")


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [("Persona", "persona"), (" ＥＰＩＳＯＤＩＣ", "episodic"), ("fact", "fact"), ("", ""), (None, None)],
)
def test_memory_types_take_the_registrys_spelling(given_value: str | None, expected: str | None) -> None:
    assert normalized(memory_type=given_value)[0].memory_type == expected


def test_velocities_take_the_registrys_spelling_and_wrong_ones_stay() -> None:
    assert normalized(time_velocity="STATIC")[0].time_velocity == "static"
    assert normalized(time_velocity="slow")[0].time_velocity == "slow"


def test_one_label_that_is_no_sequence_is_one_label() -> None:
    memory = Memory("m", "text", "identity")  # type: ignore[arg-type]  # that is the fault
    assert normalize_memories([memory], REGISTRY)[0].dimensions == ("identity",)


def test_no_memories_and_no_labels() -> None:
    assert normalize_memories([], REGISTRY) == []
    assert normalized()[0].dimensions == ()


shipped = load_registry(None)
labels = st.one_of(st.sampled_from(shipped.ids), st.text(max_size=12))
memories = st.builds(
    Memory,
    id=st.none() | st.text(max_size=4),
    content=st.text(max_size=10),
    dimensions=st.lists(labels, max_size=4).map(tuple),
    memory_type=st.none() | st.sampled_from(["persona", "PERSONA", "other"]),
)


@given(st.lists(memories, max_size=4))
def test_a_second_run_changes_and_notes_nothing(given_memories: list[Memory]) -> None:
    once = normalize_memories(given_memories, shipped)
    records: list[str] = []
    assert normalize_memories(once, shipped, lambda kind, **_: records.append(kind)) == once
    assert records == []
    assert [memory.content for memory in once] == [memory.content for memory in given_memories]
    assert all(set(memory.dimensions) <= set(shipped.ids) for memory in once)
