"""How an engine is told that a store is not used again: never for longer than a case may take, and never in vain for
long."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pytest_memeval.loops import LoopBlocked, LoopThread, call_within
from pytest_memeval.own_code import own_ends

#: Seconds that an engine may take to let go of a store, where a case may take longer.
RELEASE_SECONDS = 30.0
#: Seconds after these until what should have been cancelled is known to hold its loop.
_GRACE = 1.0
#: So often an engine may fail to come back; then it is asked no more.
_MOST_LATE = 3


class Releases:
    """The releases of one process's run. Close it at the end."""

    def __init__(self) -> None:
        #: How many did not come back in time.
        self.late = 0
        self._patience = RELEASE_SECONDS
        self._late_of: dict[int, int] = {}
        #: Engines that were late, kept so that their ids stay their own.
        self._engines: list[object] = []
        # Apart from the cases' own loop: one that blocks here must take none of them with it.
        self._loop = LoopThread("memeval-release", counts=False)

    @property
    def seconds(self) -> float:
        """How long the last one that was late was waited for."""
        return self._patience

    def let_go(
        self, engine: object, function: Callable[..., Any], ctx: Any, limit: float | None, *, here: bool
    ) -> None:
        """Call the engine's ``release``; what goes wrong there is no part of any case. ``limit``: a case's seconds.
        ``here``: no limit holds, and the engine's methods are called in this thread."""
        if self._late_of.get(id(engine), 0) >= _MOST_LATE:
            return
        seconds = RELEASE_SECONDS if limit is None else min(limit, RELEASE_SECONDS)
        try:
            with contextlib.suppress(*own_ends()):
                self._call(function, ctx, seconds, here=here)
        except _Late:
            self.late += 1
            self._patience = seconds
            self._late_of[id(engine)] = self._late_of.get(id(engine), 0) + 1
            self._engines.append(engine)

    def _call(self, function: Callable[..., Any], ctx: Any, seconds: float, *, here: bool) -> None:
        if here or inspect.iscoroutinefunction(function):
            waits = function(ctx)
        else:
            outcome = call_within(seconds, function, ctx)
            if outcome is None:
                raise _Late
            waits, error = outcome
            if error is not None:
                raise error
        if inspect.isawaitable(waits):
            try:
                self._loop.run(_within(waits, seconds), timeout=seconds + _GRACE)
            except LoopBlocked:
                raise _Late from None

    def close(self) -> None:
        self._loop.close()


class _Late(BaseException):
    """It did not come back in time. No Exception: those are the engine's own."""


async def _within(work: Awaitable[Any], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds) as scope:
            await work
    except TimeoutError:
        if scope.expired():
            raise _Late from None
        raise
