"""Scores in a JSON file: by question id, and under it by a hash of everything that a score depends on.

Both must agree: an id alone would serve the score of another prediction, a hash alone would not tell whose it is.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.filelock import file_lock

_VERSION = 1

#: Question id → content hash → {"score", "mode"}.
Scores = dict[str, dict[str, dict[str, Any]]]


class ScoreFile:
    """The file at ``path``; a missing one is empty.

    One that is damaged, or is no such file, is set aside as ``<name>.damaged-<n>`` with a :class:`CacheWarning`. Writes
    are atomic and add to what other processes wrote meanwhile. Raises :class:`CacheError` where the file cannot be
    read or written, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new: Scores = {}
        try:
            with file_lock(path):
                self._held = self._read()
        except OSError as error:
            raise CacheError(f"judge scores {path}: {error.strerror or error}") from error

    def get(self, question_id: str, content_hash: str) -> float | None:
        """The score held for this id and content, or ``None``."""
        entry = self._held.get(question_id, {}).get(content_hash)
        return None if entry is None else float(entry["score"])

    def add(self, question_id: str, content_hash: str, score: float, mode: str) -> None:
        """Keep a score, in memory until :meth:`save`."""
        entry = {"score": score, "mode": mode}
        self._held.setdefault(question_id, {})[content_hash] = entry
        self._new.setdefault(question_id, {})[content_hash] = entry

    def save(self) -> None:
        """Write what was added since the last time."""
        if not self._new:
            return
        try:
            with file_lock(self.path):
                merged = self._read()
                for question_id, entries in self._new.items():
                    merged.setdefault(question_id, {}).update(entries)
                self._write(merged)
        except OSError as error:
            raise CacheError(f"judge scores {self.path}: {error.strerror or error}") from error
        self._held, self._new = merged, {}

    def _read(self) -> Scores:
        """The file's scores. Holds the file lock."""
        try:
            data = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            return self._set_aside("is damaged")
        if isinstance(data, dict) and isinstance(data.get("version"), int) and data["version"] > _VERSION:
            raise CacheError(f"judge scores {self.path}: written by a newer version of pytest-memeval")
        questions = data.get("questions") if isinstance(data, dict) and data.get("version") == _VERSION else None
        if not isinstance(questions, dict) or not _well_formed(questions):
            return self._set_aside("is no file of judge scores")
        return questions

    def _set_aside(self, reason: str) -> Scores:
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        os.replace(self.path, target)
        warnings.warn(f"{self.path} {reason}; it was set aside as {target.name}", CacheWarning, stacklevel=4)
        return {}

    def _write(self, questions: Scores) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "questions": questions}, ensure_ascii=True, indent=1, sort_keys=True)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(text + "\n")
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _well_formed(questions: dict[str, Any]) -> bool:
    return all(
        isinstance(entries, dict) and all(_is_score(entry) for entry in entries.values())
        for entries in questions.values()
    )


def _is_score(entry: Any) -> bool:
    score = entry.get("score") if isinstance(entry, dict) else None
    return isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score) and 0 <= score <= 1
