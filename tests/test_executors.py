"""Blocking functions that an engine gives to the loop's own pool."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial

import pytest

from pytest_memeval.executors import ContextExecutor
from pytest_memeval.loop_time import Holder, meter_of, on_account
from pytest_memeval.loops import LoopThread

WHOSE: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody's")


@pytest.mark.timeout(60)
def test_the_loops_pool_sees_the_context_of_whoever_asks() -> None:
    def seen(first: str, *, second: str) -> tuple[str, str, str, str]:
        return WHOSE.get(), first, second, threading.current_thread().name

    def asked() -> tuple[str, str, str, str]:
        return seen("a", second="b")

    async def one(name: str) -> tuple[str, str, str, str]:
        WHOSE.set(name)
        return await asyncio.get_running_loop().run_in_executor(None, asked)

    async def several() -> list[tuple[str, str, str, str]]:
        return await asyncio.gather(*(one(f"case {number}") for number in range(8)))

    loop = LoopThread()
    try:
        found = loop.run(several())
    finally:
        loop.close()
    assert [row[:3] for row in found] == [(f"case {number}", "a", "b") for number in range(8)]
    assert all(row[3].startswith("asyncio") for row in found)


def test_it_is_a_pool() -> None:
    pool = ContextExecutor()
    most = pool._max_workers
    gate, begun = threading.Event(), threading.Semaphore(0)

    def wait() -> str:
        begun.release()
        assert gate.wait(60)
        return threading.current_thread().name

    futures = [pool.submit(wait) for _ in range(most + 3)]
    for _ in range(most):
        assert begun.acquire(timeout=60)
    # The others wait for a thread, and may be taken back.
    assert not begun.acquire(blocking=False)
    assert futures[-1].cancel()
    gate.set()
    assert len({future.result(60) for future in futures[:-1]}) == most
    # A thread that is idle is taken before another one is started.
    names = set()
    for _ in range(2 * most):
        names.add(pool.submit(lambda: threading.current_thread().name).result(60))
    assert len(names) <= most

    def fail() -> None:
        raise ValueError("broke here")

    failed = pool.submit(fail)
    assert isinstance(failed.exception(60), ValueError)
    assert list(pool.map(str, range(3))) == ["0", "1", "2"]
    slow = pool.submit(time.sleep, 0.2)
    pool.shutdown()
    assert slow.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(str)


@pytest.mark.timeout(120)
def test_everybody_at_work_has_as_many_threads_as_alone() -> None:
    loop = LoopThread()
    most = ContextExecutor()._max_workers
    gate = threading.Event()
    begun: Counter[str] = Counter()
    all_begun = threading.Semaphore(0)

    def wait(name: str) -> None:
        begun[name] += 1
        all_begun.release()
        assert gate.wait(60)

    async def several(name: str) -> None:
        await asyncio.gather(*(asyncio.to_thread(wait, name) for _ in range(most + 2)))

    async def everybody() -> None:
        meter = meter_of(asyncio.get_running_loop())
        await asyncio.gather(*(on_account(Holder(), meter, partial(several, name)) for name in "abc"))

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(everybody())

    async def end(task: asyncio.Task[None]) -> None:
        await task

    try:
        task = loop.run(begin())
        for _ in range(3 * most):
            assert all_begun.acquire(timeout=60)
        assert begun == dict.fromkeys("abc", most)
        assert not all_begun.acquire(timeout=0.1)
        gate.set()
        loop.run(end(task))
        assert begun == dict.fromkeys("abc", most + 2)
    finally:
        gate.set()
        loop.close()


@pytest.mark.timeout(60)
def test_a_call_that_nobody_waits_for_keeps_no_process() -> None:
    code = """
import asyncio, time
from pytest_memeval.loops import LoopThread

async def work():
    try:
        await asyncio.wait_for(asyncio.to_thread(time.sleep, 300), 0.1)
    except TimeoutError:
        return "over"

loop = LoopThread()
print(loop.run(work()))
loop.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "over\n"
