"""What the garbage collector is spared in large runs."""

from __future__ import annotations

import gc
import subprocess
import sys
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
