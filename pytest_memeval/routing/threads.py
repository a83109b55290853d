"""Threads and pools of threads that a case starts while it is in flight."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any

from pytest_memeval.routing.said import Said, case_here, routed


class Threads:
    """Tells a thread for which case it was started, and a function given to a pool for which case it works.

    A thread has no context variables but its own, and no other way to hear of them; so ``Thread.start`` and
    ``ThreadPoolExecutor.submit`` are replaced until :meth:`close`. Elsewhere than in a case in flight they do what they
    always do, and of the context variables a thread gets ours alone.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[type[Any], str, Any, Any]] = []

    def watch(self) -> None:
        if not self._replaced:
            self._replace(threading.Thread, "start", _starting)
            self._replace(ThreadPoolExecutor, "submit", _submitting)

    def _replace(self, owner: type[Any], name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        ours = make(original)
        setattr(owner, name, ours)
        self._replaced.append((owner, name, original, ours))

    def close(self) -> None:
        for owner, name, original, ours in self._replaced:
            if getattr(owner, name) is ours:  # else somebody's stands on it
                setattr(owner, name, original)
        self._replaced = []


def _starting(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def start(self: threading.Thread, *args: Any, **kwargs: Any) -> None:
        said = case_here()
        if said is not None:
            _run_for(self, said)
        original(self, *args, **kwargs)

    return start


def _run_for(thread: Any, said: Said) -> None:
    run = thread.run

    def run_for_the_case() -> None:
        vars(thread).pop("run", None)  # or the thread would hold itself
        with routed(said):
            try:
                run()
            except BaseException:  # nobody else hears of it
                if said.over:
                    raise
                said.keep(partial(_say_raised, threading.ExceptHookArgs((*sys.exc_info(), thread))))

    thread.run = run_for_the_case


def _say_raised(args: threading.ExceptHookArgs) -> None:
    threading.excepthook(args)


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        said = case_here()
        if said is None:
            return original(self, fn, *args, **kwargs)

        def work(*given: Any, **named: Any) -> Any:
            with routed(said):
                return fn(*given, **named)

        with routed(None):  # the pool's threads serve other cases, too
            return original(self, work, *args, **kwargs)

    return submit
