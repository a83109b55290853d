from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.models import GtMemory, GtScene, L2GroundTruth
from pytest_memeval.metrics.catalog import metrics_of
from pytest_memeval.metrics.l1 import compute_l1
from pytest_memeval.metrics.l2 import (
    L2Metrics,
    aggregate_l2,
    combine_l2,
    compute_l2,
    compute_scenes,
    compute_sections,
    l2_section,
)
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.values import Memory, Scene, Section

modes = st.sampled_from(["daily", "coding"])
section_ids = st.sampled_from(["basic", "work", "home"])
memory_ids = st.sampled_from(["a", "b", "c", "old", "junk"])
expectations = st.dictionaries(modes, st.dictionaries(st.integers(0, 3), section_ids, max_size=4), max_size=2)
placements = st.dictionaries(
    modes,
    st.lists(st.builds(Section, section_ids, st.just("t"), st.lists(memory_ids, max_size=4).map(tuple)), max_size=4),
    max_size=2,
)
live = st.dictionaries(st.integers(0, 3), st.sampled_from(["a", "b", "c", None]), max_size=4)
groups = st.lists(st.builds(GtScene, st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3)).map(tuple)), max_size=3)
scene_lists = st.lists(
    st.builds(
        Scene,
        st.sampled_from(["s1", "s2", "s3"]),
        st.sampled_from(["x", "y", "something else"]),
        st.lists(memory_ids, max_size=4).map(tuple),
        st.sampled_from([None, "created", "updated"]),
    ),
    max_size=4,
)


def section(identifier: str, *ids: str) -> Section:
    return Section(identifier, identifier.title(), ids)


def scene(title: str, *ids: str, change: str | None = "created") -> Scene:
    return Scene(f"scene-{title}", title, ids, change)


def comparable(metrics: L2Metrics) -> tuple[Any, ...]:
    record = metrics.section()
    return record.ratios, record.counts, record.tables


class TestSections:
    @given(expectations, placements, live)
    def test_identities(self, expected: Any, placed: Any, live_ids: Any) -> None:
        metrics = compute_sections(expected, placed, live_ids, ignored_ids={"old"})
        assert metrics.evaluated == sum(len(labels) for labels in expected.values())
        assert metrics.hits + metrics.misses <= metrics.evaluated
        assert metrics.misentries <= metrics.placed
        wrong = [unit for unit in metrics.details["units"] if unit["placed"] and unit["expected"] not in unit["placed"]]
        assert metrics.hits + metrics.misses + len(wrong) == metrics.evaluated
        assert len(metrics.details["misentries"]) == metrics.misentries
        json.dumps(metrics.details, allow_nan=False)

    @given(expectations, placements, live, st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, expected: Any, placed: Any, live_ids: Any, rng: random.Random) -> None:
        before = compute_sections(expected, placed, live_ids)
        shuffled = {mode: rng.sample(sections, len(sections)) for mode, sections in reversed(placed.items())}
        after = compute_sections(dict(reversed(expected.items())), shuffled, live_ids)
        assert (after.hits, after.misses, after.placed, after.misentries) == (
            before.hits,
            before.misses,
            before.placed,
            before.misentries,
        )

    def test_hit_miss_and_misentry(self) -> None:
        metrics = compute_sections(
            {"daily": {0: "basic", 1: "work", 2: "home"}},
            {"daily": [section("basic", "a"), section("work"), section("home", "b")]},
            {0: "a", 1: "b", 2: "c"},
        )
        assert metrics.section_hit_rate == 1 / 3
        assert metrics.section_miss_rate == 1 / 3  # c is nowhere; b is in a wrong section
        assert metrics.section_misentry_rate == 1 / 2

    def test_an_unreached_memory_is_a_miss(self) -> None:
        metrics = compute_sections({"daily": {0: "basic", 1: "basic"}}, {"daily": [section("basic", "a")]}, {0: None})
        assert metrics.section_miss_rate == 1
        assert metrics.unreached_memories == {0, 1}
        assert metrics.section_misentry_rate == 1  # a is nobody's

    def test_a_spurious_memory_is_a_misentry(self) -> None:
        metrics = compute_sections({"daily": {0: "basic"}}, {"daily": [section("basic", "a", "junk")]}, {0: "a"})
        assert (metrics.section_hit_rate, metrics.section_misentry_rate) == (1, 1 / 2)

    def test_existing_memories_are_on_neither_side(self) -> None:
        placed = {"daily": [section("basic", "a", "old"), section("work", "old2")]}
        metrics = compute_sections({"daily": {0: "basic"}}, placed, {0: "a"}, ignored_ids={"old", "old2"})
        assert (metrics.placed, metrics.misentries) == (1, 0)

    def test_an_existing_memory_that_a_labelled_one_lives_on_in_counts(self) -> None:
        placed = {"daily": [section("basic", "old"), section("work", "old")]}
        metrics = compute_sections({"daily": {0: "basic"}}, placed, {0: "old"}, ignored_ids={"old"})
        assert (metrics.hits, metrics.placed, metrics.misentries) == (1, 2, 1)

    def test_several_sections_for_one_memory(self) -> None:
        placed = {"daily": [section("basic", "a"), section("work", "a"), section("home", "a")]}
        metrics = compute_sections({"daily": {0: "work"}}, placed, {0: "a"})
        assert (metrics.hits, metrics.misses, metrics.placed, metrics.misentries) == (1, 0, 3, 2)

    def test_a_repeated_id_in_a_section_is_one_placement(self) -> None:
        metrics = compute_sections({"daily": {0: "work"}}, {"daily": [section("basic", "a", "a")]}, {0: "a"})
        assert (metrics.placed, metrics.misentries) == (1, 1)

    def test_labelled_memories_that_share_an_id(self) -> None:
        expected, live_ids = {"daily": {0: "basic", 1: "work"}}, {0: "a", 1: "a"}
        once = compute_sections(expected, {"daily": [section("basic", "a")]}, live_ids)
        assert (once.hits, once.misses, once.placed, once.misentries) == (1, 0, 1, 0)
        twice = compute_sections(expected, {"daily": [section("basic", "a"), section("work", "a")]}, live_ids)
        assert (twice.hits, twice.misses, twice.placed, twice.misentries) == (2, 0, 2, 0)

    def test_a_label_for_another_mode_does_not_excuse_a_placement(self) -> None:
        expected = {"daily": {0: "basic"}, "coding": {1: "work"}}
        placed = {"daily": [section("basic", "a"), section("work", "b")], "coding": [section("work", "b")]}
        metrics = compute_sections(expected, placed, {0: "a", 1: "b"})
        assert (metrics.evaluated, metrics.hits, metrics.placed, metrics.misentries) == (2, 2, 3, 1)

    def test_only_labelled_modes_count(self) -> None:
        placed = {"daily": [section("basic", "a")], "coding": [section("work", "junk")]}
        metrics = compute_sections({"daily": {0: "basic"}, "coding": {}}, placed, {0: "a"})
        assert (metrics.placed, metrics.misentries) == (1, 0)

    def test_f18_nothing_labelled_or_nothing_placed(self) -> None:
        nothing = compute_sections({}, {"daily": [section("basic", "a")]}, {})
        assert (nothing.section_hit_rate, nothing.section_miss_rate, nothing.section_misentry_rate) == (None,) * 3
        nowhere = compute_sections({"daily": {0: "basic"}}, {}, {0: "a"})
        assert (nowhere.section_hit_rate, nowhere.section_miss_rate, nowhere.section_misentry_rate) == (0, 1, None)


class TestScenes:
    @given(groups, scene_lists, live)
    def test_identities(self, wanted: list[GtScene], made: list[Scene], live_ids: Any) -> None:
        metrics = compute_scenes(L2GroundTruth(("x",), tuple(wanted)), made, live_ids)
        assert metrics.pairs_right <= min(metrics.pairs_made, metrics.pairs_labelled)
        assert metrics.labels_matched <= min(metrics.scenes_made, metrics.scenes_labelled)
        precision, recall, f1 = (
            metrics.scene_grouping_precision,
            metrics.scene_grouping_recall,
            metrics.scene_grouping_f1,
        )
        if precision and recall:
            assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
        elif precision is not None or recall is not None:
            assert f1 == 0
        json.dumps(metrics.details, allow_nan=False)

    @given(groups, scene_lists, live, st.randoms(use_true_random=False))
    def test_order_does_not_matter(
        self, wanted: list[GtScene], made: list[Scene], live_ids: Any, rng: random.Random
    ) -> None:
        before = compute_scenes(L2GroundTruth((), tuple(wanted)), made, live_ids)
        after = compute_scenes(
            L2GroundTruth((), tuple(rng.sample(wanted, len(wanted)))), rng.sample(made, len(made)), live_ids
        )
        assert (after.pairs_right, after.pairs_made, after.pairs_labelled, after.labels_matched) == (
            before.pairs_right,
            before.pairs_made,
            before.pairs_labelled,
            before.labels_matched,
        )

    def test_grouping(self) -> None:
        truth = L2GroundTruth(scenes=(GtScene("tea", (0, 1, 2)), GtScene("job", (3,))))
        live_ids = {0: "a", 1: "b", 2: "c", 3: "d"}
        # Wanted: ab ac bc. Made: ab cd.
        metrics = compute_scenes(truth, [scene("tea", "a", "b"), scene("job", "c", "d", "junk")], live_ids)
        assert metrics.scene_grouping_precision == 1 / 2
        assert metrics.scene_grouping_recall == 1 / 3
        assert metrics.scene_grouping_f1 == 2 / 5
        assert metrics.details["pairs_missed"] == [["a", "c"], ["b", "c"]]
        assert metrics.details["pairs_extra"] == [["c", "d"]]
        assert metrics.memories_per_scene == 5 / 2

    def test_only_reached_memories_are_paired(self) -> None:
        truth = L2GroundTruth(scenes=(GtScene("tea", (0, 1, 2)),))
        metrics = compute_scenes(truth, [scene("tea", "a", "b", "x")], {0: "a", 1: "b", 2: None})
        assert metrics.scene_grouping_f1 == 1
        assert metrics.unreached_memories == {2}

    def test_a_memory_in_no_labelled_scene_belongs_with_none(self) -> None:
        truth = L2GroundTruth(scenes=(GtScene("tea", (0, 1)),))
        metrics = compute_scenes(truth, [scene("tea", "a", "b", "c")], {0: "a", 1: "b", 2: "c"})
        assert (metrics.scene_grouping_precision, metrics.scene_grouping_recall) == (1 / 3, 1)

    def test_memories_merged_into_one_are_one(self) -> None:
        truth = L2GroundTruth(scenes=(GtScene("tea", (0, 1, 2)),))
        metrics = compute_scenes(truth, [scene("tea", "a", "b")], {0: "a", 1: "a", 2: "b"})
        assert (metrics.pairs_labelled, metrics.pairs_made, metrics.pairs_right) == (1, 1, 1)

    def test_labels_alone(self) -> None:
        truth = L2GroundTruth(scene_labels=("green tea", "work in Oslo"))
        metrics = compute_scenes(truth, [scene("green teas", "a"), scene("cats"), scene("dogs")], {0: "a"})
        assert metrics.scene_grouping_f1 is None
        assert metrics.scene_label_recall == 1 / 2
        assert metrics.scene_label_precision == 1 / 3
        assert metrics.scene_count_ratio == 3 / 2
        assert metrics.details["labels_missed"] == ["work in Oslo"]
        assert metrics.details["labels_extra"] == ["cats", "dogs"]

    def test_a_label_named_twice_is_one(self) -> None:
        truth = L2GroundTruth(scene_labels=("tea",), scenes=(GtScene(" tea", (0,)), GtScene("job", (1,))))
        assert compute_scenes(truth, [scene("tea", "a")], {0: "a"}).scene_count_ratio == 1 / 2

    def test_scenes_that_were_only_loaded_do_not_count(self) -> None:
        truth = L2GroundTruth(scene_labels=("tea",))
        untouched, holding = scene("old", "x", change=None), scene("older", "a", change=None)
        loaded = {untouched.id, holding.id}
        made = [scene("tea"), untouched, holding]
        assert compute_scenes(truth, made, {0: "a"}, loaded_ids=loaded).scenes_made == 2
        assert compute_scenes(truth, made, {0: "a"}).scenes_made == 3

    def test_f18_no_labels_or_no_scenes(self) -> None:
        unlabelled = compute_scenes(L2GroundTruth(), [scene("tea", "a", "b")], {0: "a", 1: "b"})
        assert unlabelled.scene_grouping_f1 is None
        assert unlabelled.scene_count_ratio is None
        assert unlabelled.memories_per_scene is None
        none_made = compute_scenes(L2GroundTruth(("tea",), (GtScene("tea", (0, 1)),)), [], {0: "a", 1: "b"})
        assert none_made.scene_grouping_f1 == 0
        assert none_made.scene_grouping_precision is None
        assert (none_made.scene_label_recall, none_made.scene_label_precision) == (0, None)
        assert none_made.scene_count_ratio == 0


class TestWhole:
    truth = L2GroundTruth(
        scene_labels=("tea",),
        scenes=(GtScene("tea", (0, 1)),),
        template_section={"daily": {0: "basic", 1: "work"}},
    )

    def metrics(self, hits: int = 1) -> L2Metrics:
        l1 = compute_l1([Memory(None, "abc", ("x", "y"))], [GtMemory("abc", ("x",))])
        ids = ("a",) if hits else ()
        return compute_l2(
            self.truth, {"daily": [section("basic", *ids)]}, [scene("tea", "a", "b")], {0: "a", 1: "b"}, l1=l1
        )

    def test_profile_quality(self) -> None:
        metrics = self.metrics()
        assert metrics.profile_quality == (2 / 3) * (1 / 2)
        assert metrics.section().ratios["_profile_l1_f1"] == (2, 3)
        assert metrics.section().ratios["_profile_hit_rate"] == (1, 2)
        assert "_profile_l1_f1" not in metrics.section().values()

    def test_profile_quality_of_a_set_is_the_product_of_the_sets_figures(self) -> None:
        total = aggregate_l2([self.metrics(), self.metrics(hits=0)])
        assert total.profile_quality == (4 / 6) * (1 / 4)

    def test_profile_quality_needs_both(self) -> None:
        with_sections = compute_sections({"daily": {0: "basic"}}, {}, {})
        l1 = compute_l1([], [GtMemory("a", ("x",))])
        assert combine_l2(with_sections, None, None).profile_quality is None
        assert combine_l2(None, None, l1).profile_quality is None
        assert "_profile_l1_f1" not in l2_section(None, None, l1).ratios
        assert "_profile_l1_f1" not in l2_section(compute_sections({}, {}, {}), None, l1).ratios
        assert combine_l2(with_sections, None, l1).profile_quality == 0

    def test_halves_without_labels_are_left_out(self) -> None:
        only_sections = compute_l2(L2GroundTruth(template_section={"daily": {0: "basic"}}), {}, [], {})
        assert only_sections.scenes is None
        assert set(only_sections.section().ratios) == {
            "section_hit_rate",
            "section_miss_rate",
            "section_misentry_rate",
        }
        only_scenes = compute_l2(L2GroundTruth(("tea",)), {}, [], {})
        assert only_scenes.sections is None
        assert "total_evaluated" not in only_scenes.section().counts
        assert compute_l2(L2GroundTruth(), {}, [], {}).section().ratios == {}

    def test_an_unreached_memory_is_counted_once(self) -> None:
        assert compute_l2(self.truth, {}, [], {0: "a"}).section().counts["unreached"] == 1

    def test_every_name_is_in_the_catalog(self) -> None:
        record = self.metrics().section()
        shown = [name for name in (*record.ratios, *record.counts) if not name.startswith("_")]
        # Stability is a figure of several trials, profile quality one of two stages.
        elsewhere = {"profile_quality", "scene_stability"}
        assert {parse_path(f"l2.{name}").name for name in shown} | elsewhere == {spec.name for spec in metrics_of("l2")}

    def test_values_agree_with_the_properties(self) -> None:
        metrics = self.metrics()
        shown = metrics.section().values()
        for name in metrics.section().ratios:
            if not name.startswith("_"):
                part = metrics.sections if name.startswith("section") else metrics.scenes
                assert getattr(part, name) == shown[name]

    @given(st.lists(st.tuples(expectations, placements, live, groups, scene_lists), max_size=3))
    def test_aggregation(self, cases: list[Any]) -> None:
        each = [
            compute_l2(L2GroundTruth((), tuple(wanted), expected), placed, made, live_ids)
            for expected, placed, live_ids, wanted, made in cases
        ]
        for one in each:
            assert comparable(aggregate_l2([one])) == comparable(one)
        total = aggregate_l2(each)
        assert aggregate_l2(reversed(each)) == total
        for name, (numerator, denominator) in total.section().ratios.items():
            records = [one.section().ratios.get(name, (0, 0)) for one in each]
            assert (numerator, denominator) == (sum(r[0] for r in records), sum(r[1] for r in records))
