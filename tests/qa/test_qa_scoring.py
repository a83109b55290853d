"""One question's share of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_samples import locomo_record, longmemeval_record, write_json

from pytest_memeval.datasets.locomo import load_locomo
from pytest_memeval.datasets.longmemeval import load_longmemeval
from pytest_memeval.datasets.models import Sample
from pytest_memeval.qa.scoring import Answered, score, session_of


@pytest.fixture
def locomo(tmp_path: Path) -> Sample:
    return load_locomo(write_json(tmp_path / "l.json", [locomo_record()]))[0]


def values(sample: Sample, index: int, found: Answered, **how: bool) -> dict[str, float | None]:
    sections = score(sample.qa_pairs[index], found, "locomo", **how)
    return {**sections["qa"].values(), **{f"locomo.{k}": v for k, v in sections["locomo"].values().items()}}


def test_an_answer_and_its_evidence(locomo: Sample) -> None:
    got = values(locomo, 3, Answered("red", ["D2:1", "D1:2"], context_tokens=12))
    assert (got["exact_match"], got["f1"], got["f1_by_type.single_hop"]) == (1.0, 1.0, 1.0)
    assert got["locomo.f1_official"] == got["locomo.f1_official_by_category.4"] == 1.0
    assert (got["turn_recall@1"], got["turn_recall@5"], got["turn_hit@1"]) == (0.0, 1.0, 0.0)
    assert (got["session_recall@1"], got["session_recall@5"]) == (0.0, 1.0)
    # Of the published evidence "D1:2" and "D", one is there.
    assert got["locomo.recall_official"] == 0.5
    assert got["context_tokens"] == 12
    assert got["refusal_rate"] == 0.0
    assert "judge_score" not in got


def test_an_adversarial_question_stays_out_of_the_headline(locomo: Sample) -> None:
    refusing = values(locomo, 4, Answered("No information available", [], judged=1.0))
    assert refusing["adversarial_accuracy"] == refusing["locomo.f1_official"] == 1.0
    assert refusing["judge_score_by_type.adversarial"] == 1.0
    assert not {"f1", "judge_score", "exact_match", "rouge1", "turn_recall"} & refusing.keys()
    trapped = values(locomo, 4, Answered("Leeds", [], judged=0.0))
    assert trapped["adversarial_accuracy"] == trapped["locomo.f1_official"] == 0.0
    asked = values(locomo, 4, Answered("Leeds", [], judged=0.0), adversarial_counts=True)
    assert (asked["f1"], asked["exact_match"], asked["judge_score"]) == (0.0, 0.0, 0.0)


def test_a_memory_that_tells_no_sources_has_no_retrieval_figures(locomo: Sample) -> None:
    assert not [name for name in values(locomo, 3, Answered("red", None)) if "recall" in name]
    unranked = values(locomo, 3, Answered("red", ["D1:2"], ranked=False))
    assert unranked["turn_recall"] == 1.0
    assert not [name for name in unranked if "@" in name]


def test_nothing_retrieved_is_no_recall(locomo: Sample) -> None:
    assert values(locomo, 3, Answered("red", []))["turn_recall@5"] == 0.0


def test_corrected_labels_stand_beside(locomo: Sample) -> None:
    from dataclasses import replace

    pairs = list(locomo.qa_pairs)
    pairs[3] = replace(pairs[3], corrected_answer="blue", corrected_evidence=("D2:1",))
    sample = replace(locomo, qa_pairs=tuple(pairs))
    got = values(sample, 3, Answered("blue", ["D2:1"], judged=0.1, judged_corrected=0.9), errata=True)
    assert (got["f1"], got["f1_corrected"]) == (0.0, 1.0)
    assert (got["locomo.f1_official"], got["locomo.f1_official_corrected"]) == (0.0, 1.0)
    assert (got["judge_score"], got["judge_score_corrected"]) == (0.1, 0.9)
    assert (got["turn_recall@1"], got["turn_recall_corrected@1"]) == (0.0, 1.0)
    other = values(sample, 5, Answered("flute", []), errata=True)
    assert other["f1"] == other["f1_corrected"] == 1.0


def test_other_arms_and_lifts(locomo: Sample) -> None:
    got = values(locomo, 3, Answered("red", [], arms={"no-memory": "unknown", "full-context": "red"}))
    assert (got["f1_by_arm.no_memory"], got["f1_lift_over.no_memory"]) == (0.0, 1.0)
    assert (got["f1_by_arm.full_context"], got["f1_lift_over.full_context"]) == (1.0, 0.0)


def longmemeval(tmp_path: Path, **changes: object) -> Sample:
    return load_longmemeval(write_json(tmp_path / "m.json", [longmemeval_record(**changes)]))[0]


def test_longmemeval_retrieval_and_accuracy(tmp_path: Path) -> None:
    sample = longmemeval(tmp_path)
    # The first hit is a turn of the answer session that holds no answer: it earns nothing.
    found = Answered("under the fern", ["answer_1_2", "noise_1_1", "answer_1_1"], judged=1.0)
    section = score(sample.qa_pairs[0], found, "longmemeval")["longmemeval"].values()
    assert section["accuracy"] == section["accuracy_by_type.single_session_user"] == 1.0
    assert (section["turn_recall_any@1"], section["turn_recall_any@5"]) == (0.0, 1.0)
    assert (section["recall_any@1"], section["recall_all@5"]) == (0.0, 1.0)
    assert 0 < (section["ndcg_any@5"] or 0) < 1


def test_longmemeval_abstention_counts_where_it_is_judged(tmp_path: Path) -> None:
    sample = longmemeval(tmp_path, question_id="q_abs", kind="multi-session")
    sections = score(sample.qa_pairs[0], Answered("You never said.", [], judged=1.0), "longmemeval")
    assert sections["longmemeval"].values() == {
        "accuracy": 1.0,
        "accuracy_by_type.multi_session": 1.0,
        "abstention_accuracy": 1.0,
    }
    assert sections["qa"].values()["judge_score"] == 1.0
    assert sections["qa"].values()["abstention_accuracy"] == 1.0
    assert "f1" not in sections["qa"].ratios


@pytest.mark.parametrize(("message", "session"), [("D8:6", "D8"), ("answer_1_3", "answer_1"), ("s1#2_4", "s1#2")])
def test_sessions_of_messages(message: str, session: str) -> None:
    assert session_of(message) == session
