from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import SET, errored_case, full_case, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.calls import calls_of
from pytest_memeval.report.html.elements import Html, clean, element
from pytest_memeval.report.html.page import asset, html_page, row_place
from pytest_memeval.report.html.payload import Lines, script_json
from pytest_memeval.report.numbers import value_text

SCRIPTS = "".join(asset(name) for name in ("case.js", "views.js", "list.js", "embed.js"))
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


class Page(HTMLParser):
    """Elements with their attributes, the figures' shown texts, and what stands in script elements."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.figures: dict[str, tuple[str, str]] = {}
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "hr", "link"):
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1][0] == tag
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] == "script":
            self.scripts.append(data)
            return
        self.text.append(data)
        for _, attributes in self._open[-1:]:
            if attributes.get("data-path"):
                self.figures[str(attributes["data-path"])] = (str(attributes.get("data-value")), data)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def report_of(*results: Any, **rest: Any) -> dict[str, Any]:
    run = rest.pop("run", run_info())
    return build_report(run, [set_info()], results, **rest)


def at(report: Any, path: str) -> Any:
    for name in path.split("."):
        report = report[int(name)] if isinstance(report, list) else report[name]
    return report


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_figures_are_those_of_the_report(lang):
    results = [*(full_case(n) for n in range(12)), errored_case(20)]
    report = report_of(*results)
    page = Page(html_page(report, lang, calls=calls_of(results)))
    for path in (
        "counts.total",
        "counts.errored",
        "gates.0.value",
        "gates.1.value",
        "usage.calls",
        "usage.input_tokens",
    ):
        raw, shown = page.figures[path]
        assert json.loads(raw) == at(report, path)
        assert shown == (value_text(at(report, path)) if path.startswith("gates") else str(at(report, path)))
    for dimension, score in report["l1"]["per_dimension_f1"].items():
        if score is not None:
            assert json.loads(page.figures[f"l1.per_dimension_f1.{dimension}"][0]) == score
    assert len(page.data["cases"]) == 13
    assert {case["id"] for case in page.data["cases"]} == {entry["node_id"] for entry in report["per_case"]}


def test_nothing_is_loaded_and_no_other_script_can_run():
    page = html_page(report_of(full_case(1)))
    parsed = Page(page)
    for tag, attributes in parsed.elements:
        assert tag not in ("iframe", "object", "embed", "img", "link")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert not str(attributes.get("href") or "#").startswith(("http", "//", "javascript"))
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
    assert not re.search(r"https?://", SCRIPTS + asset("page.css"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", SCRIPTS)


def test_hostile_texts_stay_texts():
    results = [
        replace(
            full_case(1),
            node_id=f"{SET}::{HOSTILE}",
            case_id=HOSTILE,
            tags=(HOSTILE,),
            outputs={"l1": [{"content": HOSTILE, "dimensions": [HOSTILE]}]},
            input={"conversation": [{"id": HOSTILE, "role": HOSTILE, "content": HOSTILE}]},
        ),
        errored_case(2, errors=(errored_case(2).errors[0].__class__("l1", HOSTILE, HOSTILE),)),
    ]
    run = replace(run_info(), notes=(HOSTILE,), model={"name": HOSTILE}, engine={"name": HOSTILE})
    page = html_page(report_of(*results, run=run), calls=calls_of(results))
    plain = Page(html_page(report_of(full_case(1), errored_case(2))))
    parsed = Page(page)
    assert "<img" not in page
    # Two script elements, the data and ours: none more than on a page without such texts.
    assert (
        [tag for tag, _ in parsed.elements].count("script") == [tag for tag, _ in plain.elements].count("script") == 2
    )
    assert parsed.data["cases"][0]["name"] == HOSTILE
    assert any(HOSTILE in said for said in parsed.text)


@given(st.text())
def test_any_text_survives_in_data_and_in_elements(value):
    said = value.encode("utf-8", "backslashreplace").decode("utf-8")
    written = script_json({"text": value})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written)["text"] == value
    assert "<" not in clean(value)
    assert clean(Html("<b>")) == "<b>"
    assert element("p", said, title=said).startswith("<p")


def test_prompts_share_their_lines():
    lines = Lines()
    first, second = lines.add("one\ntwo\nthree"), lines.add("two\nfour")
    shown = list(lines.lines)
    assert ["\n".join(shown[n] for n in text) for text in (first, second)] == ["one\ntwo\nthree", "two\nfour"]
    assert len(shown) == 4
    assert lines.add(None) is None


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_a_page_of_private_conversations_holds_no_text_of_theirs(policy):
    given = {"conversation": [{"id": "msg_1", "role": "user", "name": "secret name", "content": "secret words"}]}
    results = [replace(full_case(n), input=given) for n in range(4)] + [errored_case(9)]
    run = replace(run_info(), config={"options": {"report_text": policy}})
    report = report_of(*results, run=run, report_text=policy)
    page = html_page(report, calls=calls_of(results, policy))
    assert "secret" not in page
    assert "lives in city" not in page
    assert ("memeval_report_text" in page) is True
    message = Page(page).data["cases"][0]["input"]["conversation"][0]
    assert (message["id"], message["role"]) == ("msg_1", "user")


@pytest.mark.parametrize(("lang", "other"), [("en", "zh"), ("zh", "en")])
def test_a_page_shows_one_language_and_has_the_other_at_hand(lang, other):
    report = report_of(full_case(1), errored_case(2))
    page = html_page(report, lang)
    assert f'<html lang="{lang}">' in page
    shown, waiting = page.split(f'<template id="memeval-other" lang="{other}">')
    waiting = waiting.partition("</template>")[0]
    assert f'<div id="memeval-part" lang="{lang}">' in shown
    texts = {"en": ("Memory evaluation", "Go to the cases"), "zh": ("记忆评测", "跳到用例列表")}
    for half, said, unsaid in ((shown, lang, other), (waiting, other, lang)):
        body = half.partition("<body")[2] or half
        assert all(text in body for text in texts[said])
        assert not any(text in body for text in texts[unsaid])
    # Both halves have the same figures at the same places.
    parsed = [Page(half).figures for half in ("<div" + shown.partition('<div id="memeval-part"')[2], waiting)]
    assert parsed[0]
    # What is unknown is said in words, everything else by the same number.
    known = [{path: raw if raw == "null" else (raw, said) for path, (raw, said) in one.items()} for one in parsed]
    assert known[0] == known[1]
    assert set(Page(page).data["texts"]) == {"en", "zh"}


@pytest.mark.parametrize(("lang", "other"), [("en", "zh"), ("zh", "en")])
def test_a_row_in_another_page_has_both_languages(lang, other):
    place = row_place("cases/a.yaml::<b>", lang)
    assert re.findall(r'<span lang="(..)"( hidden)?>', place) == [(lang, ""), (other, " hidden")]
    assert 'data-memeval-case="cases/a.yaml::&lt;b&gt;"' in place


def test_parts_from_elsewhere_are_shown_in_the_language_of_each_half():
    given = {"en": "<p>in English</p>", "zh": "<p>中文部分</p>"}
    shown, waiting = html_page(report_of(full_case(1)), comparison=given, tuning=given).split("<template", 1)
    assert (shown.count("in English"), shown.count("中文部分")) == (2, 0)
    assert (waiting.count("in English"), waiting.count("中文部分")) == (0, 2)


def test_history_is_drawn_from_two_runs_on():
    report = report_of(full_case(1))
    point = {"label": "2026-01-01", "value": 0.5, "low": 0.4, "high": 0.6}
    assert "<svg" not in html_page(report, history=[point])
    drawn = html_page(report, history=[point, {**point, "value": 0.7, "low": None, "high": None}])
    # Once in each language, of which one is seen.
    assert [half.count("<circle") for half in drawn.split("<template", 1)] == [2, 2]


def test_other_kinds_of_case_are_shown_as_they_are():
    from pytest_memeval.metrics.sections import SectionRecord

    other = replace(
        full_case(1),
        kind="rag",
        sections={"rag": SectionRecord(ratios={"faithfulness": (3, 4)}, details={"why": "because"})},
        outputs={"rag": {"answer": "Paris"}},
        stages={"rag": "scored"},
    )
    case = Page(html_page(report_of(other))).data["cases"][0]
    assert case["score"] == 0.75
    assert case["metric"] == "rag.faithfulness"
    assert case["outputs"] == {"rag": {"answer": "Paris"}}
    assert case["details"]["rag"] == {"why": "because"}


# -- colours


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_texts_can_be_read_on_their_grounds_light_and_dark():
    themes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r"\{([^{}]*--bar-idle:[^{}]*)\}", asset("page.css"))
    ]
    assert len(themes) == 3
    on = {
        "paper": ("ink", "faint", "link", "good", "bad", "warn"),
        "soft": ("ink", "faint", "link"),
        "mark": ("ink", "faint"),
    }
    on |= {f"{kind}-bg": ("ink", kind) for kind in ("good", "bad", "warn")}
    for theme in themes:
        for ground, inks in on.items():
            for ink in inks:
                dark, light = sorted((luminance(theme[ground]), luminance(theme[ink])))
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground, theme)
    assert themes[1] == themes[2]
