"""Word search by BM25 with free k1 and b, computed by bm25s (extra ``search``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fts import FTS_B, FTS_K1, MAX_QUERY_TOKENS
from pytest_memeval.search.tokens import search_tokens


class Bm25Index:
    """The same documents, queries and answers as :class:`~pytest_memeval.search.fts.FtsIndex`, for any k1 and b.

    Score = Σ over the query's different tokens of idf · tf (k1 + 1) / (tf + k1 (1 − b + b · length / mean length)) with
    Robertson's idf = ln((N − n + 0.5) / (n + 0.5)), the one of FTS5's ``bm25()``, so that at k1 = 1.2 and b = 0.75 both
    agree. They differ where a token is in half of the documents or more and that logarithm is not above 0: FTS5 then
    takes one millionth, bm25s 0. Such documents are found here too, behind all others, with score 0. (Lucene's idf,
    ln(1 + …), would give common tokens more weight and order short corpora differently from FTS5.)

    Raises :class:`SearchError` for an id given twice, for k1 below 0, b outside [0, 1], and without bm25s.
    """

    def __init__(self, documents: Iterable[tuple[str, str]], *, k1: float = FTS_K1, b: float = FTS_B) -> None:
        if not 0 <= k1 < float("inf"):
            raise SearchError(f"bm25_k1 must be 0 or more, not {k1:g}")
        if not 0 <= b <= 1:
            raise SearchError(f"bm25_b must be between 0 and 1, not {b:g}")
        # In the order of ids, so that a stable sort leaves ties so.
        rows = sorted(documents)
        self._ids = [identifier for identifier, _ in rows]
        if len(set(self._ids)) != len(rows):
            twice = next(one for one, other in zip(self._ids, self._ids[1:], strict=False) if one == other)
            raise SearchError(f"document id {twice!r} is given twice")
        self._k1 = k1
        self._holders: dict[str, list[int]] = {}
        corpus = [search_tokens(text) for _, text in rows]
        for row, tokens in enumerate(corpus):
            for token in dict.fromkeys(tokens):
                self._holders.setdefault(token, []).append(row)
        self._model = _bm25s().BM25(k1=k1, b=b, method="robertson", dtype="float64", backend="numpy")
        if self._holders:
            self._model.index(corpus, create_empty_token=False, show_progress=False)

    def __len__(self) -> int:
        return len(self._ids)

    def search(self, query: str, top_k: int | None = None) -> list[tuple[str, float]]:
        """``(id, score)`` of the documents that hold any token of the query, best first, ties by id; ``[]`` for a query
        without a token. ``top_k`` None gives all."""
        tokens = [token for token in dict.fromkeys(search_tokens(query)) if token in self._holders][:MAX_QUERY_TOKENS]
        if not tokens:
            return []
        scores = self._model.get_scores(tokens)
        found = sorted({row for token in tokens for row in self._holders[token]})
        found.sort(key=lambda row: -round(float(scores[row]), 12))
        # bm25s leaves the constant factor out.
        return [(self._ids[row], float(scores[row]) * (self._k1 + 1)) for row in found[:top_k]]


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise SearchError(
            f"bm25_k1 and bm25_b other than {FTS_K1} and {FTS_B} need the package bm25s:"
            " pip install 'pytest-memeval[search]'"
        ) from error
    return bm25s
