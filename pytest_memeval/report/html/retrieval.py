"""How retrieval depends on how many hits are looked at: every figure of a run that has cut-offs, and its curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.report.html.drawing import line_chart
from pytest_memeval.report.html.elements import Html, Words, code, element, figure, grid, joined
from pytest_memeval.report.messages import metric_title
from pytest_memeval.report.numbers import number_text, value_text

#: Sections whose figures have cut-offs, with those that are drawn; a table has them all.
DRAWN: Mapping[str, tuple[str, ...]] = {
    "search": ("hit", "recall", "ndcg"),
    "qa": ("turn_hit", "turn_recall", "session_hit", "session_recall"),
    "longmemeval": (),
}
#: Figures over whole rankings, which no cut-off bounds.
WHOLE: tuple[str, ...] = ("mrr", "map", "turn_recall", "session_recall")
#: What is said of how a search was made, in this order.
SETUP: tuple[str, ...] = ("top_k", "rrf_k", "bm25_weight", "bm25_k1", "bm25_b", "documents")


def cut_offs(figures: Mapping[str, Any]) -> dict[str, dict[int, float | None]]:
    """Metric → cut-off → value, of the metrics of a section that have at least two cut-offs."""
    found: dict[str, dict[int, float | None]] = {}
    for name in figures.get("n") or ():
        base, _, cut = name.partition("@")
        if cut.isdigit() and "." not in base:
            found.setdefault(base, {})[int(cut)] = figures.get(name)
    return {
        base: dict(sorted(values.items()))
        for base, values in found.items()
        if len(values) > 1 and any(value is not None for value in values.values())
    }


def retrieval(report: Mapping[str, Any], words: Words) -> Html | None:
    """Curves and table of every section that has such figures; ``None`` where nothing was retrieved."""
    parts = [part for section in DRAWN for part in _section(section, report.get(section) or {}, words)]
    return joined((element("p", words("retrieval_note"), class_="faint"), *parts)) if parts else None


def _section(section: str, figures: Mapping[str, Any], words: Words) -> Iterator[Html]:
    found = cut_offs(figures)
    if not found:
        return
    setup: Mapping[str, Any] = figures.get("setup") or {}
    said = ", ".join(f"{name} {number_text(setup[name])}" for name in SETUP if setup.get(name) is not None)
    if said:
        yield element("p", words("retrieval_setup", setup=said), class_="faint")
    drawn = [base for base in DRAWN[section] if base in found]
    if drawn:
        yield element("div", *(_curve(section, base, found[base], figures, words) for base in drawn), class_="curves")
    yield _table(section, found, figures, words)
    whole: list[Html] = []
    for name in WHOLE:
        value = figures.get(name)
        if value is not None:
            whole += [code(name), element("span", figure(f"{section}.{name}", value, value_text(value)))]
    if whole:
        yield element("p", words("retrieval_whole"), *(part for one in whole for part in (" ", one)))


def _curve(
    section: str, base: str, values: Mapping[int, float | None], figures: Mapping[str, Any], words: Words
) -> Html:
    intervals: Mapping[str, Sequence[float] | None] = figures.get("intervals") or {}
    points = []
    for k, value in values.items():
        if value is not None:
            low, high = intervals.get(f"{base}@{k}") or (None, None)
            points.append({"label": str(k), "value": value, "low": low, "high": high})
    path = f"{section}.{base}@k"
    title = f"{metric_title(f'{section}.{base}', words.lang)} ({words('cut_off')})"
    return element("figure", element("figcaption", code(path)), line_chart(points, title, span=(0.0, 1.0), width=360))


def _table(
    section: str, found: Mapping[str, Mapping[int, float | None]], figures: Mapping[str, Any], words: Words
) -> Html:
    columns = sorted({k for values in found.values() for k in values})
    rows = []
    for base, values in found.items():
        cells = [
            figure(f"{section}.{base}@{k}", values[k], value_text(values[k])) if k in values else "-" for k in columns
        ]
        rows.append(
            (joined((code(base), " ", element("small", metric_title(f"{section}.{base}", words.lang)))), *cells)
        )
    return grid(
        [words("cut_off"), *map(str, columns)],
        rows,
        right=frozenset(range(1, len(columns) + 1)),
        caption=f"{words('retrieval')}: {section}",
        row_head=True,
    )
