"""What the garbage collector is spared in large runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pytest_memeval.garbage import FREEZE_FROM, spare_collector


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
