"""Search over a fixed set of documents: words and vectors, fused."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pytest_memeval.llm.protocol import Embedder
from pytest_memeval.search.bm25 import Bm25Index
from pytest_memeval.search.embedding import embed_texts
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fts import FtsIndex
from pytest_memeval.search.fusion import fuse
from pytest_memeval.search.lexical import LexicalEmbedder
from pytest_memeval.search.params import SearchParams
from pytest_memeval.search.vectors import VectorIndex
from pytest_memeval.values import Hit

#: (id, score), best first.
Ranked = list[tuple[str, float]]


class SearchIndex:
    """Documents ``(id, text)``, searched by words and by vectors.

    Both indexes are built when first used, the vectors by one call of ``embedder`` over all texts; without an embedder
    a :class:`LexicalEmbedder` is fitted to the documents. One that offers ``fitted(texts)`` is replaced by what that
    gives. What fails is tried again by the next search. Raises :class:`SearchError`, and what the embedder raises.
    """

    def __init__(self, documents: Sequence[tuple[str, str]], embedder: Embedder | None = None) -> None:
        self._documents = list(documents)
        self._texts = dict(self._documents)
        if len(self._texts) < len(self._documents):
            ids = [identifier for identifier, _ in self._documents]
            raise SearchError(f"document id {next(one for one in ids if ids.count(one) > 1)!r} is given twice")
        self._given: Embedder = embedder if embedder is not None else LexicalEmbedder()
        self._embedder: Embedder | None = None
        self._vectors: VectorIndex | None = None
        self._words: dict[tuple[float, float], FtsIndex | Bm25Index] = {}
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def embedder_name(self) -> str:
        """The embedder's name, with its model's where it has one."""
        embedder = self._embedder or self._given
        name = str(getattr(embedder, "name", type(embedder).__name__))
        model = getattr(embedder, "model", None) or getattr(getattr(embedder, "inner", None), "model", None)
        return f"{name}/{model}" if model and str(model) not in name else name

    def describe(self) -> dict[str, Any]:
        """What searches, for reports: ``{documents, embedder, vectors, vectors_fallback}``. ``vectors`` is ``None``
        before the first search by vectors; ``vectors_fallback`` says why it is not sqlite-vec."""
        return {
            "documents": len(self),
            "embedder": self.embedder_name,
            "vectors": None if self._vectors is None else self._vectors.backend,
            "vectors_fallback": None if self._vectors is None else self._vectors.fallback,
        }

    async def search(self, query: str, params: SearchParams) -> list[Hit]:
        """The ``top_k`` best documents, best first, ties by id. ``[]`` for a query without words and from no documents.

        A route of weight 0 is not asked.
        """
        words, vectors = await self.routes(query, params)
        weights = (params.bm25_weight, 1 - params.bm25_weight)
        hits = fuse((words, vectors), rrf_k=params.rrf_k, weights=weights, top_k=params.top_k)
        return [Hit(hit.id, hit.score, self._texts[hit.id]) for hit in hits]

    async def routes(self, query: str, params: SearchParams) -> tuple[Ranked, Ranked]:
        """What words and what vectors find, all of it; a route of weight 0 is empty."""
        if not self._documents or not query.strip():
            return [], []
        words: Ranked = []
        vectors: Ranked = []
        if params.bm25_weight > 0:
            words = (await self._word_index(params)).search(query)
        if params.bm25_weight < 1:
            vectors = await self._by_vectors(query)
        return words, vectors

    async def _by_vectors(self, query: str) -> Ranked:
        index, embedder = await self._vector_index()
        [vector] = await embed_texts(embedder, [query])
        if index.dimension and len(vector) != index.dimension:
            raise SearchError(
                f"embedder {self.embedder_name} gives the query {len(vector)} dimensions and gave the documents"
                f" {index.dimension}: was the model behind the name changed?"
            )
        floor = getattr(embedder, "min_similarity", None)
        return index.search(vector, min_similarity=-math.inf if floor is None else float(floor))

    def _lock(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _word_index(self, params: SearchParams) -> FtsIndex | Bm25Index:
        key = (params.bm25_k1, params.bm25_b)
        async with self._lock():
            if key not in self._words:
                self._words[key] = await asyncio.to_thread(self._build_words, params)
            return self._words[key]

    def _build_words(self, params: SearchParams) -> FtsIndex | Bm25Index:
        if params.is_fts5:
            return FtsIndex(self._documents)
        return Bm25Index(self._documents, k1=params.bm25_k1, b=params.bm25_b)

    async def _vector_index(self) -> tuple[VectorIndex, Embedder]:
        async with self._lock():
            if self._vectors is None or self._embedder is None:
                texts = [text for _, text in self._documents]
                fitted = getattr(self._given, "fitted", None)
                embedder = await asyncio.to_thread(fitted, texts) if callable(fitted) else self._given
                vectors = await embed_texts(embedder, texts)
                ids = [identifier for identifier, _ in self._documents]
                self._vectors = await asyncio.to_thread(VectorIndex, ids, vectors)
                self._embedder = embedder
            return self._vectors, self._embedder

    def close(self) -> None:
        """Close the databases in memory."""
        for index in self._words.values():
            if isinstance(index, FtsIndex):
                index.close()
        self._words.clear()
        if self._vectors is not None:
            self._vectors.close()
            self._vectors = None
