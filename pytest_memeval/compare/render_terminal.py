"""A comparison for a terminal: as lines with pytest's markup, with ANSI colours, or short for a run's summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_memeval.compare.messages import text
from pytest_memeval.compare.model import Comparison, MetricDifference
from pytest_memeval.compare.view import Block, Cell, Style, blocks, finding, interval, signed, style_of
from pytest_memeval.report.console import columns, display_width, without_controls

Markup = Mapping[str, bool]

_MARKUP: Mapping[Style, Markup] = {
    "plain": {},
    "good": {"green": True},
    "bad": {"red": True},
    "warn": {"yellow": True},
    "faint": {"light": True},
    "bold": {"bold": True},
}
_ANSI = {"green": "32", "red": "31", "yellow": "33", "light": "2", "bold": "1"}
#: Steps of the heat map: a change of at least so much → background of a 256-colour terminal.
_HEAT = ((0.2, 28), (0.1, 34), (0.05, 71), (0.0, 0))
_COLD = ((0.2, 124), (0.1, 160), (0.05, 167), (0.0, 0))
#: A table cell is cut at this many columns.
_WIDEST = 60


def terminal_text(comparison: Comparison, lang: str = "en", *, colour: bool = False) -> str:
    """The whole comparison; ``colour`` adds ANSI codes."""
    lines: list[str] = []
    for block in blocks(comparison, lang):
        if block.title is not None:
            lines += ["", _painted(block.title, {"bold": True}, colour)]
        lines += [_painted(line.text, _MARKUP[line.style], colour) for line in block.lines]
        lines += _table(block, colour)
        lines += [_painted(line, _source_markup(line), colour) for line in block.source]
        if block.more > 0:
            lines.append(text("more", lang, count=block.more))
    return "\n".join(lines)


def _table(block: Block, colour: bool) -> Iterator[str]:
    if not block.rows:
        return
    cells = [[_cut(cell.text) for cell in row] for row in block.rows]
    lines = columns([list(block.head), *cells], right=block.right)
    yield _painted("  " + lines[0], _MARKUP["faint"], colour)
    for row, line in zip(block.rows, lines[1:], strict=True):
        yield "  " + (_coloured_row(row, line) if colour else line)


def _coloured_row(row: tuple[Cell, ...], line: str) -> str:
    """Each cell painted where it stands; a cell's text is found from left to right."""
    result, at = "", 0
    for cell in row:
        shown = _cut(cell.text)
        place = line.find(shown, at) if shown.strip() else -1
        if place < 0:
            continue
        result += line[at:place] + _cell(shown, cell)
        at = place + len(shown)
    return result + line[at:]


def _cell(shown: str, cell: Cell) -> str:
    if cell.heat is not None:
        steps = _HEAT if cell.heat > 0 else _COLD
        background = next(number for least, number in steps if abs(cell.heat) >= least)
        return f"\033[48;5;{background}m\033[97m{shown}\033[0m" if background else shown
    return _painted(shown, _MARKUP[cell.style], True)


def _cut(value: str) -> str:
    flat = without_controls(" ".join(value.split()))
    if display_width(flat) <= _WIDEST:
        return flat
    while display_width(flat) > _WIDEST - 1:
        flat = flat[:-1]
    return flat + "…"


def _painted(value: str, markup: Markup, colour: bool) -> str:
    codes = [_ANSI[name] for name, on in markup.items() if on]
    value = without_controls(value)
    return f"\033[{';'.join(codes)}m{value}\033[0m" if colour and codes and value else value


def _source_markup(line: str) -> Markup:
    if line.startswith(("+++", "---")):
        return _MARKUP["bold"]
    return _MARKUP["good"] if line.startswith("+") else _MARKUP["bad"] if line.startswith("-") else {}


# -- short, for a run's summary


def summary_lines(comparison: Comparison, lang: str = "en", *, most: int = 8) -> list[tuple[str, Markup]]:
    """The comparison in a few lines, as ``(text, markup)`` for pytest's terminal: what limits it, the cases that were
    lost, then every difference that is more than noise, as ``Δ l1.dimension_micro_f1 = +0.036 [-0.018, +0.090]``."""
    first = next(iter(blocks(comparison, lang)))
    lines = [(line.text, _MARKUP[line.style]) for line in first.lines]
    for key in ("newly_errored", "vanished"):
        notes = getattr(comparison, key)
        if notes:
            names = ", ".join(note.case.rpartition("::")[2] for note in notes[:5])
            rest = ", …" if len(notes) > 5 else ""
            lines.append((f"{text(key, lang)} ({len(notes)}): {names}{rest}", _MARKUP["bad"]))
    if comparison.is_unchanged or not comparison.compared:
        return lines
    telling = [metric for metric in comparison.metrics if metric.signal in ("clear", "likely")]
    telling.sort(key=lambda metric: (metric.holm if metric.holm is not None else 1.0, metric.path))
    main = comparison.metric("l1.dimension_micro_f1")
    if main is not None and main.difference is not None and main not in telling:
        telling.insert(0, main)
    lines += [(short_text(metric, comparison, lang), _MARKUP[style_of(metric)]) for metric in telling[:most]]
    if len(telling) > most:
        lines.append((text("more", lang, count=len(telling) - most), {}))
    if not any(metric.signal in ("clear", "likely") for metric in telling):
        lines.append((text("short_none", lang, count=comparison.families.get("metrics", 0)), _MARKUP["faint"]))
    return lines


def short_text(metric: MetricDifference, comparison: Comparison, lang: str = "en") -> str:
    """``Δ l1.dimension_micro_f1 = +0.036 [-0.018, +0.090] (v002 > v001), within noise``."""
    sign = "=" if not metric.difference else ">" if metric.difference > 0 else "<"
    names = comparison.b.prompts, comparison.a.prompts
    if names[0] == names[1]:
        names = comparison.b.label, comparison.a.label
    relation = f"{names[0]} {sign} {names[1]}"
    values = {"path": metric.path, "difference": signed(metric.difference), "interval": interval(metric)}
    return text("short", lang, **values, relation=relation, finding=finding(metric, lang))
