"""How a process takes interrupts: one ends it, one that got lost does not stay lost, and none leaves a lock taken."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import logging
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

from pytest_memeval import interrupts as module
from pytest_memeval.interrupts import DEAF, LOST_AFTER, Interrupts

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def own(clock: Clock) -> Iterator[Interrupts]:
    before = signal.getsignal(signal.SIGINT)
    own = Interrupts(lasting=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own.listen()
    yield own
    signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def listening(*, lasting: bool) -> Iterator[Interrupts]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    own = Interrupts(lasting=lasting)
    own.listen()
    try:
        yield own
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_is_raised_and_the_same_from_elsewhere_is_not(own: Interrupts, clock: Clock) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    clock.now += LOST_AFTER / 2
    interrupt()


def test_one_that_has_not_come_through_is_raised_when_it_is_heard_of_again(own: Interrupts, clock: Clock) -> None:
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        clock.now += LOST_AFTER * 1.1


def test_one_that_has_not_come_through_is_raised_at_the_next_item(own: Interrupts) -> None:
    own.raise_lost()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            own.raise_lost()


def test_none_is_raised_after_one_has_come_through(own: Interrupts, clock: Clock) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    own.has_come_through()
    clock.now += LOST_AFTER * 10
    interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_process_that_ends_by_one_is_deaf_for_a_while(clock: Clock) -> None:
    with listening(lasting=False) as own:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        clock.now += LOST_AFTER * 1.1
        own.has_come_through()
        for _ in range(3):
            clock.now += DEAF / 4
            interrupt()
        clock.now += DEAF
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_one_that_came_from_elsewhere_makes_deaf_as_well(clock: Clock) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        own = Interrupts(lasting=False)
        own.has_come_through()
        interrupt()
        own.raise_lost()
        clock.now += DEAF * 1.1
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_must_be_whole_hears_of_none(clock: Clock) -> None:
    with listening(lasting=False) as own:
        with own.held_back():
            interrupt()
            clock.now += DEAF * 0.9
            interrupt()
        own.raise_lost()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_what_takes_too_long_hears_of_one(clock: Clock) -> None:
    with listening(lasting=False) as own, own.held_back():
        clock.now += DEAF * 1.1
        with pytest.raises(KeyboardInterrupt):
            interrupt()


@pytest.mark.parametrize("kept", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_signal_that_has_another_meaning_keeps_it(kept: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, kept)
    try:
        own = Interrupts(lasting=True)
        own.listen()
        own.has_come_through()
        assert signal.getsignal(signal.SIGINT) is kept
        own.leave()
        assert signal.getsignal(signal.SIGINT) is kept
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_session_that_ends_is_interrupted_once(own: Interrupts, clock: Clock) -> None:
    own.end()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    clock.now += LOST_AFTER * 10
    interrupt()


def test_what_others_have_put_in_its_place_stays(own: Interrupts) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    own.leave()
    own.has_come_through()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_the_signal_is_given_back(clock: Clock) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        own = Interrupts(lasting=True)
        own.leave()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        own.listen()
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        own.leave()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


#: Called without a frame of its own, so that the interrupt meets whoever calls it.
INTERRUPT = partial(signal.raise_signal, signal.SIGINT)


def nothing(*_: object) -> None:
    pass


def with_condition(**methods: Callable[..., object]) -> None:
    lock: Any = SimpleNamespace(
        **{"acquire": nothing, "release": nothing, "__enter__": nothing, "__exit__": nothing, **methods}
    )
    with threading.Condition(lock):
        time.sleep(0)


def log() -> None:
    handler = logging.NullHandler()
    handler.lock = SimpleNamespace(acquire=INTERRUPT, release=nothing)  # type: ignore[assignment]  # what is used of it
    handler.acquire()


def take_future() -> None:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    future.set_result(None)
    future._condition = SimpleNamespace(acquire=INTERRUPT, release=nothing)  # type: ignore[attr-defined]  # of Python's own
    concurrent.futures.wait([future])


def close() -> None:
    with contextlib.closing(SimpleNamespace(close=INTERRUPT)):
        pass


PLACES: dict[str, tuple[Callable[[], object], str]] = {
    "enter": (lambda: with_condition(__enter__=INTERRUPT), threading.__file__),
    "log": (log, logging.__file__),
    "future": (take_future, concurrent.futures._base.__file__),
    "close": (close, contextlib.__file__),
    "import": (lambda: bootstrap._call_with_frames_removed(INTERRUPT), "<frozen importlib._bootstrap>"),
}


#: Has no file of its own: Python's imports are frozen into it.
bootstrap: Any = importlib._bootstrap


def interrupted_in(act: Callable[[], object]) -> str:
    """The file of the code that an interrupt came up in; it does within a second."""
    try:
        act()
        time.sleep(1)
    except KeyboardInterrupt as error:
        trace = error.__traceback__
        found = ""
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            found, trace = (name if name != module.__file__ else found), trace.tb_next
        return found
    raise AssertionError("no interrupt came up")


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_where_locks_are_taken_comes_up_after_that(place: str) -> None:
    act, file = PLACES[place]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert interrupted_in(act) == file  # as Python does it
    finally:
        signal.signal(signal.SIGINT, before)
    for lasting in (False, True):
        with listening(lasting=lasting):
            assert interrupted_in(act) == __file__


def soon(act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(0.1, act)
    timer.start()
    return timer


def wait_for_queue() -> None:
    waiting: queue.Queue[int] = queue.Queue()
    try:
        waiting.get(timeout=60)
    finally:
        assert waiting.mutex.acquire(timeout=5)


def wait_for_future() -> None:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    try:
        concurrent.futures.wait([future], timeout=60)
    finally:
        assert future._condition.acquire(timeout=5)  # type: ignore[attr-defined]  # of Python's own


def wait_for_thread() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,))
    thread.start()
    try:
        thread.join()
    finally:
        ended.set()


def wait_for_lock() -> None:
    """Where a lock is taken that nobody ever gives back."""
    held = threading.Condition()
    thread = threading.Thread(target=held.acquire)
    thread.start()
    thread.join()
    with held:
        pass


@pytest.mark.parametrize("wait", [wait_for_queue, wait_for_future, wait_for_thread, wait_for_lock])
def test_an_interrupt_comes_up_where_the_process_waits(wait: Callable[[], None]) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with listening(lasting=True):
        began = time.monotonic()
        timer = soon(partial(signal.pthread_kill, main, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            wait()
        timer.join()
        assert time.monotonic() - began < 50


def test_no_interrupt_leaves_a_busy_queue_locked() -> None:
    # Threads at the same queue, and at work of their own: without the handler one interrupt of twenty leaves it locked.
    busy: queue.Queue[int] = queue.Queue()
    armed, over = threading.Event(), threading.Event()

    def feed() -> None:
        while not over.is_set():
            for _ in range(3):
                busy.put(1)
            sum(range(3000))
            if busy.qsize() > 2000:
                time.sleep(0.002)

    def poke() -> None:
        chance = random.Random(0)
        while not over.is_set():
            time.sleep(0.02 * chance.random())
            if armed.is_set():
                armed.clear()
                os.kill(os.getpid(), signal.SIGINT)

    def take_for_ever() -> None:
        armed.set()
        while True:
            busy.get(timeout=20)
            sum(range(1000))

    threads = [threading.Thread(target=act, daemon=True) for act in (feed, feed, poke)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            with listening(lasting=False), pytest.raises(KeyboardInterrupt):
                take_for_ever()
            assert busy.mutex.acquire(timeout=20)
            busy.mutex.release()
    finally:
        over.set()
        for thread in threads:
            thread.join(20)


def test_one_that_is_still_to_be_raised_is_taken_for_raised_once() -> None:
    with listening(lasting=True) as own:
        assert not own.has_come_in_vain()
        # Between processes a message must not be cut off, and an interrupt there is put off.
        FunctionType(interrupt.__code__, {"__name__": "execnet.gateway_base", "signal": signal})()
        assert own.has_come_in_vain()
        assert not own.has_come_in_vain()
        time.sleep(0.05)  # it is tried again meanwhile, and heard of no more
