"""The hooks around interrupts of a process that runs cases: each ends it, and none is lost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_memeval.interrupts import Interrupts
from pytest_memeval.items import owner_of


class WorkerInterrupts:
    """A worker's: nobody but the controller has a say in it."""

    def __init__(self) -> None:
        self._interrupts = Interrupts(once=True)
        self._interrupts.listen()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not any(owner_of(item) is not None for item in session.items):
            self._interrupts.leave()  # the tests' own affair

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._interrupts.raise_lost()
        self._interrupts.spare(owner_of(item) is None)
        try:
            return (yield)
        except KeyboardInterrupt:
            self._interrupts.has_come_through()
            raise
        finally:
            self._interrupts.spare(False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        self._interrupts.has_come_through()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._interrupts.end()


class CaseInterrupts:
    """Those of a run in one process: cases are its only items that are concerned."""

    def __init__(self) -> None:
        self._interrupts = Interrupts(once=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if owner_of(item) is None:
            return (yield)
        self._interrupts.listen()
        try:
            result = yield
        finally:
            self._interrupts.leave()
        self._interrupts.raise_lost()
        return result
