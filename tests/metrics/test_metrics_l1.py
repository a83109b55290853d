from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics.catalog import metrics_of
from pytest_memeval.metrics.l1 import L1Metrics, aggregate_l1, compute_l1
from pytest_memeval.metrics.matching import build_matcher
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.values import Memory

CONTENTS = ["likes green tea", "likes black tea", "works in Oslo", "在深圳做后端开发", "has a cat", ""]
dimension_sets = st.lists(st.sampled_from(["identity", "skills", "family", "goals"]), max_size=3).map(tuple)
hostile = st.none() | st.floats() | st.integers(-(10**400), 10**400)
labels = st.sampled_from(["a", "b", None])
predictions = st.lists(
    st.builds(
        Memory,
        id=st.none(),
        content=st.sampled_from(CONTENTS),
        dimensions=dimension_sets,
        memory_type=labels,
        priority=hostile,
        time_velocity=labels,
    ),
    max_size=5,
)
truths = st.lists(
    st.builds(
        GtMemory,
        content=st.sampled_from(CONTENTS),
        dimensions=dimension_sets,
        memory_type=labels,
        priority=st.none() | st.floats(0, 100),
        time_velocity=labels,
    ),
    max_size=5,
)


def memory(content: str, *dimensions: str, **fields: Any) -> Memory:
    return Memory(id=None, content=content, dimensions=dimensions, **fields)


def label(content: str, *dimensions: str, **fields: Any) -> GtMemory:
    return GtMemory(content=content, dimensions=dimensions, **fields)


def comparable(metrics: L1Metrics) -> tuple[Any, ...]:
    section = metrics.section()
    return dict(section.ratios), dict(section.counts), {k: dict(v) for k, v in section.tables.items()}


def values(metrics: L1Metrics) -> dict[str, float | None]:
    return metrics.section().values()


class TestProperties:
    @given(predictions, truths, st.sampled_from(["drop", "fp"]), st.integers(0, 3))
    def test_ranges(self, predicted: list[Memory], truth: list[GtMemory], unknown: Any, dropped: int) -> None:
        metrics = compute_l1(predicted, truth, unknown_label=unknown, dropped_labels=dropped)
        bounds = {spec.name: spec for spec in metrics_of("l1")}
        for name, value in values(metrics).items():
            spec = bounds[name.partition(".")[0]]
            if value is not None:
                assert math.isfinite(value)
                assert value >= spec.low
                assert spec.high is None or value <= spec.high
        # Strict JSON, and the same after reading back.
        section = metrics.section()
        text = json.dumps(section.to_json(), allow_nan=False)
        assert SectionRecord.from_json(json.loads(text)).values() == section.values()

    @given(predictions, truths)
    def test_identities(self, predicted: list[Memory], truth: list[GtMemory]) -> None:
        metrics = compute_l1(predicted, truth, dropped_labels=2, unknown_label="fp")
        assert metrics.tp == sum(counts[0] for counts in metrics.per_dimension.values())
        assert metrics.fp == sum(counts[1] for counts in metrics.per_dimension.values()) + 2
        assert metrics.fn == sum(counts[2] for counts in metrics.per_dimension.values())
        assert metrics.tp + metrics.fn == sum(len(set(one.dimensions)) for one in truth)
        assert metrics.tp + metrics.fp == sum(len(set(one.dimensions)) for one in predicted) + 2
        precision, recall, f1 = (
            metrics.dimension_micro_precision,
            metrics.dimension_micro_recall,
            metrics.dimension_micro_f1,
        )
        if precision and recall:
            assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
        elif precision is not None or recall is not None:
            assert f1 == 0
        assert metrics.matched + len(metrics.unmatched_pred) == metrics.predicted
        assert metrics.matched + len(metrics.unmatched_truth) == metrics.labelled

    @given(predictions, truths)
    def test_swapping_the_sides_swaps_precision_and_recall(
        self, predicted: list[Memory], truth: list[GtMemory]
    ) -> None:
        # Greedy ties depend on order; distinct contents have none that matter.
        if len({m.content for m in predicted}) < len(predicted) or len({t.content for t in truth}) < len(truth):
            return
        there = compute_l1(predicted, truth)
        back = compute_l1(
            [Memory(None, one.content, one.dimensions) for one in truth],
            [GtMemory(one.content, one.dimensions) for one in predicted],
        )
        assert there.dimension_micro_f1 == back.dimension_micro_f1
        assert there.dimension_micro_precision == back.dimension_micro_recall
        assert there.memory_precision == back.memory_recall
        assert there.strict_match_rate == back.strict_match_rate

    @given(predictions, truths, st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, predicted: list[Memory], truth: list[GtMemory], rng: random.Random) -> None:
        if len({m.content for m in predicted}) < len(predicted) or len({t.content for t in truth}) < len(truth):
            return
        shuffled_pred, shuffled_truth = predicted[:], truth[:]
        rng.shuffle(shuffled_pred)
        rng.shuffle(shuffled_truth)
        assert comparable(compute_l1(predicted, truth)) == comparable(compute_l1(shuffled_pred, shuffled_truth))

    @given(st.lists(st.tuples(predictions, truths), max_size=4), st.randoms(use_true_random=False))
    def test_aggregation(self, pairs: list[tuple[list[Memory], list[GtMemory]]], rng: random.Random) -> None:
        cases = [compute_l1(*pair) for pair in pairs]
        total = aggregate_l1(cases)
        for case in cases:
            assert comparable(aggregate_l1([case])) == comparable(case)
        # Sums of sums are sums, in any order.
        shuffled = cases[:]
        rng.shuffle(shuffled)
        assert aggregate_l1(shuffled) == total
        in_parts = aggregate_l1([aggregate_l1(cases[:2]), aggregate_l1(cases[2:])])
        assert in_parts.priority_error == pytest.approx(total.priority_error)
        assert in_parts.per_dimension == total.per_dimension
        assert in_parts.tp == total.tp == sum(case.tp for case in cases)
        assert total.cases == len(cases)
        for name, (numerator, denominator) in total.section().ratios.items():
            expected = sum(case.section().ratios.get(name, (0, 0))[0] for case in cases)
            assert numerator == pytest.approx(expected, nan_ok=True)
            assert denominator == sum(case.section().ratios.get(name, (0, 0))[1] for case in cases)

    @given(truths)
    def test_the_labels_themselves_are_a_strict_match(self, truth: list[GtMemory]) -> None:
        if len({one.content for one in truth}) < len(truth):
            return
        predicted = [
            Memory(None, one.content, one.dimensions, one.memory_type, one.priority, one.time_velocity) for one in truth
        ]
        metrics = compute_l1(predicted, truth)
        assert metrics.strict_match_rate == 1
        assert metrics.dimension_micro_f1 in (1.0, None)
        assert metrics.memory_type_accuracy in (1.0, None)
        assert metrics.priority_mae in (0.0, None)
        assert metrics.priority_within_10 in (1.0, None)


class TestEdges:
    def test_f17_one_to_one(self) -> None:
        metrics = compute_l1([memory("A")] * 3, [label("A"), label("B")])
        assert metrics.memory_recall == 0.5
        assert metrics.memory_precision == 1 / 3

    def test_f18_nothing_labelled_and_nothing_found(self) -> None:
        shown = values(compute_l1([], []))
        assert shown.pop("strict_match_rate") == 1
        assert all(shown.pop(name) == 0 for name in ("total_tp", "total_fp", "total_fn"))
        assert all(shown.pop(name) == 0 for name in ("dropped_labels", "invalid_items", "near_misses"))
        assert shown
        assert set(shown.values()) == {None}

    def test_f18_one_side_empty(self) -> None:
        found = compute_l1([memory("a", "identity")], [])
        assert (found.dimension_micro_f1, found.dimension_micro_precision, found.dimension_micro_recall) == (0, 0, None)
        assert (found.strict_match_rate, found.memory_precision, found.memory_recall) == (0, 0, None)
        missed = compute_l1([], [label("a", "identity")])
        assert (missed.dimension_micro_f1, missed.dimension_micro_precision, missed.dimension_micro_recall) == (
            0,
            None,
            0,
        )
        assert missed.priority_mae is None
        assert missed.memory_type_accuracy is None
        assert missed.per_dimension_f1 == {"identity": 0}
        assert missed.per_dimension_precision == {"identity": None}

    def test_f18_empty_contents(self) -> None:
        assert compute_l1([memory("")], [label("")]).matched == 1

    @pytest.mark.parametrize("priority", [math.nan, math.inf, -math.inf, 1e300, 10**400, "85", True, None])
    def test_f02_a_priority_that_is_no_number_is_missing(self, priority: Any) -> None:
        metrics = compute_l1([memory("a", priority=priority)], [label("a", priority=50.0)])
        assert metrics.priority_mae is None
        assert metrics.priority_within_10 == 0
        # What is given and cannot be reckoned with makes the case unmeasured; what is not given leaves it out.
        numerator, denominator = metrics.section().ratios["priority_mae"]
        assert (math.isnan(numerator), denominator) == ((False, 0) if priority is None else (True, 1))
        assert metrics.section().values()["priority_mae"] is None
        unlabelled = compute_l1([memory("a", priority=priority)], [label("a")])
        assert unlabelled.section().ratios["priority_mae"] == (0, 0)

    def test_optional_labels(self) -> None:
        predicted = [memory("abc", memory_type=None, priority=None, time_velocity=None)]
        unlabelled = compute_l1(predicted, [label("abc")])
        assert unlabelled.memory_type_accuracy is None
        assert unlabelled.time_velocity_accuracy is None
        assert unlabelled.priority_within_10 is None
        labelled = compute_l1(predicted, [label("abc", memory_type="persona", priority=80, time_velocity="static")])
        assert labelled.memory_type_accuracy == 0
        assert labelled.time_velocity_accuracy == 0
        assert labelled.priority_within_10 == 0
        assert labelled.priority_mae is None

    def test_priorities(self) -> None:
        contents = ["aaaa", "bbbb", "cccc", "dddd"]
        predicted = [memory(c, priority=p) for c, p in zip(contents, (10.0, 20.5, 50, None), strict=True)]
        metrics = compute_l1(predicted, [label(c, priority=10) for c in contents])
        assert metrics.priority_mae == (0 + 10.5 + 40) / 3
        assert metrics.priority_within_10 == 1 / 4
        at_the_edge = compute_l1([memory("a", priority=20.0)], [label("a", priority=10)])
        assert at_the_edge.priority_within_10 == 1

    def test_dropped_labels(self) -> None:
        arguments: tuple[Sequence[Memory], Sequence[GtMemory]] = [memory("abc", "identity")], [label("abc", "identity")]
        dropped = compute_l1(*arguments, dropped_labels=2, invalid_items=1)
        assert (dropped.fp, dropped.strict_match_rate, dropped.dimension_micro_f1) == (0, 1, 1)
        assert dropped.section().counts["dropped_labels"] == 2
        assert dropped.section().counts["invalid_items"] == 1
        counted = compute_l1(*arguments, dropped_labels=2, unknown_label="fp")
        assert (counted.fp, counted.strict_match_rate, counted.dimension_micro_f1) == (2, 0, 0.5)
        assert counted.per_dimension == {"identity": (1, 0, 0)}
        assert aggregate_l1([counted, counted]).dropped_as_fp == 4

    def test_bad_arguments(self) -> None:
        with pytest.raises(ValueError, match="negative"):
            compute_l1([], [], dropped_labels=-1)
        with pytest.raises(ValueError, match="unknown_label is 'fn'"):
            compute_l1([], [], unknown_label="fn")  # type: ignore[arg-type]  # that is the fault


class TestKnownCase:
    def metrics(self) -> L1Metrics:
        predicted = [
            memory(
                "likes green tea", "preferences", "style", memory_type="persona", priority=70, time_velocity="static"
            ),
            memory("works in Oslo as a cook", "skills", memory_type="episodic", priority=40, time_velocity="static"),
            memory("zzz", "goals"),
        ]
        truth = [
            label(
                "works in Oslo as cook",
                "identity",
                "skills",
                memory_type="persona",
                priority=55,
                time_velocity="static",
            ),
            label(
                "likes green teas", "preferences", "habits", memory_type="persona", priority=65, time_velocity="dynamic"
            ),
            label("has two cats", "family"),
        ]
        return compute_l1(predicted, truth)

    def test_values(self) -> None:
        metrics = self.metrics()
        # Oslo: skills right, identity missed. Tea: preferences right, habits missed, style extra. Left: goals, family.
        assert (metrics.tp, metrics.fp, metrics.fn) == (2, 2, 3)
        assert metrics.dimension_micro_f1 == 4 / 9
        assert metrics.dimension_micro_precision == 2 / 4
        assert metrics.dimension_micro_recall == 2 / 5
        assert metrics.strict_match_rate == 0
        assert metrics.memory_type_accuracy == 1 / 2
        assert metrics.time_velocity_accuracy == 1 / 2
        assert metrics.priority_mae == (15 + 5) / 2
        assert metrics.priority_within_10 == 1 / 2
        assert metrics.memory_precision == metrics.memory_recall == 2 / 3
        assert metrics.confusions == {"habits→style": 1}
        assert metrics.per_dimension_f1["skills"] == 1
        assert metrics.per_dimension_recall["identity"] == 0

    def test_section(self) -> None:
        section = self.metrics().section()
        assert section.ratios["dimension_micro_f1"] == (4, 9)
        assert section.ratios["per_dimension_f1.habits"] == (0, 1)
        assert section.ratios["strict_match_rate"] == (0, 1)
        assert section.counts["total_fn"] == 3
        assert section.tables["per_dimension_fn"] == {
            "family": 1,
            "goals": 0,
            "habits": 1,
            "identity": 1,
            "preferences": 0,
            "skills": 0,
            "style": 0,
        }
        assert section.tables["confusions"] == {"habits→style": 1}
        first = section.details["pairs"][0]
        assert (first["truth"], first["pred"], first["missed"], first["extra"]) == (0, 1, ["identity"], [])
        assert (first["memory_type_right"], first["time_velocity_right"], first["priority_error"]) == (False, True, 15)
        assert section.details["unmatched_pred"] == [2]
        assert section.details["unmatched_truth"] == [2]

    def test_every_name_is_in_the_catalog(self) -> None:
        section = self.metrics().section()
        for name in (*section.ratios, *section.counts):
            assert parse_path(f"l1.{name}").name == name
        shown = {name.partition(".")[0] for name in (*section.ratios, *section.counts)}
        assert shown == {spec.name for spec in metrics_of("l1")}

    def test_values_agree_with_the_properties(self) -> None:
        metrics = self.metrics()
        for name, value in values(metrics).items():
            base, _, key = name.partition(".")
            if base in metrics.section().ratios or key:
                own = getattr(metrics, base)
                assert (own[key] if key else own) == value

    def test_near_misses_are_counted(self) -> None:
        metrics = compute_l1([memory("他是深圳的一名后端工程师")], [label("在深圳做后端开发")])
        assert metrics.section().counts["near_misses"] == 1
        assert metrics.section().details["near_misses"][0]["truth"] == 0

    def test_another_matcher(self) -> None:
        predicted, truth = [memory("tide")], [label("diet")]
        assert compute_l1(predicted, truth).matched == 1
        assert compute_l1(predicted, truth, matcher=build_matcher("difflib")).matched == 0
