"""Work whose steps are measured looks to whoever asks like any other: libraries look at what a task runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest

from pytest_memeval.loop_time import Holder, meter_of, on_account, own_task

T = TypeVar("T")


def measured(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(own_task)
        return await on_account(Holder(), meter_of(loop), work)

    return asyncio.run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_a_task_group_of_anyio_is_cancelled(begun: bool) -> None:
    ended: list[str] = []

    async def child(name: str) -> None:
        try:
            await anyio.sleep(30)
        finally:
            ended.append(name)

    async def work() -> str:
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(child, name)
            if begun:
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        return "done"

    assert asyncio.run(work()) == "done"
    plain, ended = ended, []
    assert measured(work) == "done"
    assert sorted(ended) == sorted(plain)


def test_time_limits_of_anyio_and_asyncio() -> None:
    async def work() -> list[str]:
        said = []
        with anyio.move_on_after(0.01):
            await asyncio.sleep(30)
            said.append("late")
        try:
            async with asyncio.timeout(0.01), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(30))
        except TimeoutError:
            said.append("over")
        try:
            await asyncio.wait_for(asyncio.sleep(30), 0.01)
        except TimeoutError:
            said.append("over")
        return said

    assert measured(work) == ["over", "over"]


def test_a_task_tells_what_it_runs() -> None:
    async def named() -> None:
        await asyncio.sleep(0.01)

    async def work() -> None:
        task = asyncio.create_task(named())
        coroutine = task.get_coro()
        assert coroutine is not None
        assert coroutine.__qualname__.endswith("named")
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED  # type: ignore[arg-type]  # as it looks
        await asyncio.sleep(0)
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED  # type: ignore[arg-type]  # as it looks
        assert [frame.f_code.co_name for frame in task.get_stack()] == ["named"]
        assert "named" in repr(task)
        await task
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED  # type: ignore[arg-type]  # as it looks

    measured(work)


def test_generators_end_and_errors_come_through() -> None:
    ended = []

    async def numbers() -> None:
        async def count() -> object:
            return 1

        with pytest.raises(ZeroDivisionError):
            await asyncio.create_task(fails())
        assert await asyncio.create_task(count()) == 1  # type: ignore[arg-type]  # a coroutine
        task = asyncio.create_task(asyncio.sleep(30))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended.append("all")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    measured(numbers)
    assert ended == ["all"]
