"""A case's time limit: kept, and standing still while a place is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from pytest_memeval.loop_time import own_task
from pytest_memeval.time_limit import TimeIsOver, TimeLimit

T = TypeVar("T")


async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def in_time(limit: TimeLimit, work: Callable[[], Awaitable[Any]]) -> bool:
    try:
        await limit.keep(work)
    except TimeIsOver:
        return False
    return True


@pytest.mark.parametrize(("limit", "seconds", "kept"), [(None, 0.05, True), (5.0, 0.01, True), (0.05, 5.0, False)])
def test_work_is_done_in_time_or_cancelled(limit: float | None, seconds: float, kept: bool) -> None:
    ended = []

    async def work() -> None:
        await nap(seconds)
        ended.append(True)

    assert asyncio.run(in_time(TimeLimit(limit), work)) is kept
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

            return await in_time(own, work)

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
        return await in_time(own, work), time.perf_counter() - started

    kept, seconds = asyncio.run(run())
    assert not kept
    assert 0.7 < seconds < 3


def test_pieces_of_work_at_once_end_in_any_order_and_each_in_time() -> None:
    async def run() -> list[bool]:
        own = TimeLimit(0.5)
        return await asyncio.gather(*(in_time(own, lambda at=at: nap(at)) for at in (0.1, 60.0, 0.05, 60.0)))

    started = time.perf_counter()
    assert on_own_loop(run()) == [True, False, True, False]
    assert time.perf_counter() - started < 30


def test_what_is_used_already_counts() -> None:
    own = TimeLimit(5.0, used=4.9)
    assert on_own_loop(in_time(own, lambda: nap(60))) is False


def test_steps_of_ones_own_count_while_a_place_is_waited_for() -> None:
    async def run() -> tuple[bool, float]:
        place, own = asyncio.Semaphore(1), TimeLimit(0.5)
        await place.acquire()

        async def waits() -> None:
            async with own.place(place):
                pass

        async def works() -> None:
            for _ in range(4):
                await nap(0.01)
                time.sleep(0.2)  # that is what is tried here

        async def both() -> None:
            await asyncio.gather(waits(), works())

        task = asyncio.create_task(in_time(own, both))
        asyncio.get_running_loop().call_later(1.5, place.release)
        return await task, own.used

    kept, used = on_own_loop(run())
    assert not kept
    assert 0.5 <= used < 1.5


def held(seconds: float, *, by_task: bool = False) -> Callable[[], Awaitable[None]]:
    """Work that holds the loop for so long, itself or in a task that it starts, and comes back by itself."""

    async def block() -> None:
        time.sleep(seconds)  # that is what is tried here

    async def start() -> None:
        await asyncio.create_task(block())

    return start if by_task else block


def on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run it as on the loop that cases run on."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(own_task)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@pytest.mark.parametrize("by_task", [False, True])
def test_work_that_held_the_loop_too_long_is_over_though_it_came_back(by_task: bool) -> None:
    own = TimeLimit(0.1)
    with pytest.raises(TimeIsOver) as over:
        on_own_loop(own.keep(held(0.2, by_task=by_task)))
    assert over.value.held
    assert own.used >= 0.2


def test_an_error_after_the_end_of_the_time_is_the_end_of_the_time() -> None:
    async def work() -> None:
        time.sleep(0.2)  # that is what is tried here
        raise ValueError("too late")

    with pytest.raises(TimeIsOver):
        on_own_loop(TimeLimit(0.1).keep(work))


@pytest.mark.parametrize("by_task", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_what_others_hold_the_loop_for_is_no_time_of_ones_own(first: bool, by_task: bool) -> None:
    async def run() -> tuple[list[bool], float]:
        own, other = TimeLimit(20.0), TimeLimit(0.2)
        works = [in_time(own, lambda: nap(0.01)), in_time(other, held(1.0, by_task=by_task))]
        if not first:
            works.reverse()
        found = await asyncio.gather(*works)
        return list(found if first else reversed(found)), own.used

    kept, used = on_own_loop(run())
    assert kept == [True, False]
    assert used < 1.0


def test_a_limit_that_stood_still_ends_by_its_own_clock() -> None:
    async def run() -> tuple[list[bool], float]:
        own = TimeLimit(0.5)
        kept = await asyncio.gather(in_time(own, lambda: nap(60)), in_time(TimeLimit(60.0), held(1.0)))
        return kept, time.perf_counter() - started

    started = time.perf_counter()
    kept, seconds = on_own_loop(run())
    assert kept == [False, True]
    assert 1.5 <= seconds < 30


def test_all_pieces_of_work_share_the_time() -> None:
    async def run() -> tuple[list[bool], float]:
        own = TimeLimit(0.5)
        kept = [await in_time(own, held(0.3))]
        await nap(0.4)  # nobody's
        kept += [await in_time(own, held(0.3)), await in_time(own, held(0.0))]
        return kept, own.used

    kept, used = on_own_loop(run())
    assert kept == [True, False, False]
    assert used >= 0.6


def test_the_next_step_of_work_that_nobody_wants_is_cancelled() -> None:
    steps = []

    async def run() -> None:
        own = TimeLimit(60.0)

        async def work() -> None:
            steps.append(1)
            await nap(0.01)
            steps.append(2)

        task = asyncio.create_task(own.keep(work))
        while not steps:
            await asyncio.sleep(0)
        own.is_dropped = True
        with pytest.raises(asyncio.CancelledError):
            await task

    on_own_loop(run())
    assert steps == [1]


def test_a_task_that_is_cancelled_before_its_first_step_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    async def work() -> None:
        task = asyncio.create_task(nap(1))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    on_own_loop(TimeLimit(60.0).keep(work))
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


def test_who_is_overdue() -> None:
    async def run() -> list[bool]:
        place, own = asyncio.Semaphore(1), TimeLimit(0.2)
        await place.acquire()
        said = [own.is_overdue(0.0)]

        async def work() -> None:
            async with own.place(place):
                said.append(own.is_overdue(0.0))
                await nap(0.0)
                time.sleep(0.4)  # that is what is tried here
                said.append(own.is_overdue(0.0))
                said.append(own.is_overdue(30.0))

        task = asyncio.create_task(in_time(own, work))
        await nap(0.4)
        said.append(own.is_overdue(0.0))
        place.release()
        await task
        return [*said, own.is_overdue(0.0)]

    assert on_own_loop(run()) == [False, False, False, True, False, False]
