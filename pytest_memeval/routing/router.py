"""All ways by which a case in flight says something, watched together."""

from __future__ import annotations

from typing import Any

from pytest_memeval.routing.records import Records
from pytest_memeval.routing.streams import Streams
from pytest_memeval.routing.threads import Threads

#: pytest's log handlers, as its logging plugin names them.
_HANDLERS = ("caplog_handler", "report_handler", "log_cli_handler", "log_file_handler")


class Router:
    """What it watches is given back by :meth:`close`."""

    def __init__(self, *, straight: bool, logging_plugin: Any) -> None:
        self._streams = Streams(straight=straight)
        self._records = Records()
        self._threads = Threads()
        self._logging = logging_plugin

    def watch_outer(self) -> None:
        """Watch what is there while no item captures."""
        self._streams.watch_outer()
        self._records.hold_level(getattr(self._logging, "log_level", None))

    def watch(self) -> None:
        """Watch what is there in an item."""
        self._streams.watch()
        self._threads.watch()
        for name in _HANDLERS:
            self._records.watch(getattr(self._logging, name, None))

    def watch_streams(self) -> None:
        """Watch what a fixture may have put there."""
        self._streams.watch()

    def close(self) -> None:
        self._streams.close()
        self._records.close()
        self._threads.close()
