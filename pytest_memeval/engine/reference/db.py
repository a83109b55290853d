"""memory.db: memories with their labels, the log of model calls, and what was found odd."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.values import Memory

#: ``memories.status`` is ``active`` or ``archived``. ``replaced_by`` names the memory in which an archived one's
#: information lives on. Times are UTC texts of one width, so that they compare as they are.
SCHEMA = """
CREATE TABLE memories (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL,
    memory_type TEXT,
    priority NUMERIC,
    time_velocity TEXT,
    source_message_ids TEXT NOT NULL DEFAULT '[]',
    extra TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    replaced_by TEXT
);
CREATE TABLE memory_tags (
    memory_id TEXT NOT NULL,
    dimension TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (memory_id, dimension)
) WITHOUT ROWID;
CREATE INDEX memory_tags_by_dimension ON memory_tags (dimension, memory_id);
CREATE TABLE refine_runs (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    file_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    version TEXT,
    variant TEXT,
    provider TEXT,
    model TEXT,
    trial INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER,
    output_tokens INTEGER,
    latency REAL,
    cached INTEGER NOT NULL DEFAULT 0,
    error TEXT
);
CREATE TABLE anomaly_log (
    seq INTEGER PRIMARY KEY,
    file_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    kind TEXT NOT NULL,
    memory_index INTEGER,
    label TEXT,
    detail TEXT NOT NULL DEFAULT '{}'
);
"""

_COLUMNS = "m.id, m.content, m.memory_type, m.priority, m.time_velocity, m.source_message_ids, m.extra, m.created_at"
_TAGS = (
    "(SELECT json_group_array(dimension) FROM "
    "(SELECT dimension FROM memory_tags WHERE memory_id = m.id ORDER BY position))"
)


def ensure_schema(connection: sqlite3.Connection, table: str, schema: str) -> None:
    """Create the tables of ``schema`` unless ``table`` is there already."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone() is None:
        connection.executescript(f"BEGIN;{schema}COMMIT;")


def time_text(moment: datetime) -> str:
    """UTC, microseconds always written; a time without zone is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def fresh_ids(prefix: str, taken: Iterable[str], count: int) -> list[str]:
    """``count`` ids ``prefix-001`` …, the lowest numbers that are free."""
    used = set(taken)
    found: list[str] = []
    number = 0
    while len(found) < count:
        number += 1
        candidate = f"{prefix}-{number:03d}"
        if candidate not in used:
            found.append(candidate)
    return found


class MemoryStore:
    """The memories of one case. Methods that write leave the transaction to the caller (``with store.transaction``)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        ensure_schema(connection, "memories", SCHEMA)

    @property
    def transaction(self) -> sqlite3.Connection:
        """As a context manager: commits at its end, rolls back on an exception."""
        return self.connection

    def ids(self) -> set[str]:
        """Every id that is in use, archived ones included."""
        return {row[0] for row in self.connection.execute("SELECT id FROM memories")}

    def live(self, ids: Iterable[str] | None = None) -> list[Memory]:
        """The active memories (of ``ids``), in the order in which they were stored."""
        where, values = "", []
        if ids is not None:
            where, values = " AND m.id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))]
        return self._select(f"m.status = 'active'{where} ORDER BY m.seq", values)

    def sharing(self, dimensions: Iterable[str]) -> list[Memory]:
        """The active memories that have at least one of the dimensions, in the order in which they were stored."""
        return self._select(
            "m.status = 'active' AND m.id IN (SELECT memory_id FROM memory_tags WHERE dimension IN "
            "(SELECT value FROM json_each(?))) ORDER BY m.seq",
            [json.dumps(list(dimensions))],
        )

    def _select(self, where: str, values: Sequence[Any]) -> list[Memory]:
        rows = self.connection.execute(f"SELECT {_COLUMNS}, {_TAGS} FROM memories m WHERE {where}", values)
        return [_memory(row) for row in rows]

    def is_live(self, memory_id: str) -> bool:
        query = "SELECT 1 FROM memories WHERE id = ? AND status = 'active'"
        return self.connection.execute(query, (memory_id,)).fetchone() is not None

    def live_id(self, memory_id: str) -> str:
        """The id under which a memory's information lives now; an id that the store does not know stays as it is."""
        seen = {memory_id}
        while True:
            row = self.connection.execute(
                "SELECT replaced_by FROM memories WHERE id = ? AND status = 'archived'", (memory_id,)
            ).fetchone()
            if row is None or row[0] is None or row[0] in seen:
                return memory_id
            memory_id = row[0]
            seen.add(memory_id)

    def add(self, memory: Memory, now: datetime) -> None:
        """Store a memory under its id; without a time of its own it is from ``now``. An id in use is a StageError."""
        if memory.id is None:
            raise StageError("a memory without an id cannot be stored")
        values = (memory.id, *self._values(memory, now), time_text(now))
        try:
            self.connection.execute(
                "INSERT INTO memories (id, content, memory_type, priority, time_velocity, source_message_ids, extra, "
                "created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        except sqlite3.IntegrityError:
            raise StageError(f"the store already holds a memory with id {memory.id!r}", kind="bad_input") from None
        self._tag(memory.id, memory.dimensions)

    def replace(self, memory: Memory, now: datetime) -> None:
        """Give the stored memory of the same id new content and labels; the old ones stay as an archived row."""
        memory_id = memory.id
        copies = self.connection.execute("SELECT COUNT(*) FROM memories WHERE replaced_by = ?", (memory_id,))
        archived = f"{memory_id}@{copies.fetchone()[0] + 1}"
        while self.connection.execute("SELECT 1 FROM memories WHERE id = ?", (archived,)).fetchone():
            archived += "'"
        self.connection.execute(
            "INSERT INTO memories (id, content, memory_type, priority, time_velocity, source_message_ids, extra, "
            "created_at, updated_at, status, replaced_by) SELECT ?, content, memory_type, priority, time_velocity, "
            "source_message_ids, extra, created_at, ?, 'archived', id FROM memories WHERE id = ?",
            (archived, time_text(now), memory_id),
        )
        self.connection.execute(
            "INSERT INTO memory_tags SELECT ?, dimension, position FROM memory_tags WHERE memory_id = ?",
            (archived, memory_id),
        )
        self.connection.execute(
            "UPDATE memories SET content = ?, memory_type = ?, priority = ?, time_velocity = ?, "
            "source_message_ids = ?, extra = ?, created_at = ?, updated_at = ? WHERE id = ?",
            (*self._values(memory, now), time_text(now), memory_id),
        )
        self.connection.execute("DELETE FROM memory_tags WHERE memory_id = ?", (memory_id,))
        self._tag(str(memory_id), memory.dimensions)

    def archive(self, memory_id: str, replaced_by: str, now: datetime) -> None:
        """Take a memory out of use; its information lives on in ``replaced_by``."""
        self.connection.execute(
            "UPDATE memories SET status = 'archived', replaced_by = ?, updated_at = ? WHERE id = ?",
            (replaced_by, time_text(now), memory_id),
        )

    def _values(self, memory: Memory, now: datetime) -> tuple[Any, ...]:
        return (
            memory.content,
            memory.memory_type,
            memory.priority,
            memory.time_velocity,
            json.dumps(list(memory.source_message_ids), ensure_ascii=False),
            json.dumps(dict(memory.extra), ensure_ascii=False, default=str),
            time_text(memory.created_at or now),
        )

    def _tag(self, memory_id: str, dimensions: Sequence[str]) -> None:
        self.connection.executemany(
            "INSERT INTO memory_tags (memory_id, dimension, position) VALUES (?, ?, ?)",
            [(memory_id, dimension, place) for place, dimension in enumerate(dict.fromkeys(dimensions))],
        )

    # -- logs --------------------------------------------------------------------------------------------------

    def log_run(self, **fields: Any) -> None:
        """A row of ``refine_runs``; ``run_id`` counts the calls of a stage in the case."""
        stage = fields["stage"]
        count = self.connection.execute("SELECT COUNT(*) FROM refine_runs WHERE stage = ?", (stage,)).fetchone()[0]
        self._insert("refine_runs", {"run_id": f"{stage}-{count + 1:03d}", **fields})

    def log_anomaly(
        self, file_id: str, stage: str, kind: str, *, memory_index: int | None, label: str | None, **detail: Any
    ) -> None:
        """A row of ``anomaly_log``; ``detail`` is kept as JSON."""
        row = {"file_id": file_id, "stage": stage, "kind": kind, "memory_index": memory_index, "label": label}
        self._insert("anomaly_log", {**row, "detail": json.dumps(detail, default=str)})

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        # A logged text may be anything that a model or a server wrote, even half a surrogate pair.
        values = [v.encode("utf-8", "replace").decode("utf-8") if isinstance(v, str) else v for v in row.values()]
        marks = ", ".join("?" for _ in values)
        with self.connection:
            self.connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", values)


def _memory(row: Sequence[Any]) -> Memory:
    return Memory(
        id=row[0],
        content=row[1],
        memory_type=row[2],
        priority=row[3],
        time_velocity=row[4],
        source_message_ids=tuple(json.loads(row[5])),
        extra=json.loads(row[6]),
        created_at=datetime.fromisoformat(row[7]),
        dimensions=tuple(json.loads(row[8])),
    )
