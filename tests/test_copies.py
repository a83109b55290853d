"""Copies of what is handed to a project's own code: of the same types, equal, and sharing nothing that can change."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.models import EvalCase
from pytest_memeval.copies import copied
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import Hit, Memory, Message


class Word(Enum):
    a = "a"


class Pair(NamedTuple):
    one: int
    other: list[int]


@dataclass
class Open:
    items: list[int] = field(default_factory=list)


class Own:
    def __init__(self) -> None:
        self.items = [1]


FIXED: list[Any] = [
    *(None, True, 1, 1.5, "text", b"x", Word.a, Path("x"), datetime(2024, 5, 1, tzinfo=UTC), (), (1, "a", (2,))),
    *(int, len, Hit("a", 1.0, "x", ("b",)), MappingProxyType({"a": 1}), frozenset({1})),
]


@pytest.mark.parametrize("value", FIXED, ids=repr)
def test_what_cannot_change_is_itself(value: Any) -> None:
    assert copied(value) is value or (copied(value) == value and type(value) is frozenset)


def reachable(value: Any) -> set[int]:
    """The ids of every list, mapping and set that can be reached."""
    if isinstance(value, list | tuple | set):
        found = set().union(*(reachable(item) for item in value)) if value else set()
        return found if isinstance(value, tuple) else found | {id(value)}
    if isinstance(value, dict):
        return {id(value)}.union(*(reachable(item) for item in value.values()))
    if hasattr(value, "__dataclass_fields__"):
        return set().union(*(reachable(getattr(value, name)) for name in value.__dataclass_fields__))
    return reachable(vars(value)) if isinstance(value, Own) else set()


MEMORY = Memory("m", "x", ("a",), extra={"deep": [{"a": 1}]})
HOLDING: list[Any] = [
    *([1, [2]], {"a": {"b": []}}, ([],), Pair(1, [2]), {1, 2}, Open([1]), MEMORY),
    Outputs(l1=[MEMORY], search={"q": [Hit("a")]}, facts=[{"kind": "note", "items": [1]}]),
    EvalCase("c", conversation=(Message("1", "user", "x"),), extra={"a": [1]}, annotations={"b": {}}),
]


@pytest.mark.parametrize("value", HOLDING, ids=lambda value: type(value).__name__)
def test_a_copy_is_equal_of_the_same_type_and_shares_nothing(value: Any) -> None:
    own = copied(value)
    assert type(own) is type(value)
    assert own == value
    assert reachable(value)
    assert reachable(own).isdisjoint(reachable(value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(JSON)
def test_whatever_json_holds(value: Any) -> None:
    own = copied(value)
    assert own == value
    assert reachable(own).isdisjoint(reachable(value))


def test_a_frozen_copy_is_frozen_and_an_own_object_is_copied_too() -> None:
    with pytest.raises(FrozenInstanceError):
        copied(MEMORY).content = "y"  # type: ignore[misc]  # that it cannot be set is what is tried
    own = Own()
    assert copied(own) is not own
    assert copied({"a": own})["a"].items is not own.items


def test_what_cannot_be_copied_is_left() -> None:
    lock = threading.Lock()
    kept = copied({"lock": lock, "list": [1]})
    assert kept["lock"] is lock
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert copied(deep) is deep


def test_what_refers_to_itself_and_what_is_there_twice() -> None:
    ring: dict[str, Any] = {"a": []}
    ring["ring"] = ring
    own = copied(ring)
    assert own is not ring
    assert own["ring"] is own
    many: list[Any] = []
    for _ in range(60):  # as one text it would have 2 to the power of 60 elements
        many = [many, many]
    assert copied(many)[0] is not many[0]
