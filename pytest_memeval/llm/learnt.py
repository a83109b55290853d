"""What is known of how a server wants to be asked for a model: learnt once, from the first real requests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pytest_memeval.llm.faults import Fault, rejected_parameter
from pytest_memeval.llm.settings import ModelSettings
from pytest_memeval.llm.wire import Accepted


class _FirstCall:
    """Lets the first call be over, or :attr:`patience` seconds pass, before the others start; once only."""

    patience = 10.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over: concurrent.futures.Future[None] | None = None
        self._leader: object = None

    async def __aenter__(self) -> None:
        with self._lock:
            leads = self._over is None
            if self._over is None:
                self._over, self._leader = concurrent.futures.Future(), asyncio.current_task()
            over = self._over
        if not leads and not over.done():
            # Waiting as such cancels nothing: a caller that gives up takes only itself away.
            await asyncio.wait([asyncio.wrap_future(over)], timeout=self.patience)

    async def __aexit__(self, *exc: object) -> None:
        over = self._over
        if over is not None and not over.done() and asyncio.current_task() is self._leader:
            over.set_result(None)


class ServerManners:
    """How one server takes requests for one model: token cap's name, temperature, JSON by schema or at all.

    Shared by all who ask that server for that model in a process, on any event loop. Nothing is sent to find it out.
    """

    def __init__(self) -> None:
        self.accepted = Accepted()
        self._lock = threading.Lock()
        self._first: dict[tuple[bool, bool], _FirstCall] = {}

    @asynccontextmanager
    async def first_call(self, *, formatted: bool, capped: bool) -> AsyncIterator[None]:
        """Around each call. Calls that start together would each learn by a rejection of their own, so the first of
        those that send the same parameters goes ahead: one without a schema teaches nothing of schemas."""
        with self._lock:
            first = self._first.setdefault((formatted, capped), _FirstCall())
        async with first:
            yield

    def adapt(self, fault: Fault, sent: Mapping[str, Any]) -> bool:
        """Learn from a rejected request; true if the next one avoids the cause."""
        parameter = rejected_parameter(fault, sent)
        if parameter is None:
            return False
        with self._lock:
            following = self.accepted.without(parameter, sent)
            if following is None:
                return False
            self.accepted = following
        return True


class KnownServers:
    """The manners of each server and model that a run has met."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str | None], ServerManners] = {}

    def of(self, settings: ModelSettings) -> ServerManners:
        with self._lock:
            return self._known.setdefault((settings.base_url, settings.model), ServerManners())
