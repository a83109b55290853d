"""A case's time limit: one span for all of its stages, counted from the first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pytest_memeval.engine.protocol import StageError

T = TypeVar("T")


def time_is_over(limit: float, *, held: bool = False) -> StageError:
    """The error of a stage for which the case had no time left; ``held``: it let nothing else run meanwhile."""
    why = "; it held the event loop all the time, as time.sleep or a blocking client in an async method does"
    return StageError(f"the case's time limit of {limit:g} s is over{why if held else ''}", kind="timeout")


class Deadline:
    """``limit`` seconds from the first work on; ``None`` for no limit. It stands still where the time is not the
    engine's."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._at: float | None = None
        self._still = False

    @property
    def is_set(self) -> bool:
        return self._limit is not None

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """What is done meanwhile takes nothing of the time. On the loop, and not while :meth:`keep` runs."""
        started, self._still = time.monotonic(), True
        try:
            yield
        finally:
            if self._at is not None:
                self._at += time.monotonic() - started
            self._still = False

    def still_runs(self) -> bool:
        """Whether there is time left though more than the limit may have passed. May be asked from any thread."""
        return self._still or (self._at is not None and time.monotonic() < self._at)

    async def keep(self, work: Callable[[], Awaitable[T]]) -> T:
        """The work's value. StageError (``timeout``) when time is over, at once if it was before."""
        limit = self._limit
        if limit is None:
            return await work()
        now = asyncio.get_running_loop().time()
        if self._at is None:
            self._at = now + limit
        if now >= self._at:
            raise time_is_over(limit)
        try:
            async with asyncio.timeout_at(self._at) as scope:
                return await work()
        except TimeoutError:
            if not scope.expired():
                raise
            raise time_is_over(limit) from None
