"""The figures of a page: a case's main score, and every section's metrics as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.html.elements import Html, Words, code, element, figure, grid, joined
from pytest_memeval.report.messages import metric_title
from pytest_memeval.report.numbers import interval_text, number_text, value_text

#: The main score of a case, by the section that it has: the first of these that is there.
MAIN_SCORES: tuple[tuple[str, str], ...] = (
    ("l1", "dimension_micro_f1"),
    ("qa", "judge_score"),
    ("qa", "f1"),
    ("l15", "action_accuracy"),
    ("l2", "section_hit_rate"),
    ("inject", "pipeline_coverage"),
    ("search", "ndcg@10"),
    ("rag", "faithfulness"),
    ("rag", "answer_f1"),
)


def main_score(entry: Mapping[str, Any]) -> tuple[str, float] | None:
    """The figure by which a case is shown and sorted, with its path; ``None`` where it has none. Of a kind of case that
    is not known here it is the first figure between 0 and 1."""
    for section, name in MAIN_SCORES:
        value = ((entry.get(section) or {}).get("values") or {}).get(name)
        if isinstance(value, (int, float)):
            return f"{section}.{name}", value
    for section in SECTIONS:
        for name, value in ((entry.get(section) or {}).get("values") or {}).items():
            if isinstance(value, (int, float)) and 0 <= value <= 1 and section not in ("l1", "l15", "l2", "inject"):
                return f"{section}.{name}", value
    return None


def section_tables(report: Mapping[str, Any], words: Words) -> Iterator[Html]:
    """Every figure of every section with interval and size, closed until it is wanted."""
    for section in SECTIONS:
        figures = report.get(section)
        if not figures or not figures.get("n"):
            continue
        rows = list(_rows(section, figures, words))
        counts = figures.get("counts") or {}
        title = words(
            "section_title",
            section=section,
            scored=counts.get("scored", 0),
            errored=counts.get("errored", 0),
        )
        if rows:
            head = [words.common(key) for key in ("metric", "value", "interval", "n")]
            yield element("details", element("summary", title), grid(head, rows, right=frozenset({1}), caption=section))


def _rows(section: str, figures: Mapping[str, Any], words: Words) -> Iterator[tuple[Html, Html, str, str]]:
    for name, size in figures["n"].items():
        value = _value(figures, name)
        if not isinstance(value, (int, float)):
            continue
        path = f"{section}.{name}"
        yield (
            joined((code(path), " ", element("small", metric_title(path, words.lang)))),
            figure(path, value, value_text(value)),
            interval_text((figures.get("intervals") or {}).get(name)),
            " / ".join(number_text(size[key]) for key in ("units", "cases", "clusters")),
        )


def _value(figures: Mapping[str, Any], name: str) -> Any:
    """A figure by its name, or by table and key."""
    if name in figures:
        return figures[name]
    table, _, key = name.partition(".")
    inner = figures.get(table)
    return inner.get(key) if isinstance(inner, Mapping) else None
