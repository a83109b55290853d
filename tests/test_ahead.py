"""A window of cases under way, as several threads see it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
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
def test_what_had_ended_when_the_rest_was_broken_off_can_still_be_taken() -> None:
    """Ended is what came to its end by itself, not what ends because it is cancelled."""
    loop = LoopThread()
    begun: list[str] = []
    closed: list[str] = []

    class Stubborn(Work):
        async def work_ahead(self) -> None:
            self.begun.append(self.name)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    class Interrupted(Work):
        async def work_ahead(self) -> None:
            raise KeyboardInterrupt

    def make(kind: type[Work], name: str) -> Prepared:
        resources = ExitStack()
        resources.callback(closed.append, name)
        return Prepared(kind(begun, name), resources)

    try:
        ahead = Ahead(loop, 2)
        for kind in (Work, Interrupted, Stubborn, Work, Stubborn, Work):
            ahead.start(f"{kind.__name__}-{len(ahead)}", partial(make, kind, f"{kind.__name__}-{len(ahead)}"))
        until = time.monotonic() + 30
        while len(ahead.ended()) < 2 or len(begun) < 4:
            assert time.monotonic() < until
            time.sleep(0.001)
        ahead.break_off()
        assert list(ahead.ended()) == ["Work-0", "Work-3"]
        loop.settle(5)
        assert list(ahead.ended()) == ["Work-0", "Work-3"]
        assert begun == ["Work-0", "Stubborn-2", "Work-3", "Stubborn-4"]
        assert closed == []
        assert ahead.take("Stubborn-2") is None
        first = ahead.take("Work-0")
        assert first is not None
        ahead.start("late", partial(make, Work, "late"))
        ahead.close()
        assert sorted(closed) == ["Interrupted-1", "Stubborn-2", "Stubborn-4", "Work-3", "Work-5"]
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


class Steps:
    """Three steps with a pause between two of them; counts who works at once."""

    def __init__(self, log: list[tuple[str, int]], name: str, at_once: list[int]) -> None:
        self.log, self.name, self.at_once = log, name, at_once

    async def work_ahead(self, pause: Callable[[], Awaitable[None]]) -> None:
        for step in range(3):
            if step:
                await pause()
            self.log.append((self.name, step))
            self.at_once.append(self.at_once[-1] + 1)
            await asyncio.sleep(0.002)
            self.at_once.append(self.at_once[-1] - 1)


def _stepping(last_in_sight: bool, *, cut: int | None = None) -> tuple[list[tuple[str, int]], list[int]]:
    """What nine cases of three steps do in three places, and how many worked at once. ``cut``: so many steps are
    begun when all is stopped; then the same places serve for nine others."""
    loop = LoopThread()
    log: list[tuple[str, int]] = []
    at_once = [0]
    slots = asyncio.Semaphore(3)

    def all_of(prefix: str) -> list[Prepared]:
        ahead = Ahead(loop, 3, slots)
        ahead.last_in_sight = last_in_sight
        made = []
        for number in range(9):
            name = f"{prefix}-{number}"
            prepared = Prepared(Steps(log, name, at_once), ExitStack(), pauses=True)
            ahead.start(name, lambda prepared=prepared: prepared)  # type: ignore[misc]  # a default is no parameter
            made.append(prepared)
        until = time.monotonic() + 20
        while cut is not None and prefix == "first" and len(log) < cut and time.monotonic() < until:
            time.sleep(0.0005)
        if cut is not None and prefix == "first":
            ahead.close()
            loop.settle(5)
            log.clear()
            at_once[:] = [0]
        return made

    try:
        for prefix in ("first", "second") if cut is not None else ("first",):
            made = all_of(prefix)
        for prepared in made:
            assert prepared.work is not None
            prepared.work.result(20)
        return log, at_once
    finally:
        loop.close()


@pytest.mark.timeout(60)
def test_before_the_last_case_is_in_sight_a_case_goes_on_when_it_has_begun() -> None:
    log, at_once = _stepping(False)
    ends = {name: place for place, (name, step) in enumerate(log) if step == 2}
    begins = {name: place for place, (name, step) in enumerate(log) if step == 0}
    assert len(ends) == 9
    assert max(at_once) == 3
    assert min(ends.values()) < max(begins.values())
    for place in range(3, 9):
        assert sum(end < begins[f"first-{place}"] for end in ends.values()) >= place - 2


@pytest.mark.timeout(60)
def test_once_it_is_cases_that_have_not_begun_go_first() -> None:
    log, at_once = _stepping(True)
    assert max(at_once) == 3
    assert sorted(step for _, step in log[:9]) == [0] * 9
    assert sorted(set(log)) == sorted((f"first-{number}", step) for number in range(9) for step in range(3))
    assert len(log) == 27


@pytest.mark.timeout(60)
@pytest.mark.parametrize("cut", [1, 4, 8, 10, 13, 17])
def test_whoever_is_stopped_while_it_waits_for_its_place_neither_keeps_nor_adds_one(cut: int) -> None:
    log, at_once = _stepping(True, cut=cut)
    assert len(log) == 27
    assert max(at_once) == 3
