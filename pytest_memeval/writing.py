"""Putting a file in its place: whole, and never in the place of a device or a pipe."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

#: Names of what this process has open, beneath which a system shows whatever file that is.
_OPEN_FILE = re.compile(r"/dev/(?:(?P<name>stdin|stdout|stderr)|fd/(?P<fd>\d+))|/proc/(?:self|\d+)/fd/(?P<number>\d+)")
_NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2}
_MOST_LINKS = 40


def is_stream(path: Path) -> bool:
    """Whether what is written to ``path`` goes on elsewhere, as with a device, a pipe or ``/dev/stdout``: it is written
    into, and not replaced. Follows links."""
    if open_file(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def open_file(path: Path) -> int | None:
    """The number of the open file of this process that ``path`` names, ``None`` for any other file."""
    name = os.path.abspath(path)  # without following the links, which end in what the number stands for
    for _ in range(_MOST_LINKS):
        found = _OPEN_FILE.fullmatch(name)
        if found is not None:
            number = found["fd"] or found["number"]
            return _NUMBERS[found["name"]] if number is None else int(number)
        try:
            name = os.path.join(os.path.dirname(name), os.readlink(name))
        except OSError:
            return None
    return None


def stream_problem(path: Path) -> str | None:
    """Why a stream (see :func:`is_stream`) cannot be written into, ``None`` where it can or ``path`` is none."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    for kind, what in ((stat.S_ISBLK, "a disk"), (stat.S_ISSOCK, "a socket")):
        if kind(mode):
            return f"{path} is {what}, and no file that could be written; name a file"
    return None


def open_stream(path: Path) -> BinaryIO:
    """The stream, opened for writing. Waits for a pipe's reader. OSError where nothing can be written into it."""
    problem = stream_problem(path)
    if problem is not None:
        raise OSError(problem)
    number = open_file(path)
    if number is None:
        return path.open("wb")
    # By its number: opened anew it would begin at the start of the file that the output was sent to.
    for text in (sys.stdout, sys.stderr):
        text.flush()
    return os.fdopen(os.dup(number), "wb")


@contextmanager
def naming(path: Path, *also: Path) -> Iterator[None]:
    """Have an OSError name the file that was to be written: a full disk is told without any. ``also``: temporary names
    of it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, *also, *map(str, also)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def put_off(failed: list[OSError]) -> Iterator[None]:
    """Note a failure to write, for what else is to be done before it is told."""
    try:
        yield
    except OSError as error:
        failed.append(error)


def put(temporary: Path, target: Path) -> None:
    """Move a finished file to its place; into a stream that is there it is copied."""
    if not is_stream(target):
        os.replace(temporary, target)
        return
    with naming(target), temporary.open("rb") as source, open_stream(target) as stream:
        shutil.copyfileobj(source, stream)
    temporary.unlink()
