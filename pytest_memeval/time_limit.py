"""A case's time limit, which stands still while the case waits for a place that other cases hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

#: Seconds after the end of a limit in which work that awaits has surely been cancelled.
GRACE = 1.0


class TimeLimit:
    """``seconds`` from the beginning of the work; ``None`` for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._scope: asyncio.Timeout | None = None
        #: Parts of the work that wait for a place, and the seconds that were left when the first began to.
        self._waiting = 0
        self._left = 0.0

    async def keep(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do the work; whether it was done in time. Otherwise it has been cancelled."""
        if self.seconds is None:
            await work()
            return True
        try:
            async with asyncio.timeout(self.seconds) as scope:
                self._scope = scope
                await work()
        except TimeoutError:
            if not scope.expired():
                raise
            return False
        finally:
            self._scope = None
        return True

    @asynccontextmanager
    async def place(self, places: asyncio.Semaphore | None) -> AsyncIterator[None]:
        """Hold one of the places during a block; ``None`` for as many as are wanted."""
        if places is None:
            yield
            return
        if places.locked():
            await self._wait_for(places)
        else:
            await places.acquire()
        try:
            yield
        finally:
            places.release()

    async def _wait_for(self, places: asyncio.Semaphore) -> None:
        scope, loop = self._scope, asyncio.get_running_loop()
        if scope is None:
            await places.acquire()
            return
        if not self._waiting and (until := scope.when()) is not None:
            self._left = until - loop.time()
            scope.reschedule(None)
        self._waiting += 1
        try:
            await places.acquire()
        finally:
            self._waiting -= 1
            if not self._waiting and not scope.expired():
                scope.reschedule(loop.time() + self._left)

    def still_runs(self) -> bool:
        """Whether the limit is not over though more than its seconds have passed. May be asked from any thread."""
        scope = self._scope
        if scope is None:
            return False
        until = scope.when()
        return until is None or until > time.monotonic() - GRACE
