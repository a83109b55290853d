"""The end of a process in which threads go on that are not the package's: Python waits for each of them, unless it is a
daemon, and for all of a thread pool's. A function of a case that a time limit or an interrupt has cut off may be at it
for minutes."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

#: Modules whose pools have their threads told to end when Python does, and are waited for.
_POOLS = ("concurrent.futures.thread", "concurrent.futures.process")
#: Where they keep their threads, which are daemons where those that made them were.
_THREADS = ("_threads_queues", "_threads_wakeups")
_LOOK = 0.02


def leave_threads(
    *, after: Callable[[], float], say: Callable[[Sequence[str]], str], status: Callable[[], int]
) -> None:
    """Have the process end without threads that are still at it when it has nothing else left to do.

    ``after``: the time (of ``time.monotonic``) up to which they are waited for, asked at the end; ``say``: what is
    printed on standard error, given their names; ``status``: with which the process ends then. What was to be done at
    Python's end is done. Where none is left the process ends as ever.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is None:  # a Python that has it no more waits for them
        return

    def at_the_end() -> None:
        until = after()
        # In threads: those that are told to end are waited for there.
        for name in _POOLS:
            tell = getattr(sys.modules.get(name), "_python_exit", None)
            if tell is not None:
                threading.Thread(target=tell, name="memeval-end", daemon=True).start()
        while (left := _still_there()) and time.monotonic() < until:
            time.sleep(_LOOK)
        if not left:
            return
        with contextlib.suppress(Exception):  # the stream may be closed
            print(say(sorted(thread.name for thread in left)), file=sys.stderr)
        with contextlib.suppress(Exception):  # what fails has been told of
            atexit._run_exitfuncs()
        end_process(status())

    # Called before those who were there earlier, the pools' among them.
    with contextlib.suppress(RuntimeError):  # it is at its end already
        register(at_the_end)


def _still_there() -> list[threading.Thread]:
    """The threads that Python would wait for."""
    main = threading.main_thread()
    pools = [getattr(sys.modules.get(name), kept, {}) for name in _POOLS for kept in _THREADS]
    of_pools = {thread for pool in pools for thread in list(pool)}
    there = threading.enumerate()
    return [one for one in there if one is not main and one.is_alive() and (one in of_pools or not one.daemon)]


def end_process(status: int) -> None:
    """At once, with what was said so far."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # it may be closed, or be what was interrupted
            stream.flush()
    os._exit(status)
