"""Work whose steps are measured looks to whoever asks like any other: libraries look at what a task runs."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest

from pytest_memeval.loop_time import Holder, apart, is_cancelled, meter_of, on_account, own_task, tasks_on

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


def test_work_that_cancels_its_own_task_does_not_cancel_who_waits_for_it() -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    async def main() -> list[bool]:
        said = []
        for _ in range(2):
            try:
                await apart(work)
            except asyncio.CancelledError:
                said.append(is_cancelled())
        return said

    assert asyncio.run(main()) == [False, False]


def test_who_cancels_the_caller_cancels_the_work_apart() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("work")

    async def main() -> None:
        try:
            await apart(work)
        except asyncio.CancelledError:
            ended.append("caller" if is_cancelled() else "nobody")
            raise

    async def outside() -> None:
        task = asyncio.create_task(main())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outside())
    assert ended == ["work", "caller"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_what_work_apart_raises_reaches_who_waits(error: type[BaseException]) -> None:
    async def work() -> None:
        raise error

    async def main() -> str:
        try:
            await apart(work)
        except BaseException as given:
            return type(given).__name__
        return ""

    assert asyncio.run(main()) == error.__name__


def test_context_variables_that_work_apart_sets_are_the_callers() -> None:
    seen = contextvars.ContextVar("seen", default="")

    async def work() -> None:
        assert seen.get() == "before"
        seen.set("by the work")

    async def main() -> str:
        seen.set("before")
        await on_account(Holder(), meter_of(asyncio.get_running_loop()), work)
        return seen.get()

    assert asyncio.run(main()) == "by the work"


def test_tasks_of_others_are_not_among_all_tasks() -> None:
    async def work() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        own = asyncio.create_task(asyncio.sleep(0))
        assert own in asyncio.all_tasks()
        return len(asyncio.all_tasks() & {own, other}), len(tasks_on(loop) & {own, other})

    async def main() -> tuple[int, int]:
        nonlocal other
        loop = asyncio.get_running_loop()
        loop.set_task_factory(own_task)
        other = asyncio.create_task(asyncio.sleep(0.05))
        return await on_account(Holder(), meter_of(loop), work)

    other: asyncio.Task[None]
    assert asyncio.run(main()) == (1, 2)
