"""A case's time limit. It counts the case's own time: it stands still while other cases hold the event loop, and while
the case waits for a place that other cases hold, unless it holds the loop itself meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from pytest_memeval.loop_time import Holder, Meter, meter_of, on_account

T = TypeVar("T")

#: Seconds after the end of a limit in which work that awaits has surely been cancelled.
GRACE = 1.0


def why_over(limit: float, *, held: bool = False) -> str:
    """What is said of a case whose time is over; ``held``: it let nothing else run meanwhile."""
    why = "; it held the event loop all the time, as time.sleep or a blocking client in an async method does"
    return f"the case's time limit of {limit:g} s is over{why if held else ''}"


class TimeIsOver(Exception):
    """The work did not end within its limit; ``held``: it held the event loop for most of that time."""

    def __init__(self, *, held: bool) -> None:
        super().__init__("the time limit is over")
        self.held = held


class TimeLimit(Holder):
    """``seconds`` for all work together that is kept within them, of which so many are ``used`` already; ``None`` for
    no limit."""

    def __init__(self, seconds: float | None, *, used: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        #: Seconds of work that has ended.
        self._used = used
        #: Pieces of work at hand, and the clock when the first began.
        self._at_hand = 0
        self._began = 0.0
        #: Parts of the work that wait for a place, the clock when the first began to, and how long others of its parts
        #: had held the loop then.
        self._waiting = 0
        self._waits_since = 0.0
        self._held_before = 0.0
        #: Of each piece of work at hand.
        self._alarms: list[_Alarm] = []

    @property
    def used(self) -> float:
        """Seconds that the work has taken so far. May be asked from any thread."""
        meter = self._meter
        if not self._at_hand or meter is None:
            return self._used
        now = self._clock(meter)
        if self._waiting:
            now = self._waits_since + self._held_so_far(meter) - self._held_before
        return self._used + max(0.0, now - self._began)

    @property
    def left(self) -> float:
        return float("inf") if self.seconds is None else self.seconds - self.used

    @property
    def is_at_work(self) -> bool:
        return self._at_hand > 0

    def is_overdue(self, grace: float) -> bool:
        return self.is_at_work and self.left < -grace

    async def keep(self, work: Callable[[], Awaitable[T]]) -> T:
        """The work's value. TimeIsOver where it took longer, by itself or because it was cancelled then; at once where
        the time was over before."""
        if asyncio._get_running_loop() is None:
            started = time.monotonic()
            try:
                return await work()
            finally:
                self._used += time.monotonic() - started
        if self.left <= 0:
            raise self._over()
        meter = self._begin(meter_of(asyncio.get_running_loop()))
        try:
            if self.seconds is None:
                return await on_account(self, meter, work)
            value = await self._within(meter, work)
        except Exception as error:
            if self.left < 0 and not isinstance(error, TimeIsOver):
                raise self._over() from error
            raise
        finally:
            self._end()
        if self.left < 0:
            # It held the loop, so that nobody could cancel it, or did not let itself be cancelled.
            raise self._over()
        return value

    def _begin(self, meter: Meter) -> Meter:
        if not self._at_hand:
            self._meter = meter
            self._began = self._clock(meter)
        self._at_hand += 1
        return meter

    def _end(self) -> None:
        used = self.used
        self._at_hand -= 1
        if not self._at_hand:
            self._used = used

    def _over(self) -> TimeIsOver:
        return TimeIsOver(held=self.is_stuck or 2 * self.held > (self.seconds or 0.0))

    async def _within(self, meter: Meter, work: Callable[[], Awaitable[T]]) -> T:
        scope = asyncio.timeout(None)
        try:
            async with scope:
                alarm = _Alarm(self, scope)
                self._alarms.append(alarm)
                try:
                    alarm.look()
                    return await on_account(self, meter, work)
                finally:
                    self._alarms.remove(alarm)
                    alarm.end()
        except TimeoutError:
            if not scope.expired():
                raise
            raise self._over() from None

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
        meter = self._meter
        if not self._at_hand or meter is None:
            await places.acquire()
            return
        if not self._waiting:
            self._waits_since, self._held_before = self._clock(meter), self._held_so_far(meter)
        self._waiting += 1
        try:
            await places.acquire()
        finally:
            self._waiting -= 1
            if not self._waiting:
                held = self._held_so_far(meter) - self._held_before
                self._began += self._clock(meter) - self._waits_since - held
                for alarm in self._alarms:
                    alarm.look()

    @property
    def stands_still(self) -> bool:
        return self._waiting > 0


class _Alarm:
    """Cancels work at the end of its limit, by the limit's own clock."""

    def __init__(self, limit: TimeLimit, scope: asyncio.Timeout) -> None:
        self._limit, self._scope = limit, scope
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """End the work if its time is over, else look again when it will be, as far as that is known."""
        self.end()
        left = self._limit.left
        if left <= 0:
            if not self._scope.expired():
                self._scope.reschedule(self._loop.time())
        elif not self._limit.stands_still:
            self._timer = self._loop.call_later(left, self.look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
