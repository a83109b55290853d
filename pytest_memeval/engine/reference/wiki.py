"""wiki.db: scenes and the memories in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.engine.reference.db import ensure_schema, time_text
from pytest_memeval.values import Scene

#: ``scenes.status`` is ``active`` or ``merged``; ``merged_into`` names the scene that took a merged one's memories.
SCHEMA = """
CREATE TABLE scenes (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'merged')),
    merged_into TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE TABLE scene_memories (
    scene_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (scene_id, memory_id)
) WITHOUT ROWID;
"""


class SceneStore:
    """The scenes of one case. Methods that write leave the transaction to the caller (``with store.transaction``)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        ensure_schema(connection, "scenes", SCHEMA)

    @property
    def transaction(self) -> sqlite3.Connection:
        """As a context manager: commits at its end, rolls back on an exception."""
        return self.connection

    def ids(self) -> set[str]:
        """Every id that is in use, merged scenes included."""
        return {row[0] for row in self.connection.execute("SELECT id FROM scenes")}

    def scenes(self, live_id: Callable[[str], str] = str) -> list[Scene]:
        """The active scenes in the order in which they were made, memory ids as ``live_id`` gives them."""
        members: dict[str, dict[str, None]] = {}
        for scene_id, memory_id in self.connection.execute(
            "SELECT scene_id, memory_id FROM scene_memories ORDER BY scene_id, position"
        ):
            members.setdefault(scene_id, {})[live_id(memory_id)] = None
        rows = self.connection.execute("SELECT id, title FROM scenes WHERE status = 'active' ORDER BY seq")
        return [Scene(row[0], row[1], tuple(members.get(row[0], ()))) for row in rows]

    def add(self, scene: Scene, now: datetime) -> None:
        """Store a scene under its id. An id in use is a StageError."""
        try:
            self.connection.execute(
                "INSERT INTO scenes (id, title, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (scene.id, scene.title, time_text(now), time_text(now)),
            )
        except sqlite3.IntegrityError:
            raise StageError(f"the store already holds a scene with id {scene.id!r}", kind="bad_input") from None
        self._set_members(scene)

    def update(self, scene: Scene, now: datetime) -> None:
        """Set an existing scene's title and memories."""
        self.connection.execute(
            "UPDATE scenes SET title = ?, updated_at = ? WHERE id = ?", (scene.title, time_text(now), scene.id)
        )
        self._set_members(scene)

    def absorb(self, scene_ids: Iterable[str], into: str, now: datetime) -> None:
        """Mark scenes as merged into another; their memories are the other's from now on."""
        values: Sequence[tuple[str, str, str]] = [(into, time_text(now), scene_id) for scene_id in scene_ids]
        self.connection.executemany(
            "UPDATE scenes SET status = 'merged', merged_into = ?, updated_at = ? WHERE id = ?", values
        )
        self.connection.executemany("DELETE FROM scene_memories WHERE scene_id = ?", [(value[2],) for value in values])

    def _set_members(self, scene: Scene) -> None:
        self.connection.execute("DELETE FROM scene_memories WHERE scene_id = ?", (scene.id,))
        self.connection.executemany(
            "INSERT INTO scene_memories (scene_id, memory_id, position) VALUES (?, ?, ?)",
            [(scene.id, memory_id, place) for place, memory_id in enumerate(dict.fromkeys(scene.memory_ids))],
        )
