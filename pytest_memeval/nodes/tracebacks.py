"""What is shown of an exception in an item's set-up: a project's fixture alone, as beside a test in Python.

pytest cuts a traceback at the test function's file, which for a case is one of this package: all frames on the way to
the fixture stay, the plugin's, pluggy's and pytest's own.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest._code import Traceback, filter_traceback

_PACKAGE = Path(__file__).parent.parent
#: The functions by which pytest enters and leaves a fixture.
_ENTRANCES = frozenset({"call_fixture_func", "_teardown_yield_fixture"})
#: What pytest says where a fixture is asynchronous and no plugin makes it.
_ASYNC = " requested an async fixture "


def project_frames(item: pytest.Function, excinfo: pytest.ExceptionInfo[BaseException]) -> Traceback:
    """The frames from the project's fixture on; without one all but pytest's. Nothing is cut under ``--full-trace``."""
    whole = excinfo.traceback
    if item.config.getoption("fulltrace", False):
        return whole
    kept = Traceback(whole[_start(whole) :]).filter(filter_traceback).filter(excinfo) or whole
    if item.config.getoption("tbstyle", "auto") == "auto" and len(kept) > 2:
        return Traceback((kept[0], *(entry.with_repr_style("short") for entry in kept[1:-1]), kept[-1]))
    return kept


def _start(traceback: Traceback) -> int:
    """Where the first fixture begins that is none of this package's."""
    for at, (entry, following) in enumerate(pairwise(traceback), 1):
        if entry.name in _ENTRANCES and not Path(following.path).is_relative_to(_PACKAGE):
            return at
    return 0


def hidden_beside_others(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """``__tracebackhide__`` of what only stands around an item's own work: where nothing else would be left, pytest
    says that everything is hidden."""
    return any(filter_traceback(entry) and not Path(entry.path).is_relative_to(_PACKAGE) for entry in excinfo.traceback)


def is_of_async_fixture(error: BaseException) -> bool:
    """Whether pytest refused a fixture that is asynchronous."""
    return isinstance(error, pytest.fail.Exception) and _ASYNC in str(error.msg)


def name_item(error: BaseException, item: pytest.Item) -> None:
    """Let pytest's sentence on an asynchronous fixture name the item: where that is of a wider scope it says ``''``, or
    the item that asked for it first."""
    if isinstance(error, pytest.fail.Exception) and is_of_async_fixture(error):
        _, found, rest = str(error.msg).partition(_ASYNC)
        error.msg = f"{item.name!r}{found}{rest}"


def keep_refusal(error: BaseException, definition: Any, request: Any) -> None:
    """Have whoever else asks for an asynchronous fixture hear the same: pytest keeps the failures of fixtures, but not
    this one, and stumbles over what is left of it."""
    if is_of_async_fixture(error) and getattr(definition, "cached_result", ()) is None:
        definition.cached_result = (None, definition.cache_key(request), (error, error.__traceback__))
