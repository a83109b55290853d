from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import case, errored_case, full_case, l1_section, ratio_record

from pytest_memeval.aggregate import aggregate_metric, aggregate_sections, flat_value
from pytest_memeval.case_counts import (
    CATEGORIES,
    count_metric,
    count_section,
    count_stage,
    metric_category,
    one_per_case,
    stages_category,
)
from pytest_memeval.metrics.catalog import METRICS, SECTIONS, metric_stages
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.report.json_report import dumps

COUNT = st.integers(0, 6)
PAIRS = st.lists(st.tuples(COUNT, COUNT).map(lambda pair: (min(pair), max(pair))), min_size=1, max_size=12)


def l1_cases(pairs: list[tuple[int, int]]) -> list:
    return [
        case(f"c{i:03d}", {"l1": SectionRecord(ratios={"memory_recall": pair}, counts={"total_tp": pair[0]})})
        for i, pair in enumerate(pairs)
    ]


@given(PAIRS)
def test_a_value_is_the_ratio_of_the_sums(pairs):
    section = aggregate_sections(l1_cases(pairs))["l1"]
    units = sum(pair[1] for pair in pairs)
    expected = sum(pair[0] for pair in pairs) / units if units else None
    assert section["memory_recall"] == pytest.approx(expected) if expected is not None else True
    assert (section["memory_recall"] is None) == (units == 0)
    assert section["n"]["memory_recall"]["units"] == units
    assert section["n"]["memory_recall"]["cases"] == sum(pair[1] > 0 for pair in pairs)
    assert section["total_tp"] == sum(pair[0] for pair in pairs)


@given(PAIRS, PAIRS)
def test_two_halves_add_up_to_the_whole(first, second):
    whole = aggregate_sections(l1_cases([*first, *second]))["l1"]
    left, right = (aggregate_sections(l1_cases(half))["l1"] for half in (first, second))
    units = [half["n"]["memory_recall"]["units"] for half in (left, right)]
    assert whole["n"]["memory_recall"]["units"] == sum(units)
    hits = sum((half["memory_recall"] or 0.0) * n for half, n in zip((left, right), units, strict=True))
    assert (whole["memory_recall"] or 0.0) * sum(units) == pytest.approx(hits)
    assert whole["counts"]["scored"] == left["counts"]["scored"] + right["counts"]["scored"]


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(1, 45))
def test_the_order_of_the_records_plays_no_part(rng: random.Random, size: int):
    records = [full_case(number) for number in range(size)] + [errored_case(900)]
    expected = dumps(aggregate_sections(records))
    rng.shuffle(records)
    assert dumps(aggregate_sections(records)) == expected


def test_sums_of_fractions_do_not_depend_on_the_order_either():
    pairs = [(0.1, 0.3), (1e16, 1e16), (0.7, 0.9), (1e-9, 1.0)]
    values = set()
    for order in (pairs, pairs[::-1], pairs[2:] + pairs[:2]):
        records = [
            case(f"c{pairs.index(pair)}", {"l1": ratio_record(priority_mae=pair)}, node_id=f"{pairs.index(pair)}")
            for pair in order
        ]
        values.add(aggregate_sections(records)["l1"]["priority_mae"])
    assert len(values) == 1


def test_every_metric_of_the_catalogue_has_its_key_even_without_a_case():
    sections = aggregate_sections([])
    assert list(sections) == list(SECTIONS)
    for path, spec in METRICS.items():
        if spec.section == "search" and spec.name in ("ndcg", "recall", "hit"):
            continue
        value = sections[spec.section][spec.name]
        assert value == ({} if spec.keys else None), path
        if not spec.keys:
            assert sections[spec.section]["intervals"][spec.name] is None
            assert sections[spec.section]["interval_reasons"][spec.name]
            assert sections[spec.section]["n"][spec.name] == {"units": 0, "cases": 0, "clusters": 0}
    assert sections["qa"] is None


def test_keyed_metrics_are_a_table_and_cut_offs_are_part_of_the_name():
    records = [
        case(
            f"c{i}",
            {
                "l1": SectionRecord(ratios={"per_dimension_f1.family": (i, 4), "per_dimension_f1.goals": (0, 0)}),
                "search": SectionRecord(ratios={"ndcg@10": (0.5, 1)}),
            },
        )
        for i in range(3)
    ]
    sections = aggregate_sections(records)
    assert sections["l1"]["per_dimension_f1"] == {"family": 0.25, "goals": None}
    assert "per_dimension_f1.family" in sections["l1"]["intervals"]
    assert sections["search"]["ndcg@10"] == 0.5
    assert flat_value(sections["search"], parse_path("search.ndcg@10")) == 0.5
    assert flat_value(sections["l1"], parse_path("l1.per_dimension_f1.family")) == 0.25
    assert flat_value(sections["l1"], parse_path("l1.per_dimension_f1.nobody")) is None


def test_tables_are_added_key_by_key():
    records = [
        case("a", {"l1": SectionRecord(tables={"confusions": {"x→y": 1}})}),
        case("b", {"l1": SectionRecord(tables={"confusions": {"x→y": 2, "y→x": 1}})}),
    ]
    assert aggregate_sections(records)["l1"]["confusions"] == {"x→y": 3, "y→x": 1}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, 1e200])
def test_f02_what_is_not_finite_is_left_out_and_counted(bad):
    records = [
        case("a", {"l1": SectionRecord(ratios={"memory_recall": (1, 2)}, counts={"near_misses": 1})}),
        case("b", {"l1": SectionRecord(ratios={"memory_recall": (bad, 2)}, counts={"near_misses": bad})}),
        case("c", {"l1": SectionRecord(ratios={"memory_recall": (1, bad)}, tables={"confusions": {"x→y": bad}})}),
    ]
    section = aggregate_sections(records)["l1"]
    assert section["memory_recall"] == 0.5
    assert section["near_misses"] == 1
    assert section["unmeasured"] == {"confusions.x→y": 1, "memory_recall": 2, "near_misses": 1}


def test_profile_quality_is_the_product_of_the_sets_own_ratios():
    def with_profile(name, f1, hits):
        ratios = {"section_hit_rate": hits, "_profile_l1_f1": f1, "_profile_hit_rate": hits}
        return case(name, {"l2": SectionRecord(ratios=ratios)})

    records = [
        with_profile("a", (2, 4), (1, 2)),
        with_profile("b", (6, 8), (2, 2)),
        # Its L1 was not measured: it has section figures but no part in the product.
        case("c", {"l2": ratio_record(section_hit_rate=(0, 4))}),
    ]
    section = aggregate_sections(records)["l2"]
    assert section["profile_quality"] == pytest.approx(8 / 12 * 3 / 4)
    assert section["section_hit_rate"] == pytest.approx(3 / 8)
    assert not any(name.startswith("_") for name in section)
    assert not any(name.startswith("_") for name in section["n"])


def test_strict_match_rate_has_wilsons_interval_and_others_have_not():
    records = [
        case(f"c{i}", {"l1": ratio_record(strict_match_rate=(i % 2, 1), memory_recall=(i % 2, 1))}) for i in range(10)
    ]
    section = aggregate_sections(records)["l1"]
    low, high = section["intervals"]["strict_match_rate"]
    # Wilson's interval of 5 of 10.
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert section["intervals"]["memory_recall"] != [low, high]


def test_few_clusters_give_no_interval_but_a_reason():
    section = aggregate_sections(l1_cases([(1, 2), (2, 2)]))["l1"]
    assert section["memory_recall"] == 0.75
    assert section["intervals"]["memory_recall"] is None
    assert "fewer than 5" in section["interval_reasons"]["memory_recall"]


def test_a_stage_that_was_not_scored_does_not_count_even_with_figures():
    stages = {"l1": "scored", "l2": "errored", "template": "scored"}
    both = SectionRecord(
        ratios={"scene_grouping_f1": (1, 1), "section_hit_rate": (1, 2)}, counts={"total_evaluated": 2, "unreached": 1}
    )
    section = aggregate_sections([case("a", {"l2": both}, stages=stages)])["l2"]
    assert section["scene_grouping_f1"] is None
    assert section["section_hit_rate"] == 0.5
    assert section["total_evaluated"] == 2
    assert section["unreached"] == 1


def test_nothing_leaves_a_denominator_silently():
    statuses = ["scored", "errored", "void", "skipped", "unsupported", "unselected", "no_truth", "ran", "ran_errored"]
    records = [case(f"c{i}", {}, stages={"l15": status}) for i, status in enumerate(statuses)]
    counts = aggregate_sections(records)["l15"]["counts"]
    assert counts == {"scored": 1, "errored": 2, "skipped": 1, "unsupported": 1, "unselected": 1, "no_truth": 3}
    assert sum(counts.values()) == len(records)


def test_a_case_whose_process_died_counts_as_errored_everywhere():
    counts = aggregate_sections([case("a", {}, stages={}, outcome="errored"), case("b", {}, stages={})])
    assert counts["l1"]["counts"]["errored"] == counts["l2"]["stage_counts"]["template"]["errored"] == 1
    assert counts["l1"]["counts"]["no_truth"] == 1


def test_a_section_of_two_stages_counts_each_apart():
    records = [
        case("a", {}, stages={"l2": "errored", "template": "scored"}),
        case("b", {}, stages={"l2": "no_truth", "template": "void"}),
        case("c", {}, stages={"l2": "no_truth", "template": "no_truth"}),
    ]
    section = aggregate_sections(records)["l2"]
    assert section["counts"]["scored"] == 1
    assert section["counts"]["errored"] == 1
    assert section["counts"]["no_truth"] == 1
    assert section["stage_counts"]["l2"]["errored"] == 1
    assert section["stage_counts"]["template"] == count_stage(records, ("template",))
    assert sum(count_section(records, "l2").values()) == 3


FATES = st.lists(
    st.tuples(
        st.sampled_from(["scored", "errored", "skipped"]),
        st.dictionaries(
            st.sampled_from(["l1", "l15", "l2", "template"]),
            st.sampled_from(["scored", "errored", "void", "skipped", "unsupported", "unselected", "no_truth", "ran"]),
        ),
        st.booleans(),
    ),
    max_size=12,
)


@given(FATES)
def test_cases_that_are_put_together_count_as_one_by_one(fates):
    records = [
        case(f"c{i}", {"metrics": SectionRecord()} if own else {}, outcome=outcome, stages=stages)
        for i, (outcome, stages, own) in enumerate(fates)
    ]
    for section in ("l1", "l2", "metrics"):
        alone = [count_section([record], section) for record in records]
        assert count_section(records, section) == {name: sum(one[name] for one in alone) for name in CATEGORIES}
    for stages in (("l1",), ("l1", "template")):
        categories = [stages_category(record, stages) for record in records]
        assert count_stage(records, stages) == {name: categories.count(name) for name in CATEGORIES}


def test_profile_quality_counts_a_case_whose_l1_failed_as_errored():
    stages = metric_stages("l2", "profile_quality")
    failed = case("a", {}, stages={"l1": "errored", "template": "scored"})
    assert stages_category(failed, stages) == "errored"
    assert stages_category(failed, metric_stages("l2", "section_hit_rate")) == "scored"
    assert stages_category(case("b", {}, stages={"l1": "errored", "template": "no_truth"}), stages) == "no_truth"


def test_injection_of_the_pipelines_memories_counts_a_case_whose_pipeline_failed_as_errored():
    figures = {"inject": ratio_record(reference_coverage=(1, 1), pipeline_coverage=(0, 1))}
    whole = case("a", {"inject": ratio_record(reference_coverage=(1, 1), pipeline_coverage=(1, 1))})
    for status in ("errored", "void", "ran_errored"):
        failed = case("b", figures, stages={"l1": status, "inject": "scored"})
        assert metric_category(failed, "inject", "pipeline_coverage") == "errored"
        assert metric_category(failed, "inject", "reference_coverage") == "scored"
        counts = count_metric([whole, failed], "inject", "pipeline_hit_rate")
        assert (counts["scored"], counts["errored"]) == (1, 1)
        section = aggregate_sections([whole, failed])["inject"]
        # A figure that such a case has all the same does not count.
        assert (section["pipeline_coverage"], section["n"]["pipeline_coverage"]["cases"]) == (1, 1)
        assert section["n"]["reference_coverage"]["cases"] == 2


def test_a_rerun_replaces_the_record_before_it():
    first = case("a", {"l1": ratio_record(memory_recall=(0, 2))})
    second = case("a", {"l1": ratio_record(memory_recall=(2, 2))})
    assert one_per_case([first, second]) == [second]
    assert aggregate_sections([first, second])["l1"]["memory_recall"] == 1.0


def test_a_filter_takes_the_matching_cases_only():
    records = [
        case("a", {"l1": l1_section(1)}, difficulty="hard", tags=("slow",)),
        case("b", {"l1": l1_section(2)}, difficulty="easy"),
        case("c", {"l1": l1_section(3)}, difficulty="hard", source="edge"),
    ]
    hard = aggregate_metric(records, parse_path("l1.memory_recall{difficulty=hard}"))
    assert hard["counts"]["scored"] == 2
    assert hard["memory_recall"] == aggregate_sections([records[0], records[2]])["l1"]["memory_recall"]
    assert "memory_precision" not in hard
    assert aggregate_metric(records, parse_path("l1.memory_recall{tag=slow}"))["counts"]["scored"] == 1
    assert (
        aggregate_metric(records, parse_path("l1.memory_recall{source=edge,difficulty=easy}"))["counts"]["scored"] == 0
    )


def test_custom_metrics_are_aggregated_under_their_own_names():
    records = [case(f"c{i}", {"metrics": ratio_record(politeness=(-i, 1))}) for i in range(6)]
    section = aggregate_sections(records)["metrics"]
    assert section["politeness"] == -2.5
    low, high = section["intervals"]["politeness"]
    assert low < -2.5 < high < 0
    assert section["counts"]["scored"] == 6
