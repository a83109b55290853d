"""Standard output and error, as text and as bytes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pytest_memeval.routing.said import case_here, said_here

NAMES = ("stdout", "stderr")


class Streams:
    """Watches whatever objects are standard output and error; they are given back by :meth:`close`.

    pytest puts others into their place while it captures, and again while a fixture does. Where it captures nothing
    (``straight``), what a case writes goes at once to the streams that are there then, past those of a fixture.
    """

    def __init__(self, *, straight: bool = False) -> None:
        self._straight = straight
        #: The streams between the items: the terminal's.
        self._outer: dict[str, Any] = {}
        self._watched: weakref.WeakSet[Any] = weakref.WeakSet()

    def watch_outer(self) -> None:
        """Watch what is there while no item captures."""
        if self._straight:
            self._outer = {name: getattr(sys, name) for name in NAMES}
        else:
            self.watch()

    def watch(self) -> None:
        """Watch what is there now."""
        for name in NAMES:
            stream = getattr(sys, name)
            outer = self._outer.get(name)
            if stream is None or (self._straight and outer is None):
                continue
            if "write" not in getattr(stream, "__dict__", {"write"}):
                # One that allows no change stays as it is.
                with suppress(AttributeError, TypeError):
                    self._watched.add(stream)
                    _watch(stream, name, outer)

    def close(self) -> None:
        for stream in list(self._watched):
            for name in ("write", "flush"):
                _give_back(stream, name)
            with suppress(AttributeError, TypeError, ValueError):  # no bytes below it, or taken off
                _give_back(stream.buffer, "write")
        self._watched.clear()


class _Instead:
    """What stands in the place of an object's method."""

    def __init__(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        #: What somebody had put there before, by its name.
        self.before = {name: vars(owner)[name]} if name in vars(owner) else {}
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


def _give_back(owner: Any, name: str) -> None:
    own = vars(owner)
    instead = own.get(name)
    if isinstance(instead, _Instead):  # else somebody's stands on it
        del own[name]
        own.update(instead.before)


def _watch(stream: Any, name: str, outer: Any) -> None:
    """Have the stream's methods look first for whom they are called."""
    straight = stream is outer
    to_outer = stream.write if straight else getattr(outer, "write", None)
    say = partial(_say, name)
    stream.write = _Instead(stream, "write", _redirected(name, _writing(stream.write, str, say, to_outer)))
    if straight:
        return
    stream.flush = _Instead(stream, "flush", _flushing(stream.flush))
    below = getattr(stream, "buffer", None)
    if below is not None and "write" not in getattr(below, "__dict__", {"write"}):
        to_outer = getattr(getattr(outer, "buffer", None), "write", None)
        writing = _writing(below.write, (bytes, bytearray, memoryview), partial(_say_bytes, name), to_outer)
        below.write = _Instead(below, "write", writing)


def _redirected(name: str, otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def write(text: Any) -> Any:
        said = case_here()
        target = None if said is None else said.target(name)
        return otherwise(text) if target is None else target.write(text)

    return write


def _writing(
    original: Callable[[Any], Any], types: Any, say: Callable[[Any], object], to_outer: Callable[[Any], Any] | None
) -> Callable[[Any], Any]:
    def write(text: Any) -> Any:
        said = said_here()
        if said is None or not isinstance(text, types):
            return original(text)
        if to_outer is not None:
            return to_outer(text)
        kept = text if isinstance(text, str) else bytes(text)
        said.keep(partial(say, kept))
        return len(kept)

    return write


def _flushing(original: Callable[[], Any]) -> Callable[[], Any]:
    def flush() -> Any:
        # What waits in the stream is not the case's, and would be taken for its bytes.
        return original() if said_here() is None else None

    return flush


def _say(name: str, text: str) -> None:
    getattr(sys, name).write(text)


def _say_bytes(name: str, data: bytes) -> None:
    stream = getattr(sys, name)
    below = getattr(stream, "buffer", None)
    if below is None:
        stream.write(data.decode("utf-8", "replace"))
        return
    stream.flush()
    below.write(data)
    below.flush()
