"""The cache's SQLite file: opened by many processes, laid out once, set aside where it is damaged or another's."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pytest_memeval.llm.filelock import file_lock

T = TypeVar("T")

_APPLICATION_ID = 0x4D45_4D43  # "MEMC" in the file's header tells this cache from other SQLite files
_VERSION = 1
_BUSY_SECONDS = 30.0

_SCHEMA = """
CREATE TABLE answers (
    key TEXT PRIMARY KEY, request_hash TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT, stage TEXT NOT NULL,
    trial INTEGER NOT NULL, request TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT, input_tokens INTEGER,
    output_tokens INTEGER, server_model TEXT, latency REAL NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE embeddings (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT NOT NULL, dimension INTEGER NOT NULL,
    vector BLOB NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX embeddings_model ON embeddings (endpoint, model);
CREATE TABLE pending (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT, stage TEXT NOT NULL, trial INTEGER NOT NULL,
    request TEXT NOT NULL, request_hash TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
"""


class CacheError(Exception):
    """The cache file cannot be used."""


class CacheWarning(UserWarning):
    """Something about the cache file that the user should know, and that the run survives."""


class CacheFile:
    """One SQLite file. Opened on first use; usable from several threads and processes at once.

    ``readonly`` neither creates nor writes nor sets aside; a missing file is empty.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = -1

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def size(self) -> int:
        """Bytes on disk, the journal's included."""
        return sum(file.stat().st_size for file in _family(self.path) if file.exists())

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """A query's rows."""
        if self.readonly and not self.path.exists():
            return []
        return self.attempt(lambda connection: connection.execute(statement, values).fetchall())

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in one transaction. It may run more than once, each time on a rolled-back file."""
        if self.readonly:
            raise CacheError(f"{self.path} is opened for reading only")

        def transaction(connection: sqlite3.Connection) -> T:
            # IMMEDIATE takes the write lock at the start, where waiting for it is possible.
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return result

        return self.attempt(transaction)

    def attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work``: again while others hold the file, and once more on a new file if this one is damaged."""
        deadline = time.monotonic() + 2 * _BUSY_SECONDS
        replaced = False
        with self._lock:
            while True:
                try:
                    return work(self._open())
                except sqlite3.Error as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() < deadline:
                        time.sleep(0.02)
                        continue
                    # A short read of a cut-off file is reported as an I/O error.
                    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
                    if self.readonly or replaced or not damaged:
                        raise CacheError(f"cache {self.path}: {error}") from error
                    replaced = True
                    self.close()
                    with file_lock(self.path):
                        _set_aside_if_damaged(self.path)
                except OSError as error:
                    raise CacheError(f"cache {self.path}: {error.strerror or error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        if self.readonly:
            self._connection = _connect_readonly(self.path)
        else:
            with file_lock(self.path):
                reason = _fault_of_header(self.path)
                if reason is not None:
                    _set_aside(self.path, reason)
                self._connection = _connect(self.path)
        self._pid = os.getpid()
        return self._connection


def _connect(path: Path) -> sqlite3.Connection:
    """Open and, if new, lay out the file. The caller holds the file lock."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise CacheError(
                f"cache {path} was written by a newer version of this package; choose another cache folder"
            )
        if version == 0:
            marks = f"PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_VERSION};"
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {marks} COMMIT;")
        # After the layout, so that the marks stand in the file itself and not only in its journal.
        connection.execute("PRAGMA journal_mode=WAL")
        # A power cut may cost the last answers, never the file; a killed process costs nothing.
        connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_readonly(path: Path) -> sqlite3.Connection:
    """Open for reading: as a file that others may write, else (in a read-only folder) as one that nobody does."""
    if (reason := _fault_of_header(path)) is not None:
        raise CacheError(f"cache {path} {reason}")
    uri = path.absolute().as_uri()
    for suffix in ("?mode=ro", "?mode=ro&immutable=1"):
        connection = sqlite3.connect(uri + suffix, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
        else:
            return connection
    raise CacheError(f"cache {path} cannot be opened for reading")


def _fault_of_header(path: Path) -> str | None:
    """Why the file cannot be this cache, from its first bytes; ``None`` if it can, or does not exist, or is empty."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return None
    if not header:
        return None
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return "is no SQLite file"
    version, application = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
    # A process killed while it laid out the file leaves a header without version and application; it is laid out anew.
    if application != _APPLICATION_ID and (version or application or not _is_blank(path)):
        return "is another program's SQLite file"
    return None


def _is_blank(path: Path) -> bool:
    """Whether an SQLite file has no tables."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    try:
        return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0)
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def _set_aside_if_damaged(path: Path) -> None:
    """Called under the file lock, after an error: another process may have replaced the file already."""
    reason = _fault_of_header(path)
    if reason is None and path.exists():
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS)
        try:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            connection.execute("SELECT key, text FROM answers LIMIT 1").fetchall()
            reason = None if verdict == "ok" else "is damaged"
        except sqlite3.DatabaseError:
            reason = "is damaged"
        finally:
            connection.close()
    if reason is not None:
        _set_aside(path, reason)


def _set_aside(path: Path, reason: str) -> None:
    """Rename the file (and its journal files) to the first free ``<name>.damaged-<n>``. Holds the file lock."""
    number = 1
    while (target := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for file, moved in zip(_family(path), _family(target), strict=True):
        if file.exists():
            os.replace(file, moved)
    warnings.warn(f"cache {path} {reason}; it was set aside as {target.name}", CacheWarning, stacklevel=2)


def _family(path: Path) -> tuple[Path, ...]:
    return (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))
