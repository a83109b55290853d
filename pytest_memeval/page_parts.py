"""What the page of a run shows besides its report: the baseline's part, and the history of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_memeval.compare.model import Comparison

#: As many runs are drawn.
MOST_RUNS = 40


def baseline_html(report: Mapping[str, Any], comparison: Comparison | None = None) -> dict[str, str] | None:
    """Language → the comparison with the baseline as HTML, ``None`` for a run without one. ``comparison`` is the
    whole one where it is at hand; else the one in the report is shown. A damaged one is left out rather than the
    page."""
    from pytest_memeval.report.reader import ReportError

    if comparison is None:
        stored = (report.get("baseline") or {}).get("comparison")
        if stored is None:
            return None
        from pytest_memeval.compare.read import comparison_from_json

        try:
            comparison = comparison_from_json(stored)
        except ReportError:
            return None
    from pytest_memeval.compare.render_html import html_parts
    from pytest_memeval.report.languages import LANGUAGES

    return {lang: "\n".join(html_parts(comparison, lang)) for lang in LANGUAGES}


def tuning_html(document: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Language → what a tuning document says, as HTML; ``None`` for none."""
    if document is None:
        return None
    from pytest_memeval.report.languages import LANGUAGES
    from pytest_memeval.tuning.html_page import html_parts

    return {lang: "\n".join(html_parts(document, lang)) for lang in LANGUAGES}


def history_points(report: Mapping[str, Any], cache_folder: Path) -> list[dict[str, Any]]:
    """The main metric of this project's runs with the same engine and model, up to this one; empty without a history.

    Each ``{label, value, low, high}``; runs over other cases are left out, since their figures do not compare.
    """
    from pytest_memeval.history.store import History, HistoryError, row_of
    from pytest_memeval.report.html.page import HISTORY_METRIC

    own = row_of(report)
    try:
        rows = History(cache_folder).rows()
    except HistoryError:
        return []
    alike = [
        row
        for row in rows
        if (row.project, row.engine, row.model, row.case_names_hash)
        == (own.project, own.engine, own.model, own.case_names_hash)
        and row.timestamp <= own.timestamp
        and row.run_id != own.run_id
        and row.partial != "aborted"
    ]
    points = []
    for row in (*alike[-MOST_RUNS + 1 :], own):
        value, low, high, _ = row.metrics.get(HISTORY_METRIC) or (None, None, None, None)
        if value is not None:
            points.append({"label": row.timestamp[:16].replace("T", " "), "value": value, "low": low, "high": high})
    return points
