"""A case's time limit: one span for all of its stages, counted from the first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.time_limit import TimeIsOver, TimeLimit, why_over

T = TypeVar("T")


def time_is_over(limit: float, *, held: bool = False) -> StageError:
    """The error of a stage for which the case had no time left."""
    return StageError(why_over(limit, held=held), kind="timeout")


class Deadline(TimeLimit):
    """What the engine takes of the case's time; what lies between two stages is not the engine's."""

    async def keep(self, work: Callable[[], Awaitable[T]]) -> T:
        """The work's value. StageError (``timeout``) when time is over, at once if it was before."""
        try:
            return await super().keep(work)
        except TimeIsOver as over:
            raise time_is_over(self.seconds or 0.0, held=over.held) from None
