"""Weighted reciprocal rank fusion."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fusion import fuse

rankings = st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), max_size=4)


def test_scores_by_hand() -> None:
    found = fuse([["a", "b"], [("b", 9.0), ("c", 1.0)]], rrf_k=60, weights=[0.7, 0.3])
    assert [(hit.id, hit.score) for hit in found] == [
        ("b", pytest.approx(0.7 / 62 + 0.3 / 61)),
        ("a", pytest.approx(0.7 / 61)),
        ("c", pytest.approx(0.3 / 62)),
    ]
    assert [hit.id for hit in fuse([["a", "b"]], top_k=1)] == ["a"]


def test_a_repeated_id_counts_once_and_takes_no_place() -> None:
    assert fuse([["a", "a", "b"]], rrf_k=1) == fuse([["a", "b"]], rrf_k=1)


def test_a_route_of_no_weight_adds_nothing() -> None:
    assert fuse([["a"], ["b"]], weights=[1, 0]) == fuse([["a"]])


def test_ties_stand_by_id_in_whatever_order_the_parts_come() -> None:
    first = fuse([["b", "a", "c"], ["a", "c", "b"], ["c", "b", "a"]], rrf_k=0.1, weights=[0.1, 0.1, 0.1])
    assert [hit.id for hit in first] == ["a", "b", "c"]
    assert len({hit.score for hit in first}) == 1


@given(rankings, st.floats(0, 1000), st.data())
def test_it_is_the_formula(routes: list[list[str]], rrf_k: float, data: st.DataObject) -> None:
    weights = [data.draw(st.sampled_from([0.0, 0.3, 1.0])) for _ in routes]
    found = {hit.id: hit.score for hit in fuse(routes, rrf_k=rrf_k, weights=weights)}
    for identifier in "abcdef":
        parts = [
            weight / (rrf_k + 1 + list(dict.fromkeys(route)).index(identifier))
            for route, weight in zip(routes, weights, strict=True)
            if identifier in route and weight
        ]
        assert found.get(identifier, 0) == pytest.approx(math.fsum(parts))
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("weights", "rrf_k", "text"),
    [
        ([1], 60, "2 routes but 1 weights"),
        ([1, -1], 60, "not negative"),
        ([1, 1], -1, "rrf_k"),
        ([1, math.nan], 1, "fin"),
    ],
)
def test_what_does_not_fit(weights: list[float], rrf_k: float, text: str) -> None:
    with pytest.raises(SearchError, match=text):
        fuse([["a"], ["b"]], weights=weights, rrf_k=rrf_k)
