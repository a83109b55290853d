"""Which worker runs which item under ``-n``: where the user leaves that to us, and where the user's choice is one in
which a worker that dies would take cases with it.

xdist's default hands a worker about two items at a time, so that a worker that keeps 16 cases in flight would see the
next one only. Stealing work gives each worker its share at once, and moves what is left over in the end. A case that a
worker has begun ahead of its turn is not moved: it would be paid for twice.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from xdist.scheduler import (
    LoadFileScheduling,
    LoadGroupScheduling,
    LoadScheduling,
    LoadScopeScheduling,
    WorkStealingScheduling,
)

from pytest_memeval.workers.conversations import ByConversation, has_conversations
from pytest_memeval.workers.scopes import OutlivingFiles, OutlivingGroups, OutlivingScopes
from pytest_memeval.workers.stops import STOP_COMMAND

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
        hands = sum(not node.shutting_down for node in self.node2pending)
        if self.in_turn and hands:  # without any they wait for a worker to come
            self.pending[:] = dealt_out(self.pending, hands)
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


Condition = Callable[[Sequence[str]], bool]


class CaseScheduling:
    """xdist's scheduler, chosen when the workers have said what they collected: the first of ``others`` whose condition
    one of the collections meets, else ``plain``. Until then none of them hears of a worker: one that dies while it
    collects would have xdist's tell the rest to end."""

    def __init__(self, plain: Any, *others: tuple[Any, Condition]) -> None:
        self._plain = plain
        self._others = others
        #: Worker → what it collected, before the choice.
        self._collections: dict[Any, Sequence[str] | None] = {}
        #: Workers that have ended, before the choice, without anything collected: there is no such file or case.
        self._empty_handed = 0
        self._chosen: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_chosen"] or self.__dict__["_plain"], name)

    @property
    def nodes(self) -> list[Any]:
        return list(self._collections) if self._chosen is None else self._chosen.nodes

    @property
    def collection_is_completed(self) -> bool:
        return self._chosen is not None or len(self._collected()) + self._empty_handed >= self._plain.numnodes

    @property
    def tests_finished(self) -> bool:
        if self._chosen is not None:
            return bool(self._chosen.tests_finished)
        return not self._collections and self._empty_handed >= self._plain.numnodes

    def _collected(self) -> dict[Any, Sequence[str]]:
        return {node: items for node, items in self._collections.items() if items is not None}

    def add_node(self, node: Any) -> None:
        if self._chosen is not None:
            self._chosen.add_node(node)
        else:
            self._collections[node] = None

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        if self._chosen is not None:
            self._chosen.add_node_collection(node, collection)
        else:
            self._collections[node] = collection

    def remove_node(self, node: Any) -> Any:
        if self._chosen is not None:
            return self._chosen.remove_node(node)
        items = self._collections.pop(node)
        if items is not None and not items:
            self._empty_handed += 1
        return None

    def schedule(self) -> None:
        if self._chosen is None:
            collected = self._collected()
            fitting = (other for other, condition in self._others if any(map(condition, collected.values())))
            self._chosen = next(fitting, self._plain)
            self._chosen.numnodes = len(collected)
            for node in self._collections:
                self._chosen.add_node(node)
            for node, items in collected.items():
                self._chosen.add_node_collection(node, items)
        self._chosen.schedule()


#: The user's ``--dist`` → xdist's scheduler for it, and ours for runs with cases.
_BY_SCOPE: dict[str, tuple[Any, Any]] = {
    "loadscope": (LoadScopeScheduling, OutlivingScopes),
    "loadfile": (LoadFileScheduling, OutlivingFiles),
    "loadgroup": (LoadGroupScheduling, OutlivingGroups),
}


def scheduling(
    config: pytest.Config, log: Any, chosen: str, has_cases: Condition, *, ahead: bool, in_turn: bool
) -> CaseScheduling:
    """The scheduler of a run in which the user chose so; "no" where the choice is ours: by conversation where items
    share one, :class:`StealingCases` where there are evaluation cases to be seen ``ahead``, else xdist's default."""
    if chosen in _BY_SCOPE:
        plain, outliving = _BY_SCOPE[chosen]
        # Under the name that the user knows it by.
        named: type[CaseScheduling] = type(plain.__name__, (CaseScheduling,), {})
        return named(plain(config, log), (outliving(config, log), has_cases))
    stealing = StealingCases(config, log)
    stealing.in_turn = in_turn
    with_cases = stealing, lambda ids: ahead and has_cases(ids)
    if chosen == "worksteal":
        return CaseScheduling(WorkStealingScheduling(config, log), with_cases)
    by_conversation = ByConversation(config, log), has_conversations
    return CaseScheduling(LoadScheduling(config, log), by_conversation, with_cases)


def outlive(node: Any, stops: Callable[[], bool]) -> None:
    """Let what is sent to a worker that has died, of which xdist is still to hear, be sent in vain. When it hears of it
    the items are shared out anew; what cannot be sent would end the whole session instead. A worker that is to end
    because the run ``stops`` is told so: it would go through all that it was given first."""
    send = node.sendcommand

    def sendcommand(name: str, **kwargs: Any) -> None:
        with contextlib.suppress(OSError):
            if name == "shutdown" and stops():
                send(STOP_COMMAND)
            send(name, **kwargs)

    node.sendcommand = sendcommand


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
