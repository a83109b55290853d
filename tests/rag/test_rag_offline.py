"""Evaluators without a model, by hand-computed values."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.rag import (
    AnswerOverlap,
    CitationCoverage,
    ContextLength,
    ContextPrecisionByMatching,
    ContextRecallByMatching,
    EvalSample,
    OfflineEvaluator,
)
from pytest_memeval.rag.offline import average_precision, citations, sentences

TOWER = "The Eiffel Tower is in Paris."
HEIGHT = "It is 330 metres high."
NOISE = "Bananas are rich in potassium."


def scores(evaluator: Any, sample: EvalSample) -> dict[str, Any]:
    return dict(asyncio.run(evaluator.evaluate_sample(sample)).scores)


@pytest.mark.parametrize(
    ("retrieved", "references", "recall", "precision"),
    [
        ([TOWER, NOISE], [TOWER, HEIGHT], 0.5, 1.0),
        ([NOISE, TOWER], [TOWER], 1.0, 0.5),
        ([NOISE, TOWER, HEIGHT], [TOWER, HEIGHT], 1.0, (1 / 2 + 2 / 3) / 2),
        # One passage that holds two references finds both.
        ([f"Guide. {TOWER} {HEIGHT} " + NOISE * 5], [TOWER, HEIGHT], 1.0, 1.0),
        ([NOISE], [TOWER], 0.0, 0.0),
        ([], [TOWER], 0.0, 0.0),
        ([TOWER], [], None, None),
        ([TOWER], None, None, None),
        (["埃菲尔铁塔在巴黎。"], ["埃菲尔铁塔在巴黎"], 1.0, 1.0),
    ],
)
def test_retrieval_by_matching(retrieved: Any, references: Any, recall: Any, precision: Any) -> None:
    sample = EvalSample("q", retrieved, reference_contexts=references)
    assert scores(ContextRecallByMatching(), sample) == {"non_llm_context_recall": recall}
    found = scores(ContextPrecisionByMatching(), sample)["non_llm_context_precision_with_reference"]
    assert found == (precision if precision is None else pytest.approx(precision))


def test_what_contains_the_reference_counts_only_where_asked() -> None:
    sample = EvalSample("q", [TOWER + NOISE * 8], reference_contexts=[TOWER])
    assert scores(ContextRecallByMatching(), sample)["non_llm_context_recall"] == 1
    assert scores(ContextRecallByMatching(contained=False), sample)["non_llm_context_recall"] == 0


@given(st.lists(st.booleans(), max_size=12))
def test_average_precision_lies_in_its_range(relevant: list[bool]) -> None:
    value = average_precision(relevant)
    assert 0 <= value <= 1
    assert (value == 1) == (any(relevant) and relevant == sorted(relevant, reverse=True))


def test_answers_by_overlap() -> None:
    sample = EvalSample("q", response="in Paris, France", ground_truth="Paris")
    found = scores(AnswerOverlap(("exact_match", "f1", "rougeL")), sample)
    assert found == {"answer_exact_match": 0, "answer_f1": pytest.approx(0.5), "answer_rougeL": pytest.approx(0.5)}
    assert scores(AnswerOverlap(("f1",)), EvalSample("q", response="Paris")) == {"answer_f1": None}
    with pytest.raises(ValueError, match="did you mean 'rougeL'"):
        AnswerOverlap(("rougel",))


def test_lengths() -> None:
    assert scores(ContextLength(), EvalSample("q", ["abc", "巴黎"])) == {"context_passages": 2, "context_characters": 5}
    assert scores(ContextLength(), EvalSample("q")) == {"context_passages": 0, "context_characters": 0}


@pytest.mark.parametrize(
    ("response", "coverage", "validity"),
    [
        ("The tower is in Paris [1]. It is high [2].", 1.0, 1.0),
        ("The tower is in Paris. [1] It is high.", 0.5, 1.0),
        ("The tower is in Paris [9]. It is high [1, 2].", 0.5, 2 / 3),
        ("塔在巴黎【1】。它很高。", 0.5, 1.0),
        ("Version 3.5 is old [1-2].", 1.0, 1.0),
        ("No citation at all.", 0.0, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_citations(response: Any, coverage: Any, validity: Any) -> None:
    found = scores(CitationCoverage(), EvalSample("q", [TOWER, HEIGHT], response))
    assert found == {
        "citation_coverage": coverage,
        "citation_validity": validity if validity is None else pytest.approx(validity),
    }


@given(st.text(alphabet="ab .!?[]1290,-。【】\n", max_size=60))
def test_sentences_keep_every_character_and_citations_are_numbers(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    assert all(number >= 0 for number in citations(text))


def test_a_range_of_citations_is_bounded() -> None:
    assert len(citations("[1-9999]")) == 100


def test_all_of_them_in_one() -> None:
    sample = EvalSample("q", [TOWER], "In Paris [1].", "Paris", reference_contexts=[TOWER])
    evaluator = OfflineEvaluator()
    found = scores(evaluator, sample)
    assert tuple(found) == evaluator.metrics
    assert None not in found.values()
