"""Threads and pools of threads that a case starts while it is in flight."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any

from pytest_memeval.routing.replaced import Replaced
from pytest_memeval.routing.said import Said, case_here, routed


class Threads:
    """Tells a thread for which case it was started, and a function given to a pool for which case it works.

    A thread has no context variables but its own, and no other way to hear of them; so ``Thread.start`` and
    ``ThreadPoolExecutor.submit`` are replaced until :meth:`close`. Elsewhere than in a case in flight they do what they
    always do, and of the context variables a thread gets ours alone.
    """

    def __init__(self) -> None:
        self._replaced = Replaced()

    def watch(self) -> None:
        if not self._replaced:
            self._replaced.put(threading.Thread, "start", _starting)
            self._replaced.put(ThreadPoolExecutor, "submit", _submitting)

    def close(self) -> None:
        self._replaced.give_back()


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
