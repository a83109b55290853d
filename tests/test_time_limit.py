"""A case's time limit: kept, and standing still while a place is waited for."""

from __future__ import annotations

import asyncio
import time

import pytest

from pytest_memeval.time_limit import TimeLimit


async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.parametrize(("limit", "seconds", "kept"), [(None, 0.05, True), (5.0, 0.01, True), (0.05, 5.0, False)])
def test_work_is_done_in_time_or_cancelled(limit: float | None, seconds: float, kept: bool) -> None:
    ended = []

    async def work() -> None:
        await nap(seconds)
        ended.append(True)

    assert asyncio.run(TimeLimit(limit).keep(work)) is kept
    assert ended == [True] * kept


def test_a_time_out_of_the_work_itself_is_no_end_of_the_limit() -> None:
    async def work() -> None:
        raise TimeoutError("the server's")

    with pytest.raises(TimeoutError, match="the server's"):
        asyncio.run(TimeLimit(5.0).keep(work))


def in_a_queue(limit: float, each: float, cases: int) -> list[bool]:
    """Whether each of the cases, which share one place, was done in time."""

    async def run() -> list[bool]:
        place = asyncio.Semaphore(1)

        async def case() -> bool:
            own = TimeLimit(limit)

            async def work() -> None:
                async with own.place(place):
                    await nap(each)

            return await own.keep(work)

        return list(await asyncio.gather(*(case() for _ in range(cases))))

    return asyncio.run(run())


def test_waiting_for_a_place_costs_no_time() -> None:
    started = time.perf_counter()
    assert in_a_queue(0.4, 0.15, 5) == [True] * 5
    assert time.perf_counter() - started >= 0.7


def test_what_holds_a_place_too_long_ends_and_hands_it_on() -> None:
    assert in_a_queue(0.1, 5.0, 3) == [False] * 3


def test_the_rest_of_the_time_counts_behind_the_place() -> None:
    async def run() -> tuple[bool, float]:
        place, own = asyncio.Semaphore(1), TimeLimit(0.4)

        async def work() -> None:
            await nap(0.2)
            async with own.place(place):
                await nap(5)

        await place.acquire()
        asyncio.get_running_loop().call_later(0.6, place.release)
        started = time.perf_counter()
        return await own.keep(work), time.perf_counter() - started

    kept, seconds = asyncio.run(run())
    assert not kept
    assert 0.7 < seconds < 3


def test_whether_it_still_runs() -> None:
    async def run() -> list[bool]:
        place, own = asyncio.Semaphore(1), TimeLimit(0.2)
        await place.acquire()
        said = [own.still_runs()]

        async def work() -> None:
            async with own.place(place):
                said.append(own.still_runs())

        task = asyncio.create_task(own.keep(work))
        await nap(0.4)
        said.append(own.still_runs())
        place.release()
        await task
        return [*said, own.still_runs()]

    assert asyncio.run(run()) == [False, True, True, False]
