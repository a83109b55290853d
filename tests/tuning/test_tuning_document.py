"""The report's three files, in both languages, with hostile text."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from tuning_planted import agreeing_corpus, query, steep_corpus

from pytest_memeval.metrics import stats
from pytest_memeval.report.languages import LANGUAGES
from pytest_memeval.report.page_mark import PAGE_MARK
from pytest_memeval.tuning import messages
from pytest_memeval.tuning.analysis import TuningResult
from pytest_memeval.tuning.conclusion import CONCLUSIONS
from pytest_memeval.tuning.document import markdown_page, terminal_lines, write_tuning
from pytest_memeval.tuning.grid import GridSearch
from pytest_memeval.tuning.html_page import html_page

EVIL = "<img src=x onerror=alert(1)></script>"


def document(result: TuningResult, case_set: str = "cases/v001.yaml") -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "case_set": case_set,
        "corpus": {"memories": 7},
        "search": {"kind": "built-in", "backend": "numpy", "why": "asked for."},
        "rrf": result.section(),
    }


def conclusive() -> TuningResult:
    corpus = steep_corpus(12)
    return GridSearch({"rrf_k": [10, 30, 60], "bm25_weight": [0.5, 0.6]}).search(corpus.ranker(), corpus.queries)


def everything_said() -> list[TuningResult]:
    """Results of every conclusion, one that failed in part, one cut short, one of another system with odd values."""
    steep, agreeing = steep_corpus(6), agreeing_corpus(7)
    few = GridSearch({"rrf_k": [10, 60]}).search(steep.ranker(), steep.queries[:3])
    none = GridSearch({"rrf_k": [10, 60]}).search(agreeing.ranker(), agreeing.queries)
    bm25 = GridSearch({"rrf_k": [10, 60]}).search(steep.ranker(vectors=False), steep.queries)
    queries = [query(f"q{number}", f"q{number}#0", group=f"g{number}") for number in range(7)]

    def hostile(text: str, params: Any) -> list[str]:
        if params["mode"] == "b|`*":
            raise RuntimeError(EVIL)
        return [f"{text}#0"] if params["mode"] == EVIL else []

    other = GridSearch({"mode": ["plain", EVIL, "b|`*"]}).search(hostile, queries)
    calls = iter(range(10**6))

    def stopped(text: str, params: Any) -> list[str]:
        if next(calls) > 20:
            raise KeyboardInterrupt
        return []

    part = GridSearch({"depth": [1, 2, 3, 4]}).search(stopped, queries)
    return [conclusive(), few, none, bm25, GridSearch({"rrf_k": [1]}).search(steep.ranker(), []), other, part]


@pytest.fixture(scope="module")
def results() -> list[TuningResult]:
    return everything_said()


def test_every_conclusion_is_seen(results: list[TuningResult]) -> None:
    assert {one.conclusion for one in results} == set(CONCLUSIONS)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_files_say_the_same_and_are_sound(results: list[TuningResult], lang: str, tmp_path: Path) -> None:
    for number, result in enumerate(results):
        made = document(result, f"cases/{EVIL}.yaml")
        folder = tmp_path / f"{lang}{number}"
        paths = write_tuning(folder, made, lang)
        assert [path.name for path in paths] == ["tuning.md", "tuning.html", "tuning.json"]
        markdown, page, stored = (path.read_text(encoding="utf-8") for path in paths)
        assert json.loads(stored) == made
        assert str(result.conclusion) in markdown
        assert "<img" not in re.sub(r"`[^`\n]*`", "", markdown), "only code may hold it as it stands"
        assert "<img" not in page
        assert "<script" not in page
        assert not re.search(r"""<[^>]*(?:src|href)=|url\(|@import""", page), "loads something"
        ElementTree.fromstring(
            page.removeprefix("<!doctype html>")
            .replace('<meta charset="utf-8">', "")
            .replace(PAGE_MARK, "")
            .replace('<meta name="viewport" content="width=device-width, initial-scale=1">', "")
        )
        assert page.count("<svg ") == len(result.param_sensitivity)
        lines = list(terminal_lines(made, lang))
        assert lines[-1].startswith(str(result.conclusion))
        assert ("当前" in "".join(lines)) == (lang == "zh")
        measured = result.conclusion != "no_queries"
        assert ("推荐" in "".join(lines)) == (lang == "zh" and measured)


def test_a_conclusive_report(results: list[TuningResult]) -> None:
    made = document(results[0])
    lines = list(terminal_lines(made, "en"))
    assert lines[0] == ("cases/v001.yaml: 7 memories, 12 queries in 12 groups, 6 combinations, ndcg@10")
    assert any(re.match(r"  recommended  rrf_k=10 bm25_weight=0.5 +1.0000", line) for line in lines)
    assert any(re.match(r"  rrf_k +0\.\d{4} +0\.\d{4} +12  beyond noise", line) for line in lines)
    assert lines[-1] == (
        "conclusive: rrf_k=10 bm25_weight=0.5 is better than the current values, also after allowing for everything"
        " that was tried (p < 0.001), and the gain holds on queries that did not choose it."
    )
    page = html_page(made, "en")
    assert '<p class="verdict conclusive">' in page
    assert page.count("<polyline") == 4
    assert "Conclusive" in markdown_page(made, "en")


def test_what_limits_a_result_is_said(results: list[TuningResult]) -> None:
    other = "\n".join(terminal_lines(document(results[5]), "en"))
    assert "1 combinations could not be compared, because a query failed under them:" in other
    assert f"7 calls: RuntimeError: {EVIL}" in other
    assert "Vectors are searched by numpy: asked for." in other
    part = "\n".join(terminal_lines(document(results[6]), "en"))
    assert "PARTIAL: stopped early, 1 combinations were not tried." not in part or results[6].partial
    assert f"{results[6].unmeasured['not_reached']} combinations were not tried" in part


def test_every_reason_for_no_interval_has_a_text() -> None:
    for reason in (stats.NO_DENOMINATOR, stats.TOO_FEW, stats.NO_VARIATION, stats.NOT_FINITE):
        assert {messages.text(f"interval.{reason}", lang) for lang in LANGUAGES}


def test_texts_have_the_same_places_in_both_languages() -> None:
    for key, (english, chinese) in messages._TEXTS.items():
        places = [set(re.findall(r"\{(\w+)", text)) for text in (english, chinese)]
        assert places[0] == places[1], key
        assert english != chinese, key
