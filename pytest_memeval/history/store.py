"""Every finished run as a row in one SQLite file, so that a metric can be followed over time.

Processes take turns by a lock file; a file that is damaged, or another program's, is set aside.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_memeval.compare.settings import judge_of
from pytest_memeval.history.git_commit import git_commit
from pytest_memeval.llm.filelock import file_lock
from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.tables import describe, engine_text, prompts_text

HISTORY_NAME = "history.sqlite3"
_APPLICATION_ID = 0x4D45_4D48  # "MEMH"
_VERSION = 1
_BUSY_SECONDS = 30.0
_NAMES = [
    "run_id",
    "timestamp",
    "project",
    "case_set_hash",
    "case_names_hash",
    "case_sets",
    "engine",
    "model",
    "prompts",
    "prompt_hashes",
    "git_commit",
    "matcher",
    "registry",
    "judge",
    "stage_input",
    "package",
    "partial",
    "counts",
    "metrics",
    "folder",
    "engine_name",
]
#: Columns that files of an earlier time lack.
_LATER = ("engine_name",)
_COLUMNS = ", ".join(_NAMES)
_SCHEMA = f"""
CREATE TABLE runs (run_id TEXT PRIMARY KEY, {", ".join(f"{name} TEXT" for name in _NAMES[1:])});
CREATE INDEX runs_key ON runs (case_set_hash, engine, model, prompts, git_commit);
PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_VERSION};
"""
_JSON = ("case_sets", "prompt_hashes", "matcher", "registry", "judge", "counts", "metrics")


class HistoryError(Exception):
    """A history that cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A run. ``case_set_hash`` changes with anything written in the cases that ran, ``case_names_hash`` only with which
    ones they are. ``metrics``: path → [value, low, high, cases], bounds ``None`` where there is no interval."""

    run_id: str
    timestamp: str
    project: str
    case_set_hash: str
    case_names_hash: str
    case_sets: Mapping[str, Any]
    engine: str
    model: str
    prompts: str
    prompt_hashes: Mapping[str, str]
    git_commit: str | None
    matcher: Mapping[str, Any]
    registry: Mapping[str, str]
    judge: Mapping[str, Any] | None
    stage_input: str
    package: str
    partial: str | None
    counts: Mapping[str, int]
    metrics: Mapping[str, list[float | None]]
    folder: str | None = None
    #: ``engine`` without its version, by which runs are put together; ``None`` in rows of an earlier time.
    engine_name: str | None = None


def row_of(report: Mapping[str, Any], *, folder: Path | None = None) -> HistoryRow:
    """What the history keeps of a report."""
    cases = sorted((entry["set"], entry["node_id"], entry["content_hash"]) for entry in report["per_case"])
    rootdir = str(report["config"].get("rootdir", ""))
    return HistoryRow(
        run_id=report["run_id"],
        timestamp=report["timestamp"],
        project=rootdir,
        case_set_hash=_digest(cases),
        case_names_hash=_digest([case[:2] for case in cases]),
        case_sets={path: scope["version"] for path, scope in report["case_sets"].items()},
        engine=engine_text(report),
        model=describe(report["model"], "provider", "name", "served_model"),
        prompts=prompts_text(report),
        prompt_hashes=dict(report["prompt_hashes"]),
        git_commit=git_commit(Path(rootdir)) if rootdir else None,
        matcher=dict(report["matcher"]),
        registry=dict(report.get("registry") or {}),
        judge=judge_of(report),
        stage_input=report["stages"]["input"],
        package=str(report["environment"].get("pytest_memeval", "")),
        partial=report["partial"],
        counts=dict(report["counts"]),
        metrics=dict(_metrics(report)),
        folder=None if folder is None else str(folder),
        engine_name=describe(report["engine"], "name"),
    )


def remember(report: Mapping[str, Any], cache_folder: Path, folder: Path, lang: str) -> str | None:
    """Leave the run's row in the history of ``cache_folder``. What is to be said of that, ``None`` for nothing.

    A run is not the worse for a history that cannot be written.
    """
    from pytest_memeval.compare.messages import text

    try:
        aside = History(cache_folder).append(row_of(report, folder=folder))
    except HistoryError as error:
        return text("history.not_written", lang, error=error)
    except KeyboardInterrupt:  # the reports are there; a traceback would hide them
        return text("history.not_written", lang, error="interrupted")
    return None if aside is None else text("history.aside", lang, name=aside)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode("ascii")).hexdigest()


def _metrics(report: Mapping[str, Any]) -> Iterator[tuple[str, list[float | None]]]:
    for section in SECTIONS:
        figures = report.get(section) or {}
        for name, size in (figures.get("n") or {}).items():
            plain, _, key = name.partition(".")
            value = figures.get(plain) if not key else (figures.get(plain) or {}).get(key)
            if isinstance(value, (int, float)):
                low, high = figures["intervals"].get(name) or (None, None)
                yield f"{section}.{name}", [value, low, high, size["cases"]]


class History:
    """The history in a cache folder. The file is made when the first run is added."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / HISTORY_NAME

    def append(self, row: HistoryRow) -> str | None:
        """Add a run; one that is there already is replaced. Returns what a damaged file was renamed to, if one was.

        Raises HistoryError where the file cannot be written or is a newer version's."""
        values = [_stored(getattr(row, name)) for name in _NAMES]
        statement = f"INSERT OR REPLACE INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})"
        try:
            with file_lock(self.path):
                try:
                    self._write(statement, values)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    aside = self._set_aside()
                    self._write(statement, values)
                    return aside
        except (sqlite3.Error, OSError) as error:
            raise HistoryError(f"history {self.path}: {getattr(error, 'strerror', None) or error}") from error
        return None

    def rows(self) -> list[HistoryRow]:
        """All runs in the order of their times; none where there is no file. Raises HistoryError for one that cannot
        be read; reading sets nothing aside."""
        if not self.path.exists():
            return []
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection:
                self._check_version(connection)
                there = _columns(connection)
                names = ", ".join(name if name in there else "NULL" for name in _NAMES)
                found = connection.execute(f"SELECT {names} FROM runs ORDER BY timestamp, run_id").fetchall()
        except sqlite3.Error as error:
            raise HistoryError(f"history {self.path}: {error}") from error
        return [row for values in found if (row := _row(values)) is not None]

    def _write(self, statement: str, values: list[Any]) -> None:
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            if self._check_version(connection) == 0:
                connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
            for name in set(_LATER) - _columns(connection):
                connection.execute(f"ALTER TABLE runs ADD COLUMN {name} TEXT")
            connection.execute(statement, values)

    def _check_version(self, connection: sqlite3.Connection) -> int:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (tables or version) and application != _APPLICATION_ID:
            raise sqlite3.DatabaseError("file is not a database of this program")
        if version > _VERSION:
            raise HistoryError(f"history {self.path} was written by a newer version of this package")
        return version

    def _set_aside(self) -> str:
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        os.replace(self.path, target)
        journal = self.path.with_name(self.path.name + "-journal")
        journal.unlink(missing_ok=True)
        return target.name


def _columns(connection: sqlite3.Connection) -> set[str]:
    """The columns of the file's table; those of this version where it has none, so that the reader says so."""
    return {row[1] for row in connection.execute("PRAGMA table_info(runs)")} or set(_NAMES)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_NOTADB) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR) or "no such table" in str(
        error
    )


def _stored(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else dumps(value)


def _row(values: tuple[Any, ...]) -> HistoryRow | None:
    """A stored row; ``None`` for one that is not what this version writes."""
    fields: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
    try:
        for name in _JSON:
            fields[name] = json.loads(fields[name]) if fields[name] is not None else ({} if name != "judge" else None)
        fields["metrics"] = {path: [*found, None, None, None][:4] for path, found in fields["metrics"].items()}
    except (ValueError, TypeError, AttributeError):
        return None
    return HistoryRow(**fields)
