"""Folders for temporary files: removed by whoever made them, by the run where a worker died, else by the next run."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import tempfile
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing is known of other processes' folders
    fcntl = None  # type: ignore[assignment]  # as the standard library itself says it

#: In each folder, locked by the process that made it for as long as that lives.
HELD = ".held"

_held: dict[Path, int] = {}
_swept: set[str] = set()


def make_scratch(run_uid: str) -> Path:
    """A fresh empty folder of this process, named by its run; the first call removes what processes that were killed
    have left."""
    if tempfile.gettempdir() not in _swept:
        _swept.add(tempfile.gettempdir())
        sweep()
    folder = Path(tempfile.mkdtemp(prefix=_prefix(run_uid)))
    _hold(folder)
    return folder


def remove_scratch(folder: Path) -> None:
    """Remove the folder, whatever interrupts that."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        lock = _held.pop(folder, None)
        if lock is not None:
            os.close(lock)


def remove_scratch_of(run_uid: str) -> None:
    """Remove what processes of the run that died could not remove themselves."""
    if run_uid:
        for folder in Path(tempfile.gettempdir()).glob(glob.escape(_prefix(run_uid)) + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove this user's folders whose processes are gone."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            # Anybody may put a link into a folder that all share.
            if entry.name.startswith("memeval-") and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    lock = os.open(folder / HELD, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _hold(folder: Path) -> None:
    if fcntl is None:
        return
    # Under its name only when it is locked: a sweep in between would take the folder for one that was left.
    with contextlib.suppress(OSError):  # a file system without locks: then nobody removes it
        lock = os.open(folder / f"{HELD}-", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        _held[folder] = lock
        (folder / f"{HELD}-").rename(folder / HELD)


def _prefix(run_uid: str) -> str:
    # The id is the user's to choose under xdist, so it may hold anything.
    readable = re.sub(r"[^A-Za-z0-9]+", "_", run_uid)
    return f"memeval-{readable}-" if readable else "memeval-"
