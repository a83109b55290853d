"""Warnings of cases in flight.

Filters and whoever records warnings belong to the whole process, and pytest sets them anew for each item. A filter's
message is matched by calling its ``match``; so a copy of every filter can stand before them all that matches nothing
but a case's warnings. By these copies a case's warning is an error where it is raised, ignored, or kept for its item,
whichever item is at hand. What Python would show once a place is so once a case, as it is in an item of its own:
Python's own notes of that are of the item at hand.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_memeval.routing.blocks import Blocks
from pytest_memeval.routing.replaced import Replaced
from pytest_memeval.routing.said import Block, Said, case_here

#: An entry of ``warnings.filters``: action, message, category, module, line.
Filter = tuple[Any, ...]

_module: Any = warnings
_here = threading.local()


class Warned:
    """Stands before the filters and the recorder that are there; both are given back by :meth:`close`."""

    def __init__(self) -> None:
        #: The filters of items without marks of their own, and their copies.
        self._plain: list[Filter] = []
        self._copies: list[Filter] = []
        #: Copies of what a case's own marks ask for, and of what it adds itself, in a block or not; the last one first.
        self._own: list[tuple[Said, Block | None, list[Filter]]] = []
        self._blocks = Blocks(self)
        self._shows = Replaced()
        #: Between the main thread, which goes from item to item, and those of cases.
        self._lock = threading.RLock()
        #: The lists in which copies stand: the one between items, and that of the item at hand, a copy of it.
        self._outer: list[Filter] | None = None
        self._inner: list[Filter] | None = None
        #: Whether copies are to stand anywhere. Cases may still end blocks when they are not.
        self.active = False

    def watch_outer(self) -> None:
        """Stand before what is there between items, once an item has shown which filters are in force in one."""
        if self._copies:
            self._begin()
            self._outer = _module.filters

    def watch(self, marks: Sequence[Filter]) -> None:
        """Stand before what is there in an item, of which ``marks`` are its own."""
        plain = _without_copies(_module.filters)
        for one in marks:
            if one in plain:
                plain.remove(one)
        if plain != self._plain or not self._copies:
            self._plain = plain
            self._copies = [_copy(one) for one in (*plain, (_module.defaultaction, None, Warning, None, 0))]
        self._begin()
        self._inner = _module.filters

    def _begin(self) -> None:
        with self._lock:
            self.active = True
        self.stand_before()

    def expect(self, said: Said, marks: Sequence[Filter]) -> None:
        """Hold the case to the filters that its item's marks ask for."""
        if marks:
            with self._lock:
                self._own.append((said, None, [_copy(one, said) for one in marks]))
            self.stand_before()

    def add(self, said: Said, one: Filter, block: Block | None) -> None:
        """Hold the case to a filter, until the block's end."""
        added = (said, block, [_copy(one, said)])
        with self._lock:
            self._own = [added, *(known for known in self._own if known != added)]
        self.stand_before()

    def drop(self, block: Block) -> None:
        """Forget the block's filters."""
        with self._lock:
            self._own = [one for one in self._own if one[1] is not block]
        self.stand_before()

    def insert(self, one: Filter) -> bool:
        """Put a filter of the whole process behind the copies, in one step: in between, a case's warning would be held
        to it. False where it has to be done as Python does it."""
        with self._lock:
            mutated = getattr(_module, "_filters_mutated", None)
            if not self.active or mutated is None:
                return False
            others = [known for known in _without_copies(_module.filters) if known != one]
            _module.filters[:] = [*self._before(), one, *others]
            mutated()
            return True

    def _before(self) -> list[Filter]:
        """All copies, in their order."""
        return [*(one for *_, own in self._own for one in own), *self._copies]

    def stand_before(self) -> None:
        """Have the copies before whatever else is there now."""
        with self._lock:
            if not self.active:
                return
            self._blocks.watch()
            if not self._shows:
                # Not what pytest and others put there for each item, and a case may warn before anybody looks again.
                self._shows.put(_module, "_showwarnmsg", _Shows)
            self._own = [one for one in self._own if not one[0].past]
            copies = self._before()
            for filters in (self._outer, self._inner, _module.filters):
                if filters is not None and (filters[: len(copies)] != copies):
                    filters[:] = [*copies, *_without_copies(filters)]

    def rest(self) -> None:
        """Take the copies away: Python goes through them at each warning and pytest at each item."""
        with self._lock:
            self.active = False
            self._blocks.close()
            self._shows.give_back()
            for filters in (self._outer, self._inner):
                if filters is not None:
                    filters[:] = _without_copies(filters)
            self._outer = self._inner = None

    def close(self) -> None:
        self.rest()


@dataclass(frozen=True)
class _OfCases:
    """In the place of a filter's message: matches the same texts, of cases alone, or of one."""

    action: str
    message: Any
    whose: Said | None

    def match(self, text: str) -> bool:
        said = case_here()
        if said is None or (self.whose is not None and said is not self.whose):
            return False
        message = self.message
        if message is not None and not (text == message if isinstance(message, str) else message.match(text)):
            return False
        # The last filter that is asked decides.
        _here.action = self.action
        return True


def _copy(one: Filter, whose: Said | None = None) -> Filter:
    action, message, *where = one
    # What is shown once a place would be noted as shown for the item at hand.
    mine = action if action in ("error", "ignore") else "always"
    return (mine, _OfCases(action, message, whose), *where)


def _without_copies(filters: Sequence[Filter]) -> list[Filter]:
    return [one for one in filters if not isinstance(one[1], _OfCases)]


class _Shows:
    """In the place of what has a warning shown or recorded."""

    def __init__(self, original: Callable[[warnings.WarningMessage], object]) -> None:
        self.original = original

    def __call__(self, message: warnings.WarningMessage) -> None:
        said = case_here()
        action, _here.action = getattr(_here, "action", None), None
        if said is None or _module.showwarning is not _module._showwarning_orig:  # a case's own way of showing them
            self.original(message)
        elif _is_new(said, action, message):
            log = next((block.log for block in reversed(said.blocks) if block.log is not None), None)
            if log is not None:
                log.append(message)
            elif said.over:
                self.original(message)
            else:
                said.keep(partial(_module._showwarnmsg, message))


def _is_new(said: Said, action: str | None, message: warnings.WarningMessage) -> bool:
    """Whether the filter's action has the warning shown in its case."""
    if action is None:  # a filter of the process stood before the copies for a moment
        action = "default"
    key: tuple[Any, ...] = (action, str(message.message), message.category)
    if action == "module":
        key = (*key, message.filename)
    elif action == "default":
        key = (*key, message.filename, message.lineno)
    elif action != "once":
        return True
    if key in said.warned:
        return False
    said.warned.add(key)
    return True
