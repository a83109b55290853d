"""``contextlib.redirect_stdout`` and ``redirect_stderr``, as a case in flight calls them.

Python's own hold for the whole process, and where several overlap, the last to end puts back what another has put
there. A case's redirection is the case's alone, in all of its threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pytest_memeval.routing.replaced import Replaced
from pytest_memeval.routing.said import Redirection, case_here

_class: Any = contextlib.redirect_stdout.__mro__[1]


class Redirects:
    """In the place of Python's functions until :meth:`close`. For code of no case they do what they always do."""

    def __init__(self) -> None:
        self._replaced = Replaced()

    def watch(self) -> None:
        if not self._replaced:
            self._replaced.put(_class, "__enter__", _entering)
            self._replaced.put(_class, "__exit__", _leaving)

    def close(self) -> None:
        self._replaced.give_back()


def _entering(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def enter(block: Any) -> Any:
        said = case_here()
        if said is None:
            return original(block)
        outer = block._old_targets[-1] if block._old_targets else None
        own = Redirection(said, outer.name if isinstance(outer, Redirection) else block._stream, block._new_target)
        block._old_targets.append(own)
        # Where it ends only when nobody stands here any more, it puts nothing back.
        block._stream = "_memeval_nothing"
        said.redirections.append(own)
        return block._new_target

    return enter


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    def leave(block: Any, *error: Any) -> Any:
        own = block._old_targets[-1]
        if not isinstance(own, Redirection):
            return original(block, *error)
        block._old_targets.pop()
        if not (block._old_targets and isinstance(block._old_targets[-1], Redirection)):
            block._stream = own.name
        own.said.redirections.remove(own)
        return None

    return leave
