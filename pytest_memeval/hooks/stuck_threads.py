"""When a process that ran cases ends without the threads that they have left at something."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from pytest_memeval.interrupts import is_pytests_own_process
from pytest_memeval.left_threads import leave_threads
from pytest_memeval.session import OVERDUE, settings_of

#: Seconds for which they are waited for: after an interrupt, from that on; after a case whose time was over, from the
#: end of the session on; and from when there is nothing else left to do.
INTERRUPTED, TIMED_OUT, AT_LEAST = 1.0, 2.0, 0.2


class StuckThreads:
    """Of a run that nobody interrupted, and in which no case's time was over, all are waited for."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._until: float | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if excinfo.type is KeyboardInterrupt:  # pytest announces its own stops in the same way
            self._until = time.monotonic() + INTERRUPTED

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._until is None and self._config.stash.get(OVERDUE, False):
            self._until = time.monotonic() + TIMED_OUT
        until = self._until
        # A program that called pytest goes on with threads of its own.
        if until is None or not (hasattr(self._config, "workerinput") or is_pytests_own_process()):
            return
        lang = settings_of(self._config).lang

        def say(names: Sequence[str]) -> str:
            from pytest_memeval.report.messages import text

            return f"memeval: {text('terminal.left_threads', lang, count=len(names), names=', '.join(names))}"

        leave_threads(
            after=lambda: max(until, time.monotonic() + AT_LEAST), say=say, status=lambda: int(session.exitstatus)
        )
