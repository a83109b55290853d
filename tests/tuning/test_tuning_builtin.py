"""The built-in search as rank tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tuning_planted import query, steep_corpus

from pytest_memeval.cases.loader import load_cases
from pytest_memeval.scoring import labelled_memories
from pytest_memeval.search.bm25 import Bm25Index
from pytest_memeval.search.fts import FtsIndex
from pytest_memeval.search.index import SearchIndex
from pytest_memeval.search.lexical import LexicalEmbedder
from pytest_memeval.search.params import SearchParams
from pytest_memeval.tuning.builtin import BuiltinRoutes, vector_ranks
from pytest_memeval.tuning.grid import GridSearch
from pytest_memeval.tuning.queries import Document, TuningError, queries_of
from pytest_memeval.tuning.rankers import RouteRanker
from pytest_memeval.tuning.space import Params
from pytest_memeval.values import Hit

CASES = load_cases(Path(__file__).parents[2] / "cases" / "v001.yaml")
SHIPPED = [Document(str(one.id), one.content) for case in CASES for one in labelled_memories(case)]
SHIPPED_QUERIES = queries_of(CASES).queries

DOCUMENTS = [
    Document("b#0", "用户养了一只猫"),
    Document("a#0", "likes cats and C++"),
    Document("a#1", "owns a bicycle"),
]
QUERIES = [query("猫", "b#0"), query("C++", "a#0"), query("?!", "a#1")]


def ranking(row: Any, ids: Sequence[str]) -> list[str]:
    return [one for rank, one in sorted(zip(row, ids, strict=True)) if rank]


def test_word_route_is_that_of_the_search() -> None:
    routes = BuiltinRoutes(DOCUMENTS, QUERIES, None)
    pairs = [(one.id, one.content) for one in DOCUMENTS]
    for (k1, b), index in (((1.2, 0.75), FtsIndex(pairs)), ((2.0, 0.1), Bm25Index(pairs, k1=2.0, b=0.1))):
        tables = routes(k1, b)
        assert tables.ids == ("a#0", "a#1", "b#0")
        assert tables.vector is None
        for row, one in zip(tables.text.tolist(), QUERIES, strict=True):
            assert ranking(row, tables.ids) == [identifier for identifier, _ in index.search(one.query)]
    assert tables.text.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_vector_route() -> None:
    found = vector_ranks(DOCUMENTS, QUERIES, LexicalEmbedder())
    assert found.table[0].tolist() == [0, 0, 1]
    # A text without a word has no vector.
    assert found.table[2].tolist() == [0, 0, 0]
    assert found.dimension == 1024
    assert found.backend


class Embedder:
    name = "broken"

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = iter(answers)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        answer = next(self._answers)
        return [answer] * len(texts) if isinstance(answer, list) else [[1.0, 0.0]] * answer


def test_a_changed_dimension_and_other_faults_of_an_embedder() -> None:
    with pytest.raises(TuningError, match="dimension of embedder broken changed: its vectors have 2 and 3 numbers"):
        vector_ranks(DOCUMENTS, QUERIES, Embedder([[1.0, 0.0], [1.0, 0.0, 0.0]]))
    with pytest.raises(TuningError, match="2 vectors for 3 texts"):
        vector_ranks(DOCUMENTS, QUERIES, Embedder([2]))
    with pytest.raises(TuningError, match=r"cannot be searched: .*not finite"):
        vector_ranks(DOCUMENTS, QUERIES, Embedder([[float("nan"), 0.0], [1.0, 0.0]]))


def test_bad_corpora() -> None:
    with pytest.raises(TuningError, match="the corpus is empty"):
        BuiltinRoutes([], QUERIES, None)
    with pytest.raises(TuningError, match="should find 'c#9'"):
        BuiltinRoutes(DOCUMENTS, [query("x", "c#9")], None)


def test_tables_are_made_once_for_all_fusions(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = steep_corpus(2)
    ranker = corpus.ranker()
    made = []
    routes = ranker._routes

    def noted(k1: float, b: float) -> Any:
        made.append((k1, b))
        return routes(k1, b)

    monkeypatch.setattr(ranker, "_routes", noted)
    GridSearch({"rrf_k": [10, 60], "bm25_k1": [0.5, 1.2], "top_k": [5, 150]}).search(ranker, corpus.queries)
    assert sorted(set(made)) == [(0.5, 0.75), (1.2, 0.75)]
    assert len(made) <= 4


@pytest.mark.parametrize(
    "params", [{}, {"rrf_k": 3, "bm25_weight": 0.2}, {"bm25_weight": 1, "top_k": 2}, {"bm25_b": 0.1}]
)
def test_the_grid_ranks_as_the_search_of_the_reference_engine_does(params: dict[str, float]) -> None:
    """Every combination's metric is that of what :class:`SearchIndex` returns for it."""
    index = SearchIndex([(one.id, one.content) for one in SHIPPED])
    queries = [query(one.query, *one.relevant, group=one.group) for one in SHIPPED_QUERIES[::3]]
    vectors = vector_ranks(SHIPPED, queries, LexicalEmbedder())
    grid = GridSearch({"rrf_k": [60]}, params, metric="map")
    tables = grid.search(RouteRanker(BuiltinRoutes(SHIPPED, queries, vectors)), queries)

    async def search(text: str, given: Params) -> list[Hit]:
        return await index.search(text, SearchParams.of(params))

    calls = GridSearch({"rrf_k": [60]}, params, metric="map").search(search, queries)
    assert tables.current_score == pytest.approx(calls.current_score)
    assert tables.current_score is not None
    assert 0.2 < tables.current_score < 0.8
    index.close()
