from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.search.fts import FTS_B, FTS_K1
from pytest_memeval.search.params import RANGES, SearchParams
from pytest_memeval.tuning.space import DEFAULTS, MOST_COMBINATIONS, SpaceError, make_space, parse_space, parse_values


def test_the_grid_of_the_manual() -> None:
    space = parse_space(["rrf_k=10,30,60,90,120", "bm25_weight=0.3:0.7:0.1"])
    assert space.axes == {"rrf_k": (10, 30, 60, 90, 120), "bm25_weight": (0.3, 0.4, 0.5, 0.6, 0.7)}
    assert len(space) == 25 == len(list(space.combinations()))
    first, second, *_ = space.combinations()
    assert first == {"rrf_k": 10, "bm25_weight": 0.3, "top_k": 20, "bm25_k1": FTS_K1, "bm25_b": FTS_B}
    assert second["bm25_weight"] == 0.4
    assert space.tuned(first) == {"rrf_k": 10, "bm25_weight": 0.3}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:1:0.25", [0, 0.25, 0.5, 0.75, 1]),
        ("1:2:0.4", [1, 1.4, 1.8]),
        ("5:5:1", [5]),
        ("0.1,0.3:0.5:0.1", [0.1, 0.3, 0.4, 0.5]),
        ("1e2, 2.50", [100, 2.5]),
    ],
)
def test_values(text: str, values: list[float]) -> None:
    assert parse_values("x", text) == values


@given(st.integers(0, 1000), st.integers(0, 200), st.integers(1, 50))
def test_ranges_include_their_end_and_gather_no_rounding(start: int, steps: int, step: int) -> None:
    text = f"{start / 100}:{(start + steps * step) / 100}:{step / 100}"
    values = parse_values("x", text)
    assert len(values) == steps + 1
    assert values == [(start + number * step) / 100 for number in range(steps + 1)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rrf_k"], "'rrf_k' is not of the form rrf_k=10,30,60"),
        (["rff_k=10"], "unknown parameter 'rff_k'; did you mean 'rrf_k'?"),
        (["rrf_k=-1"], "rrf_k must be 0 or more, not -1; the nearest valid value is 0"),
        (["bm25_weight=0.5,1.5"], "the nearest valid value is 1"),
        (["top_k=2.5"], "top_k must be a whole number, not 2.5"),
        (["top_k=0"], "nearest valid value is 1"),
        (["bm25_b=ten"], "'ten' is neither a number nor from:to:step"),
        (["rrf_k=nan"], "'nan' is neither a number"),
        (["rrf_k=1:2"], "'1:2' is neither a number nor from:to:step"),
        (["rrf_k=5:1:1"], "needs from ≤ to and a step above 0"),
        (["rrf_k=1:5:0"], "a step above 0"),
        (["rrf_k=1,,2"], "a value is missing"),
        (["rrf_k=10,10.0"], "rrf_k: 10 is given twice"),
        (["rrf_k=10", "rrf_k=20"], "rrf_k is given twice in the grid"),
        (["rrf_k=0:1000000:1"], "at most"),
        (["rrf_k=1:1000:1", "bm25_b=0:1:0.001"], "the grid has 1,001,000 combinations"),
        ([], "the grid names no parameter"),
    ],
)
def test_bad_grids(words: list[str], message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space(words)
    assert message in str(caught.value)


def test_current_values() -> None:
    assert parse_space(["rrf_k=10"], ["rrf_k=20", "top_k=5"]).current["top_k"] == 5
    with pytest.raises(SpaceError, match="one current value"):
        parse_space(["rrf_k=10"], ["rrf_k=20,30"])
    with pytest.raises(SpaceError, match="given twice"):
        parse_space(["rrf_k=10"], ["rrf_k=20", "rrf_k=20"])


def test_another_system_has_parameters_of_its_own() -> None:
    space = parse_space(["mode=fast,exact", "depth=1:3:1"], ["depth=2"], free=True)
    assert space.axes == {"mode": ("fast", "exact"), "depth": (1, 2, 3)}
    assert space.current == {"mode": "fast", "depth": 2}
    with pytest.raises(SpaceError, match="top_k must be a whole number"):
        parse_space(["top_k=1.5"], free=True)
    with pytest.raises(SpaceError, match="neither a finite number nor text"):
        make_space({"depth": [math.inf]}, free=True)


def test_spaces_made_in_code() -> None:
    for bad, message in (
        ({"rrf_k": []}, "has no value"),
        ({"rrf_k": "10"}, "a list of values"),
        ({"rrf_k": [True]}, "not True"),
        ({"rrf_k": [math.nan]}, "not nan"),
    ):
        with pytest.raises(SpaceError, match=message):
            make_space(bad)
    assert make_space({"top_k": [5.0]}).axes == {"top_k": (5,)}
    assert MOST_COMBINATIONS == 100_000


def test_the_current_values_are_those_of_the_search() -> None:
    assert SearchParams() == SearchParams.of(DEFAULTS)
    assert set(DEFAULTS) == set(RANGES)
    assert repr(DEFAULTS["rrf_k"]) == "60"
