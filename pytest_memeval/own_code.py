"""What a project's own code may fail with, its words, and where in that code it was."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)
#: Where an object lies in memory, as its repr says: different in every run.
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def skips() -> tuple[type[BaseException], ...]:
    """What ``pytest.skip`` raises, which is no Exception; nothing where pytest was never imported.

    Raised by an engine or a metric it is a failure like any other: a case that took itself out of the figures would
    make them look better. A skip in a fixture of the project is a skip.
    """
    pytest = sys.modules.get("pytest")
    return () if pytest is None else (pytest.skip.Exception,)


def own_errors() -> tuple[type[BaseException], ...]:
    """Whatever a project's own code may fail with: every Exception, an exit of the process (which would end a command
    as if it had found nothing), and pytest's outcomes. An interrupt is the user's, and no failure."""
    pytest = sys.modules.get("pytest")
    outcomes = () if pytest is None else (pytest.skip.Exception, pytest.fail.Exception)
    return (Exception, SystemExit, *outcomes)


def own_ends() -> tuple[type[BaseException], ...]:
    """:func:`own_errors`, and what something in that code was cancelled by; whoever may be cancelled by others looks
    first which of the two it was."""
    import asyncio

    return (*own_errors(), asyncio.CancelledError)


def text_of(error: BaseException) -> str:
    """The exception's text, or why it has none."""
    try:
        return str(error)
    except own_errors() as broken:
        return f"(its text cannot be had: __str__ raised {type(broken).__name__})"


def named(error: BaseException) -> str:
    """``TypeName: text``."""
    return f"{type(error).__name__}: {text_of(error)}".rstrip(": ")


def without_addresses(text: str) -> str:
    """The text with ``at 0x…`` for the addresses of objects, so that equal runs say the same."""
    return _ADDRESS.sub("at 0x…", text)


def place_of(error: BaseException) -> str:
    """`` (file.py:12 in function)`` of the innermost frame in the project's own code, else (it came out of an installed
    package) of the innermost one; nothing for an exception that was never raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    own = [frame for frame in frames if _is_own(frame.filename)]
    last = (own or frames)[-1]
    return f" ({shown_file(last.filename)}:{last.lineno} in {last.name})"


#: The folders that running runs were started in, the innermost last: an engine may change the current one.
_STARTED_IN: list[Path] = []


def relate_to(folder: Path) -> Callable[[], None]:
    """Have files shown relative to the folder, until what this gives is called."""
    _STARTED_IN.append(folder)
    return lambda: _STARTED_IN.remove(folder) if folder in _STARTED_IN else None


def shown_file(filename: str) -> str:
    """Relative to the folder that the run was started in, so that a terminal or an editor can jump there; else the name
    alone."""
    path = Path(filename)
    try:
        return path.relative_to(_STARTED_IN[-1] if _STARTED_IN else Path.cwd()).as_posix()
    except (ValueError, OSError):
        return path.name


def _is_own(filename: str) -> bool:
    return not filename.startswith(("<", *_foreign_folders()))


@cache
def _foreign_folders() -> tuple[str, ...]:
    """Where code lies that the project did not write: this package, the standard library, installed packages."""
    import sysconfig  # a start of pytest in which nothing fails does without it

    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    return (_PACKAGE, *sorted({path for key in keys if (path := sysconfig.get_path(key))}))
