"""Asking a chat model from plain, synchronous code."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from pytest_memeval.llm.protocol import CallOptions, ChatReply
from pytest_memeval.loops import contained, lasting_loop, serve_loop

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_loop_pid = -1


def _background_loop() -> asyncio.AbstractEventLoop:
    """One event loop a process, in a daemon thread; a forked child gets its own."""
    global _loop, _loop_pid
    with _lock:
        if _loop is None or _loop.is_closed() or _loop_pid != os.getpid():
            loop = lasting_loop()
            threading.Thread(target=serve_loop, args=(loop,), name="memeval-sync", daemon=True).start()
            _loop, _loop_pid = loop, os.getpid()
        return _loop


def run_sync(coroutine: Coroutine[Any, Any, T], *, timeout: float | None = None) -> T:
    """Run a coroutine to its end on the background loop and return its result or raise its error.

    Works with or without a running event loop in the calling thread (which it blocks). Must not be called from within
    a coroutine that itself runs on the background loop. Interrupting the wait cancels the coroutine.
    """
    future = asyncio.run_coroutine_threadsafe(contained(coroutine), _background_loop())
    try:
        escaped, result = future.result(timeout)
    except BaseException:
        future.cancel()
        raise
    if escaped is not None:
        raise escaped
    return result  # type: ignore[return-value]  # set where nothing escaped


class SyncCompletion:
    """Adds ``complete_sync`` to a class with an async ``complete``."""

    async def complete(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        raise NotImplementedError

    def complete_sync(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        """:meth:`complete` for synchronous code; blocks the calling thread."""
        return run_sync(self.complete(messages, **asked))
