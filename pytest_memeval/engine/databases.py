"""A case's own two SQLite databases."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import TracebackType

#: File names of the two databases, in a folder or when kept.
MEMORY_FILE, WIKI_FILE = "memory.db", "wiki.db"


class OpenDatabases:
    """``memory`` and ``wiki``, each opened when first asked for.

    Without ``folder`` both live in memory; with one they are its files ``memory.db`` and ``wiki.db``. They are
    throw-away: nothing waits for the disk. A connection may be used from any thread, by one at a time. An object
    belongs to one case and is closed with it; :meth:`close` may be called again, using a closed object raises
    ``sqlite3.ProgrammingError``.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._open: dict[str, sqlite3.Connection] = {}
        self._closed = False
        self._lock = threading.Lock()

    @property
    def memory(self) -> sqlite3.Connection:
        return self._connection(MEMORY_FILE)

    @property
    def wiki(self) -> sqlite3.Connection:
        return self._connection(WIKI_FILE)

    @property
    def open_handles(self) -> int:
        """How many connections are open now: 0, 1 or 2."""
        return len(self._open)

    def keep(self, folder: Path) -> tuple[Path, Path]:
        """Write both databases to ``folder`` (made if need be) as files that stand alone, and return their paths.

        What is still uncommitted is committed first. SQLite's backup copies the content, so that a database in WAL
        mode loses nothing; files of the same name are replaced.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in ((MEMORY_FILE, self.memory), (WIKI_FILE, self.wiki)):
            source.commit()
            target_path = folder / name
            if self.folder is not None and target_path.resolve() == (self.folder / name).resolve():
                source.execute("PRAGMA journal_mode=DELETE")
                continue
            for suffix in ("", "-wal", "-shm", "-journal"):
                (folder / (name + suffix)).unlink(missing_ok=True)
            with closing(sqlite3.connect(target_path)) as target:
                target.execute("PRAGMA synchronous=OFF")  # a copy to look at, by the thousand
                source.backup(target)
                # A copy of a WAL database would make side files as soon as somebody looks into it.
                target.execute("PRAGMA journal_mode=DELETE")
        return folder / MEMORY_FILE, folder / WIKI_FILE

    def close(self) -> None:
        """Close whatever is open. Never raises for a second call; uncommitted changes are dropped."""
        with self._lock:
            self._closed = True
            while self._open:
                self._open.popitem()[1].close()

    def __enter__(self) -> OpenDatabases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _connection(self, name: str) -> sqlite3.Connection:
        known = self._open.get(name)
        if known is not None:
            return known
        with self._lock:
            if self._closed:
                raise sqlite3.ProgrammingError(f"the case is over: its {name} is closed")
            if name not in self._open:
                self._open[name] = self._new(name)
            return self._open[name]

    def _new(self, name: str) -> sqlite3.Connection:
        if self.folder is None:
            return sqlite3.connect(":memory:", check_same_thread=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.folder / name, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")
        except BaseException:  # a file of that name which is no database
            connection.close()
            raise
        return connection


def kept_folder(base: Path, node_id: str) -> Path:
    """A folder for one item under ``base``: readable, safe on every file system, different for every node id."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", node_id).strip("._")[:80]
    digest = hashlib.sha256(node_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return base / f"{readable}-{digest}"
