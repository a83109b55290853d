"""A report read case by case: the way in which it is written, one line a case, lets its text be read piece by piece."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START = '  "per_case": ['
_ENDS = ("  ]", "  ],")


class _OtherLayout(Exception):
    """The file is not laid out as reports are written here."""


def read_by_lines(file: Path, collect: Callable[[Iterable[dict[str, Any]]], Any]) -> dict[str, Any] | None:
    """The report in ``file``, with what ``collect`` makes of its entries of ``per_case`` in their place.

    ``None`` for a file that is laid out in another way, or cannot be read: it is for a reader of any JSON, which says
    what is wrong. What ``collect`` itself raises is passed on.
    """
    rest: list[str] = []
    try:
        with open(file, encoding="utf-8-sig", newline="\n") as lines, paused_collector():
            for line in lines:
                rest.append(line)
                if line.rstrip("\r\n") == _START:
                    break
            else:
                return None
            entries = collect(_entries(lines, rest))
            rest.extend(lines)
            report = json.loads("".join(rest))
    except (_OtherLayout, OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(report, dict) or report.get("per_case") != []:
        return None
    return {**report, "per_case": entries}


def _entries(lines: Iterable[str], rest: list[str]) -> Iterator[dict[str, Any]]:
    """One entry a line, up to the end of the list; the line that ends it is added to ``rest``."""
    more = True
    for line in lines:
        text = line.rstrip("\r\n")
        if text in _ENDS:
            rest.append(line)
            return
        if not more:
            raise _OtherLayout
        more = text.endswith(",")
        entry = json.loads(text.removesuffix(","))
        if not isinstance(entry, dict):
            raise _OtherLayout
        yield entry
    raise _OtherLayout


@contextmanager
def paused_collector() -> Iterator[None]:
    """Without Python's garbage collector: while millions of objects are made that are all kept, it would look at them
    again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
