"""One page that holds a run: it loads nothing, runs its own script only, and fills details when they are opened."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pytest_memeval.report.html.charts import charts
from pytest_memeval.report.html.elements import Html, Words, clean, element, joined
from pytest_memeval.report.html.kinds import kind_sections
from pytest_memeval.report.html.panel import panel
from pytest_memeval.report.html.payload import page_data, script_json
from pytest_memeval.report.html.scores import section_tables
from pytest_memeval.report.messages import text
from pytest_memeval.report.page_mark import PAGE_MARK

DATA_ID = "memeval-data"
HISTORY_METRIC = "l1.dimension_micro_f1"


class Parts(TypedDict, total=False):
    """What a page shows besides its report.

    ``calls``: the run's model calls with their texts. ``comparison``, ``tuning``: language → HTML of the difference to
    the baseline and of a tuning run, its texts escaped. ``history``: points ``{label, value, low, high}`` of
    :data:`HISTORY_METRIC`, the oldest first.
    """

    calls: Iterable[Mapping[str, Any]]
    comparison: Mapping[str, str] | None
    tuning: Mapping[str, str] | None
    history: Sequence[Mapping[str, Any]]


@cache
def asset(name: str) -> str:
    """A file of ``assets``."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def html_page(report: Mapping[str, Any], lang: str = "en", **parts: Unpack[Parts]) -> str:
    """The whole page of a report, in ``lang`` at first and in the other language at a click."""
    own, other = both(lang)
    title = own("title")
    script = asset("case.js") + asset("views.js") + asset("list.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = joined(
        (
            element("meta", charset="utf-8"),
            Html(PAGE_MARK),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("title", f"{title}: {report['run_id']}"),
            Html(f"<style>\n{asset('page.css')}</style>"),
        )
    )
    body = element(
        "body",
        *_halves(_page_half(report, own, parts), _page_half(report, other, parts), own, other),
        data_script(report, own.lang, parts.get("calls", ())),
        Html(f"<script>{script}</script>"),
        class_="memeval memeval-page",
    )
    return f'<!doctype html>\n<html lang="{own.lang}">\n<head>\n{head}\n</head>\n{body}\n</html>\n'


def embedded_page(report: Mapping[str, Any], lang: str = "en", **parts: Unpack[Parts]) -> Html:
    """Summary, pictures and figures to stand in another tool's page, with the data and the script that fill the places
    of :func:`row_place` there."""
    own, other = both(lang)
    return joined(
        (
            Html(f"<style>\n{asset('page.css')}</style>"),
            element(
                "section",
                *_halves(_embedded_half(report, own, parts), _embedded_half(report, other, parts), own, other),
                class_="memeval memeval-embedded",
                data_theme="light",
            ),
            data_script(report, own.lang, parts.get("calls", ())),
            Html(f"<script>{asset('case.js')}{asset('views.js')}{asset('embed.js')}</script>"),
        )
    )


def both(lang: str) -> tuple[Words, Words]:
    """The texts of a language, and those of the other one."""
    own = Words(lang)
    return own, Words("en" if own.lang == "zh" else "zh")


def _halves(shown: Html, waiting: Html, own: Words, other: Words) -> tuple[Html, Html]:
    """What is seen, and the same in the other language in a template, of which no browser shows or counts anything."""
    return (
        element("div", shown, id="memeval-part", lang=own.lang),
        element("template", waiting, id="memeval-other", lang=other.lang),
    )


def _page_half(report: Mapping[str, Any], words: Words, parts: Parts) -> Html:
    return joined(
        (
            element("a", words("skip"), href="#cases", class_="skip"),
            element(
                "header",
                element("h1", words("title")),
                element(
                    "div", language_button(words), " ", element("button", words("theme"), type="button", id="theme"),
                    class_="buttons",
                ),
            ),
            element(
                "main",
                *_body(report, words, parts),
                element("h2", words("cases"), id="cases"),
                element("noscript", element("p", words("no_script"))),
                _filters(words),
                element("p", id="shown", role="status"),
                element("div", id="list", class_="scroll"),
            ),
        )
    )  # fmt: skip


def _embedded_half(report: Mapping[str, Any], words: Words, parts: Parts) -> Html:
    head = element("header", element("h2", words("title")), language_button(words))
    return joined((head, *_body(report, words, parts)))


def language_button(words: Words) -> Html:
    """Names the other language in that language."""
    _, other = both(words.lang)
    return element("button", other("language"), type="button", id="memeval-language", lang=other.lang)


def _body(report: Mapping[str, Any], words: Words, parts: Parts) -> list[Html]:
    comparison, tuning = _in(parts.get("comparison"), words.lang), _in(parts.get("tuning"), words.lang)
    return [
        element("section", summary(report, words, comparison), class_="panel"),
        charts(report, words, parts.get("history", ()), HISTORY_METRIC, tuning),
        *figures(report, words),
    ]


def _in(given: Mapping[str, str] | None, lang: str) -> Html | None:
    return None if given is None else Html(given[lang])


def row_place(node_id: str, lang: str = "en") -> Html:
    """Where the script of an embedded page shows a case once it is opened."""
    own, other = both(lang)
    return element(
        "details",
        element(
            "summary",
            element("span", own("js.details"), lang=own.lang),
            element("span", other("js.details"), lang=other.lang, hidden=True),
        ),
        class_="memeval memeval-case",
        data_memeval_case=node_id,
        data_theme="light",
    )


def summary(report: Mapping[str, Any], words: Words, comparison: Html | None = None) -> Html:
    """The summary panel, and what sets of questions and samples have besides."""
    return joined((panel(report, words, comparison), *kind_sections(report, words)))


def figures(report: Mapping[str, Any], words: Words) -> list[Html]:
    """Every section's figures under a heading; nothing where there are none."""
    tables = list(section_tables(report, words))
    return [element("h2", words("figures")), *tables] if tables else []


def data_script(report: Mapping[str, Any], lang: str, calls: Iterable[Mapping[str, Any]] = ()) -> Html:
    """The cases for the script, as data that no browser runs."""
    return Html(
        f'<script type="application/json" id="{DATA_ID}">{script_json(page_data(report, lang, calls))}</script>\n'
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
        select("type", "f.type"),
        select("evidence", "f.evidence"),
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
