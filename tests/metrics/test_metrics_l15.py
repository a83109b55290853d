from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.models import GtConflictAction
from pytest_memeval.metrics.catalog import metrics_of
from pytest_memeval.metrics.l15 import L15Metrics, aggregate_l15, compute_l15
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.values import ACTIONS, Decision

ids = st.lists(st.sampled_from(["m1", "m2", "m3"]), max_size=2).map(tuple)
contents = st.sampled_from([None, "likes tea", "likes teas", "lives in Oslo"])
labelled_actions = st.lists(
    st.builds(
        GtConflictAction,
        new_memory_index=st.integers(0, 3),
        action=st.sampled_from(ACTIONS),
        candidate_ids=ids,
        merged_content=contents,
    ),
    max_size=4,
)
decision_lists = st.lists(
    st.builds(
        Decision,
        memory_index=st.integers(-1, 4),
        action=st.sampled_from([*ACTIONS, "drop"]),
        target_ids=ids,
        merged_content=contents,
    ),
    max_size=6,
)
reached_maps = st.dictionaries(st.integers(0, 3), st.integers(0, 3), max_size=4)


def wanted(index: int, action: str, *targets: str, merged: str | None = None) -> GtConflictAction:
    return GtConflictAction(index, action, targets, merged)


def given_decision(index: int, action: str, *targets: str, merged: str | None = None) -> Decision:
    return Decision(index, action, targets, merged)


def comparable(metrics: L15Metrics) -> tuple[Any, ...]:
    section = metrics.section()
    return section.ratios, section.counts, section.tables


@given(labelled_actions, decision_lists, reached_maps)
def test_identities(actions: list[GtConflictAction], decisions: list[Decision], reached: dict[int, int]) -> None:
    metrics = compute_l15(actions, decisions, reached=reached, valid_target_ids={"m1", "m2"})
    assert metrics.labelled == len(actions)
    assert metrics.decisions_right <= metrics.actions_right <= metrics.reached <= metrics.labelled
    assert metrics.merged_right <= metrics.merged_labelled <= metrics.actions_right
    assert metrics.reached + metrics.unreached == metrics.labelled
    assert sum(one[0] for one in metrics.per_action.values()) == metrics.labelled
    assert sum(one[2] for one in metrics.per_action.values()) == metrics.actions_right
    assert sum(metrics.confusions.values()) == metrics.labelled - metrics.actions_right
    assert 0 <= metrics.bad_decisions <= len(decisions)
    for numerator, denominator in metrics.section().ratios.values():
        assert 0 <= numerator <= denominator
    json.dumps(metrics.section().to_json(), allow_nan=False)


@given(labelled_actions, decision_lists, reached_maps, st.randoms(use_true_random=False))
def test_order_of_labels_does_not_matter(
    actions: list[GtConflictAction], decisions: list[Decision], reached: dict[int, int], rng: random.Random
) -> None:
    shuffled = actions[:]
    rng.shuffle(shuffled)
    assert comparable(compute_l15(shuffled, decisions, reached=reached)) == comparable(
        compute_l15(actions, decisions, reached=reached)
    )


@given(st.lists(st.tuples(labelled_actions, decision_lists, reached_maps), max_size=3))
def test_aggregation(cases: list[tuple[list[GtConflictAction], list[Decision], dict[int, int]]]) -> None:
    each = [compute_l15(actions, decisions, reached=reached) for actions, decisions, reached in cases]
    total = aggregate_l15(each)
    for one in each:
        assert comparable(aggregate_l15([one])) == comparable(one)
    assert aggregate_l15(reversed(each)) == total
    assert total.labelled == sum(one.labelled for one in each)
    assert total.bad_decisions == sum(one.bad_decisions for one in each)
    assert sum(total.confusions.values()) == sum(sum(one.confusions.values()) for one in each)


def test_known_case() -> None:
    actions = [
        wanted(0, "store"),
        wanted(1, "update", "m1", merged="likes green tea"),
        wanted(2, "merge", "m2", "m3", merged="works in Oslo as a cook"),
        wanted(3, "skip", "m4"),
        wanted(4, "update", "m5"),
    ]
    decisions = [
        given_decision(0, "store"),
        given_decision(1, "store"),
        given_decision(2, "merge", "m3", "m2", merged="works in Oslo as cook"),
        given_decision(3, "skip", "m1"),
    ]
    # The labelled memories 2 and 3 were extracted in the other order, 4 was not extracted.
    metrics = compute_l15(actions, decisions, reached={0: 0, 1: 1, 2: 2, 3: 3})
    assert metrics.action_accuracy == 3 / 5
    assert metrics.decision_accuracy == 2 / 5
    assert metrics.action_accuracy_reached == 3 / 4
    assert metrics.decision_accuracy_reached == 2 / 4
    assert metrics.merged_content_match == 1
    assert metrics.unreached == 1
    assert metrics.bad_decisions == 0
    assert metrics.confusions == {"update→none": 1, "update→store": 1}
    assert metrics.action_precision == {"merge": 1, "skip": 1, "store": 1 / 2, "update": None}
    assert metrics.action_recall == {"merge": 1, "skip": 1, "store": 1, "update": 0}
    section = metrics.section()
    assert section.tables["per_action_counts"]["update.labelled"] == 2
    assert section.tables["per_action_counts"]["store.decided"] == 2
    assert section.ratios["action_precision.store"] == (1, 2)
    assert section.details["actions"][3]["expected_targets"] == ["m4"]
    for name in (*section.ratios, *section.counts):
        assert parse_path(f"l15.{name}").name == name
    assert {name.partition(".")[0] for name in (*section.ratios, *section.counts)} == {
        spec.name for spec in metrics_of("l15")
    }


def test_decisions_are_found_through_the_l1_match() -> None:
    actions = [wanted(0, "skip", "m1"), wanted(1, "store")]
    decisions = [given_decision(0, "store"), given_decision(1, "skip", "m1")]
    assert compute_l15(actions, decisions, reached={0: 1, 1: 0}).decision_accuracy == 1
    assert compute_l15(actions, decisions, reached={0: 0, 1: 1}).decision_accuracy == 0


def test_a_reached_memory_without_decision_is_wrong_everywhere() -> None:
    metrics = compute_l15([wanted(0, "store")], [], reached={0: 0})
    assert metrics.action_accuracy == metrics.action_accuracy_reached == 0
    assert metrics.confusions == {"store→none": 1}


def test_f18_no_labels() -> None:
    metrics = compute_l15([], [given_decision(0, "store")], reached={})
    assert (metrics.action_accuracy, metrics.decision_accuracy, metrics.merged_content_match) == (None, None, None)
    nothing = aggregate_l15([])
    assert nothing.action_accuracy is None
    assert nothing.unreached == 0


def test_store_has_no_targets() -> None:
    metrics = compute_l15([wanted(0, "store")], [given_decision(0, "store", "m1")], reached={0: 0})
    assert metrics.decision_accuracy == 1


def test_targets_are_sets() -> None:
    actions = [wanted(0, "merge", "m1", "m2")]
    for targets, right in ((("m2", "m1", "m1"), 1), (("m1",), 0), (("m1", "m2", "m3"), 0)):
        metrics = compute_l15(actions, [given_decision(0, "merge", *targets)], reached={0: 0})
        assert (metrics.action_accuracy, metrics.decision_accuracy) == (1, right)


def test_f29_an_invented_id_is_bad_and_the_valid_decision_counts() -> None:
    actions = [wanted(0, "update", "m1"), wanted(1, "update", "m2")]
    decisions = [given_decision(0, "update", "99"), given_decision(1, "update", "m2")]
    metrics = compute_l15(actions, decisions, reached={0: 0, 1: 1}, valid_target_ids={"m1", "m2"})
    assert metrics.bad_decisions == 1
    assert metrics.decision_accuracy == 1 / 2
    assert metrics.confusions == {"update→none": 1}


def test_f29_bad_decisions() -> None:
    decisions = [
        given_decision(0, "forget"),  # unknown action
        given_decision(0, "store"),
        given_decision(0, "skip", "m1"),  # a second one
        given_decision(-1, "store"),
        given_decision(7, "store"),
    ]
    metrics = compute_l15([wanted(0, "store")], decisions, reached={0: 0}, bad_decisions=2, memory_count=1)
    assert metrics.action_accuracy == 1
    assert metrics.bad_decisions == 2 + 4


def test_merged_content() -> None:
    def match(given: str | None, *, action: str = "update", threshold: float = 0.5) -> float | None:
        return compute_l15(
            [wanted(0, "update", "m1", merged="likes green tea")],
            [given_decision(0, action, "m1", merged=given)],
            reached={0: 0},
            threshold=threshold,
        ).merged_content_match

    assert match("likes green teas") == 1
    assert match("likes green teas", threshold=0.99) == 0
    assert match("works in Oslo") == 0
    assert match(None) == 0
    assert match("likes green tea", action="merge") is None  # only where the action was right


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        compute_l15([], [], reached={}, bad_decisions=-1)
