"""Questions, RAG samples, searches, later conversations and trials: what each rendering shows of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from kind_samples import QA_SET, RAG_SET, injection, qa_info, question, rag_info, sample, search, trial
from report_samples import full_case, run_info, set_info

from pytest_memeval.judge import verdict
from pytest_memeval.qa import scoring
from pytest_memeval.report import views
from pytest_memeval.report.build import build_report
from pytest_memeval.report.calls import calls_of
from pytest_memeval.report.case_text import case_lines
from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.html.page import html_page
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.languages import LANGUAGES
from pytest_memeval.report.markdown import markdown_report
from pytest_memeval.report.samples import sample_sets
from pytest_memeval.report.views import evidence_found, question_view, sample_view, search_view, trials_view

SECRET = "geheim"


def everything(word: str = "") -> list[Any]:
    """A record of every kind, the word in each text."""
    several = question(3, word=word, trials=(trial(0, None), trial(1, f"a lamp {word}"), trial(2, word, "errored")))
    return [
        *(question(n, word=word, right=n % 2 == 0) for n in (1, 2)),
        several,
        *(sample(n, word=word) for n in (1, 2)),
        search(word=word),
        injection(word=word),
    ]


def report_of(*records: Any, **rest: Any) -> dict[str, Any]:
    run = rest.pop("run", run_info())
    return build_report(run, [set_info(), qa_info(), rag_info()], records or everything(), **rest)


def said(entry: Any, lang: str = "en") -> str:
    return "\n".join(line for line, _ in case_lines(entry, lang))


def test_a_question_has_its_evidence_ranked_and_its_verdicts():
    view = question_view(case_entry(question(2)))
    assert view is not None
    assert (view["type"], view["category"]) == ("multi_hop", 1)
    assert [(row["id"], row["rank"]) for row in view["evidence"]] == [("D1:1", 2), ("D1:9", None)]
    assert [row["hit"] for row in view["retrieved"]] == [False, True, False]
    assert view["more"] == 57
    assert evidence_found(view) == (1, 2)
    assert [(one["right"], one["corrected"]) for one in view["verdicts"]] == [(True, False), (False, True)]
    assert question_view(case_entry(full_case(1))) is None


def test_a_refusal_is_judged_by_rule():
    refused = question(1)
    output = {key: value for key, value in refused.outputs["qa"].items() if key != "verdicts"}
    view = question_view(case_entry(replace(refused, outputs={"qa": output})))
    assert view is not None
    assert [(one["score"], one["mode"]) for one in view["verdicts"]] == [(1.0, None)]


def test_right_is_what_the_judge_counts_as_right():
    assert views.RIGHT_FROM == verdict.RIGHT_FROM == scoring.RIGHT_FROM


def test_a_memory_that_tells_no_messages_has_neither_hits_nor_misses():
    untold = question(1)
    output = {**untold.outputs["qa"], "sources": [], "sources_in_all": 0}
    output.pop("evidence_found")
    view = question_view(case_entry(replace(untold, outputs={"qa": output})))
    assert view is not None
    assert view["told"] is False
    assert evidence_found(view) is None
    # Retrieving nothing at all is a miss, though.
    nothing = question_view(case_entry(replace(untold, outputs={"qa": {**output, "hits": 0}})))
    assert nothing is not None
    assert evidence_found(nothing) == (0, 2)


def test_a_report_of_an_older_version_is_shown_with_what_it_has():
    entry = case_entry(question(1))
    del entry["outputs"]["qa"]["evidence_found"]
    view = question_view(entry)
    assert view is not None
    assert [(row["id"], row["rank"]) for row in view["evidence"]] == [("D1:1", 2), ("D1:9", None)]
    old = case_entry(sample(1))
    old["outputs"]["rag"] = {key: old["outputs"]["rag"][key] for key in ("query", "contexts", "response")}
    del old["rag"]["details"]["scores"]
    shown = sample_view(old)
    assert shown is not None
    assert shown["has_reference"] is False
    assert [row["relevant"] for row in shown["contexts"]] == [None, None]
    assert shown["scores"][0]["metrics"] == old["rag"]["values"]
    assert said(entry)
    assert said(old)


def test_a_sample_has_its_passages_marked_and_every_evaluators_word():
    view = sample_view(case_entry(sample(1)))
    assert view is not None
    assert [row["relevant"] for row in view["contexts"]] == [True, False]
    rows = {row["evaluator"]: row for row in view["scores"]}
    assert rows["Faithful"]["reason"].startswith("two statements")
    assert rows["Words"]["metrics"] == {"words": 3.0, "citations": None}
    assert (rows["Broken"]["failed"], rows["Broken"]["reason"]) == (True, "RuntimeError: no luck")
    assert sample_view(case_entry(question(1))) is None


def test_a_search_marks_hits_and_names_what_is_missing():
    [row] = search_view(case_entry(search(1)))
    assert [(hit["id"], hit["relevant"]) for hit in row["hits"]] == [("c#1", False), ("a#0", True)]
    assert row["hits"][0]["content"].startswith("a chair")
    assert row["missed"] == ["b#3"]


def test_trials_have_their_answers_figures_and_errors():
    several = question(1, trials=(trial(0, None), trial(1, "a lamp"), trial(2, None, "errored")))
    first, second, third = trials_view(case_entry(several))
    assert first["answer"] == several.outputs["qa"]["answer"]
    assert (second["trial"], second["answer"], second["figures"]) == (
        2,
        "a lamp",
        {"qa.judge_score": 1.0, "qa.f1": 0.5},
    )
    assert third["errors"] == ["[qa] judge_error: no verdict None"]
    assert trials_view(case_entry(question(1))) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_terminal_shows_what_was_asked_said_and_found(lang):
    entries = [case_entry(record) for record in everything()]
    shown = "\n".join(said(entry, lang) for entry in entries)
    for record in entries:
        for text in _texts(record["outputs"]):
            assert text in shown or text == "answer"
    assert "says it is a lamp" in shown
    assert "not a candle" in shown
    assert "What shall I drink?" in shown
    assert "✕ The bridge is in London." in shown
    assert ("D1:9, not retrieved" if lang == "en" else "D1:9, 未检索到") in shown


def _texts(outputs: Any) -> list[str]:
    """The texts of an output that a person wrote: those with a blank in them."""
    if isinstance(outputs, str):
        return [outputs] if " " in outputs.strip() else []
    if isinstance(outputs, dict):
        # What was retrieved but is not relevant is not printed; nor a query, which is a key.
        return [
            text
            for key, value in outputs.items()
            if key not in ("reference_contexts", "search")
            for text in _texts(value)
        ]
    return [text for one in outputs or () for text in _texts(one)] if isinstance(outputs, list) else []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_markdown_has_tables_by_type_and_what_came_out_worst(lang):
    page = markdown_report(report_of(), lang)
    low = "Questions answered worst" if lang == "en" else "回答最差的问题"
    rows = page.partition(f"## {low}")[2].partition("\n## ")[0]
    assert "`cases/people.memeval.yaml::conv-1::q1`" in rows
    assert "conv-1::q2`" not in rows
    assert "| What does Ann keep in box 1? | a lamp | the answer is a lamp | 0.000 graded says it is a lamp" in rows
    assert rows.rstrip().endswith("| 1/2 |")
    samples = page.partition("## " + ("Samples" if lang == "en" else "RAG 样本"))[2].partition("\n## ")[0]
    assert "geography" in samples
    assert "`faithfulness`" in samples
    assert "- mood: calm 2" in samples
    assert "| 1/2 | Faithful: two statements; Broken: RuntimeError: no luck |" in page


def test_the_samples_table_is_what_the_report_says():
    report = report_of(*(sample(n) for n in range(4)))
    [one] = sample_sets(report, "en")
    head, rows = one.head(), {row[0]: row[1:] for row in one.rows()}
    assert head == ["metric", "all", "easy", "hard", "geography", "history"]
    assert rows["n"] == ["4", "2", "2", "2", "2"]
    assert rows["errored"] == ["4", "2", "2", "2", "2"]
    # 0, 0.25, 0.5, 0.75 in the order of the numbers.
    assert rows["faithfulness"] == ["0.375", "0.250", "0.500", "0.500", "0.250"]
    assert report["rag"]["faithfulness"] == 0.375


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_no_rendering_of_a_private_report_holds_a_text(policy):
    records = everything(SECRET)
    run = replace(run_info(), config={"options": {"report_text": policy}})
    report = report_of(*records, run=run, report_text=policy)
    shown = [
        json.dumps(report, ensure_ascii=False),
        html_page(report, calls=calls_of(records, policy)),
        *(markdown_report(report, lang) for lang in LANGUAGES),
        *(said(entry, lang) for entry in report["per_case"] for lang in LANGUAGES),
    ]
    for text in shown:
        assert SECRET not in text
        for words in ("a lamp", "tower is in", "drink", "drinks tea", "two statements", "and matches", "a chair"):
            assert words not in text
    # What is no text stays: hits, ranks, verdicts, relevance.
    entries = {entry["case_id"]: entry for entry in report["per_case"]}
    view = question_view(entries["conv-1::q2"])
    assert view is not None
    assert [(row["id"], row["rank"]) for row in view["evidence"]] == [("D1:1", 2), ("D1:9", None)]
    assert [row["hit"] for row in view["retrieved"]] == [False, True, False]
    assert [one["mode"] for one in view["verdicts"]] == ["graded", "graded"]
    passages = sample_view(entries["place-1"])
    assert passages is not None
    assert [row["relevant"] for row in passages["contexts"]] == [True, False]
    assert passages["has_response"]
    assert passages["scores"][0]["metrics"]["faithfulness"] == 0.25
    message = entries["later"]["input"]["subsequent_conversation"][0]
    assert (message["id"], message["role"]) == ("msg_1", "user")


def test_the_page_has_the_views_and_not_the_raw_outputs_beside_them():
    report = report_of()
    cases = {one["name"]: one for one in _data(html_page(report))["cases"]}
    assert cases["conv-1::q1"]["qa"]["answer"] == "the answer is a lamp"
    assert "outputs" not in cases["conv-1::q1"]
    assert cases["place-1"]["rag"]["contexts"][0]["relevant"] is True
    assert cases["search-1"]["search"][0]["missed"] == ["b#3"]
    assert len(cases["conv-1::q3"]["trials"]) == 3
    assert cases["later"]["input"]["subsequent_conversation"]
    assert cases["conv-1::q1"]["metric"] == "qa.judge_score"
    assert main_score(case_entry(sample(1))) == ("rag.faithfulness", 0.25)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_panel_has_the_tables_by_type(lang):
    page = html_page(report_of(), lang).partition("<template")[0]
    plain = re.sub(r"<[^>]+>", " ", page.partition("<script")[0])
    for part in (QA_SET, RAG_SET, "multi_hop", "temporal", "geography", "mood: calm 2"):
        assert part in plain


def test_curves_and_table_have_the_reports_figures_by_cut_off():
    report = report_of(search(1), search(2), question(1))
    page = html_page(report).partition("<template")[0]
    for path in ("search.hit@1", "search.hit@10", "search.ndcg@10", "search.mrr", "qa.turn_recall@5"):
        section, _, name = path.partition(".")
        shown = re.findall(rf'data-path="{path}" data-value="([^"]+)"', page)
        assert shown
        assert {float(value) for value in shown} == {report[section][name]}
    assert "top_k 20, rrf_k 60, documents 12" in page
    assert page.count("<figcaption>") == 3 + 2
    without = html_page(report_of(full_case(1))).partition("<template")[0]
    assert "<figcaption>" not in without


def _data(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.partition('id="memeval-data">')[2].partition("</script>")[0])
    return found
