"""A metric over time: one series for each engine and model, with breaks where runs are not comparable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from pytest_memeval.compare.messages import text
from pytest_memeval.compare.render_html import STYLE
from pytest_memeval.history.store import HistoryRow
from pytest_memeval.report.console import columns
from pytest_memeval.report.numbers import interval_text, value_text
from pytest_memeval.report.page_mark import PAGE_MARK

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-~=+*#"
_WIDTH, _HEIGHT, _MARGIN = 720, 220, 36


@dataclass(frozen=True, slots=True)
class Point:
    """A run's value. ``breaks``: what changed since the point before so that the two are not comparable."""

    row: HistoryRow
    value: float
    low: float | None
    high: float | None
    breaks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    engine: str
    model: str
    points: tuple[Point, ...]


def series_of(rows: Iterable[HistoryRow], metric: str) -> list[Series]:
    """The runs that have the metric, by engine (whatever its version) and model, in the order of their times."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for row in rows:
        found = row.metrics.get(metric)
        if found is None or found[0] is None:
            continue
        points = groups.setdefault((_engine_of(row), row.model), [])
        before = points[-1].row if points else None
        points.append(Point(row, found[0], found[1], found[2], tuple(breaks(before, row))))
    return [Series(engine, model, tuple(points)) for (engine, model), points in groups.items()]


def _engine_of(row: HistoryRow) -> str:
    return row.engine if row.engine_name is None else row.engine_name


def _version_of(row: HistoryRow) -> str:
    """The engine's version, or the hash of the predictions that were scored in an engine's place."""
    return row.engine.removeprefix(_engine_of(row)).strip() or "-"


def _head(points: Sequence[Point], lang: str) -> list[str]:
    head = [text(f"history.{name}", lang) for name in ("time", "commit", "prompts", "cases", "value")]
    return [*head, text("interval", lang), *([text("history.engine", lang)] if _differ(points) else []), ""]


def _differ(points: Sequence[Point]) -> bool:
    """Whether the engine's version has a column: where all runs have the same, it would tell nothing."""
    return len({_version_of(point.row) for point in points}) > 1


def breaks(before: HistoryRow | None, row: HistoryRow) -> Iterator[str]:
    """``cases`` (others ran), ``labels`` (the same cases with another content), ``matcher``, ``registry``, ``judge``,
    ``stage_input``; nothing for the first run."""
    if before is None:
        return
    if before.case_names_hash != row.case_names_hash:
        yield "cases"
    elif before.case_set_hash != row.case_set_hash:
        yield "labels"
    for name in ("matcher", "registry", "judge", "stage_input"):
        one, two = getattr(before, name), getattr(row, name)
        if name == "registry":
            # Each case file has its own; files that one run alone has are other cases.
            shared = one.keys() & two.keys()
            one, two = ({path: own[path] for path in shared} for own in (one, two))
        if one != two:
            yield name


def sparkline(points: Sequence[Point], *, ascii_only: bool = False) -> str:
    """One sign a run, the lowest value lowest, a bar where a break is."""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    low, high = _range(points)
    signs = []
    for point in points:
        share = (point.value - low) / (high - low) if high > low else 0.5
        bar = "|" if ascii_only else "│"
        signs.append((bar if point.breaks else "") + levels[min(int(share * len(levels)), len(levels) - 1)])
    return "".join(signs)


def _range(points: Sequence[Point]) -> tuple[float, float]:
    values = [point.value for point in points]
    return min(values), max(values)


def history_text(series: Sequence[Series], metric: str, lang: str = "en", *, ascii_only: bool = False) -> str:
    """For a terminal: each series as a table and a line of signs."""
    lines: list[str] = []
    for one in series:
        lines += ["", _title(one, metric, lang)]
        head, versions = _head(one.points, lang), _differ(one.points)
        lines += columns([head, *(_cells(point, lang, versions) for point in one.points)], right=frozenset({3, 4}))
        low, high = _range(one.points)
        bounds = {"low": value_text(low), "high": value_text(high)}
        lines.append(f"{sparkline(one.points, ascii_only=ascii_only)}  {text('history.range', lang, **bounds)}")
        if any(point.breaks for point in one.points):
            lines.append(text("history.break_note", lang, sign="|" if ascii_only else "│"))
    return "\n".join(lines).lstrip("\n")


def _title(one: Series, metric: str, lang: str) -> str:
    engine = one.engine if _differ(one.points) else one.points[0].row.engine
    return text("history.series", lang, metric=metric, model=one.model, engine=engine)


def _cells(point: Point, lang: str, versions: bool = False) -> list[str]:
    row = point.row
    interval = None if point.low is None or point.high is None else (point.low, point.high)
    remarks = [text("history.break", lang, what=_break_words(point, lang))] if point.breaks else []
    if row.partial:
        remarks.append(text("history.decided" if row.partial == "decided" else "history.partial", lang))
    if row.counts.get("errored"):
        remarks.append(text("history.errored", lang, count=row.counts["errored"]))
    return [
        row.timestamp[:16].replace("T", " "),
        (row.git_commit or "-")[:8],
        row.prompts,
        str(row.counts.get("scored", "-")),
        value_text(point.value),
        interval_text(interval),
        *([_version_of(row)] if versions else []),
        "; ".join(remarks),
    ]


def _break_words(point: Point, lang: str) -> str:
    return ", ".join(text(f"history.break.{name}", lang) for name in point.breaks)


def history_html(series: Sequence[Series], metric: str, lang: str = "en") -> str:
    """One page that needs nothing else: a drawing and a table for each series."""
    title = escape(text("history.title", lang, metric=metric))
    parts = []
    for one in series:
        name = _title(one, metric, lang)
        parts += [f"<h2>{escape(name)}</h2>", _drawing(one.points, lang), _table(one.points, lang)]
    return (
        f'<!doctype html>\n<html lang="{"zh" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f"{PAGE_MARK}\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _drawing(points: Sequence[Point], lang: str) -> str:
    """A line through the runs with their intervals; broken, and marked, where the runs are not comparable."""
    bounds = [bound for point in points for bound in (point.value, point.low, point.high) if bound is not None]
    low, high = min(bounds), max(bounds)
    if high <= low:
        low, high = low - 0.5, high + 0.5

    def x(at: int) -> float:
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * (at / (len(points) - 1) if len(points) > 1 else 0.5)

    def y(value: float) -> float:
        return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (value - low) / (high - low)

    parts = [
        f'<text x="0" y="{y(bound):.1f}" font-size="11" fill="currentColor">{value_text(bound)}</text>'
        for bound in (low, high)
    ]
    for at, point in enumerate(points):
        here = f"{x(at):.1f}"
        if point.low is not None and point.high is not None:
            ends = f'y1="{y(point.low):.1f}" y2="{y(point.high):.1f}"'
            parts.append(f'<line x1="{here}" x2="{here}" {ends} stroke="currentColor" opacity=".35"/>')
        if point.breaks:
            between = (x(at - 1) + x(at)) / 2
            parts.append(
                f'<line x1="{between:.1f}" x2="{between:.1f}" y1="{_MARGIN / 2}" y2="{_HEIGHT - _MARGIN / 2}" '
                'stroke="#cf222e" stroke-dasharray="4 3"/>'
                f'<text x="{between:.1f}" y="{_MARGIN / 2 - 4}" font-size="11" text-anchor="middle" fill="#cf222e">'
                f"{escape(_break_words(point, lang))}</text>"
            )
        elif at:
            before = points[at - 1]
            ends = f'x1="{x(at - 1):.1f}" y1="{y(before.value):.1f}" x2="{here}" y2="{y(point.value):.1f}"'
            parts.append(f'<line {ends} stroke="#0969da" stroke-width="2"/>')
        centre = f'cx="{here}" cy="{y(point.value):.1f}"'
        label = f"{point.row.timestamp} {point.row.prompts} {value_text(point.value)}"
        parts.append(f'<circle {centre} r="4" fill="#0969da"><title>{escape(label)}</title></circle>')
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img">{"".join(parts)}</svg>'


def _table(points: Sequence[Point], lang: str) -> str:
    head, versions = _head(points, lang), _differ(points)
    lines = (_cells(point, lang, versions) for point in points)
    rows = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines]
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"
