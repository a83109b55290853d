"""``calls.jsonl.gz``: the prompts and answers of a run, by call id."""

from __future__ import annotations

import gzip
import math
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from pytest_memeval.case_counts import one_per_case
from pytest_memeval.report.json_report import dumps, plain
from pytest_memeval.report.reader import ReportError
from pytest_memeval.report.text_policy import scrub_call
from pytest_memeval.results import CallRecord, CaseResult

CALLS_NAME = "calls.jsonl.gz"
_FIELDS: tuple[str, ...] = tuple(field.name for field in fields(CallRecord))


def calls_of(records: Iterable[CaseResult], report_text: str = "full") -> Iterator[dict[str, Any]]:
    """Every model call of every case, in node id order: its record with the case's ``node_id``; texts as
    ``report_text`` wants them."""
    for record in one_per_case(records):
        for call in record.calls:
            # A call is flat but for its messages: the walk through any value would take most of the time here.
            own = {name: _flat(getattr(call, name)) for name in _FIELDS}
            own["request"] = [{key: _flat(text) for key, text in message.items()} for message in call.request]
            if report_text != "full":
                own = scrub_call(own, report_text)
            yield {"node_id": record.node_id, **own}


def _flat(value: Any) -> Any:
    """A value of a call in JSON's types: mostly it is of them already."""
    if value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value)):
        return value
    return plain(value)


def write_calls(file: BinaryIO, calls: Iterable[Mapping[str, Any]]) -> None:
    """Write the calls as compressed lines of JSON. Equal calls give equal bytes: no time is stored."""
    lines: list[str] = []
    size = 0
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed,
        _Packing(packed) as packing,
    ):
        for call in calls:
            lines.append(dumps(call))
            size += len(lines[-1])
            if size >= _CHUNK:
                packing.add(lines)
                lines, size = [], 0
        packing.add(lines)


#: Characters that are packed at once, and how many such pieces may wait for it.
_CHUNK, _WAITING = 1_000_000, 4


class _Packing:
    """Packs lines in a thread while the next ones are made: packing needs no interpreter. What fails there is raised
    by the next :meth:`add`, or at the end."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._pieces: queue.Queue[list[str] | None] = queue.Queue(_WAITING)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def add(self, lines: list[str]) -> None:
        if self._error is not None:
            raise self._error
        if not lines:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="memeval-packing", daemon=True)
            self._thread.start()
        self._pieces.put(lines)

    def _serve(self) -> None:
        while (lines := self._pieces.get()) is not None:
            if self._error is None:
                try:
                    self._packed.write(("\n".join(lines) + "\n").encode("utf-8"))
                except BaseException as error:  # raised where somebody waits for it
                    self._error = error

    def __enter__(self) -> _Packing:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
        if self._error is not None and exc[0] is None:
            raise self._error


def read_calls(path: Path) -> dict[str, dict[str, Any]]:
    """Call id → its record. Raises ReportError for a file that cannot be read."""
    import json

    found: dict[str, dict[str, Any]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                call = json.loads(line)
                found[call["id"]] = call
    except (OSError, EOFError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise ReportError(f"{path} cannot be read as model calls: {error}.") from error
    return found
