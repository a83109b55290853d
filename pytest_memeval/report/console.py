"""Text for consoles: column widths, and what to print where a console's encoding lacks a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

#: What stands for the few signs of our own that ASCII lacks.
_ASCII = str.maketrans(
    {
        "≥": ">=",
        "≤": "<=",
        "±": "+/-",
        "–": "-",
        "—": "-",
        "…": "...",
        "→": "->",
        "×": "x",
        "·": ".",
        "│": "|",
        "─": "-",
        "█": "#",
        "░": ".",
        "⚠": "!",
        "“": '"',
        "”": '"',
        "’": "'",
    }
)


def console_text(text: str, encoding: str | None) -> str:
    """``text`` as a console with ``encoding`` can show it.

    Unchanged where the encoding has every character; else signs become their ASCII likeness and what is left becomes
    an escape (``\\u4e2d``), so that writing it cannot raise. An unknown encoding is taken as ASCII.
    """
    name = encoding or "ascii"
    try:
        text.encode(name)
    except (UnicodeEncodeError, LookupError):
        pass
    else:
        return text
    likeness = text.translate(_ASCII)
    try:
        return likeness.encode(name, "backslashreplace").decode(name)
    except LookupError:
        return likeness.encode("ascii", "backslashreplace").decode("ascii")


def display_width(text: str) -> int:
    """How many columns a terminal gives ``text``: wide East Asian characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), gap: str = "  ") -> list[str]:
    """Rows of cells as aligned lines; the columns numbered in ``right`` are aligned to the right."""
    if not rows:
        return []
    widths = [max(display_width(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for number, cell in enumerate(row):
            fill = " " * (widths[number] - display_width(cell))
            cells.append(fill + cell if number in right else cell + fill)
        lines.append(gap.join(cells).rstrip())
    return lines
