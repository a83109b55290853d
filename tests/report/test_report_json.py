from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path, PureWindowsPath
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.report.json_report import dumps, own_copy, plain, report_chunks


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


@dataclass
class Point:
    x: float
    label: Colour


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


def strict(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 2),
        (Word.YES, "yes"),
        (date(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00+00:00"),
        (time(12, 30), "12:30:00"),
        (timedelta(seconds=90), "0:01:30"),
        (Decimal("3.25"), 3.25),
        (Decimal("NaN"), None),
        (Decimal("1e999"), None),
        (Fraction(1, 4), 0.25),
        (Path("a") / "b", "a/b"),
        (PureWindowsPath("a\\b"), "a/b"),
        (Point(math.nan, Colour.RED), {"x": None, "label": "red"}),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (deque([1]), ["deque([1])"]),
        (b"abc\xff", "abc\\xff"),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (
            {Colour.RED: 1, date(2024, 5, 1): 2, 7: 3, None: 4, True: 5},
            {"red": 1, "2024-05-01": 2, "7": 3, "null": 4, "true": 5},
        ),
        (np.float64(0.5), 0.5),
        (np.float32("nan"), None),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1.0, math.inf]]), [[1.0, None]]),
        (math.inf, None),
        (Silent(), "<Silent: no text>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_f09_values_that_json_lacks_become_plain(value, expected):
    if isinstance(value, deque):
        expected = [1]
    assert plain(value) == expected
    assert strict(dumps({"metric": value})) == {"metric": expected}


class Odd:
    """Stands for any object at all."""


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(alphabet=st.characters()),
    st.text(alphabet=st.characters(categories=("Cs", "Lu"))),
    st.decimals(),
    st.dates(),
    st.datetimes(),
    st.binary(),
    st.sampled_from([Colour.RED, Level.HIGH, Word.YES, Odd(), Path("x"), np.float32(1.5)]),
)
KEYS = st.one_of(
    st.text(), st.integers(), st.none(), st.booleans(), st.dates(), st.floats(), st.sampled_from(list(Colour))
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(KEYS, inner),
        st.tuples(inner, inner),
        st.sets(st.integers()),
        st.frozensets(st.text()),
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
def test_any_nested_value_gives_strict_json_that_utf8_can_hold(value):
    text = dumps(value)
    strict(text.encode("utf-8").decode("utf-8"))
    assert "\n" not in text


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**60), 2**60)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
    )
)
def test_what_json_can_hold_comes_back_as_it_was(value):
    assert json.loads(dumps(value)) == value


def same(one: Any, other: Any) -> bool:
    """Equal in types too: 1, 1.0 and True are written differently."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(deadline=None)
@given(VALUES)
def test_a_copy_of_ones_own_is_what_reading_the_text_gives(value):
    assert same(own_copy(value), json.loads(dumps(value)))


def test_a_copy_of_ones_own_shares_no_container():
    inner = {"a": [1, (2, 3)]}
    copied = own_copy(inner)
    inner["a"].append(4)
    assert copied == {"a": [1, [2, 3]]}
    circular: list[Any] = []
    circular.append(circular)
    for odd in (circular, 2**63, 10**5_000, {1: 2}, Level.HIGH, math.nan):
        assert same(own_copy(odd), json.loads(dumps(odd)))


def test_f34_half_a_surrogate_pair_survives_as_an_escape():
    text = dumps({"content": "a\ud83db", "whole": "😀"})
    assert text == '{"content": "a\\ud83db", "whole": "😀"}'
    assert json.loads(text.encode("utf-8"))["content"] == "a\ud83db"


def test_integers_that_python_will_not_print_become_hexadecimal():
    assert strict(dumps({"n": -(10**5000)}))["n"].startswith("-0x")
    assert strict(dumps([10**4000])) == [10**4000]
    assert strict(dumps({10**5000: 1})) == {"<int: no text>": 1}


def test_circular_and_very_deep_values_end():
    loop: list[Any] = []
    loop.append(loop)
    assert "circular" in dumps(loop)
    mapping: dict[str, Any] = {}
    mapping["self"] = {"again": mapping}
    assert "circular" in dumps(mapping)
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert "too deeply" in dumps(deep)
    shared = [1]
    assert json.loads(dumps({"a": shared, "b": shared, "nan": math.nan})) == {"a": [1], "b": [1], "nan": None}


def test_the_report_text_is_one_case_a_line_and_strict():
    report = {
        "a": 1,
        "nan": math.nan,
        "nested": {"x": [1, 2]},
        "empty": [],
        "per_case": [{"id": 1}, {"id": 2, "v": math.inf}],
    }
    text = "".join(report_chunks(report))
    assert strict(text) == {**report, "nan": None, "per_case": [{"id": 1}, {"id": 2, "v": None}]}
    assert '    {"id": 1},\n    {"id": 2, "v": null}\n  ]' in text
    assert strict("".join(report_chunks({"per_case": []}))) == {"per_case": []}


def test_long_lists_have_a_line_a_case_and_known_texts_are_taken():
    report = {"not_run": [["a.yaml", "a.yaml::é"], ["a.yaml", "b"]], "gone": [["x", "y"]], "per_case": [{"id": 1}]}
    text = "".join(report_chunks(report, lambda entry: dumps({**entry, "known": True})))
    assert strict(text) == {**report, "per_case": [{"id": 1, "known": True}]}
    assert '  "not_run": [\n    ["a.yaml", "a.yaml::é"],\n    ["a.yaml", "b"]\n  ]' in text
    assert strict("".join(report_chunks({"not_run": [], "gone": ()}))) == {"not_run": [], "gone": []}
