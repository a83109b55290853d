"""Which worker runs which item under ``-n``, where the user leaves that to us.

xdist's default hands a worker about two items at a time, so that a worker that keeps 16 cases in flight would see the
next one only. Stealing work gives each worker its share at once, and moves what is left over in the end. A case that a
worker has begun ahead of its turn is not moved: it would be paid for twice.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from xdist.scheduler import LoadScheduling, WorkStealingScheduling

from pytest_memeval.conversation_scopes import ByConversation, has_conversations

#: Whether the items of a worker may be moved by :class:`StealingCases`.
STEALS_INPUT = "memeval_steals"
#: Under this name a worker says how many cases it has prepared for nothing.
IN_VAIN_OUTPUT = "memeval_in_vain"


class StealingCases(WorkStealingScheduling):  # type: ignore[misc]  # xdist has no types
    """Work stealing that ends where there is nothing to steal but what the worker has begun.

    Each worker's share is a stretch of neighbours; ``in_turn`` deals the items out one by one instead, so that all
    workers together go through them in their order.
    """

    in_turn = False

    def check_schedule(self) -> None:
        if self.in_turn and self.pending:
            self.pending[:] = dealt_out(self.pending, sum(not node.shutting_down for node in self.node2pending))
        with contextlib.suppress(OSError):
            # To a worker that has died, of which xdist is still to hear: then its items are shared out anew. It would
            # end the whole session instead.
            super().check_schedule()

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        if indices:
            super().remove_pending_tests_from_node(node, indices)
            return
        self.steal_requested_from_node = None
        # Asking again would get the same answer until those cases have ended: let the idle ones run their last item.
        for idle, pending in self.node2pending.items():
            if idle is not node and len(pending) < 2 and not idle.shutting_down:
                idle.shutdown()


def dealt_out(items: Sequence[int], hands: int) -> list[int]:
    """The items in such an order that stretches of it, ``len // hands`` for the first and so on, hold every so many."""
    sizes, left = [], len(items)
    for hand in range(hands, 0, -1):
        sizes.append(left // hand)
        left -= sizes[-1]
    shares: list[list[int]] = [[] for _ in sizes]
    upcoming = iter(items)
    while any(len(share) < size for share, size in zip(shares, sizes, strict=True)):
        for share, size in zip(shares, sizes, strict=True):
            if len(share) < size:
                share.append(next(upcoming))
    return [item for share in shares for item in share]


class CaseScheduling:
    """xdist's scheduler, chosen when the workers have said what they collected: by conversation where items share one,
    :class:`StealingCases` where there are evaluation cases else, and the default in any other run. ``stealing``: the
    user wants work stealing, so that it is one of the two kinds of that."""

    def __init__(
        self,
        config: pytest.Config,
        log: Any,
        has_cases: Callable[[Collection[str]], bool],
        *,
        in_turn: bool = False,
        stealing: bool = False,
    ) -> None:
        plain = WorkStealingScheduling(config, log) if stealing else LoadScheduling(config, log)
        self._choices = plain, StealingCases(config, log), ByConversation(config, log)
        self._choices[1].in_turn = in_turn
        self._has_cases = has_cases
        self._stealing = stealing
        self._chosen: Any = None

    def __getattr__(self, name: str) -> Any:
        # Until the choice is made both are told the same, so that either could go on.
        return getattr(self.__dict__["_chosen"] or self.__dict__["_choices"][0], name)

    def add_node(self, node: Any) -> None:
        for scheduler in self._open():
            scheduler.add_node(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        for scheduler in self._open():
            scheduler.add_node_collection(node, collection)

    def remove_node(self, node: Any) -> Any:
        gone = [scheduler.remove_node(node) for scheduler in self._open()]
        return gone[0]

    def _open(self) -> Sequence[Any]:
        return self._choices if self._chosen is None else (self._chosen,)

    def schedule(self) -> None:
        if self._chosen is None:
            collections = self._choices[0].node2collection.values()
            plain, stealing, by_conversation = self._choices
            if not self._stealing and any(map(has_conversations, collections)):
                self._chosen = by_conversation
            else:
                self._chosen = stealing if any(map(self._has_cases, collections)) else plain
        self._chosen.schedule()


@contextmanager
def _locked(queue: Any) -> Iterator[deque[Any]]:
    """The items of a worker's queue, nobody else's meanwhile."""
    if hasattr(queue, "lock"):
        with queue.lock() as items:
            yield items
    else:  # a plain queue, before pytest-xdist 3.7
        with queue.mutex:
            yield queue.queue


def keep_begun(worker: Any, part_with: Callable[[int], bool], lost: Callable[[Sequence[int]], None]) -> None:
    """Have an xdist worker part with items only where ``part_with`` agrees, and tell ``lost`` with which it parts.

    xdist's own way is to give all that is asked for, or nothing.
    """

    def steal(indices: Sequence[int]) -> None:
        wanted = set(indices)
        with _locked(worker.torun) as queue:
            stolen = [item for item in queue if item in wanted and part_with(item)]
            gone = set(stolen)
            left = [item for item in queue if item not in gone]
            queue.clear()
            queue.extend(left)
        lost(stolen)
        worker.sendevent("unscheduled", indices=stolen)

    if all(hasattr(worker, name) for name in ("steal", "torun", "sendevent")):
        worker.steal = steal
