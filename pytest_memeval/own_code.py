"""What a project's own code may fail with, and its words."""

from __future__ import annotations

import sys


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


def text_of(error: BaseException) -> str:
    """The exception's text, or why it has none."""
    try:
        return str(error)
    except own_errors() as broken:
        return f"(its text cannot be had: __str__ raised {type(broken).__name__})"


def named(error: BaseException) -> str:
    """``TypeName: text``."""
    return f"{type(error).__name__}: {text_of(error)}".rstrip(": ")
