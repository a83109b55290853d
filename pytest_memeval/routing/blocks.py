"""``warnings.catch_warnings`` and the functions that add filters, as a case in flight calls them.

Python's own hold for the whole process, and a block that ends after another one began puts back what was in force
before both: warnings would be lost, or be another item's. A case's blocks and filters are the case's alone, in all of
its threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

from pytest_memeval.routing.replaced import Replaced
from pytest_memeval.routing.said import Block, Said, case_here

_module: Any = warnings
_class: Any = warnings.catch_warnings


class Filters(Protocol):
    """Who keeps the filters of cases."""

    def add(self, said: Said, one: tuple[Any, ...], block: Block | None) -> None:
        """Hold the case to a filter, until the block's end."""

    def insert(self, one: tuple[Any, ...]) -> bool:
        """Have a filter of the whole process behind those of cases; False where Python has to put it there itself."""

    def drop(self, block: Block) -> None:
        """Forget the block's filters."""

    def stand_before(self) -> None:
        """Somebody else has put filters or a recorder before those of cases."""


class Blocks:
    """In the place of Python's functions until :meth:`close`. For code of no case they do what they always do."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._replaced = Replaced()

    def watch(self) -> None:
        if not self._replaced:
            self._replaced.put(_class, "__enter__", self._entering)
            self._replaced.put(_class, "__exit__", self._exiting)
            self._replaced.put(_module, "_add_filter", self._adding)

    def close(self) -> None:
        self._replaced.give_back()

    def _entering(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def enter(block: Any) -> Any:
            said = case_here()
            if said is None or block._module is not _module:
                log = original(block)
                if block._module is _module:
                    self._filters.stand_before()
                return log
            if block._entered:
                raise RuntimeError(f"Cannot enter {block!r} twice")
            block._entered = True
            own = block._memeval = Block(said, [] if block._record else None)
            # Where it ends only when nobody stands here any more, it has nothing to put back.
            block._module = SimpleNamespace(_filters_mutated=lambda: None, _filters_mutated_lock_held=lambda: None)
            block._filters = block._showwarning = block._showwarnmsg_impl = None
            said.blocks.append(own)
            said.show_anew()
            if getattr(block, "_filter", None) is not None:
                warnings.simplefilter(*block._filter)
            return own.log

        return enter

    def _exiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def leave(block: Any, *error: Any) -> Any:
            own: Block | None = vars(block).pop("_memeval", None)
            if own is None:
                return original(block, *error)
            block._module = _module
            self._filters.drop(own)
            own.said.blocks.remove(own)
            own.said.show_anew()
            return None

        return leave

    def _adding(self, original: Callable[..., None]) -> Callable[..., None]:
        def add(*one: Any, append: bool) -> None:
            said = case_here()
            if said is None:
                if append or not self._filters.insert(one):
                    original(*one, append=append)
                    self._filters.stand_before()
            else:
                self._filters.add(said, one, said.blocks[-1] if said.blocks else None)
                said.show_anew()

        return add
