"""The vectorised fusion ranks as the fusion of the search does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_planted import query

from pytest_memeval.search.fusion import fuse
from pytest_memeval.tuning.evaluate import RouteRanks, fused_ranks, rank_row
from pytest_memeval.tuning.quality import ABSENT, Truths
from pytest_memeval.tuning.queries import TuningError

IDS = tuple("abcdefghij")
COLUMNS = {one: column for column, one in enumerate(IDS)}
routes = st.lists(st.sampled_from(IDS), max_size=14)


def tables(pairs: list[tuple[list[str], list[str]]]) -> RouteRanks:
    text, vector = (np.array([rank_row(pair[side], COLUMNS) for pair in pairs]) for side in (0, 1))
    return RouteRanks(IDS, text, vector)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(routes, routes), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from([0, 1, 10, 60, 0.5]), st.sampled_from([0, 0.3, 0.5, 0.7, 1])), min_size=1, max_size=4
    ),
)
def test_equal_to_fuse(pairs: list[tuple[list[str], list[str]]], combinations: list[tuple[float, float]]) -> None:
    # Every document is asked for, so that the whole ranking is compared, ties included.
    truths = Truths([query("q", *IDS) for _ in pairs])
    ks, weights = [k for k, _ in combinations], [weight for _, weight in combinations]
    ranks = fused_ranks(tables(pairs), truths, ks, weights)
    for row, (k, weight) in zip(ranks, combinations, strict=True):
        for number, pair in enumerate(pairs):
            hits = fuse(pair, rrf_k=k, weights=(weight, 1 - weight))
            expected = {hit.id: place for place, hit in enumerate(hits, 1)}
            own = dict(zip(IDS, row[truths.slice_of(number)].tolist(), strict=True))
            assert own == {one: expected.get(one, ABSENT) for one in IDS}


def test_golden_fusion() -> None:
    folder = os.environ.get("MEMEVAL_GOLDEN_DIR")
    if not folder:
        pytest.skip("MEMEVAL_GOLDEN_DIR is not set: no reference values to compare with")
    rows = json.loads((Path(folder) / "ndcg_rrf.json").read_text(encoding="utf-8"))
    rows = [row for row in rows if row["kind"] == "rrf" and row["desc"] == "random"]
    assert len(rows) == 30
    for row in rows:
        pair = [[one["memory_id"] for one in row[side]] for side in ("bm25", "vector")]
        ids = tuple(sorted({*pair[0], *pair[1]}))
        columns = {one: column for column, one in enumerate(ids)}
        text, vector = (np.array([rank_row(one, columns)]) for one in pair)
        found = fused_ranks(RouteRanks(ids, text, vector), Truths([query("q", *ids)]), [row["k"]], [0.5])
        order = [one for _, one in sorted(zip(found[0].tolist(), ids, strict=True))]
        scores = {one["id"]: one["score"] for one in row["merged"]}
        # The reference breaks ties by route; every other place is the same.
        assert sorted(order) == sorted(scores)
        assert [scores[one] for one in order] == pytest.approx([one["score"] for one in row["merged"]], abs=1e-9)


def test_without_vectors_the_text_route_decides() -> None:
    text = np.array([rank_row(["c", "a", "b"], COLUMNS)])
    truths = Truths([query("q", "a", "j")])
    found = fused_ranks(RouteRanks(IDS, text, None), truths, [60, 10], [0.5, 0.9])
    assert found.tolist() == [[2, ABSENT], [2, ABSENT]]


def test_bad_tables() -> None:
    with pytest.raises(TuningError, match="sorted and different"):
        RouteRanks(("b", "a"), np.zeros((1, 2), dtype=np.int32), None)
    with pytest.raises(TuningError, match="does not fit 2 documents"):
        RouteRanks(("a", "b"), np.zeros((1, 3), dtype=np.int32), None)
    with pytest.raises(TuningError, match="returned 'x', which the corpus does not hold"):
        rank_row(["x"], COLUMNS)
    with pytest.raises(TuningError, match="2 values of rrf_k for 1 weights"):
        fused_ranks(tables([([], [])]), Truths([query("q", "a")]), [1, 2], [0.5])
