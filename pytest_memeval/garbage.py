"""Large runs and Python's garbage collector."""

from __future__ import annotations

import atexit
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: From this many cases on it is worth the while.
FREEZE_FROM = 1_000
#: So many cases leave enough behind to be put out of sight too.
FREEZE_EVERY = 1_000


def spare_collector(cases: int) -> None:
    """Take what a large run has made so far, and keeps until it ends, out of the garbage collector's sight.

    It would look at thousands of items and results again and again and never find anything to free. What an earlier run
    of this process left there is handed back first.
    """
    if cases >= FREEZE_FROM:
        gc.unfreeze()
        gc.freeze()


def spare_collector_again(done: int, make: Callable[[], None] | None = None) -> None:
    """Keep it so while a large run goes on: every :data:`FREEZE_EVERY` cases that are ``done`` what they left is looked
    at once more, and what is no garbage joins the rest. What ``make`` then makes of them, to be kept, does so unseen.
    """
    if not done or done % FREEZE_EVERY:
        return
    was_on = gc.isenabled()
    with interrupts_after():
        if was_on:
            gc.collect()
            gc.disable()
        try:
            if make is not None:
                make()
        finally:
            if was_on:
                gc.enable()
    if was_on:
        gc.freeze()


@contextmanager
def interrupts_after() -> Iterator[None]:
    """Have an interrupt wait until then: Python drops what is raised while an object is being freed, as many are in a
    search for garbage, and an interrupt with it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(signal.SIGINT, None)


@contextmanager
def undisturbed(cases: int) -> Iterator[None]:
    """Let a large run make its report, all of which is kept, without a search for garbage in between, and keep the
    report out of those that are to come: pytest makes ten of them at its own end."""
    if cases < FREEZE_FROM or not gc.isenabled():
        yield
        return
    spare_collector(cases)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        spare_collector(cases)


def end_quickly() -> None:
    """Have the process end without a last search for garbage: where the ``openai`` client is loaded, whose thousands of
    classes it would go through, that takes longer than the run's own end. What is still in use is closed as ever."""
    # Once is enough, however many runs the process makes.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
