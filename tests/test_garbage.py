"""What the garbage collector is spared in large runs."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pytest_memeval.garbage import FREEZE_EVERY, FREEZE_FROM, spare_collector, spare_collector_again, undisturbed


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_a_small_run_leaves_the_collector_alone() -> None:
    spare_collector(FREEZE_FROM - 1)
    assert gc.get_freeze_count() == 0


def test_a_large_run_is_out_of_sight() -> None:
    spare_collector(FREEZE_FROM)
    assert gc.get_freeze_count() > 1_000


class _Node:
    def __init__(self, ended: list[str]) -> None:
        self.ended = ended
        self.itself = self

    def __del__(self) -> None:
        self.ended.append("ended")


def test_what_an_earlier_run_left_can_be_freed_after_the_next_one() -> None:
    ended: list[str] = []
    node = _Node(ended)
    spare_collector(FREEZE_FROM)
    del node
    gc.collect()
    assert ended == []
    gc.unfreeze()
    gc.collect()
    assert ended == ["ended"]


@pytest.mark.parametrize("done", [0, 1, FREEZE_EVERY - 1, FREEZE_EVERY + 1])
def test_nothing_is_put_aside_between_the_steps(done: int) -> None:
    spare_collector_again(done)
    assert gc.get_freeze_count() == 0


def test_a_step_frees_garbage_and_puts_the_rest_aside() -> None:
    ended: list[str] = []
    node = _Node(ended)
    del node
    spare_collector_again(3 * FREEZE_EVERY)
    assert ended == ["ended"]
    assert gc.get_freeze_count() > 1_000


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        spare_collector_again(FREEZE_EVERY)
        assert gc.get_freeze_count() == 0
        with undisturbed(FREEZE_FROM):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class _Interrupted:
    """Interrupted when it is freed, which a signal that comes during a search does to the next one freed."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    found: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_during_a_search_is_not_lost() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _Interrupted()
        with pytest.raises(KeyboardInterrupt):
            spare_collector_again(FREEZE_EVERY)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert gc.isenabled()
        spare_collector_again(FREEZE_EVERY)  # it was told once
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_handles_interrupts_is_told_once_after_the_search(heard: list[int]) -> None:
    for _ in range(3):
        _Interrupted()
    spare_collector_again(FREEZE_EVERY)
    assert heard == [signal.SIGINT]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_search_leaves_a_handler_that_is_none_alone(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        spare_collector_again(FREEZE_EVERY)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_search_in_another_thread_leaves_signals_alone() -> None:
    ended: list[str] = []
    _Node(ended)
    thread = threading.Thread(target=spare_collector_again, args=(FREEZE_EVERY,))
    thread.start()
    thread.join()
    assert ended == ["ended"]


ENDING = """
import atexit, gc
from pytest_memeval.garbage import end_quickly

{call}
class Node:
    def __del__(self):
        print("searched for")

node = Node()
node.itself = node
del node
print("end")
"""


@pytest.mark.parametrize(("call", "said"), [("", ["end", "searched for"]), ("end_quickly(); end_quickly()", ["end"])])
def test_a_process_that_is_to_end_quickly_searches_for_no_garbage(call: str, said: list[str]) -> None:
    script = ENDING.format(call=call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == said


def test_a_large_run_makes_its_report_undisturbed() -> None:
    with undisturbed(FREEZE_FROM):
        assert not gc.isenabled()
        with undisturbed(FREEZE_FROM):  # each of several variants makes one of its own
            report: list[list[int]] = [[] for _ in range(5_000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not any(one is report for one in gc.get_objects())


def test_a_report_that_fails_leaves_the_collector_at_work() -> None:
    with pytest.raises(OSError, match="full"), undisturbed(FREEZE_FROM):
        raise OSError("full")
    assert gc.isenabled()


def test_a_small_report_is_made_like_anything_else() -> None:
    with undisturbed(FREEZE_FROM - 1):
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_made_at_a_step_is_made_without_the_collector(enabled: bool) -> None:
    seen: list[bool] = []
    if not enabled:
        gc.disable()
    try:
        for done in (FREEZE_EVERY, FREEZE_EVERY + 1, 2 * FREEZE_EVERY):
            spare_collector_again(done, lambda: seen.append(gc.isenabled()))
        assert seen == [False, False]
        with pytest.raises(OSError, match="full"):
            spare_collector_again(FREEZE_EVERY, lambda: (_ for _ in ()).throw(OSError("full")))
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
