"""Waiting for a part of a project's own, so long and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pytest_memeval.failures import told
from pytest_memeval.loop_time import apart
from pytest_memeval.loops import LoopBlocked, LoopThread

T = TypeVar("T")

#: Seconds that a part has to hear that it was cancelled.
_GRACE = 1.0


class NoAnswer(Exception):
    """It did not come back in time; a time limit of the part's own is another error."""


def within(loop: LoopThread, work: Awaitable[T], patience: float) -> T:
    """What ``work`` gives on the loop. NoAnswer after ``patience`` seconds, and what it raises itself."""

    async def asked() -> T:
        try:
            async with asyncio.timeout(patience) as scope:
                return await apart(lambda: work)
        except TimeoutError:
            if scope.expired():
                raise NoAnswer(f"no answer within {patience:g} s") from None
            raise

    try:
        return loop.run(asked(), timeout=patience + _GRACE)
    except asyncio.CancelledError as error:
        raise NoAnswer(f"it was cancelled, and not from outside: {told(error)}") from error
    except LoopBlocked:
        why = "it holds the event loop, as time.sleep or a blocking client in an async method does"
        raise NoAnswer(f"no answer within {patience:g} s: {why}, or does not end when it is cancelled") from None
