"""What one case has said before its turn, and for which case the running code works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Said:
    """What was said, in the order in which it came, each as what says it again."""

    parts: deque[Callable[[], object]] = field(default_factory=deque)
    #: Whether the case is over: what is still said for it is said at once, as if it were nobody's.
    over: bool = False
    #: Whether its item is over, too.
    past: bool = False
    #: What it has been warned of once, each with the filter's action before it.
    warned: set[tuple[Any, ...]] = field(default_factory=set)
    #: The ``warnings.catch_warnings`` that it is in, the last one innermost.
    blocks: list[Block] = field(default_factory=list)
    #: Its redirections of standard output and error, the last one innermost.
    redirections: list[Redirection] = field(default_factory=list)

    def keep(self, again: Callable[[], object]) -> None:
        self.parts.append(again)
        if self.over:  # since it was asked for: nobody comes for it any more
            self.repeat()

    def repeat(self) -> None:
        """Say everything again from here, and forget it."""
        while True:
            try:
                again = self.parts.popleft()
            except IndexError:
                return
            again()

    def target(self, name: str) -> Any:
        """To what the case has redirected ``stdout`` or ``stderr``; ``None`` where it has not."""
        return next((one.target for one in reversed(self.redirections) if one.name == name), None)

    def show_anew(self) -> None:
        """Filters have changed: but for what is shown once a process, Python forgets what it has shown."""
        self.warned = {key for key in self.warned if key[0] == "once"}

    def end(self) -> None:
        """:meth:`repeat`, and keep nothing any more."""
        self.over = self.past = True
        self.repeat()


@dataclass(eq=False)
class Block:
    """One ``warnings.catch_warnings`` of a case; ``log``: where it records."""

    said: Said
    log: list[Any] | None


@dataclass(eq=False)
class Redirection:
    """One ``contextlib.redirect_stdout`` of a case, or ``redirect_stderr``: ``name`` is the stream's in ``sys``."""

    said: Said
    name: str
    target: Any


_SAID: ContextVar[Said | None] = ContextVar("memeval_said", default=None)


def said_here() -> Said | None:
    """Where to keep what the running code says; ``None`` where it is to be said at once."""
    said = _SAID.get()
    return None if said is None or said.over else said


def case_here() -> Said | None:
    """What is said for the case for which the running code works, be that at once; ``None`` for other code."""
    return _SAID.get()


def set_at_hand(said: Said | None) -> None:
    """Have the code that runs in this context from now on work for a case whose item is at hand."""
    _SAID.set(said)


@contextmanager
def routed(said: Said | None) -> Iterator[None]:
    """Keep in ``said`` what the code inside, its tasks and its threads say; ``None``: say it at once."""
    token = _SAID.set(said)
    try:
        yield
    finally:
        _SAID.reset(token)
