"""What is known of how a server wants to be asked for a model: learnt once, from the first real requests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pytest_memeval.llm.faults import Fault, rejected_parameter
from pytest_memeval.llm.settings import ModelSettings
from pytest_memeval.llm.wire import Accepted

#: Seconds that other calls leave the first one to be refused: a server looks at parameters before it answers, so a
#: refusal takes a round trip, and an answer may take many seconds.
PATIENCE = 0.75
#: The same for a server on this machine.
LOOPBACK_PATIENCE = 0.1
#: So many looks are taken meanwhile: on a busy machine seconds may pass between two in which nobody got to work.
LOOKS = 10


def patience_with(settings: ModelSettings) -> float:
    """Seconds in which the server of these settings will have refused what it does not take."""
    return LOOPBACK_PATIENCE if settings.is_loopback else PATIENCE


class _FirstCall:
    """Lets the first call go ahead of the others until it is over or has not been refused for a while; once only."""

    def __init__(self, patience: float, learnt: Callable[[], object]) -> None:
        self._patience = patience
        #: What is known so far: the object changes whenever a refusal has taught something.
        self._learnt = learnt
        self._lock = threading.Lock()
        self._over: concurrent.futures.Future[None] | None = None
        self._leader: object = None

    async def __aenter__(self) -> None:
        with self._lock:
            leads = self._over is None
            if self._over is None:
                self._over, self._leader = concurrent.futures.Future(), asyncio.current_task()
            over = self._over
        looks, known = 0, self._learnt()
        while not leads and not over.done():
            # Waiting as such cancels nothing: a caller that gives up takes only itself away.
            await asyncio.wait([asyncio.wrap_future(over)], timeout=self._patience / LOOKS)
            before, known = known, self._learnt()
            looks = looks + 1 if known is before else 0
            if looks >= LOOKS:
                self._end()

    async def __aexit__(self, *exc: object) -> None:
        if asyncio.current_task() is self._leader:
            self._end()

    def _end(self) -> None:
        with self._lock:
            if self._over is not None and not self._over.done():
                self._over.set_result(None)


class ServerManners:
    """How one server takes requests for one model: token cap's name, temperature, JSON by schema or at all.

    Shared by all who ask that server for that model in a process, on any event loop. Nothing is sent to find it out.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.accepted = Accepted()
        self._patience = patience
        self._lock = threading.Lock()
        self._first: dict[tuple[bool, bool], _FirstCall] = {}

    @asynccontextmanager
    async def first_call(self, *, formatted: bool, capped: bool) -> AsyncIterator[None]:
        """Around each call. Calls that start together would each learn by a rejection of their own, so the first of
        those that send the same parameters goes ahead: one without a schema teaches nothing of schemas. The others
        wait as long as a refusal may take, and not for its answer."""
        with self._lock:
            first = self._first.get((formatted, capped))
            if first is None:
                first = _FirstCall(self._patience, lambda: self.accepted)
                self._first[formatted, capped] = first
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
            return self._known.setdefault((settings.base_url, settings.model), ServerManners(patience_with(settings)))
