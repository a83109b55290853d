"""The tuning report as one page: no script, nothing loaded from elsewhere, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pytest_memeval.report.page_mark import PAGE_MARK
from pytest_memeval.tuning.wording import Words, number, params_text, value_text

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #6b7280; --line: #d8dce2; --one: #0b63c5;
  --two: #a3560a; --good: #1a7f37; --mild: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #15181c; --faint: #9aa3af; --line: #363c44;
  --one: #6cb0ff; --two: #f0a35a; --good: #57c271; --mild: #e0b64d; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .92em; overflow-wrap: anywhere; }
.verdict { border-left: .35rem solid var(--mild); padding: .4rem .9rem; margin: 1rem 0; }
.verdict.conclusive { border-color: var(--good); }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; max-width: 100%; }
figcaption { font-weight: 600; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--faint); }
"""

_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 28
#: The curves' scale spans at least this much, so that nothing looks like a mountain.
_LEAST_SPAN = 0.05


def html_page(document: Mapping[str, Any], lang: str) -> str:
    """A whole page; ``document`` is a tuning document, ``lang`` is ``en`` or ``zh``."""
    words = Words(document, lang)
    title = f"{words('title')}: {document['case_set']}"
    head = (
        f'<!doctype html>\n<html lang="{lang}">\n<head>\n<meta charset="utf-8">\n'
        f'{PAGE_MARK}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    return head + "\n".join((f"<h1>{escape(title)}</h1>", *_body(words))) + "\n</body>\n</html>\n"


def html_parts(document: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The same without a head, under headings of the third level, to stand in the page of a run."""
    words = Words(document, lang)
    yield f'<p class="faint">{escape(words("title"))}: <code>{escape(document["case_set"])}</code></p>'
    yield from _body(words, "h3")


def _body(words: Words, heading: str = "h2") -> Iterator[str]:
    rrf = words.rrf
    sure = " conclusive" if rrf["conclusion"] == "conclusive" else ""
    yield f'<p class="verdict{sure}"><strong>{escape(words.verdict())}</strong>. {escape(words.reason())}</p>'
    if (partial := words.partial_line()) is not None:
        yield f"<p><strong>{escape(partial)}</strong></p>"
    yield f'<p class="faint">{escape(words.input_line())}</p>'
    yield from _table(None, words.value_rows(), code=1)
    yield from _list((*words.unseen_lines(), *words.method_lines()))
    if rrf["param_sensitivity"]:
        yield f"<{heading}>{escape(words('sensitivity'))}</{heading}>"
        yield from _table(words.sensitivity_head(), words.sensitivity_rows(), right={1, 2, 3})
        yield f'<p class="faint">{escape(words("spread_note"))} {escape(words("curves"))}</p>'
        yield '<div class="charts">'
        low, high = _scale(rrf)
        for name, one in rrf["param_sensitivity"].items():
            yield f"<figure><figcaption>{escape(name)}</figcaption>"
            yield _chart(name, one, rrf, low, high)
            yield from _table(words.curve_head(), words.curve_rows(name), right={0, 1, 2})
            yield "</figure>"
        yield "</div>"
    for title, lines in ((words("diagnosis"), words.diagnosis_lines()), (words("remarks"), words.remarks())):
        if lines:
            yield f"<{heading}>{escape(title)}</{heading}>"
            yield from _list(lines)
    shown, more = words.best_results()
    if shown:
        yield f"<{heading}>{escape(words('results'))}</{heading}>"
        rows = [[params_text(one["params"]), number(one["score"])] for one in shown]
        yield from _table([words("parameter"), words("score")], rows, right={1}, code=0)
        if more:
            yield f"<p>{escape(words('more', count=more))}</p>"


def _list(lines: Iterable[str]) -> Iterator[str]:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if items:
        yield f"<ul>{items}</ul>"


def _table(
    head: Sequence[str] | None, rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), code: int | None = None
) -> Iterator[str]:
    numbers = set(right)

    def cells(tag: str, row: Sequence[str]) -> str:
        made = []
        for place, cell in enumerate(row):
            kind = ' class="number"' if place in numbers else ""
            inner = escape(cell)
            if tag == "td" and place == code and "=" in cell:
                inner = f"<code>{inner}</code>"
            made.append(f"<{tag}{kind}>{inner}</{tag}>")
        return f"<tr>{''.join(made)}</tr>"

    top = f"<thead>{cells('th', head)}</thead>" if head is not None else ""
    body = "".join(cells("td", row) for row in rows)
    yield f'<div class="scroll" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'


# -- curves


def _scale(rrf: Mapping[str, Any]) -> tuple[float, float]:
    """One scale for all curves, so that a flat one looks flat beside a steep one."""
    found = [rrf["current_score"]] if rrf["current_score"] is not None else []
    for one in rrf["param_sensitivity"].values():
        found += [value for value in (*one["marginal"], *one["at_best"]) if value is not None]
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    room = max(_LEAST_SPAN - (high - low), (high - low) * 0.1) / 2
    return max(0.0, low - room), min(1.0, high + room)


def _chart(name: str, one: Mapping[str, Any], rrf: Mapping[str, Any], low: float, high: float) -> str:
    places = _places(one["values"])

    def y_of(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img"'
        f' aria-label="{escape(name)}: {escape(str(rrf["metric"]))}">'
    ]
    for value in (low, (low + high) / 2, high):
        y = y_of(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>')
    parts += _labels(one["values"], places)
    if rrf["current_score"] is not None:
        y = y_of(rrf["current_score"])
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--faint)"'
            f' stroke-dasharray="1 3"><title>{number(rrf["current_score"])}</title></line>'
        )
    for key, colour, dash in (("marginal", "var(--two)", "6 4"), ("at_best", "var(--one)", "")):
        parts += _curve(one["values"], one[key], places, y_of, colour, dash)
    return "".join(parts) + "</svg>"


def _places(values: Sequence[Any]) -> list[float]:
    """x of each value: to scale for numbers, evenly spaced where one is text."""
    width = _WIDTH - _LEFT - _RIGHT
    if any(isinstance(value, str) for value in values):
        numbers = [float(place) for place in range(len(values))]
    else:
        numbers = [float(value) for value in values]
    low, high = min(numbers), max(numbers)
    return [_LEFT + (width * (value - low) / (high - low) if high > low else width / 2) for value in numbers]


def _labels(values: Sequence[Any], places: Sequence[float]) -> Iterator[str]:
    """The values under the axis; one that would run into the last is left out."""
    last = -1e9
    for value, x in sorted(zip(values, places, strict=True), key=lambda pair: pair[1]):
        if x - last >= 34:
            last = x
            label = value_text(value)
            label = label if len(label) <= 8 else label[:7] + "…"
            yield f'<text x="{x:.1f}" y="{_HEIGHT - 9}" text-anchor="middle">{escape(label)}</text>'


def _curve(
    values: Sequence[Any], scores: Sequence[float | None], places: Sequence[float], y_of: Any, colour: str, dash: str
) -> Iterator[str]:
    points = sorted(
        (x, y_of(score), value, score)
        for x, value, score in zip(places, values, scores, strict=True)
        if score is not None
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    stroke = f' stroke-dasharray="{dash}"' if dash else ""
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{stroke}/>'
    for x, y, value, score in points:
        title = f"{escape(value_text(value))}: {number(score)}"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"><title>{title}</title></circle>'
