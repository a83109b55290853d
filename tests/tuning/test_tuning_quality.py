"""The vectorised metrics equal those of one ranking at a time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuning_planted import query

from pytest_memeval.metrics.ranking import average_precision, hit_at, ndcg, recall_at, reciprocal_rank
from pytest_memeval.tuning.quality import ABSENT, METRIC_NAMES, Metric, Truths, parse_metric, quality
from pytest_memeval.tuning.queries import LabelledQuery, TuningError

ids = st.sampled_from("abcdefgh")
truths = st.lists(st.tuples(ids, st.integers(1, 4)), min_size=1, max_size=6, unique_by=lambda pair: pair[0])
rankings = st.lists(ids, max_size=12)


def table(rankings: list[list[str]], queries: list[LabelledQuery]) -> Any:
    """A row for one combination, which gives each query its ranking."""
    found = Truths(queries)
    rows = [rank for number, ranking in enumerate(rankings) for rank in found.ranks_of(number, ranking)]
    return np.array([rows], dtype=np.int32), found


def single(metric: Metric, ranking: list[str], one: LabelledQuery) -> float | None:
    if metric.name == "ndcg":
        assert metric.k is not None
        return ndcg(ranking, one.relevant, metric.k, grades=one.gains)
    if metric.name in ("recall", "hit"):
        assert metric.k is not None
        return (recall_at if metric.name == "recall" else hit_at)(ranking, one.relevant, metric.k)
    return (reciprocal_rank if metric.name == "mrr" else average_precision)(ranking, one.relevant, metric.k)


@given(
    st.lists(st.tuples(rankings, truths), min_size=1, max_size=5),
    st.sampled_from(METRIC_NAMES),
    st.one_of(st.none(), st.integers(1, 13)),
)
def test_equal_to_the_single_metrics(rows: list[tuple[list[str], Any]], name: str, k: int | None) -> None:
    metric = parse_metric(name if k is None else f"{name}@{k}")
    queries = [query("q", *(one for one, _ in truth), grades=[gain for _, gain in truth]) for _, truth in rows]
    ranks, found = table([ranking for ranking, _ in rows], queries)
    values = quality(ranks, found, metric)
    assert values.shape == (1, len(rows))
    for value, (ranking, _), one in zip(values[0], rows, queries, strict=True):
        assert value == pytest.approx(single(metric, ranking, one), abs=1e-12)


def test_golden_ndcg() -> None:
    folder = os.environ.get("MEMEVAL_GOLDEN_DIR")
    if not folder:
        pytest.skip("MEMEVAL_GOLDEN_DIR is not set: no reference values to compare with")
    rows = json.loads((Path(folder) / "ndcg_rrf.json").read_text(encoding="utf-8"))
    # Without the rows of the reference's own rules: nothing relevant, and ids repeated among the relevant.
    rows = [row for row in rows if row["kind"] == "ndcg" and row["relevant"]]
    rows = [row for row in rows if len(set(row["relevant"])) == len(row["relevant"])]
    assert len(rows) == 47
    for row in rows:
        ranks, found = table([row["predicted"]], [query("q", *row["relevant"])])
        value = quality(ranks, found, Metric("ndcg", row["k"]))[0, 0]
        assert value == pytest.approx(row["ndcg"], abs=1e-4), row["row"]
        assert value == pytest.approx(ndcg(row["predicted"], row["relevant"], row["k"]), abs=1e-12), row["row"]


def test_nothing_returned_is_zero_and_no_query_is_empty() -> None:
    found = Truths([query("q", "a", "b")])
    absent = np.full((3, 2), ABSENT, dtype=np.int32)
    for name in METRIC_NAMES:
        assert quality(absent, found, parse_metric(name)).tolist() == [[0.0]] * 3
    assert quality(np.zeros((3, 0), dtype=np.int32), Truths([]), parse_metric("map")).shape == (3, 0)


def test_metric_names() -> None:
    assert str(parse_metric("NDCG@5")) == "ndcg@5"
    assert str(parse_metric("ndcg")) == "ndcg@10"
    assert str(parse_metric("search.recall@20")) == "recall@20"
    assert parse_metric("mrr") == Metric("mrr", None)
    with pytest.raises(TuningError, match="unknown metric 'ndgc@10'; did you mean 'ndcg'"):
        parse_metric("ndgc@10")
    for bad in ("ndcg@0", "ndcg@-1", "ndcg@x", ""):
        with pytest.raises(TuningError):
            parse_metric(bad)
