"""The journal: a line for every case as soon as it ended, so that a run which dies keeps what it had."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.text_policy import apply_text_policy
from pytest_memeval.results import CaseResult
from pytest_memeval.writing import naming


class Journal:
    """Appends case results to a file, each as one line that is flushed at once.

    The file and its folder are made at the first line, so that a run without cases leaves nothing. A line that an
    earlier crash left half written is cut off first. The same case once more takes the place of the line that it has
    just had: an interrupt may come while it is written. ``report_text`` is the text policy.
    """

    def __init__(self, path: Path, *, report_text: str = "full") -> None:
        self.path = path
        self._policy = report_text
        self._file: BinaryIO | None = None
        #: Whose line is the last, and where it begins.
        self._last: tuple[str, int] | None = None
        #: Lines that were to be written, each counted before it is: an interrupt may come in between.
        self.lines = 0

    def append(self, result: CaseResult, *, text: str | None = None) -> None:
        """Write the result; ``text`` is its JSON form, where somebody has made it already."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _end_last_line(self.path)
            self._file = self.path.open("ab")
        if text is None or self._policy != "full":
            line = apply_text_policy(result.to_json(), self._policy)
            if self._policy != "full":
                # A run that goes on from here has to know that there are no texts.
                line["report_text"] = self._policy
            text = dumps(line)
        with naming(self.path):
            if self._last is not None and self._last[0] == result.node_id:
                self._file.flush()
                self._file.truncate(self._last[1])
            else:
                self.lines += 1
                self._last = result.node_id, self._file.tell()
            self._file.write(text.encode("utf-8") + b"\n")
            self._file.flush()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with naming(self.path):  # what could not be written before is tried again
                file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _end_last_line(path: Path) -> None:
    """Make the file end with a line end: complete a record that only lacks it, cut off one that was never finished."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        data = file.read()
        start = data.rfind(b"\n") + 1
        if start == len(data):
            return
        try:
            json.loads(data[start:])
        except (ValueError, RecursionError):
            file.truncate(start)
        else:
            file.write(b"\n")
