"""Cells and tables of Markdown as GitHub renders it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

#: Signs with a meaning inside a line; those that only mean something at its start cannot stand there in a cell.
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_WHITE = re.compile(r"\s+")


def escape(value: Any) -> str:
    """Text for a table cell, shown as it is: no Markdown, no HTML, no mention, no line break."""
    flat = _WHITE.sub(" ", str(value)).strip()
    flat = flat.encode("utf-8", "backslashreplace").decode("utf-8")
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;").replace("://", "&#58;//")
    return _SPECIAL.sub(r"\\\1", flat)


def code(value: Any) -> str:
    """A name in code style inside a table cell; falls back to escaped text where it holds a backtick or a bar."""
    flat = _WHITE.sub(" ", str(value)).strip().encode("utf-8", "backslashreplace").decode("utf-8")
    return escape(flat) if "`" in flat or "|" in flat or not flat else f"`{flat}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> Iterator[str]:
    """A Markdown table, its cells already escaped; columns numbered in ``right`` are aligned to the right."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---:" if number in right else "---" for number in range(len(head))) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def shorten(value: str, limit: int = 200) -> str:
    return value if len(value) <= limit else value[: limit - 1] + "…"


def paragraph(note: str) -> str:
    """A note outside tables keeps its code style but no HTML."""
    return _WHITE.sub(" ", note).replace("&", "&amp;").replace("<", "&lt;")
