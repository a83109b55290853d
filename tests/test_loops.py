"""The background loop and its worker threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from pytest_memeval.llm.sync import run_sync
from pytest_memeval.loop_time import tasks_on
from pytest_memeval.loops import (
    LoopBlocked,
    LoopPlaces,
    LoopThread,
    call_blocking,
    in_daemon_thread,
    refuse_on_left_loop,
)
from pytest_memeval.time_limit import TimeLimit


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test-loop")
    yield thread
    thread.close()


async def value(result: object, seconds: float = 0.0) -> object:
    await asyncio.sleep(seconds)
    return result


def failing(error: BaseException) -> None:
    raise error


def test_results_and_exceptions_come_back(loop: LoopThread) -> None:
    assert loop.run(value(1)) == 1
    with pytest.raises(ZeroDivisionError):
        loop.run(in_daemon_thread(failing, ZeroDivisionError()))


def test_all_work_shares_one_loop_until_it_is_closed(loop: LoopThread) -> None:
    async def here() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    first = loop.run(here())
    assert loop.run(here()) is first
    loop.close()
    loop.close()
    assert first.is_closed()
    assert loop.run(here()) is not first


def test_work_cannot_stop_the_loop_that_others_run_on(loop: LoopThread) -> None:
    async def stop_it() -> None:
        asyncio.get_running_loop().stop()

    async def stop_it_behind() -> asyncio.AbstractEventLoop:
        own = asyncio.get_running_loop()
        type(own).stop(own)
        await asyncio.sleep(0.05)
        return own

    for run in (loop.run, run_sync):
        with pytest.raises(RuntimeError, match="Cannot stop the event loop"):
            run(stop_it())
        first = run(stop_it_behind())
        assert run(stop_it_behind()) is first
    loop.close()
    assert loop.run(value(1)) == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_what_would_end_a_loop_ends_only_the_work(loop: LoopThread, error: BaseException) -> None:
    async def directly() -> None:
        raise error

    async def in_a_task() -> None:
        await asyncio.get_running_loop().create_task(directly())

    for work in (directly, in_a_task):
        with pytest.raises(type(error)):
            loop.run(work(), timeout=5)
        assert loop.run(value(2), timeout=5) == 2


def test_stop_iteration_is_an_error_and_no_hang(loop: LoopThread) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        loop.run(in_daemon_thread(next, iter(())), timeout=5)


def test_an_interrupted_wait_cancels_the_work(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    loop.loop()
    # A real signal: only that wakes a thread that waits for a lock, as Ctrl-C does.
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert cancelled.wait(5)


def test_a_blocked_loop_is_left_behind(loop: LoopThread) -> None:
    over, release = threading.Event(), threading.Event()

    async def blocks() -> None:
        release.wait(20)
        over.set()

    with pytest.raises(LoopBlocked):
        loop.run(blocks(), timeout=0.1)
    assert not over.is_set()
    assert loop.run(value("fresh"), timeout=5) == "fresh"
    release.set()
    assert over.wait(5)


def test_a_timeout_of_the_work_itself_is_no_blocked_loop(loop: LoopThread) -> None:
    async def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop.run(late(), timeout=5)


def test_calling_from_the_loop_itself_is_refused(loop: LoopThread) -> None:
    async def inside() -> object:
        return loop.run(value(1))

    with pytest.raises(RuntimeError, match="await"):
        loop.run(inside())


def test_closing_cancels_what_still_runs() -> None:
    loop = LoopThread("closing")
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    asyncio.run_coroutine_threadsafe(work(), loop.loop())
    loop.run(value(None, 0.01))
    loop.close()
    assert ended.is_set()
    assert not any(thread.name == "closing" for thread in threading.enumerate())


def test_closing_does_not_wait_long_for_a_loop_that_is_stuck() -> None:
    loop = LoopThread("stuck")
    stuck, go_on = threading.Event(), threading.Event()

    async def work() -> None:
        stuck.set()
        go_on.wait(30)

    asyncio.run_coroutine_threadsafe(work(), loop.loop())
    assert stuck.wait(10)
    started = time.monotonic()
    loop.close(1.0)
    assert time.monotonic() - started < 0.9
    go_on.set()
    for _ in range(200):  # what blocked it is over: it ends
        if not any(thread.name == "stuck" for thread in threading.enumerate()):
            break
        time.sleep(0.05)
    assert not any(thread.name == "stuck" for thread in threading.enumerate())


def test_blocking_functions_run_beside_the_loop_in_daemons(loop: LoopThread) -> None:
    def blocking() -> bool:
        # A plain function may run a loop of its own, which is impossible inside a running one.
        assert asyncio.run(value(3)) == 3
        return threading.current_thread().daemon

    assert loop.run(in_daemon_thread(blocking)) is True


def test_one_thread_serves_one_caller_again_and_again(loop: LoopThread) -> None:
    loop.run(in_daemon_thread(time.sleep, 0))
    names = {loop.run(in_daemon_thread(threading.get_ident)) for _ in range(20)}
    assert len(names) <= 2


def test_a_cancelled_call_is_left_behind_and_its_result_dropped(loop: LoopThread) -> None:
    release, ended = threading.Event(), threading.Event()

    def blocking() -> int:
        release.wait(10)
        ended.set()
        return 1

    async def limited() -> None:
        async with asyncio.timeout(0.1):
            await in_daemon_thread(blocking)

    with pytest.raises(TimeoutError):
        loop.run(limited())
    assert not ended.is_set()
    assert loop.run(in_daemon_thread(lambda: 2)) == 2
    release.set()
    assert ended.wait(5)


class _Overdue(TimeLimit):
    """Its time is over, whatever the work does."""

    def is_overdue(self, grace: float) -> bool:
        return True


def test_work_that_ends_while_it_is_asked_for_its_time_is_not_lost(loop: LoopThread) -> None:
    over = threading.Event()

    async def work() -> str:
        while not over.is_set():
            await asyncio.sleep(0.001)
        return "its value"

    def limits() -> list[TimeLimit]:
        over.set()
        deadline = time.monotonic() + 30
        while asyncio.run_coroutine_threadsafe(others(), loop.loop()).result() and time.monotonic() < deadline:
            time.sleep(0.001)
        return [_Overdue(0.01)]

    async def others() -> int:
        return len(tasks_on(asyncio.get_running_loop())) - 1

    assert loop.run(work(), limits=limits) == "its value"


def test_work_that_ignores_the_end_of_its_time_is_given_up_and_the_loop_kept(loop: LoopThread) -> None:
    own, over = TimeLimit(0.05), threading.Event()

    async def stubborn() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    before = loop.loop()
    with pytest.raises(LoopBlocked) as blocked:
        loop.run(own.keep(stubborn), limits=lambda: [own])
    over.set()
    assert blocked.value.holder is own
    assert loop.loop() is before
    assert not own.is_stuck


def test_who_holds_the_loop_beyond_its_time_is_named_to_others(loop: LoopThread) -> None:
    guilty, innocent, release = TimeLimit(0.05), TimeLimit(0.05), threading.Event()

    async def block() -> None:
        await asyncio.gather(deeper())  # in a task of its own

    async def deeper() -> None:
        release.wait(30)

    asyncio.run_coroutine_threadsafe(guilty.keep(block), loop.loop())
    with pytest.raises(LoopBlocked) as blocked:
        loop.run(innocent.keep(lambda: value(1)), limits=lambda: [innocent])
    assert blocked.value.holder is guilty
    assert (guilty.is_stuck, innocent.is_stuck) == (True, False)
    assert loop.run(innocent.keep(lambda: value(1)), limits=lambda: [innocent]) == 1
    release.set()


def test_a_loop_that_nobody_is_known_to_hold_is_left_behind_too(loop: LoopThread) -> None:
    own, release = TimeLimit(0.05), threading.Event()
    loop.loop().call_soon_threadsafe(release.wait, 30)
    with pytest.raises(LoopBlocked) as blocked:
        loop.run(own.keep(lambda: value(1)), limits=lambda: [own])
    release.set()
    assert blocked.value.holder is None
    assert loop.run(value(2), timeout=30) == 2


def test_nothing_begins_on_a_loop_that_was_left_behind(loop: LoopThread) -> None:
    release, heard = threading.Event(), threading.Event()

    async def waits() -> None:
        release.wait(30)
        try:
            refuse_on_left_loop()
        except asyncio.CancelledError:
            heard.set()

    with pytest.raises(LoopBlocked):
        loop.run(waits(), timeout=0.05)
    release.set()
    assert heard.wait(30)


def test_places_on_a_loop_that_was_left_behind_are_no_other_loops() -> None:
    places = LoopPlaces(1)

    async def take() -> bool:
        taken = places.locked()
        await places.acquire()
        return not taken and places.locked()

    assert asyncio.run(take())
    assert asyncio.run(take())


def test_context_variables_reach_the_thread(loop: LoopThread) -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async def work() -> str:
        variable.set("case 7")
        return await in_daemon_thread(variable.get)

    assert loop.run(work()) == "case 7"


def test_a_caller_that_may_block_is_served_in_its_own_thread_and_context() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    def blocking() -> tuple[int, int]:
        variable.set("changed")
        return threading.get_ident(), asyncio.run(value(3))

    assert call_blocking(blocking) == (threading.get_ident(), 3)
    assert variable.get() == "none"
    with pytest.raises(ZeroDivisionError):
        call_blocking(lambda: 1 // 0)


def test_a_caller_on_a_running_loop_gets_a_thread_in_which_loops_can_run() -> None:
    async def notebook() -> tuple[int, int]:
        return call_blocking(lambda: (threading.get_ident(), asyncio.run(value(3))))

    thread, result = asyncio.run(notebook())
    assert thread != threading.get_ident()
    assert result == 3
