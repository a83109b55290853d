"""A window of cases under way, as several threads see it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

from pytest_memeval.ahead import Ahead, Prepared
from pytest_memeval.loops import LoopThread


class Work:
    def __init__(self, begun: list[str], name: str) -> None:
        self.begun, self.name = begun, name

    async def work_ahead(self) -> None:
        self.begun.append(self.name)
        await asyncio.sleep(0)


@pytest.mark.timeout(60)
def test_a_case_begins_here_or_is_given_away_and_never_both() -> None:
    """A worker is asked for items by a thread of xdist's while the loop goes on beginning cases."""
    loop = LoopThread()
    names = [f"case-{number:02}" for number in range(40)]
    begun: list[str] = []

    def make(name: str) -> Prepared:
        return Prepared(Work(begun, name), ExitStack())

    try:
        for _ in range(30):
            begun.clear()
            ahead = Ahead(loop, 2)
            for name in names:
                ahead.start(name, partial(make, name))
            given = [name for name in reversed(names) if ahead.part_with(name)]
            for name in set(names) - set(given):
                prepared = ahead.take(name)
                assert prepared is not None
                assert prepared.work is not None
                prepared.work.result(10)
            assert sorted([*begun, *given]) == names
            ahead.close()
    finally:
        loop.close()


def test_what_is_not_under_way_can_be_given_away() -> None:
    loop = LoopThread()
    try:
        assert Ahead(loop, 2).part_with("unknown")
    finally:
        loop.close()


@pytest.mark.parametrize("end", [Ahead.close, Ahead.drop, Ahead.hold])
def test_no_case_begins_when_those_before_it_are_stopped(end: Callable[[Ahead], None]) -> None:
    loop = LoopThread()
    begun: list[str] = []

    class Hanging(Work):
        async def work_ahead(self) -> None:
            self.begun.append(self.name)
            await asyncio.sleep(60)

    def make(name: str) -> Prepared:
        resources = ExitStack()
        resources.callback(time.sleep, 0.002)  # closing a case's databases takes a while, too
        return Prepared(Hanging(begun, name), resources)

    try:
        ahead = Ahead(loop, 3)
        for number in range(40):
            ahead.start(f"case-{number}", partial(make, f"case-{number}"))
        until = time.monotonic() + 10
        while len(begun) < 3 and time.monotonic() < until:
            time.sleep(0.001)
        end(ahead)
        loop.settle(5)
        ahead.close()
        loop.settle(5)
        assert begun == ["case-0", "case-1", "case-2"]
    finally:
        loop.close()


@pytest.mark.timeout(60)
def test_a_case_that_runs_beside_takes_one_of_the_places() -> None:
    loop = LoopThread()
    begun: list[str] = []
    go_on = asyncio.Event()

    class Waiting(Work):
        async def work_ahead(self) -> None:
            self.begun.append(self.name)
            await go_on.wait()

    async def seen() -> list[str]:
        for _ in range(20):
            await asyncio.sleep(0)
        return list(begun)

    try:
        ahead = Ahead(loop, 2)
        ahead.begin_beside()
        ahead.begin_beside()  # the same item, asked again
        for name in "abcd":
            ahead.start(name, lambda name=name: Prepared(Waiting(begun, name), ExitStack()))
        assert loop.run(seen()) == ["a"]
        ahead.end_beside()
        assert loop.run(seen()) == ["a", "b"]
        ahead.end_beside()  # nothing is beside
        assert loop.run(seen()) == ["a", "b"]
        ahead.begin_beside()  # no place is free: it does not wait
        ahead.end_beside()
        assert loop.run(seen()) == ["a", "b"]
        loop.loop().call_soon_threadsafe(go_on.set)
        assert loop.run(seen()) == ["a", "b", "c", "d"]
        ahead.close()
    finally:
        loop.close()


class Waits:
    """Begins, and waits until it is stopped."""

    def __init__(self, said: list[str], name: str) -> None:
        self.said, self.name = said, name

    async def work_ahead(self) -> None:
        self.said.append(f"begun {self.name}")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.said.append(f"stopped {self.name}")
            raise


@pytest.mark.timeout(60)
def test_all_but_the_case_at_hand_can_be_stopped_from_any_thread() -> None:
    loop = LoopThread()
    said: list[str] = []
    closed: list[str] = []

    def make(name: str) -> Prepared:
        resources = ExitStack()
        resources.callback(closed.append, name)
        return Prepared(Waits(said, name), resources)

    try:
        ahead = Ahead(loop, 2)
        for name in ("one", "two", "three"):
            ahead.start(name, partial(make, name))
        while len(said) < 2:
            time.sleep(0.01)
        thread = threading.Thread(target=ahead.cancel, kwargs={"but": "one"})
        thread.start()
        thread.join()
        while len(said) < 3:
            time.sleep(0.01)
        ahead.start("four", partial(make, "four"))
        kept = ahead.take("one")
        assert kept is not None
        assert kept.work is not None
        assert not kept.work.done()
        assert said == ["begun one", "begun two", "stopped two"]
        # What is closed with a case is closed where its item would have been.
        assert closed == []
        ahead.close()
        assert closed == ["two", "three"]
        kept.close()
    finally:
        loop.close()


def test_a_case_that_is_made_while_all_are_stopped_does_not_begin() -> None:
    loop = LoopThread()
    said: list[str] = []
    closed: list[str] = []
    ahead = Ahead(loop, 2)

    def make() -> Prepared:
        ahead.cancel(but="")
        resources = ExitStack()
        resources.callback(closed.append, "late")
        return Prepared(Waits(said, "late"), resources)

    try:
        ahead.start("late", make)
        assert closed == ["late"]
        assert len(ahead) == 0
    finally:
        loop.close()
    assert said == []
