"""Text for consoles: column widths, and what to print where a console's encoding lacks a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

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


def console_text(text: str, encoding: str | None, *, coloured: bool = False) -> str:
    """``text`` as a console with ``encoding`` can show it.

    Control characters become escapes, but for line ends and tabs, unless the text is ``coloured`` already, and its
    maker has seen to that. Else unchanged where the encoding has every character; where it has not, signs become their
    ASCII likeness and what is left becomes an escape (``\\u4e2d``), so that writing it cannot raise. An unknown
    encoding is taken as ASCII.
    """
    text = text if coloured else without_controls(text)
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


_ANSI: Mapping[str, str] = {"green": "32", "red": "31", "yellow": "33", "light": "2", "bold": "1"}
#: Control characters of a text that would move the cursor, or paint, if a terminal saw them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
#: Halves of pairs, which no encoding that a text is shown, written or sent in has.
_SURROGATE = re.compile("[\ud800-\udfff]")


def painted(line: str, markup: Mapping[str, bool]) -> str:
    """The line with ANSI colours for pytest's markup; control characters of its own lose their effect."""
    codes = ";".join(_ANSI[name] for name, wanted in markup.items() if wanted and name in _ANSI)
    plain = without_controls(line)
    return f"\x1b[{codes}m{plain}\x1b[0m" if codes and plain else plain


def without_controls(line: str) -> str:
    """The line with control characters as escapes: what a conversation holds must not steer a terminal. Lone surrogates
    become escapes too."""
    return without_surrogates(_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", line))


def without_surrogates(text: str) -> str:
    """The text with lone surrogates as escapes (``\\ud800``); the same object where there is none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text
