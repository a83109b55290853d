"""Warnings of cases in flight, and what of Python's own is replaced for them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from pytest_memeval.routing.said import Said, routed
from pytest_memeval.routing.warned import Warned

_module: Any = warnings


def state() -> list[Any]:
    block = warnings.catch_warnings
    return [_module.filters, list(warnings.filters), _module._showwarnmsg_impl, _module._add_filter] + [
        getattr(block, name) for name in ("__enter__", "__exit__")
    ]


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
