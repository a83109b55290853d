"""Entries of ``per_case`` and their lines of ``report.json``, made while a large run goes on: who waits for its end, or
has interrupted it, waits for its figures alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.text_policy import apply_text_policy
from pytest_memeval.results import CaseResult

Line = Callable[[Mapping[str, Any]], str]


@dataclass(slots=True)
class _Made:
    result: CaseResult
    entry: dict[str, Any]
    #: Where its text is kept, and how long that is.
    start: int = 0
    size: int = 0


class PreparedEntries:
    """The entries of cases of a run that goes on. ``report_text`` is the text policy.

    The texts, some kilobytes a case, wait in a file of ``folder`` that has no name where the system knows such files,
    so that a process which is killed leaves none. Where it cannot be written they are made again at the end.
    """

    def __init__(self, folder: Path, *, report_text: str = "full") -> None:
        self._folder = folder
        self._policy = report_text
        self._made: dict[str, _Made] = {}
        self._file: FileIO | None = None
        self._size = 0
        self._works = True

    def add(self, result: CaseResult) -> None:
        """Make the result's entry and its text; those of an earlier result of the same case are forgotten."""
        made = _Made(result, self._entry(result))
        self._keep_text(made)
        # Last: an interrupt may come in between.
        self._made[result.node_id] = made

    def entry_of(self, result: CaseResult) -> dict[str, Any]:
        """The result's entry: the one that was made of it, else a new one."""
        made = self._made.get(result.node_id)
        return made.entry if made is not None and made.result is result else self._entry(result)

    def line_of(self, entry: Mapping[str, Any]) -> str:
        """The text of an entry: the one that was made of it, else a new one."""
        made = self._made.get(entry["node_id"])
        if made is not None and made.entry is entry and made.size and self._file is not None:
            try:
                self._file.seek(made.start)
                text = self._file.read(made.size)
            except OSError:
                text = b""
            if len(text) == made.size:
                return text.decode("utf-8")
        return dumps(entry)

    def close(self) -> None:
        """Let go of the texts."""
        file, self._file, self._works = self._file, None, False
        if file is not None:
            file.close()

    def _entry(self, result: CaseResult) -> dict[str, Any]:
        return apply_text_policy(case_entry(result), self._policy)

    def _keep_text(self, made: _Made) -> None:
        if not self._works:
            return
        try:
            if self._file is None:
                # Without a buffer: what could not be written is known at once.
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # closed by close()
            text = dumps(made.entry).encode("utf-8")
            self._file.seek(self._size)
            if self._file.write(text) == len(text):
                made.start, made.size = self._size, len(text)
                self._size += len(text)
                return
        except OSError:
            pass
        # A full disk, most likely, on which the report needs the place.
        self.close()
