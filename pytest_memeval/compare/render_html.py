"""A comparison as one HTML page that needs nothing else: no script, no address, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pytest_memeval.compare.messages import text
from pytest_memeval.compare.model import Comparison
from pytest_memeval.compare.view import Block, Cell, blocks
from pytest_memeval.report.page_mark import PAGE_MARK

STYLE = """\
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #8884; padding: .2rem .6rem; text-align: left; vertical-align: top }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code, pre { font-family: ui-monospace, monospace; font-size: 90% }
pre { background: #8881; padding: .7rem; overflow-x: auto }
.good { color: #1a7f37 } .bad { color: #cf222e } .warn { color: #9a6700 } .faint { opacity: .65 }
.bold { font-weight: 600 }
@media (prefers-color-scheme: dark) { .good { color: #4ac26b } .bad { color: #ff8182 } .warn { color: #d4a72c } }
"""


def html_text(comparison: Comparison, lang: str = "en") -> str:
    """The whole page."""
    title = escape(text("title", lang))
    body = "\n".join(html_parts(comparison, lang))
    return (
        f'<!doctype html>\n<html lang="{"zh" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'{PAGE_MARK}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def html_parts(comparison: Comparison, lang: str = "en") -> Iterator[str]:
    """The page's body without its title, to stand in another page that has :data:`STYLE`."""
    for block in blocks(comparison, lang):
        if block.title is not None:
            yield f"<h{block.level}>{_text(block.title)}</h{block.level}>"
        yield from (f'<p class="{line.style}">{_text(line.text)}</p>' for line in block.lines)
        if block.rows:
            yield _table(block)
        if block.source:
            yield f"<pre>{chr(10).join(map(_source, block.source))}</pre>"
        if block.more > 0:
            yield f"<p>{_text(text('more', lang, count=block.more))}</p>"


def _table(block: Block) -> str:
    head = "".join(f"<th{_right(block, at)}>{_text(name)}</th>" for at, name in enumerate(block.head))
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, _right(block, at)) for at, cell in enumerate(row)) + "</tr>" for row in block.rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _right(block: Block, at: int) -> str:
    return ' class="right"' if at in block.right else ""


def _cell(cell: Cell, where: str) -> str:
    shown = f"<code>{_text(cell.text)}</code>" if cell.code else _text(cell.text)
    if cell.heat is not None:
        strength = min(0.85, abs(cell.heat) * 2.5)
        colour = "26, 127, 55" if cell.heat > 0 else "207, 34, 46"
        return f'<td{where} style="background: rgba({colour}, {strength:.2f})">{shown}</td>'
    return (
        f'<td{where}><span class="{cell.style}">{shown}</span></td>'
        if cell.style != "plain"
        else f"<td{where}>{shown}</td>"
    )


def _source(line: str) -> str:
    style = "bold" if line.startswith(("+++", "---")) else {"+": "good", "-": "bad"}.get(line[:1])
    return f'<span class="{style}">{_text(line)}</span>' if style else _text(line)


def _text(value: str) -> str:
    return escape(value.encode("utf-8", "backslashreplace").decode("utf-8"))
