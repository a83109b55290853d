"""A skip that what is measured raised itself."""

from __future__ import annotations

import sys


def skips() -> tuple[type[BaseException], ...]:
    """What ``pytest.skip`` raises, which is no Exception; nothing where pytest was never imported.

    Raised by an engine or a metric it is a failure like any other: a case that took itself out of the figures would
    make them look better. A skip in a fixture of the project is a skip.
    """
    pytest = sys.modules.get("pytest")
    return () if pytest is None else (pytest.skip.Exception,)


def errors_and_skips() -> tuple[type[BaseException], ...]:
    """Every Exception, and a skip: what a project's own code may fail with."""
    return (Exception, *skips())
