"""One page that holds a run: it loads nothing, runs its own script only, and fills details when they are opened."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pytest_memeval.report.html.charts import charts
from pytest_memeval.report.html.elements import Html, Words, clean, element, joined
from pytest_memeval.report.html.panel import panel
from pytest_memeval.report.html.payload import page_data, script_json
from pytest_memeval.report.html.scores import section_tables
from pytest_memeval.report.messages import text

DATA_ID = "memeval-data"
HISTORY_METRIC = "l1.dimension_micro_f1"


@cache
def asset(name: str) -> str:
    """A file of ``assets``."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def html_page(
    report: Mapping[str, Any],
    lang: str = "en",
    *,
    calls: Iterable[Mapping[str, Any]] = (),
    comparison: str | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The whole page of a report.

    ``calls``: the run's model calls with their texts. ``comparison``: HTML of the difference to the baseline, its texts
    escaped. ``history``: points ``{label, value, low, high}`` of :data:`HISTORY_METRIC`, the oldest first.
    """
    words = Words(lang)
    title = words("title")
    script = asset("case.js") + asset("list.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = joined(
        (
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("title", f"{title}: {report['run_id']}"),
            Html(f"<style>\n{asset('page.css')}</style>"),
        )
    )
    body = element(
        "body",
        element("a", words("skip"), href="#cases", class_="skip"),
        element(
            "header",
            element("h1", title),
            element("button", words("theme"), type="button", id="theme"),
        ),
        element(
            "main",
            element("section", summary(report, words, comparison), class_="panel"),
            charts(report, words, history, HISTORY_METRIC),
            *figures(report, words),
            element("h2", words("cases"), id="cases"),
            element("noscript", element("p", words("no_script"))),
            _filters(words),
            element("p", id="shown", role="status"),
            element("div", id="list", class_="scroll"),
        ),
        data_script(report, words, calls),
        Html(f"<script>{script}</script>"),
        class_="memeval memeval-page",
    )
    return (
        f'<!doctype html>\n<html lang="{"zh" if lang == "zh" else "en"}">\n<head>\n{head}\n</head>\n{body}\n</html>\n'
    )


def embedded_page(
    report: Mapping[str, Any],
    lang: str = "en",
    *,
    calls: Iterable[Mapping[str, Any]] = (),
    comparison: str | None = None,
    history: Sequence[Mapping[str, Any]] = (),
) -> Html:
    """Summary, pictures and figures to stand in another tool's page, with the data and the script that fill the places
    of :func:`row_place` there."""
    words = Words(lang)
    return joined(
        (
            Html(f"<style>\n{asset('page.css')}</style>"),
            element(
                "section",
                element("h2", words("title")),
                summary(report, words, comparison),
                charts(report, words, history, HISTORY_METRIC),
                *figures(report, words),
                class_="memeval memeval-embedded",
                data_theme="light",
            ),
            data_script(report, words, calls),
            Html(f"<script>{asset('case.js')}{asset('embed.js')}</script>"),
        )
    )


def row_place(node_id: str, lang: str = "en") -> Html:
    """Where the script of an embedded page shows a case once it is opened."""
    return element(
        "details",
        element("summary", Words(lang)("js.details")),
        class_="memeval memeval-case",
        data_memeval_case=node_id,
        data_theme="light",
    )


def summary(report: Mapping[str, Any], words: Words, comparison: str | None = None) -> Html:
    """The summary panel."""
    return panel(report, words, None if comparison is None else Html(comparison))


def figures(report: Mapping[str, Any], words: Words) -> list[Html]:
    """Every section's figures under a heading; nothing where there are none."""
    tables = list(section_tables(report, words))
    return [element("h2", words("figures")), *tables] if tables else []


def data_script(report: Mapping[str, Any], words: Words, calls: Iterable[Mapping[str, Any]] = ()) -> Html:
    """The cases for the script, as data that no browser runs."""
    return Html(
        f'<script type="application/json" id="{DATA_ID}">{script_json(page_data(report, words, calls))}</script>\n'
    )


def _filters(words: Words) -> Html:
    def select(name: str, key: str) -> Html:
        return element(
            "label",
            words(key),
            element("select", element("option", words("f.any"), value=""), name=name),
        )

    return element(
        "form",
        element("label", words("f.search"), element("input", type="search", name="text")),
        select("outcome", "f.outcome"),
        select("difficulty", "f.difficulty"),
        select("source", "f.source"),
        select("dimension", "f.dimension"),
        select("tag", "f.tag"),
        select("lost", "f.lost"),
        select("set", "f.set"),
        element("button", words("f.reset"), type="reset"),
        id="filters",
        class_="filters",
        role="search",
        aria_label=clean(text("html.cases", words.lang)),
    )
