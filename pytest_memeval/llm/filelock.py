"""A lock between processes on one machine, held by an open file and freed by its end, however that comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock beside ``path`` (``<name>.lock``); waits for whoever has it, or without ``wait`` does not: gives
    whether it is held. Not reentrant.

    Works between processes and between threads. The lock file stays behind: removing it would let two holders in.
    """
    lock = path.with_name(path.name + ".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    held = True
    try:
        if sys.platform == "win32":
            import msvcrt
            import time

            while True:
                try:
                    msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                    break
                except OSError:  # given up after ten seconds of waiting
                    if not wait:
                        held = False
                        break
                    time.sleep(0.05)
        else:
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                held = False
        yield held
    finally:
        os.close(handle)  # frees the lock
