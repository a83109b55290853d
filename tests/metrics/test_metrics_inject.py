from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.catalog import metrics_of
from pytest_memeval.metrics.inject import InjectMetrics, aggregate_inject, compute_inject, inject_section
from pytest_memeval.values import Block

ids = st.sampled_from(["a", "b", "c", "d"])
block_lists = st.lists(
    st.builds(Block, st.text(max_size=3), st.lists(ids, max_size=4).map(tuple), st.booleans(), st.just("")), max_size=5
)


def block(*memory_ids: str, present: bool = True, title: str = "T") -> Block:
    return Block(title, memory_ids, present, "")


@given(block_lists, st.lists(ids), st.integers(0, 2))
def test_identities(blocks: list[Block], referenced: list[str], unreached: int) -> None:
    metrics = compute_inject(blocks, referenced, unreached=unreached)
    assert metrics.blocks_relevant <= metrics.blocks_present == sum(one.present for one in blocks)
    assert metrics.injected <= metrics.referenced == len(set(referenced)) + unreached
    assert (metrics.injected == 0) == (metrics.blocks_relevant == 0)
    assert compute_inject(blocks[::-1], referenced[::-1], unreached=unreached).injected == metrics.injected
    for value in inject_section(metrics, metrics).values().values():
        assert value is None or 0 <= value <= 1
    json.dumps(inject_section(metrics, metrics).to_json(), allow_nan=False)


@given(st.lists(st.tuples(block_lists, st.lists(ids)), max_size=4))
def test_aggregation(cases: list[tuple[list[Block], list[str]]]) -> None:
    each = [compute_inject(*case) for case in cases]
    for one in each:
        assert inject_section(aggregate_inject([one]), None).ratios == inject_section(one, None).ratios
    total = aggregate_inject(each)
    assert aggregate_inject(reversed(each)) == total
    assert total.referenced == sum(one.referenced for one in each)


def test_known_case() -> None:
    blocks = [block("a", "x"), block("y"), block("b", present=False), block("a", "c")]
    metrics = compute_inject(blocks, ["a", "b", "c", "c"])
    assert metrics.inject_hit_rate == 2 / 3
    assert metrics.reference_coverage == 2 / 3
    assert metrics.details["missed"] == ["b"]


def test_an_unreached_memory_is_referenced_and_not_injected() -> None:
    assert compute_inject([block("a")], ["a"], unreached=1).reference_coverage == 1 / 2
    with pytest.raises(ValueError, match="negative"):
        compute_inject([], [], unreached=-1)


def test_f18_nothing_present_or_nothing_referenced() -> None:
    nothing = compute_inject([], [])
    assert (nothing.inject_hit_rate, nothing.reference_coverage) == (None, None)
    left_out = compute_inject([block("a", present=False)], ["a"])
    assert (left_out.inject_hit_rate, left_out.reference_coverage) == (None, 0)
    unreferenced = compute_inject([block("a")], [])
    assert (unreferenced.inject_hit_rate, unreferenced.reference_coverage) == (0, None)


def test_section() -> None:
    labelled, pipeline = InjectMetrics(4, 3, 2, 1), InjectMetrics(5, 1, 2, 0)
    record = inject_section(labelled, pipeline)
    wanted = {
        "inject_hit_rate": (3, 4),
        "reference_coverage": (1, 2),
        "pipeline_hit_rate": (1, 5),
        "pipeline_coverage": (0, 2),
    }
    assert {name: record.ratios[name] for name in wanted} == wanted
    assert {*record.ratios, *record.counts} == {spec.name for spec in metrics_of("inject")}
    assert not any(name.startswith("pipeline") for name in inject_section(labelled, None).ratios)
    assert set(inject_section(None, pipeline).details) == {"pipeline"}


def test_repeated_memories_are_redundant() -> None:
    twice = compute_inject([block("a", "b"), block("b", "c"), block("c", present=False)], ["a"])
    assert (twice.placements, twice.repeated, twice.redundancy) == (4, 1, 0.25)
    assert twice.details["repeated"] == ["b"]
    assert compute_inject([block("a", "b")], []).redundancy == 0
    assert compute_inject([], []).redundancy is None


def test_tokens_are_counted_against_the_budget() -> None:
    first, second = Block("A", ("a",), True, "abcdefgh"), Block("B", ("b",), True, "喜欢喝茶")
    left_out = Block("C", ("c",), False, "")
    within = compute_inject([first, second, left_out], ["a"], budget=10)
    assert (within.tokens, within.tokens_per_block, within.budget_use, within.over_budget) == (6, 3, 0.6, 0)
    assert within.details["block_tokens"] == [2, 4]
    beyond = compute_inject([first, second], ["a"], budget=5)
    assert (beyond.budget_use, beyond.over_budget) == (1.2, 1)
    both = aggregate_inject([within, beyond])
    assert (both.budget_use, both.over_budget, both.tokens_per_block) == (12 / 15, 1, 3)
    assert compute_inject([first], ["a"]).budget_use is None
    # What has no text cannot be counted, and part of the blocks is no ground to judge a budget.
    unknown = compute_inject([first, Block("B", ("b",), True, "")], ["a"], budget=1)
    assert (unknown.tokens_per_block, unknown.budget_use, unknown.over_budget) == (2, None, 0)
