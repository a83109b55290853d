"""The cache as a text file that can be read, compared and committed: an answer or embedding a line, sorted by key."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pytest_memeval.documents.json_values import NestedTooDeep, json_value
from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry
from pytest_memeval.llm.vectors import VectorEntry
from pytest_memeval.writing import is_stream, naming, open_stream, put

HEADER = {"format": "memeval-answers", "version": 1}


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did: answers ``added`` and already ``present``, the lines ``skipped`` with the reason, and the
    ``embeddings`` added."""

    added: int
    present: int
    skipped: tuple[Problem, ...] = ()
    embeddings: int = 0


def write_jsonl(path: Path, entries: Iterable[CacheEntry], vectors: Iterable[VectorEntry] = ()) -> int:
    """Write entries as a JSONL file, sorted by key, in one step (readers see the old file or the new); how many.
    ``vectors``, sorted already, follow them.

    The same entries give the same bytes.
    """
    ordered = sorted(entries, key=lambda entry: entry.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = chain((HEADER,), (entry.to_json() for entry in ordered), (vector.to_json() for vector in vectors))
    if is_stream(path):
        with naming(path), open_stream(path) as stream:
            _write_rows(stream, rows)
        return len(ordered)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path, temporary), temporary.open("wb") as file:
            _write_rows(file, rows)
        put(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(ordered)


def _write_rows(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


def export_jsonl(
    cache: AnswerCache, path: Path, *, model: str | None = None, stage: str | None = None
) -> tuple[int, int]:
    """Write the cache's answers and embeddings (of one model only, or the answers of one stage, if named) to ``path``;
    how many of each."""
    written = 0

    def vectors() -> Iterator[VectorEntry]:
        nonlocal written
        for entry in cache.vector_entries() if stage is None else ():
            if model in (None, entry.model):
                written += 1
                yield entry

    answers = write_jsonl(
        path,
        (entry for entry in cache.entries() if model in (None, entry.model) and stage in (None, entry.stage)),
        vectors(),
    )
    return answers, written


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file with their numbers from 1; empty ones are left out. Splits at line feeds only.

    Raises :class:`DocumentError` if the file cannot be read or is no UTF-8.
    """
    number = 0
    try:
        # A byte-order mark is accepted; U+2028 and its like are characters of an answer and end no line.
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except UnicodeDecodeError as error:
        raise DocumentError([Problem(path, number + 1, 0, f"is not UTF-8 ({error.reason})")]) from None
    except OSError as error:
        raise DocumentError([Problem(path, 0, 0, f"cannot be read: {error.strerror or error}")]) from None


def decode_line(line: str) -> Any:
    """A line's JSON value. Raises ``ValueError`` with a short text."""
    try:
        return json_value(line)
    except NestedTooDeep as error:
        raise ValueError(f"is {error.msg}") from None
    except ValueError:
        raise ValueError("is no JSON") from None


def read_jsonl(path: Path) -> list[tuple[int, CacheEntry]]:
    """All answers of an export with their line numbers. The header line is optional, and may have further keys.

    Raises :class:`DocumentError` with every bad line at once.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[tuple[int, CacheEntry]], list[VectorEntry]]:
    entries: list[tuple[int, CacheEntry]] = []
    vectors: list[VectorEntry] = []
    problems: list[Problem] = []
    for number, line in numbered_lines(path):
        try:
            data = decode_line(line)
            if isinstance(data, dict) and "format" in data and "key" not in data:
                # Whoever publishes answers may say in the header how they came about.
                if any(data.get(name) != value for name, value in HEADER.items()):
                    raise ValueError(f"has the header {line.strip()[:80]}, not {json.dumps(HEADER)}")
            elif isinstance(data, dict) and "vector" in data:
                vectors.append(VectorEntry.from_json(data))
            else:
                entries.append((number, CacheEntry.from_json(data)))
        except ValueError as error:
            problems.append(Problem(path, number, 0, f"this line {error}"))
    if problems:
        raise DocumentError(problems)
    return entries, vectors


def import_jsonl(cache: AnswerCache, path: Path, *, replace: bool = False) -> ImportResult:
    """Take an export's answers and embeddings into the cache; those that it holds already stay unless ``replace``.

    Nothing is imported if any line is bad (:class:`DocumentError`), or if embeddings have another dimension than those
    of the same model (:class:`DimensionMismatch`).
    """
    read, vectors = _read(path)
    embeddings = cache.put_vector_entries(vectors, replace=replace) if vectors else 0
    entries = [entry for _, entry in read]
    added = cache.put_many(entries, replace=replace)
    return ImportResult(added, len(entries) - added, embeddings=embeddings)
