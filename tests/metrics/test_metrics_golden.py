"""Conformance with values that reference implementations gave, read from the folder MEMEVAL_GOLDEN_DIR.

What in those values is the reference's own rule is computed here, not in the package.
"""

from __future__ import annotations

import json
import math
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics.inject import InjectMetrics, aggregate_inject, compute_inject
from pytest_memeval.metrics.l1 import L1Metrics, aggregate_l1, compute_l1
from pytest_memeval.metrics.l2 import L2Metrics, SectionMetrics, aggregate_l2, compute_sections
from pytest_memeval.metrics.matching import SimilarityMatcher, build_matcher, content_similarity, match_texts
from pytest_memeval.metrics.ranking import ndcg
from pytest_memeval.values import Block, Memory, Section

ROUNDED = 1e-4


def load(name: str) -> list[dict[str, Any]]:
    folder = os.environ.get("MEMEVAL_GOLDEN_DIR")
    if not folder:
        pytest.skip("MEMEVAL_GOLDEN_DIR is not set: no reference values to compare with")
    rows: list[dict[str, Any]] = json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))
    assert rows
    return rows


def memories(row: dict[str, Any]) -> tuple[list[Memory], list[GtMemory]]:
    predicted = [
        Memory(
            id=None,
            content=one.get("content", ""),
            dimensions=tuple(one.get("dimension_ids", one["dimensions"])),
            memory_type=one.get("memory_type"),
            priority=one.get("priority", 50),  # the reference's default
            time_velocity=one.get("time_velocity"),
        )
        for one in row["predictions"]
    ]
    truth = [
        GtMemory(one["content"], tuple(one["dimensions"]), one["memory_type"], one["priority"], one["time_velocity"])
        for one in row["ground_truth"]
    ]
    return predicted, truth


def counts(metrics: L1Metrics) -> list[int]:
    return [metrics.tp, metrics.fp, metrics.fn]


def or_zero(value: float | None) -> float:
    """The reference gives 0 where there is nothing to measure."""
    return 0.0 if value is None else value


def test_l1_counts_with_indel() -> None:
    rows = load("sgme_l1")
    assert len(rows) == 221
    for row in rows:
        assert counts(compute_l1(*memories(row))) == row["indel_greedy_tp_fp_fn"], row["row"]


@pytest.mark.parametrize(
    ("matcher", "column"),
    [
        (build_matcher("levenshtein"), "lev_greedy_tp_fp_fn"),
        (SimilarityMatcher(similarity="difflib", assignment="optimal"), "optimal_tp_fp_fn"),
    ],
)
def test_l1_counts_with_other_matchers(matcher: SimilarityMatcher, column: str) -> None:
    for row in load("sgme_l1"):
        assert counts(compute_l1(*memories(row), matcher=matcher)) == row[column], row["row"]


def test_l1_values_with_difflib() -> None:
    matcher = build_matcher("difflib")
    for row in load("sgme_l1"):
        predicted, truth = memories(row)
        metrics, official = compute_l1(predicted, truth, matcher=matcher), row["official"]
        assert counts(metrics) == [official["tp"], official["fp"], official["fn"]], row["row"]
        assert sorted([p.pair.pred_index, p.pair.truth_index] for p in metrics.pairs) == sorted(
            official["matched_pairs"]
        )
        assert list(metrics.unmatched_pred) == official["unmatched_preds"]
        assert list(metrics.unmatched_truth) == official["unmatched_gts"]
        values = {
            "micro_precision": metrics.dimension_micro_precision,
            "micro_recall": metrics.dimension_micro_recall,
            "micro_f1": metrics.dimension_micro_f1,
            "strict": metrics.strict_match_rate,
            "memory_type_acc": metrics.memory_type_accuracy,
            "time_velocity_acc": metrics.time_velocity_accuracy,
            "priority_mae": metrics.priority_mae,
        }
        for name, value in values.items():
            assert or_zero(value) == pytest.approx(official[name], abs=ROUNDED), (row["row"], name)
        assert set(metrics.per_dimension) == set(official["per_dimension"])
        for name, wanted in official["per_dimension"].items():
            assert list(metrics.per_dimension[name]) == [wanted["tp"], wanted["fp"], wanted["fn"]]
            assert or_zero(metrics.per_dimension_f1[name]) == pytest.approx(wanted["f1"], abs=ROUNDED)
            assert or_zero(metrics.per_dimension_precision[name]) == pytest.approx(wanted["precision"], abs=ROUNDED)
            assert or_zero(metrics.per_dimension_recall[name]) == pytest.approx(wanted["recall"], abs=ROUNDED)


def test_similarities() -> None:
    compared = 0
    for row in load("sgme_l1"):
        for pair in row["pair_similarities"]:
            a = row["predictions"][pair["pred"]].get("content", "")
            b = row["ground_truth"][pair["gt"]]["content"]
            assert content_similarity(a, b, similarity="difflib") == pytest.approx(pair["difflib"], abs=1e-12)
            assert content_similarity(b, a, similarity="difflib") == pytest.approx(
                pair["difflib_reversed_args"], abs=1e-12
            )
            if all(unicodedata.is_normalized("NFKC", text) for text in (a, b)):  # the reference does not normalise
                assert content_similarity(a, b) == pytest.approx(pair["indel_norm"], abs=1e-12), row["row"]
                edits = content_similarity(a, b, similarity="levenshtein")
                assert edits == pytest.approx(pair["levenshtein_norm"], abs=1e-12), row["row"]
                compared += 1
    assert compared > 100


def test_optimal_assignment() -> None:
    differing = 0
    for row in load("sgme_l1"):
        predicted, truth = memories(row)
        texts = [one.content for one in predicted], [one.content for one in truth]
        result = match_texts(*texts, similarity="difflib", assignment="optimal")
        assert sorted([p.pred_index, p.truth_index] for p in result.pairs) == sorted(row["optimal_pairs"]), row["row"]
        differing += not row["greedy_equals_optimal"]
    assert differing  # rows exist on which the two assignments part


def test_l1_aggregate() -> None:
    for row in load("sgme_l1_aggregate"):
        cases = [
            L1Metrics(
                cases=1,
                strict_matches=int(case["strict"]),
                tp=case["tp"],
                fp=case["fp"],
                fn=case["fn"],
                per_dimension={name: tuple(three) for name, three in case["per_dimension"].items()},
            )
            for case in row["cases"]
        ]
        total, official = aggregate_l1(cases), row["official"]
        assert counts(total) == [official["tp"], official["fp"], official["fn"]], row["row"]
        assert or_zero(total.dimension_micro_precision) == pytest.approx(official["micro_precision"], abs=ROUNDED)
        assert or_zero(total.dimension_micro_recall) == pytest.approx(official["micro_recall"], abs=ROUNDED)
        assert or_zero(total.dimension_micro_f1) == pytest.approx(official["micro_f1"], abs=ROUNDED)
        assert or_zero(total.strict_match_rate) == pytest.approx(official["strict"], abs=ROUNDED)
        assert set(total.per_dimension) == set(official["per_dimension"])
        for name, wanted in official["per_dimension"].items():
            assert list(total.per_dimension[name]) == [wanted["tp"], wanted["fp"], wanted["fn"]]
            assert or_zero(total.per_dimension_f1[name]) == pytest.approx(wanted["f1"], abs=ROUNDED)
        # The reference averages the cases' accuracies, with 0 where a case has none.
        for name in ("memory_type_acc", "time_velocity_acc", "priority_mae"):
            mean = math.fsum(case[name] for case in row["cases"]) / max(1, len(row["cases"]))
            assert mean == pytest.approx(official[name], abs=ROUNDED), (row["row"], name)


def sections_of(row: dict[str, Any]) -> SectionMetrics:
    """The reference names a placed memory by its labelled index and gives ``null`` for "placed nowhere"; it measures
    one mode, and nothing where that mode has no labels."""
    mode = row["mode"]
    labels = (row["template_section"] or {}).get(mode, {})
    placed: dict[str | None, list[str]] = {}
    for index, section in row["template_results"].items():
        placed.setdefault(section, []).append(index)
    return compute_sections(
        {mode: {int(index): section for index, section in labels.items()}},
        {mode: [Section(title, title, tuple(ids)) for title, ids in placed.items() if title is not None]},
        {int(index): index for index in labels},
    )


def test_l2_sections() -> None:
    rows = [row for row in load("sgme_l2_inject") if row["kind"] == "l2"]
    assert len(rows) == 56
    for row in rows:
        metrics, official = sections_of(row), row["official"]
        assert metrics.evaluated == official["total_evaluated"], row["row"]
        assert or_zero(metrics.section_hit_rate) == pytest.approx(official["section_hit_rate"], abs=ROUNDED)
        assert or_zero(metrics.section_miss_rate) == pytest.approx(official["section_miss_rate"], abs=ROUNDED)
        # The reference counts "placed nowhere" among the placements, and as a mis-entry.
        nowhere = sum(section is None for section in row["template_results"].values()) if metrics.evaluated else 0
        misentry = (metrics.misentries + nowhere) / (metrics.placed + nowhere) if metrics.placed + nowhere else 0.0
        assert misentry == pytest.approx(official["section_misentry_rate"], abs=ROUNDED), row["row"]
        # The reference is given the F1, not the counts that it comes from.
        quality = row["l1_f1"] * or_zero(metrics.section_hit_rate)
        assert quality == pytest.approx(official["profile_quality"], abs=ROUNDED), row["row"]


def test_l2_aggregate() -> None:
    rows = [row for row in load("sgme_l2_inject") if row["kind"] == "l2_aggregate"]
    assert rows
    for row in rows:
        cases, official = row["cases"], row["official"]
        total = aggregate_l2(
            L2Metrics(
                SectionMetrics(
                    evaluated=case["total_evaluated"],
                    hits=round(case["section_hit_rate"] * case["total_evaluated"]),
                )
            )
            for case in cases
        )
        hit_rate = 0.0 if total.sections is None else or_zero(total.sections.section_hit_rate)
        evaluated = 0 if total.sections is None else total.sections.evaluated
        assert evaluated == official["total_evaluated"], row["row"]
        # Its hits are recovered from rates of 4 decimals.
        assert hit_rate == pytest.approx(official["section_hit_rate"], abs=2 * ROUNDED), row["row"]
        assert row["l1_f1"] * hit_rate == pytest.approx(official["profile_quality"], abs=2 * ROUNDED), row["row"]
        # The reference averages these over the cases, with 0 where a case has none.
        for name in ("section_misentry_rate", "section_miss_rate"):
            mean = math.fsum(case[name] for case in cases) / max(1, len(cases))
            assert mean == pytest.approx(official[name], abs=2 * ROUNDED), (row["row"], name)


def referenced_id(case_id: str, index: int) -> str:
    return f"{case_id}#{index}"


def own_id(case_id: str, identifier: str | None) -> str:
    """The reference reads the number behind ``case_id#``, in whatever digits it is written."""
    prefix, hash_sign, number = (identifier or "").rpartition("#")
    if hash_sign and prefix == case_id and number.isdecimal():
        return referenced_id(case_id, int(number))
    return f"not of this case: {identifier}"


def test_inject() -> None:
    rows = [row for row in load("sgme_l2_inject") if row["kind"] == "inject"]
    assert len(rows) == 52
    for row in rows:
        case_id, official = row["case_id"], row["official"]
        blocks = [
            Block(
                title=block["title"],
                memory_ids=tuple(own_id(case_id, item.get("memory_id")) for item in block.get("items", [])),
                present=block["present"],
                text="",
            )
            for block in row["blocks"]
        ]
        metrics = compute_inject(blocks, [referenced_id(case_id, index) for index in row["referenced_memory_indices"]])
        assert metrics.blocks_present == official["total_blocks"], row["row"]
        assert metrics.blocks_relevant == official["relevant_blocks"], row["row"]
        assert metrics.referenced == official["total_referenced"], row["row"]
        assert metrics.injected == official["hit_and_referenced"], row["row"]
        assert or_zero(metrics.inject_hit_rate) == pytest.approx(official["inject_hit_rate"], abs=ROUNDED)
        assert or_zero(metrics.reference_coverage) == pytest.approx(official["reference_coverage"], abs=ROUNDED)


def test_inject_aggregate() -> None:
    rows = [row for row in load("sgme_l2_inject") if row["kind"] == "inject_aggregate"]
    assert rows
    for row in rows:
        official = row["official"]
        total = aggregate_inject(
            InjectMetrics(
                case["total_blocks"], case["relevant_blocks"], case["total_referenced"], case["hit_and_referenced"]
            )
            for case in row["cases"]
        )
        assert total.blocks_present == official["total_blocks"]
        assert total.injected == official["hit_and_referenced"]
        assert or_zero(total.inject_hit_rate) == pytest.approx(official["inject_hit_rate"], abs=ROUNDED)
        assert or_zero(total.reference_coverage) == pytest.approx(official["reference_coverage"], abs=ROUNDED)


def test_ndcg() -> None:
    rows = [row for row in load("ndcg_rrf") if row["kind"] == "ndcg"]
    compared = 0
    for row in rows:
        if not row["relevant"]:
            # Its own rule: 1 (0 with a cut-off of 0). There is nothing to measure.
            if row["k"]:
                assert ndcg(row["predicted"], row["relevant"], row["k"]) is None
            continue
        if len(set(row["relevant"])) < len(row["relevant"]):
            # Its own rule: the ideal counts a repeated id as often as it is listed. Here each id counts once.
            assert ndcg(row["predicted"], row["relevant"], row["k"]) == 1.0 > row["ndcg"]
            continue
        assert ndcg(row["predicted"], row["relevant"], row["k"]) == pytest.approx(row["ndcg"], abs=ROUNDED), row["row"]
        compared += 1
    assert compared == len(rows) - 3
