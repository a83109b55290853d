"""The built-in search as rank tables, and embedders by name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tuning_planted import query, steep_corpus

from pytest_memeval.search.bm25 import Bm25Index
from pytest_memeval.search.fts import FtsIndex
from pytest_memeval.tuning.builtin import BuiltinRoutes, vector_ranks
from pytest_memeval.tuning.embedders import build_embedder
from pytest_memeval.tuning.queries import Document, TuningError

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
    embedder = build_embedder("lexical", [one.content for one in DOCUMENTS])
    assert embedder is not None
    found = vector_ranks(DOCUMENTS, QUERIES, embedder)
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
    with pytest.raises(TuningError, match="dimension changed: its vectors have 2 and 3 numbers"):
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


def test_tables_are_made_once_for_all_fusions() -> None:
    corpus = steep_corpus(2)
    ranker = corpus.ranker()
    made = []
    routes = ranker._routes
    ranker._routes = lambda k1, b: made.append((k1, b)) or routes(k1, b)  # type: ignore[func-returns-value]
    from pytest_memeval.tuning.grid import GridSearch

    GridSearch({"rrf_k": [10, 60], "bm25_k1": [0.5, 1.2], "top_k": [5, 150]}).search(ranker, corpus.queries)
    assert sorted(set(made)) == [(0.5, 0.75), (1.2, 0.75)]
    assert len(made) <= 4


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lexical", {"model": "m"}, "--model m needs --embedder openai or sentence-transformers"),
        ("none", {"base_url": "http://x"}, "--base-url needs --embedder openai"),
        ("openai", {}, "--embedder openai needs the name of a model"),
        ("openai", {"model": "m", "base_url": "ftp://x"}, "--base-url: base URL 'ftp://x' is no http"),
    ],
)
def test_bad_embedders(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(TuningError) as caught:
        build_embedder(name, [], **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_no_embedder() -> None:
    assert build_embedder("none", []) is None


def test_embeddings_of_a_server_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chat_server import ChatServer

    monkeypatch.setenv("MEMEVAL_API_KEY", "test-key-1")
    with ChatServer(dimension=6) as server:
        for _ in range(2):
            embedder = build_embedder("openai", [], model="e", base_url=server.base_url, cache_folder=tmp_path)
            assert embedder is not None
            vectors = asyncio.run(embedder.embed(["one", "two"]))
            assert [len(vector) for vector in vectors] == [6, 6]
        assert server.count == 1
