"""Blocking functions that an engine gives to the loop's own pool."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

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
