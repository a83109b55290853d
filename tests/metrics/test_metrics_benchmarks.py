"""The benchmarks' own scores: rules written out, and conformance with reference values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.metrics import locomo, longmemeval
from pytest_memeval.metrics.text.bleu import bleu_tokens
from pytest_memeval.metrics.text.pairs import light_text_metrics


def load(name: str) -> list[dict[str, Any]]:
    folder = os.environ.get("MEMEVAL_GOLDEN_DIR")
    if not folder:
        pytest.skip("MEMEVAL_GOLDEN_DIR is not set: no reference values to compare with")
    rows: list[dict[str, Any]] = json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))
    assert rows
    return rows


@pytest.mark.parametrize(
    ("prediction", "truth", "category", "value"),
    [
        ("coffee, tea", "tea, coffee, orange juice", 1, 2 / 3),
        ("Likely", "likely; he said so", 3, 1.0),
        ("The dogs!", "dog", 4, 1.0),
        ("", "", 4, 0.0),
        ("It is NOT MENTIONED anywhere, but blue", "", 5, 1.0),
        ("blue", "", 5, 0.0),
        ("A, B", "A, B", 1, 0.5),
    ],
)
def test_locomo_f1(prediction: str, truth: str, category: int, value: float) -> None:
    assert locomo.f1_official(prediction, truth, category) == pytest.approx(value)


def test_locomo_has_five_categories() -> None:
    with pytest.raises(ValueError, match="1 to 5, not 6"):
        locomo.f1_official("a", "a", 6)


def test_locomo_recall_of_sessions_and_turns() -> None:
    assert locomo.recall_official(["D1:3", "D2:1"], ["S1", "S4"]) == 0.5
    assert locomo.recall_official(["D1:3", "D2:1"], ["D2:1"]) == 0.5
    assert locomo.recall_official([], ["D2:1"]) == 1.0
    assert locomo.recall_official(["D1:3"], []) == 0.0


@pytest.mark.parametrize("name", ["locomo_f1", "locomo_f1_synthetic"])
def test_locomo_f1_conforms(name: str) -> None:
    for row in load(name):
        ours = locomo.f1_official(row["prediction"], str(row["answer"]), row["category"])
        assert ours == pytest.approx(row["official_f1"], abs=1e-9), row["row"]


def test_locomo_edges_conform() -> None:
    rows = [row for row in load("locomo_edge") if row["official"] is not None]
    assert len(rows) == 4
    for row in rows:
        question = row["qa"]
        # True is "True" to Python, and both sides are lower-cased.
        ours = locomo.f1_official(question["prediction"], str(question["answer"]), question["category"])
        assert ours == pytest.approx(row["official"]), row["case"]


def test_locomo_recall_conforms() -> None:
    for row in load("locomo_recall"):
        assert locomo.recall_official(row["evidence"], row["context"]) == pytest.approx(row["official_recall"])


def test_locomo_aggregates_conform() -> None:
    for row in load("locomo_aggregate"):
        questions = [one for sample in row["samples"] for one in sample["qa"]]
        # What has no prediction got no F1 there, and counts as 0.
        scored = [(one["category"], one["raw_f1"] if "m_f1" in one else 0.0) for one in questions]
        result = locomo.aggregate_official(scored)
        by_category: Any = result["by_category"]
        assert {str(key) for key in by_category} == set(row["by_category"])
        for key, expected in row["by_category"].items():
            ours = by_category[int(key)]
            assert ours["n"] == expected["n"]
            assert ours["accuracy"] * ours["n"] == pytest.approx(expected["sum"], abs=1e-6)
            assert round(ours["accuracy"], 3) == pytest.approx(expected["acc_rounded3"], abs=1.1e-3)
        assert result["overall"] == pytest.approx(row["overall_rounded3"], abs=5.1e-4)


def test_longmemeval_retrieval_conforms() -> None:
    for row in load("longmemeval_retrieval"):
        corpus = row["corpus_ids"]
        evaluate = (
            longmemeval.evaluate_retrieval if row["mode"] == "flat" else longmemeval.evaluate_retrieval_by_session
        )
        ours = evaluate([corpus[index] for index in row["rankings"]], row["correct_docs"], corpus, row["k"])
        assert ours.recall_any == row["recall_any"], row["row"]
        assert ours.recall_all == row["recall_all"], row["row"]
        assert ours.ndcg_any == pytest.approx(row["ndcg"], abs=1e-9), row["row"]


def test_longmemeval_aggregates_conform() -> None:
    for row in load("longmemeval_qa_aggregate"):
        entries = [
            (one["question_type"].replace("-", "_"), one["question_id"].endswith("_abs"), float(one["label"]))
            for one in row["entries"]
        ]
        ours = longmemeval.aggregate_accuracy(entries)
        by_type: Any = ours["by_type"]
        for key, expected in row["by_type"].items():
            mine = by_type[key.replace("-", "_")]
            assert mine["n"] == expected["n"]
            assert mine["accuracy"] == pytest.approx(expected["acc"], abs=5.1e-5)
        for name in ("task_averaged", "overall", "abstention"):
            assert ours[name] == (None if row[name] is None else pytest.approx(row[name], abs=5.1e-5)), name
        assert ours["abstention_n"] == row["abstention_n"]


def test_longmemeval_of_nothing() -> None:
    assert longmemeval.aggregate_accuracy([]) == {
        "by_type": {},
        "task_averaged": None,
        "overall": None,
        "abstention": None,
        "abstention_n": 0,
    }


#: Rows of ``himga_metrics`` with another value than ours, by the rule that differs.
#: "dog's" is two words of ours; theirs deletes the apostrophe.
APOSTROPHES = {8, 9, 12, 154, 159, 161}
#: Punctuation and symbols part words; theirs deletes some.
PUNCTUATION = {256, 257, 293, 300}
#: Neither text has a word: null here, 0 there.
NO_WORDS = {240, 247}
#: Chinese and Japanese are a word a character, and other letters beyond ASCII are words; theirs drops them or reads
#: a whole sentence as one word.
NOT_ASCII = {275, 278, 279, 284, 290}
#: A full stop inside the text ends a sentence there (that needs the punkt data); here the text is one sentence.
SENTENCES = {
    *(0, 5, 16, 17, 36, 40, 87, 89, 95, 98, 119, 122, 125, 130, 132, 142, 152, 155, 166, 171, 172, 178, 183, 191),
    *(195, 198, 206, 207, 227),
}
#: METEOR's tokens are words here; theirs are cut at blanks and keep their punctuation.
METEOR_TOKENS = {
    *(2, 8, 9, 10, 12, 14, 22, 53, 56, 57, 58, 61, 62, 111, 112, 120, 128, 129, 135, 139, 141, 146, 149, 152, 154),
    *(155, 159, 161, 163, 164, 166, 182, 184, 188, 193, 199, 200, 210, 213, 219, 220, 230, 252, 256, 257, 281, 283),
    *(291, 293, 300, 306),
}
DIFFERENT: dict[str, set[int]] = {
    "exact_match": set(),
    "f1": APOSTROPHES | PUNCTUATION | NO_WORDS | {278},
    "rouge1": NO_WORDS | NOT_ASCII,
    "rouge2": NO_WORDS | NOT_ASCII,
    "rougeL": NO_WORDS | NOT_ASCII,
    # A token of punctuation is a token of BLEU: "!?" against ",." is 0 for both.
    "bleu1_nltk": SENTENCES | {240, 278},
    "bleu2_nltk": SENTENCES | {240, 275, 278, 279, 284},
    "bleu4_nltk": SENTENCES | {240, 275, 278, 279, 284},
    "meteor_no_wordnet": METEOR_TOKENS | NO_WORDS | NOT_ASCII,
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_text_metrics_conform(name: str) -> None:
    different = set()
    for row in load("himga_metrics"):
        ours = light_text_metrics(row["prediction"], row["reference"], [name])[name]
        if ours is None or abs(ours - row[name.removesuffix("_nltk")]) > 1e-6:
            different.add(row["row"])
    assert different == DIFFERENT[name]


@pytest.mark.parametrize("name", ["bleu1", "bleu2", "bleu4"])
def test_bleu_differs_by_its_cap_alone(name: str) -> None:
    """Where NLTK's own value conforms, ours does too unless a text has fewer tokens than the order."""
    order = int(name[-1])
    compared = 0
    for row in load("himga_metrics"):
        if row["row"] in DIFFERENT[f"{name}_nltk"]:
            continue
        pair = row["prediction"], row["reference"]
        if min(len(bleu_tokens(text)) for text in pair) >= order:
            compared += 1
            assert light_text_metrics(*pair, [name])[name] == pytest.approx(row[name], abs=1e-6), row["row"]
    assert compared > 80
