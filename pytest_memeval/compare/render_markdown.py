"""A comparison as Markdown that renders on GitHub."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_memeval.compare.messages import text
from pytest_memeval.compare.model import Comparison
from pytest_memeval.compare.view import Block, Cell, blocks
from pytest_memeval.report.markdown_cells import code, escape, shorten, table

_SIGN = {"good": "🟢 ", "bad": "🔴 ", "warn": "🟡 "}
_LINE_SIGN = {"bad": "⚠️ ", "warn": "⚠️ "}
_BAR = 5


def markdown_text(comparison: Comparison, lang: str = "en") -> str:
    """The whole page."""
    return "\n".join([f"# {text('title', lang)}", "", *markdown_lines(comparison, lang)]) + "\n"


def markdown_lines(comparison: Comparison, lang: str = "en", *, level: int = 2) -> Iterator[str]:
    """The page without its title, headings from ``level`` on, to stand in a report."""
    for block in blocks(comparison, lang):
        if block.title is not None:
            yield from ("", f"{'#' * (block.level - 2 + level)} {escape(block.title)}", "")
        for line in block.lines:
            yield f"- {_LINE_SIGN.get(line.style, '')}{escape(line.text)}"
        if block.lines and (block.rows or block.source):
            yield ""
        if block.rows:
            yield from table([escape(name) for name in block.head], _rows(block), block.right)
        if block.source:
            fence = _fence(block.source)
            yield from (f"{fence}diff", *block.source, fence)
        if block.more > 0:
            yield from ("", text("more", lang, count=block.more))


def _rows(block: Block) -> Iterator[list[str]]:
    for row in block.rows:
        yield [_cell(cell, first=number == 0) for number, cell in enumerate(row)]


def _cell(cell: Cell, *, first: bool) -> str:
    shown = code(cell.text) if cell.code else escape(shorten(cell.text, 400))
    if cell.heat is not None:
        return f"{shown} {_heat(cell.heat)}"
    return (_SIGN.get(cell.style, "") if first or not cell.code else "") + shown


def _heat(change: float) -> str:
    """A bar of up to five squares, one for each 0.05."""
    squares = min(_BAR, int(abs(change) / 0.05 + 1e-9))
    return ("🟩" if change > 0 else "🟥") * squares or "⬜"


def _fence(lines: tuple[str, ...]) -> str:
    """Longer than any run of backticks inside."""
    longest = max((len(run) for line in lines for run in _runs(line)), default=0)
    return "`" * max(3, longest + 1)


def _runs(line: str) -> Iterator[str]:
    run = ""
    for char in line + " ":
        if char == "`":
            run += char
        elif run:
            yield run
            run = ""
