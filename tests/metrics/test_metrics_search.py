"""The figures of a case's queries."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.models import SearchQuery
from pytest_memeval.metrics.search import CUTOFFS, aggregate_search, compute_search

queries = st.lists(
    st.builds(
        SearchQuery,
        st.sampled_from(["q1", "q2", "q3"]),
        st.lists(st.sampled_from("abcdef"), max_size=4, unique=True).map(tuple),
    ),
    max_size=5,
)
rankings = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from("abcdefxyz"), max_size=12) for name in ("q1", "q2", "q3")}
)


def test_figures_by_hand() -> None:
    found = compute_search([SearchQuery("q", ("a", "b"), (2, 1))], {"q": ["x", "b", "b", "a"]}, cutoffs=(1, 2, 3))
    assert found.mean("ndcg@1") == found.mean("hit@1") == 0
    assert found.mean("ndcg@3") == pytest.approx((1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3)))
    assert found.mean("recall@2") == 0.5
    assert found.mean("mrr") == 0.5
    assert found.mean("map") == pytest.approx((1 / 2 + 2 / 3) / 2)
    [row] = found.details["queries"]
    assert (row["ids"], row["relevant"], row["mrr"]) == (["x", "b", "a"], ["a", "b"], 0.5)


def test_a_query_without_relevant_memories_is_counted_and_in_no_mean() -> None:
    truths = [SearchQuery("q", ("a",)), SearchQuery("none"), SearchQuery("worthless", ("a",), (0,))]
    found = compute_search(truths, {"q": ["a"], "none": ["a"], "worthless": ["a"]})
    assert (found.queries, found.excluded, found.mean("map")) == (1, 2, 1)
    section = found.section()
    assert section.ratios["ndcg@10"] == (1, 1)
    assert section.counts == {"queries": 3, "excluded_queries": 2}


def test_f18_nothing_to_search_for_and_nothing_found() -> None:
    nothing = compute_search([], {})
    assert (nothing.queries, nothing.mean("mrr"), nothing.section().values()["ndcg@10"]) == (0, None, None)
    empty = compute_search([SearchQuery("q", ("a",))], {"q": []})
    assert {empty.mean(name) for name in empty.sums} == {0}


def test_a_query_that_was_not_asked_is_no_zero() -> None:
    with pytest.raises(KeyError):
        compute_search([SearchQuery("q", ("a",))], {})


@given(queries, rankings)
def test_figures_keep_their_ranges_and_their_order(truths: list[SearchQuery], found: dict[str, list[str]]) -> None:
    metrics = compute_search(truths, found)
    assert metrics.queries + metrics.excluded == len(truths)
    for name in metrics.sums:
        mean = metrics.mean(name)
        assert mean is None or 0 <= mean <= 1
    for smaller, larger in pairwise(CUTOFFS):
        for name in ("recall", "hit"):
            assert metrics.sums[f"{name}@{smaller}"] <= metrics.sums[f"{name}@{larger}"]
    again = aggregate_search(compute_search([truth], found) for truth in reversed(truths))
    assert (again.queries, again.excluded) == (metrics.queries, metrics.excluded)
    if truths:
        assert again.sums == pytest.approx(dict(metrics.sums))
