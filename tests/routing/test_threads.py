"""Threads that cases in flight start."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_memeval.routing.said import Said, routed, said_here
from pytest_memeval.routing.threads import Threads

OTHER: contextvars.ContextVar[str] = contextvars.ContextVar("other", default="none")


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    threads.watch()
    threads.watch()
    yield threads
    threads.close()


def seen_by_a_thread(thread_type: type[threading.Thread] = threading.Thread) -> list[object]:
    seen: list[object] = []
    thread = thread_type(target=lambda: seen.extend((said_here(), OTHER.get())))
    thread.start()
    thread.join()
    assert "run" not in vars(thread)
    return seen


def test_a_thread_knows_for_whom_it_was_started_and_nothing_else(threads: Threads) -> None:
    said = Said()
    token = OTHER.set("of the case")
    try:
        with routed(said):
            assert seen_by_a_thread() == [said, "none"]
        assert seen_by_a_thread() == [None, "none"]
    finally:
        OTHER.reset(token)


def test_a_thread_with_a_run_of_its_own(threads: Threads) -> None:
    class Own(threading.Thread):
        def run(self) -> None:
            super().run()

    said = Said()
    with routed(said):
        assert seen_by_a_thread(Own) == [said, "none"]


def test_a_pools_threads_belong_to_nobody(threads: Threads) -> None:
    first, second = Said(), Said()
    with ThreadPoolExecutor(1) as pool:
        with routed(first):
            assert pool.submit(said_here).result() is first
        with routed(second):
            assert pool.submit(said_here).result() is second
            assert list(pool.map(lambda _: said_here(), range(2))) == [second, second]
        assert pool.submit(said_here).result() is None


def test_what_was_replaced_is_given_back() -> None:
    before = threading.Thread.start, ThreadPoolExecutor.submit
    threads = Threads()
    threads.watch()
    assert (threading.Thread.start, ThreadPoolExecutor.submit) != before
    threads.close()
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before


def test_what_stands_on_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # what to come back to
    threads.watch()
    ours = threading.Thread.start

    def theirs(self: threading.Thread) -> None:
        ours(self)

    monkeypatch.setattr(threading.Thread, "start", theirs)
    threads.close()
    assert threading.Thread.start is theirs
    assert seen_by_a_thread() == [None, "none"]


def test_what_a_thread_ends_with_is_its_cases(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("broke here")

    seen: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def run(target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        return thread

    said = Said()
    with routed(said):
        failed = run(fail)
        assert seen == []
        said.end()
        late = run(fail)
    assert [(args.exc_type, args.thread) for args in seen] == [(ValueError, failed), (ValueError, late)]
    run(fail)
    assert len(seen) == 3
