"""Log records, at handlers of the whole process."""

from __future__ import annotations

import copy
import logging
import threading
from functools import partial
from typing import Any

from pytest_memeval.routing.said import said_here


class Records:
    """Watches log handlers; they are given back by :meth:`close`. Handlers of others take a record when it comes."""

    def __init__(self) -> None:
        self._handlers: list[logging.Handler] = []
        self._filter = _KeepRecords()
        self._levels: tuple[int, int] | None = None

    def watch(self, handler: Any) -> None:
        if isinstance(handler, logging.Handler) and handler not in self._handlers:
            handler.addFilter(self._filter)
            self._handlers.append(handler)

    def hold_level(self, level: int | None) -> None:
        """Let records of this level come between items too: pytest asks for them while an item runs."""
        root = logging.getLogger()
        if level is not None and root.level > level:
            self._levels = (root.level, level)
            root.setLevel(level)

    def close(self) -> None:
        for handler in self._handlers:
            handler.removeFilter(self._filter)
        self._handlers = []
        if self._levels is not None and logging.getLogger().level == self._levels[1]:
            logging.getLogger().setLevel(self._levels[0])


class _KeepRecords(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        said = said_here()
        if said is None:
            return True
        # Every handler asks for the same record, one after the other.
        if getattr(self._here, "last", None) is not record:
            self._here.last = record
            said.keep(partial(_say, _as_it_is_now(record)))
        return False


def _as_it_is_now(record: logging.LogRecord) -> logging.LogRecord:
    """The record with its text made: its arguments may be others when it is said. One that has no text raises here, in
    the code that logs, as it does with pytest's handlers."""
    text = record.getMessage()
    kept = copy.copy(record)
    kept.getMessage = lambda: text  # type: ignore[method-assign]  # of this one record
    return kept


def _say(record: logging.LogRecord) -> None:
    """Give the record to the watched handlers that are there now; the others have had it."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        for handler in logger.handlers:
            if record.levelno >= handler.level and any(isinstance(one, _KeepRecords) for one in handler.filters):
                handler.handle(record)
        logger = logger.parent if logger.propagate else None
