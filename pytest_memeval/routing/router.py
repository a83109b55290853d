"""All ways by which a case in flight says something, watched together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_memeval.routing.records import Records
from pytest_memeval.routing.redirects import Redirects
from pytest_memeval.routing.said import Said, case_here, set_at_hand
from pytest_memeval.routing.streams import Streams
from pytest_memeval.routing.threads import Threads
from pytest_memeval.routing.warned import Filter, Warned

#: pytest's log handlers, as its logging plugin names them.
_HANDLERS = ("caplog_handler", "report_handler", "log_cli_handler", "log_file_handler")


class Router:
    """What it watches is given back by :meth:`close`."""

    def __init__(self, *, straight: bool, logging_plugin: Any) -> None:
        self._streams = Streams(straight=straight)
        self._records = Records()
        self._threads = Threads()
        self._redirects = Redirects()
        self._warned = Warned()
        self._logging = logging_plugin

    def watch_outer(self) -> None:
        """Watch what is there while no item captures."""
        self._streams.watch_outer()
        self._warned.watch_outer()
        self._records.hold_level(getattr(self._logging, "log_level", None))

    def watch(self) -> None:
        """Watch what is there in an item."""
        self._streams.watch()
        self._threads.watch()
        self._redirects.watch()
        for name in _HANDLERS:
            self._records.watch(getattr(self._logging, name, None))

    def watch_warnings(self, marks: Sequence[Filter]) -> None:
        """Watch warnings in an item whose marks ask for these filters."""
        self._warned.watch(marks)

    def expect(self, said: Said, marks: Sequence[Filter]) -> None:
        """Hold a case in flight to the filters that its item's marks ask for."""
        self._warned.expect(said, marks)

    def begin_at_hand(self, marks: Sequence[Filter]) -> None:
        """The item's case runs by itself, beside cases in flight: what it says is said at once."""
        if self._warned.active:
            said = Said(over=True)
            set_at_hand(said)
            self._warned.expect(said, marks)

    def end_at_hand(self) -> None:
        """The item is over, or begins."""
        said = case_here()
        if said is not None:
            said.past = True
            set_at_hand(None)

    def rest(self) -> None:
        """No case is in flight: do without what would cost something at each item."""
        self._warned.rest()

    def watch_streams(self) -> None:
        """Watch what a fixture may have put there."""
        self._streams.watch()

    def close(self) -> None:
        """The last item is over."""
        self.end_at_hand()
        self._warned.close()
        self._streams.close()
        self._records.close()
        self._threads.close()
        self._redirects.close()
