"""Recorded answers and embeddings in one SQLite file that many processes share."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.cache_file import CacheError, CacheFile
from pytest_memeval.llm.protocol import Usage
from pytest_memeval.llm.vectors import VectorEntry, is_vector, vector_key

CACHE_FILE_NAME = "answers.sqlite"

_COLUMNS = (
    "key, request_hash, endpoint, model, stage, trial, request, text, finish_reason, input_tokens, output_tokens,"
    " server_model, latency, created"
)


class DimensionMismatch(CacheError):
    """Vectors of another dimension than those that the same model gave before."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds: answers counted by (endpoint, model) and by stage; ``size`` in bytes."""

    path: Path
    size: int
    answers: int
    embeddings: int
    pending: int
    by_model: dict[tuple[str, str], int]
    by_stage: dict[str, int]
    usage: Usage
    oldest: str | None
    newest: str | None


class AnswerCache:
    """The cache file. Opened on first use; usable from several threads and processes at once.

    A file that is damaged, or is no such cache, is set aside as ``<name>.damaged-<n>`` with a :class:`CacheWarning`,
    and a new one takes its place. ``readonly`` neither creates nor writes nor sets aside; a missing file is empty.
    Raises :class:`CacheError` where the file cannot be opened at all, or was written by a newer version.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self._file = CacheFile(path, readonly=readonly)
        self.path = self._file.path

    # -- answers ------------------------------------------------------------------------------------------------------

    def get(self, key: str) -> CacheEntry | None:
        """The answer under ``key``, or ``None``."""
        row = self._file.read(f"SELECT {_COLUMNS} FROM answers WHERE key = ?", (key,))
        return _entry(row[0]) if row else None

    def put(self, entry: CacheEntry, *, replace: bool = False) -> bool:
        """Store an answer; one that is there already stays unless ``replace``. True if the file changed."""
        return self.put_many([entry], replace=replace) == 1

    def put_many(self, entries: Sequence[CacheEntry], *, replace: bool = False) -> int:
        """Store answers in one transaction, and take them off the list of pending requests. How many changed."""
        rows = [
            (
                entry.key, entry.request_hash, entry.endpoint, entry.model, entry.stage, entry.trial,
                json.dumps(entry.request, ensure_ascii=False, sort_keys=True), entry.text, entry.finish_reason,
                entry.usage.input_tokens, entry.usage.output_tokens, entry.server_model, entry.latency, entry.created,
            )
            for entry in entries
        ]  # fmt: skip
        verb = "INSERT OR REPLACE" if replace else "INSERT OR IGNORE"
        statement = f"{verb} INTO answers ({_COLUMNS}) VALUES ({', '.join('?' * 14)})"

        def write(connection: sqlite3.Connection) -> int:
            changed = sum(connection.execute(statement, row).rowcount for row in rows)
            connection.executemany("DELETE FROM pending WHERE key = ?", [(row[0],) for row in rows])
            return changed

        return self._file.write(write)

    def remove(self, key: str) -> bool:
        """Forget the answer under ``key``; true if there was one."""
        return self._file.write(lambda c: c.execute("DELETE FROM answers WHERE key = ?", (key,)).rowcount) > 0

    def entries(self) -> Iterator[CacheEntry]:
        """All answers by key."""
        last = ""
        # In pages: neither all rows in memory nor a transaction held while the caller works.
        while rows := self._file.read(f"SELECT {_COLUMNS} FROM answers WHERE key > ? ORDER BY key LIMIT 500", (last,)):
            yield from map(_entry, rows)
            last = rows[-1][0]

    def __len__(self) -> int:
        rows = self._file.read("SELECT count(*) FROM answers")
        return int(rows[0][0]) if rows else 0

    # -- requests that wait for an answer -----------------------------------------------------------------------------

    def add_pending(self, request: ChatRequest) -> None:
        """Keep a request until its answer is imported."""
        row = (
            request.key, request.endpoint, request.model, request.stage, request.trial,
            json.dumps(request.body(), ensure_ascii=False, sort_keys=True), request.request_hash, _now(),
        )  # fmt: skip
        self._file.write(
            lambda c: c.execute(f"INSERT OR IGNORE INTO pending VALUES ({', '.join('?' * 8)})", row).rowcount
        )

    def pending(self, key: str) -> CacheEntry | None:
        """The pending request under ``key`` as an entry with an empty answer, or ``None``."""
        rows = self._file.read(
            "SELECT key, request_hash, endpoint, model, stage, trial, request FROM pending WHERE key = ?", (key,)
        )
        if not rows:
            return None
        key, hashed, endpoint, model, stage, trial, request = rows[0]
        return CacheEntry(key, hashed, endpoint, model, stage, trial, json.loads(request), text="", created=_now())

    def pending_keys(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._file.read("SELECT key FROM pending ORDER BY key"))

    # -- embeddings ---------------------------------------------------------------------------------------------------

    def get_vectors(self, endpoint: str, model: str, texts: Sequence[str]) -> dict[str, list[float]]:
        """The vectors held for ``texts``, by text."""
        found: dict[str, list[float]] = {}
        for text in dict.fromkeys(texts):
            rows = self._file.read("SELECT vector FROM embeddings WHERE key = ?", (vector_key(endpoint, model, text),))
            if rows:
                found[text] = list(array("d", rows[0][0]))
        return found

    def put_vectors(self, endpoint: str, model: str, vectors: dict[str, list[float]], *, replace: bool = False) -> None:
        """Store vectors by text. Raises :class:`DimensionMismatch` if they do not all have the dimension of those that
        the cache holds of this model."""
        now = _now()
        self.put_vector_entries(
            [
                VectorEntry(vector_key(endpoint, model, text), endpoint, model, tuple(vector), now)
                for text, vector in vectors.items()
            ],
            replace=replace,
        )

    def put_vector_entries(self, entries: Sequence[VectorEntry], *, replace: bool = False) -> int:
        """Store recorded vectors in one transaction; how many changed. Raises as :meth:`put_vectors` does, and stores
        none then."""
        dimensions: dict[tuple[str, str], set[int]] = {}
        for entry in entries:
            if not is_vector(list(entry.vector)):
                raise CacheError(f"{entry.model} on {entry.endpoint} gave a vector that is no list of finite numbers")
            dimensions.setdefault((entry.endpoint, entry.model), set()).add(len(entry.vector))
        for (endpoint, model), seen in dimensions.items():
            held = self.dimension(endpoint, model)
            if held is not None and not replace:
                seen.add(held)
            if len(seen) > 1:
                raise DimensionMismatch(
                    f"{model} on {endpoint} gave vectors of {sorted(seen)} dimensions, where one model has one"
                    " (was the model behind the name changed? refresh or prune the cache)"
                )
        verb = "INSERT OR REPLACE" if replace else "INSERT OR IGNORE"
        statement = f"{verb} INTO embeddings VALUES (?, ?, ?, ?, ?, ?)"
        rows = [entry.row for entry in entries]
        return self._file.write(lambda c: sum(c.execute(statement, row).rowcount for row in rows))

    def vector_entries(self) -> Iterator[VectorEntry]:
        """All embeddings by key."""
        last = ""
        columns = "key, endpoint, model, dimension, vector, created"
        while rows := self._file.read(
            f"SELECT {columns} FROM embeddings WHERE key > ? ORDER BY key LIMIT 200", (last,)
        ):
            yield from map(VectorEntry.of_row, rows)
            last = rows[-1][0]

    def dimension(self, endpoint: str, model: str) -> int | None:
        """The dimension of the model's vectors, or ``None`` if none is held."""
        rows = self._file.read(
            "SELECT dimension FROM embeddings WHERE endpoint = ? AND model = ? LIMIT 1", (endpoint, model)
        )
        return int(rows[0][0]) if rows else None

    # -- housekeeping -------------------------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        count, tokens_in, tokens_out, oldest, newest = (
            self._file.read(
                "SELECT count(*), sum(input_tokens), sum(output_tokens), min(created), max(created) FROM answers"
            )
            or [(0, None, None, None, None)]
        )[0]
        others = self._file.read("SELECT (SELECT count(*) FROM embeddings), (SELECT count(*) FROM pending)") or [(0, 0)]
        models = self._file.read("SELECT endpoint, model, count(*) FROM answers GROUP BY 1, 2 ORDER BY 1, 2")
        stages = self._file.read("SELECT stage, count(*) FROM answers GROUP BY 1 ORDER BY 1")
        return CacheStats(
            path=self.path,
            size=self._file.size(),
            answers=count,
            embeddings=others[0][0],
            pending=others[0][1],
            by_model={(endpoint, model or ""): number for endpoint, model, number in models},
            by_stage=dict(stages),
            usage=Usage(tokens_in, tokens_out),
            oldest=oldest,
            newest=newest,
        )

    def prune(
        self,
        *,
        before: datetime | None = None,
        endpoint: str | None = None,
        model: str | None = None,
        stage: str | None = None,
        pending: bool = False,
    ) -> int:
        """Remove answers (and embeddings, unless a stage is given) that fit all the given conditions; how many.

        ``before`` is an aware time. ``pending`` also forgets all requests that wait for an answer. Without any
        condition nothing is removed: emptying the cache is deleting its file. Gives the space back.
        """
        conditions: list[tuple[str, str]] = []
        if before is not None:
            conditions.append(("created < ?", before.astimezone(UTC).isoformat(timespec="seconds")))
        conditions += [
            (f"{name} = ?", value) for name, value in (("endpoint", endpoint), ("model", model)) if value is not None
        ]
        tables = ["answers", "embeddings"]
        if stage is not None:
            conditions.append(("stage = ?", stage))
            tables = ["answers"]
        where = " AND ".join(text for text, _ in conditions)
        values = [value for _, value in conditions]

        def write(connection: sqlite3.Connection) -> int:
            removed = 0
            if conditions:
                removed = sum(connection.execute(f"DELETE FROM {t} WHERE {where}", values).rowcount for t in tables)
            if pending:
                removed += connection.execute("DELETE FROM pending").rowcount
            return removed

        removed = self._file.write(write)
        if removed:
            with contextlib.suppress(CacheError):  # others write all the time: the space is reused, if not given back
                self._file.attempt(lambda connection: connection.execute("VACUUM"))
        return removed

    def close(self) -> None:
        """Close the file. The cache can be used again."""
        self._file.close()

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _entry(row: Sequence[Any]) -> CacheEntry:
    key, hashed, endpoint, model, stage, trial, request, text, finish_reason = row[:9]
    tokens_in, tokens_out, server_model, latency, created = row[9:]
    return CacheEntry(
        key=key,
        request_hash=hashed,
        endpoint=endpoint,
        model=model,
        stage=stage,
        trial=trial,
        request=json.loads(request),
        text=text,
        finish_reason=finish_reason,
        usage=Usage(tokens_in, tokens_out),
        server_model=server_model,
        latency=latency,
        created=created,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
