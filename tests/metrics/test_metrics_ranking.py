from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.ranking import average_precision, hit_at, ndcg, recall_at, reciprocal_rank

ids = st.sampled_from("abcdefgh")
rankings = st.lists(ids, max_size=10)
relevants = st.lists(ids, max_size=6)
cutoffs = st.integers(1, 12)


@given(rankings, relevants, cutoffs)
def test_ranges(ranking: list[str], relevant: list[str], k: int) -> None:
    figures = [
        ndcg(ranking, relevant, k),
        recall_at(ranking, relevant, k),
        hit_at(ranking, relevant, k),
        reciprocal_rank(ranking, relevant, k),
        average_precision(ranking, relevant, k),
    ]
    if not relevant:
        assert figures == [None] * 5
    else:
        for figure in figures:
            assert figure is not None
            assert 0 <= figure <= 1
        # Either all of them see a relevant id among the first k, or none does.
        assert len({figure == 0 for figure in figures}) == 1


@given(rankings, relevants, cutoffs)
def test_repeated_ids_count_once(ranking: list[str], relevant: list[str], k: int) -> None:
    once = list(dict.fromkeys(ranking))
    for figure in (ndcg, recall_at, hit_at, reciprocal_rank, average_precision):
        assert figure(ranking, relevant, k) == figure(once, relevant + relevant, k)


@given(rankings, relevants, st.integers(1, 11))
def test_a_longer_list_finds_no_less(ranking: list[str], relevant: list[str], k: int) -> None:
    if relevant:
        for figure in (recall_at, hit_at):
            short, long = figure(ranking, relevant, k), figure(ranking, relevant, k + 1)
            assert short is not None
            assert long is not None
            assert short <= long


@given(st.lists(ids, min_size=1, unique=True), cutoffs)
def test_the_best_order_is_perfect(relevant: list[str], k: int) -> None:
    assert ndcg(relevant, relevant, k) == 1
    assert reciprocal_rank(relevant, relevant) == 1
    assert average_precision(relevant, relevant) == 1


@given(st.lists(st.tuples(ids, st.floats(0, 1e300)), min_size=1, unique_by=lambda one: one[0]), rankings, cutoffs)
def test_any_grades(graded: list[tuple[str, float]], ranking: list[str], k: int) -> None:
    relevant, grades = [one for one, _ in graded], [grade for _, grade in graded]
    figure = ndcg(ranking, relevant, k, grades=grades)
    if not any(grades):
        assert figure is None
    else:
        assert figure is not None
        assert 0 <= figure <= 1
        best = [one for one, grade in sorted(graded, key=lambda pair: -pair[1]) if grade]
        assert ndcg(best, relevant, k, grades=grades) == pytest.approx(1)


def test_known_values() -> None:
    ranking = ["x", "a", "y", "b"]
    discounts = [1 / math.log2(rank + 1) for rank in range(1, 4)]
    assert ndcg(ranking, ["a", "b", "c"], 10) == pytest.approx((discounts[1] + 1 / math.log2(5)) / sum(discounts))
    assert ndcg(ranking, ["a", "b", "c"], 3) == pytest.approx(discounts[1] / sum(discounts))
    assert ndcg(["b", "a"], ["a", "b"], grades=[3, 1]) == pytest.approx((1 + 3 * discounts[1]) / (3 + discounts[1]))
    assert reciprocal_rank(ranking, ["b", "a"]) == 1 / 2
    assert reciprocal_rank(ranking, ["b"], 3) == 0
    assert recall_at(ranking, ["a", "b", "c"], 4) == 2 / 3
    assert hit_at(ranking, ["b"], 3) == 0
    assert average_precision(ranking, ["a", "b", "c"]) == (1 / 2 + 2 / 4) / 3


def test_f18_empty_ranking() -> None:
    assert ndcg([], ["a"]) == recall_at([], ["a"], 5) == hit_at([], ["a"], 5) == 0
    assert reciprocal_rank([], ["a"]) == average_precision([], ["a"]) == 0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ndcg(["a"], ["a"], 0)
    with pytest.raises(ValueError, match="2 relevant ids but 1 grades"):
        ndcg([], ["a", "b"], grades=[1])
    with pytest.raises(ValueError, match="finite"):
        ndcg([], ["a"], grades=[math.nan])
