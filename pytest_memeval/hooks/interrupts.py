"""The hooks around interrupts of a process that runs cases: each ends it, and none is lost.

Only cases are concerned, and what is between items: an ordinary test finds the signal as Python has it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_memeval.interrupts import Interrupts
from pytest_memeval.items import owner_of
from pytest_memeval.session import INTERRUPTS


class WorkerInterrupts:
    """A worker's: nobody but the controller has a say in it."""

    def __init__(self) -> None:
        self._interrupts = Interrupts(lasting=True)
        self._interrupts.listen()
        self._concerned = True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._concerned = any(owner_of(item) is not None for item in session.items)
        if not self._concerned:
            self._interrupts.leave()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._interrupts.raise_lost()
        if owner_of(item) is None:
            self._interrupts.leave()
        try:
            result = yield
        except KeyboardInterrupt:
            self._interrupts.listen()
            self._interrupts.has_come_through()
            raise
        if self._concerned:
            self._interrupts.listen()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        self._interrupts.has_come_through()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._interrupts.end()


class CaseInterrupts:
    """Those of a run in one process."""

    def __init__(self, config: pytest.Config) -> None:
        self._interrupts = config.stash.setdefault(INTERRUPTS, Interrupts(lasting=False))
        #: Whether a case has just ended that another one follows: asking for the signal anew for each takes its time.
        self._between = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        if owner_of(item) is None:
            return (yield)
        if not self._between:
            self._interrupts.listen()
        self._between = False
        try:
            result = yield
        except KeyboardInterrupt:
            self._interrupts.has_come_through()
            raise
        except BaseException:
            self._interrupts.leave()
            raise
        self._between = nextitem is not None and owner_of(nextitem) is not None
        if not self._between:
            self._interrupts.leave()
        self._interrupts.raise_lost()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if excinfo.type is KeyboardInterrupt:  # pytest announces its own stops in the same way
            self._interrupts.has_come_through()
