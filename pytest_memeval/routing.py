"""What a case prints and logs before its turn is kept for its own item.

Standard output and the handlers of the logging module belong to the whole process. A context variable says for which
case the running code works; what it writes is kept there and said again when the case's item is set up.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Said:
    """Texts, as (``stdout`` or ``stderr``, text), and log records, in the order in which they came."""

    parts: list[tuple[str, str] | logging.LogRecord] = field(default_factory=list)

    def repeat(self) -> None:
        """Write and log everything again from here, and forget it."""
        while self.parts:
            part = self.parts.pop(0)
            if isinstance(part, logging.LogRecord):
                logging.getLogger(part.name).handle(part)
            else:
                getattr(sys, part[0]).write(part[1])


_SAID: ContextVar[Said | None] = ContextVar("memeval_said", default=None)


@contextmanager
def routed(said: Said) -> Iterator[None]:
    """Keep in ``said`` what the code inside, its tasks and its threads write and log."""
    token = _SAID.set(said)
    try:
        yield
    finally:
        _SAID.reset(token)


class Router:
    """Watches streams and log handlers; both are given back by :meth:`close`."""

    def __init__(self) -> None:
        self._streams: list[Any] = []
        self._handlers: list[logging.Handler] = []
        self._filter = _KeepRecords()

    def watch_streams(self) -> None:
        """Watch what are standard output and error now; pytest changes them while it captures."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if not any(known is stream for known in self._streams) and _watch(stream, name):
                self._streams.append(stream)

    def watch_handler(self, handler: Any) -> None:
        if isinstance(handler, logging.Handler) and handler not in self._handlers:
            handler.addFilter(self._filter)
            self._handlers.append(handler)

    def close(self) -> None:
        for stream in self._streams:
            vars(stream).pop("write", None)
        for handler in self._handlers:
            handler.removeFilter(self._filter)
        self._streams, self._handlers = [], []


class _KeepRecords(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        said = _SAID.get()
        if said is None:
            return True
        # Every handler asks for the same record, one after the other.
        if not said.parts or said.parts[-1] is not record:
            said.parts.append(record)
        return False


def _watch(stream: Any, name: str) -> bool:
    """Have the stream's ``write`` look first for whom it is called; False for a stream that allows no such change."""
    original = getattr(stream, "write", None)
    if original is None or not hasattr(stream, "__dict__") or "write" in vars(stream):
        return False

    def write(text: str) -> Any:
        said = _SAID.get()
        if said is None:
            return original(text)
        said.parts.append((name, text))
        return len(text)

    try:
        stream.write = write
    except AttributeError:
        return False
    return True
