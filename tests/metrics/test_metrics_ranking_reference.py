"""NDCG, MRR, MAP and recall against trec_eval, by way of ir-measures."""

from __future__ import annotations

import random

import pytest

from pytest_memeval.cases.models import SearchQuery
from pytest_memeval.metrics.search import aggregate_search, compute_search

ir_measures = pytest.importorskip("ir_measures")


def test_two_hundred_random_rankings_are_scored_as_trec_eval_does() -> None:
    drawn = random.Random(7)
    ids = [f"d{number}" for number in range(40)]
    truths, rankings = [], {}
    for number in range(200):
        relevant = tuple(drawn.sample(ids, drawn.randint(1, 12)))
        grades = tuple(float(drawn.randint(1, 4)) for _ in relevant) if number % 2 else ()
        truths.append(SearchQuery(f"q{number}", relevant, grades))
        rankings[f"q{number}"] = drawn.sample(ids, drawn.choice([0, 1, 5, 10, 25, 40]))
    judged = [
        ir_measures.Qrel(truth.query, one, int(grade))
        for truth in truths
        for one, grade in zip(truth.relevant, truth.grades or [1.0] * len(truth.relevant), strict=True)
    ]
    ranked = [
        ir_measures.ScoredDoc(query, one, -float(rank))
        for query, found in rankings.items()
        for rank, one in enumerate(found)
    ]
    names = {
        "ndcg@5": ir_measures.nDCG @ 5,
        "ndcg@10": ir_measures.nDCG @ 10,
        "recall@5": ir_measures.R @ 5,
        "hit@5": ir_measures.Success @ 5,
        "mrr": ir_measures.RR,
        "map": ir_measures.AP,
    }
    wanted: dict[tuple[str, str], float] = {
        (one.query_id, str(one.measure)): one.value
        for one in ir_measures.iter_calc(list(names.values()), judged, ranked)
    }
    assert len({query for query, _ in wanted}) > 150
    for truth in truths:
        metrics = compute_search([truth], rankings)
        for name, measure in names.items():
            # trec_eval leaves out a query of which nothing was found; here that is 0.
            assert metrics.mean(name) == pytest.approx(wanted.get((truth.query, str(measure)), 0.0), abs=1e-9), name
    whole = compute_search(truths, rankings)
    parts = aggregate_search(compute_search([truth], rankings) for truth in truths)
    assert whole.queries == parts.queries == 200
    for name in names:
        assert whole.mean(name) == pytest.approx(parts.mean(name))
