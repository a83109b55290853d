"""How long an engine is waited for that is to let go of a store."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from pytest_memeval.measuring import releases
from pytest_memeval.measuring.releases import Releases


@pytest.fixture
def held() -> Any:
    over = threading.Event()
    yield over
    over.set()


def test_without_a_limit_of_the_case_its_own_holds(monkeypatch: pytest.MonkeyPatch, held: threading.Event) -> None:
    monkeypatch.setattr(releases, "RELEASE_SECONDS", 0.2)
    own = Releases()
    own.let_go(object(), lambda ctx: held.wait(30), None, None, here=False)

    async def sleep(ctx: object) -> None:
        await asyncio.sleep(30)

    own.let_go(object(), sleep, None, None, here=True)
    own.let_go(object(), sleep, None, 500.0, here=False)
    assert (own.late, own.seconds) == (3, 0.2)
    own.close()


def test_each_engine_has_three_tries(held: threading.Event) -> None:
    own, asked = Releases(), []
    first, second = object(), object()
    for engine in (first, first, first, first, second, first):
        own.let_go(engine, lambda ctx, engine=engine: (asked.append(engine), held.wait(30)), None, 0.1, here=False)
    assert asked == [first, first, first, second]
    assert own.late == 4


def test_where_nothing_is_limited_the_callers_thread_calls() -> None:
    own, threads = Releases(), []
    own.let_go(object(), lambda ctx: threads.append(threading.current_thread()), None, None, here=True)
    assert threads == [threading.current_thread()]


def test_one_that_blocks_its_loop_leaves_the_next_a_new_one() -> None:
    own, done = Releases(), []

    async def block(ctx: object) -> None:
        time.sleep(5)

    async def quick(ctx: object) -> None:
        done.append(ctx)

    own.let_go(object(), block, "a", 0.1, here=False)
    own.let_go(object(), quick, "b", 2.0, here=False)
    assert (own.late, done) == (1, ["b"])
    own.close()


def test_an_interrupt_passes() -> None:
    def interrupted(ctx: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Releases().let_go(object(), interrupted, None, 1.0, here=False)
