"""Warnings of cases in flight, and what of Python's own is replaced for them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from pytest_memeval import routing
from pytest_memeval.routing.said import Said, routed
from pytest_memeval.routing.warned import Warned

_module: Any = warnings


def state() -> list[Any]:
    block = warnings.catch_warnings
    return [
        _module.filters,
        list(warnings.filters),
        _module._showwarnmsg_impl,
        _module._showwarnmsg,
        _module._add_filter,
    ] + [getattr(block, name) for name in ("__enter__", "__exit__")]


@pytest.mark.parametrize("end", ["rest", "close"])
def test_a_block_that_ends_late_brings_nothing_back(end: str) -> None:
    with warnings.catch_warnings(record=True):
        before = state()
        warned, said = Warned(), Said()
        warned.watch(())
        late, later = warnings.catch_warnings(), warnings.catch_warnings()
        leave = type(late).__exit__
        with routed(said):
            late.__enter__()
            later.__enter__()
            warnings.simplefilter("ignore")
            getattr(warned, end)()
            leave(late, None, None, None)  # as a thread does that was on its way
            later.__exit__(None, None, None)
        warned.close()
        assert state() == before
        assert _module.filters is before[0]


def test_a_filter_that_is_added_again_and_again_stands_once() -> None:
    with warnings.catch_warnings(record=True):
        warned, said = Warned(), Said()
        warned.watch(())
        try:
            count = len(warnings.filters)
            with routed(said):
                for _ in range(3):
                    warnings.simplefilter("ignore")
            assert len(warnings.filters) == count + 1
        finally:
            warned.close()


@contextmanager
def before_every_line(of: Collection[str], do: Callable[[], None]) -> Iterator[None]:
    """Have it done wherever another thread might come in."""
    before = sys.gettrace()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in of:
            return None
        if event == "line":
            sys.settrace(None)
            do()
            sys.settrace(trace)
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_case_that_warns_while_an_item_begins_is_held_to_its_own_filters_at_every_moment() -> None:
    """Items begin by recording warnings and adding filters of their own, a few steps in which a case may warn."""
    said, warned = Said(), Warned()
    wrong: list[object] = []
    told = 0

    def warn() -> None:
        nonlocal told
        told += 1
        try:
            with routed(said):
                warnings.warn(f"the case's {told}", stacklevel=1)
        except UserWarning as error:
            wrong.append(error)

    files = {module.__file__ for module in (warnings, routing.warned, routing.blocks)}
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            for number in range(3):
                warned.watch(())
                warned.watch_outer()
                with before_every_line(files, warn), warnings.catch_warnings(record=True) as log:
                    warnings.filterwarnings(["error", "ignore"][number % 2], message="the case")
                    warnings.simplefilter("default", append=True)
                wrong += log
        finally:
            warned.close()
    assert told > 30
    assert not wrong
    assert len(said.parts) == told
