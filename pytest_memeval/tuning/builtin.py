"""The built-in search as rank tables: word search by BM25, vector search by an embedder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fts import FTS_B, FTS_K1, FtsIndex
from pytest_memeval.tuning.evaluate import RouteRanks, rank_row
from pytest_memeval.tuning.queries import Document, LabelledQuery, TuningError, check_truths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_memeval.llm.protocol import Embedder


@dataclass(frozen=True)
class VectorRanks:
    """The vector route's rank table and what searched: ``backend`` and, where it is the slower one, ``why``."""

    table: NDArray[np.int32]
    backend: str
    why: str | None
    dimension: int


class BuiltinRoutes:
    """Rank tables of the built-in search: call it with ``bm25_k1`` and ``bm25_b``.

    Every route returns all that it finds; fusion ranks that, and ``top_k`` cuts. TuningError for an empty corpus, ids
    given twice and truths that the corpus does not hold; SearchError where a library is missing.
    """

    def __init__(
        self, corpus: Sequence[Document], queries: Sequence[LabelledQuery], vectors: VectorRanks | None
    ) -> None:
        check_truths(queries, [document.id for document in corpus])
        self._documents = sorted((document.id, document.content) for document in corpus)
        self._queries = list(queries)
        self.ids = tuple(identifier for identifier, _ in self._documents)
        self.vectors = vectors

    def __call__(self, k1: float, b: float) -> RouteRanks:
        import numpy as np

        columns = {one: column for column, one in enumerate(self.ids)}
        rankings = self._text_rankings(k1, b)
        text = np.array([rank_row(ranking, columns) for ranking in rankings], dtype=np.int32)
        return RouteRanks(self.ids, text, None if self.vectors is None else self.vectors.table)

    def _text_rankings(self, k1: float, b: float) -> list[list[str]]:
        """By FTS5 where it can, else by the library: as the reference engine searches."""
        if (k1, b) == (FTS_K1, FTS_B):
            words = FtsIndex(self._documents)
            try:
                return [[one for one, _ in words.search(query.query)] for query in self._queries]
            finally:
                words.close()
        from pytest_memeval.search.bm25 import Bm25Index

        index = Bm25Index(self._documents, k1=k1, b=b)
        return [[one for one, _ in index.search(query.query)] for query in self._queries]


def vector_ranks(corpus: Sequence[Document], queries: Sequence[LabelledQuery], embedder: Embedder) -> VectorRanks:
    """The rank table of an embedder's vectors, columns in the order of the sorted ids.

    TuningError where the embedder gives another number of vectors than texts, or vectors whose dimension changes.
    """
    import numpy as np

    from pytest_memeval.llm.sync import run_sync
    from pytest_memeval.search.embedding import check_dimensions, embed_texts
    from pytest_memeval.search.vectors import VectorIndex

    documents = sorted((document.id, document.content) for document in corpus)
    ids = [identifier for identifier, _ in documents]
    fitted = getattr(embedder, "fitted", None)
    if callable(fitted):
        embedder = fitted([content for _, content in documents])
    try:
        found = run_sync(embed_texts(embedder, [content for _, content in documents]))
        asked = run_sync(embed_texts(embedder, [query.query for query in queries]))
        check_dimensions(embedder, (found, asked))
    except SearchError as error:
        raise TuningError(str(error)) from None
    least = float(getattr(embedder, "min_similarity", -math.inf))
    columns = {one: column for column, one in enumerate(ids)}
    try:
        index = VectorIndex(ids, found)
        rankings = [[one for one, _ in index.search(vector, min_similarity=least)] for vector in asked]
    except SearchError as error:
        raise TuningError(f"the embedder's vectors cannot be searched: {error}") from None
    index.close()
    table = np.array([rank_row(ranking, columns) for ranking in rankings], dtype=np.int32)
    return VectorRanks(table.reshape(len(queries), len(ids)), index.backend, index.why, found.shape[1])
