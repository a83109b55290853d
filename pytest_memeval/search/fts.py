"""Word search by SQLite's FTS5: BM25 with its own k1 = 1.2 and b = 0.75."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.tokens import search_tokens

#: FTS5's bm25() has these built in.
FTS_K1 = 1.2
FTS_B = 0.75

#: More different tokens than any question has; a document given as a query is cut here.
MAX_QUERY_TOKENS = 2_000

# Texts are stored as tokens separated by spaces. Everything outside ASCII is part of a token for this tokeniser, and
# with these so is all that a token of ours may hold: FTS5 splits exactly where we did.
_SIGNS = "".join(sign for sign in map(chr, range(0x21, 0x7F)) if not sign.isalnum()).replace("'", "''''")
_CREATE = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    id UNINDEXED, tokens, tokenize = 'ascii tokenchars ''{_SIGNS}'''
)
"""
_SEARCH = """
SELECT id, -bm25(words) AS score FROM words WHERE words MATCH ?
ORDER BY round(score, 12) DESC, id LIMIT ?
"""


class FtsIndex:
    """Documents ``(id, text)`` in an FTS5 table, in memory or in a file. Usable from several threads.

    Raises :class:`SearchError` for an id given twice and where this Python's SQLite is built without FTS5.
    """

    def __init__(self, documents: Iterable[tuple[str, str]] = (), *, path: str | Path = ":memory:") -> None:
        self._lock = Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        try:
            self._connection.execute(_CREATE)
        except sqlite3.OperationalError as error:
            self._connection.close()
            if "fts5" not in str(error):
                raise
            raise SearchError("this Python's SQLite is built without FTS5, which word search needs") from error
        self._ids = {row[0] for row in self._connection.execute("SELECT id FROM words")}
        self.add(documents)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, documents: Iterable[tuple[str, str]]) -> None:
        """Add documents, all or none."""
        rows = [(identifier, " ".join(search_tokens(text))) for identifier, text in documents]
        with self._lock, self._connection:
            new: set[str] = set()
            for identifier, _ in rows:
                if identifier in self._ids or identifier in new:
                    raise SearchError(f"document id {identifier!r} is given twice")
                new.add(identifier)
            self._connection.executemany("INSERT INTO words (id, tokens) VALUES (?, ?)", rows)
            self._ids |= new

    def search(self, query: str, top_k: int | None = None) -> list[tuple[str, float]]:
        """``(id, score)`` of the documents that hold any token of the query, best first, ties by id.

        A score is above 0. A query without a token (empty, punctuation) gives ``[]``. A query's words are never read as
        operators of FTS5. ``top_k`` None gives all.
        """
        expression = match_expression(query)
        if not expression:
            return []
        with self._lock:
            limit = -1 if top_k is None else top_k
            return self._connection.execute(_SEARCH, (expression, limit)).fetchall()

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def match_expression(query: str) -> str:
    """The FTS5 query that asks for any of the text's tokens, each as a literal; empty for a text without any."""
    tokens = list(dict.fromkeys(search_tokens(query)))[:MAX_QUERY_TOKENS]
    return " OR ".join('"{}"'.format(token.replace('"', '""')) for token in tokens)
