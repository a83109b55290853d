"""Many samples at once, a bounded number of them under way, their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from pytest_memeval.loop_time import hidden

S = TypeVar("S")
T = TypeVar("T")

#: Called as ``progress(done, total)``.
Progress = Callable[[int, int], None]


async def in_order(
    items: Sequence[S],
    work: Callable[[S], Awaitable[T]],
    *,
    max_concurrency: int = 8,
    progress: Progress | None = None,
) -> list[T]:
    """``[await work(item) for item in items]`` with ``max_concurrency`` of them under way at once.

    A task is made for each place and not for each item, so that ten thousand items cost no more than eight. When it is
    cancelled, or ``work`` raises, everything under way is cancelled and waited for. ValueError for a
    ``max_concurrency`` below 1.
    """
    if max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency}")
    results: list[T | None] = [None] * len(items)
    done = 0

    async def place(left: Iterator[tuple[int, S]]) -> None:
        nonlocal done
        for position, item in left:
            results[position] = await work(item)
            done += 1
            if progress is not None:
                progress(done, len(items))

    numbered = enumerate(items)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(max_concurrency, len(items))):
                hidden(group.create_task(place(numbered)))
    except BaseExceptionGroup as errors:
        # Of several that failed at once the first is told, as a plain loop would.
        raise errors.exceptions[0] from None
    return results  # type: ignore[return-value]  # every position was filled
