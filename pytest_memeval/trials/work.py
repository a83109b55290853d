"""Several pieces of one case's work, as many at once as there is room for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence


async def side_by_side(
    works: Sequence[Callable[[], Awaitable[None]]], slots: asyncio.Semaphore | None, helpers: int
) -> None:
    """Do all of ``works``, begun in their order. The caller's own slot serves for one at a time; of at most ``helpers``
    others, each that gets one of ``slots`` takes pieces, too. What a piece raises is raised when all helpers ended."""
    waiting = deque(works)
    begun: set[int] = set()

    async def drain() -> None:
        while waiting:
            await waiting.popleft()()

    async def help_out(number: int) -> None:
        assert slots is not None
        async with slots:
            begun.add(number)
            await drain()

    count = 0 if slots is None else max(0, min(helpers, len(works) - 1))
    tasks = [asyncio.create_task(help_out(number)) for number in range(count)]
    try:
        await drain()
        for number, task in enumerate(tasks):
            if number not in begun:
                task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
            raise end
