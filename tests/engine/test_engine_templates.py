from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from engine_helpers import NOW, bench, memory, message, run
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.registry import Dimension, Registry
from pytest_memeval.assets.templates import SectionQuery, SectionSpec, Template, Templates
from pytest_memeval.engine.protocol import StageError
from pytest_memeval.engine.reference.engine import ReferenceEngine
from pytest_memeval.engine.reference.inject import block_text
from pytest_memeval.estimates import text_tokens
from pytest_memeval.values import Block, Memory, Section

ENGINE = ReferenceEngine()
REGISTRY = Registry(
    dimensions=(
        Dimension("a"),
        Dimension("b"),
        Dimension("week", ttl_days=7),
        Dimension("month", ttl_days=30),
    )
)


def template(*queries: SectionQuery, exclusive: bool = True, budget: int | None = None) -> Templates:
    specs = tuple(SectionSpec(f"s{place}", f"Section {place}", query) for place, query in enumerate(queries))
    return Templates({"mode": Template("mode", "Mode", budget, exclusive, specs)})


def sections(memories: list[Memory], *queries: SectionQuery, exclusive: bool = True) -> list[tuple[str, ...]]:
    b = bench(registry=REGISTRY, templates=template(*queries, exclusive=exclusive))
    run(ENGINE.load(memories, [], b.ctx))
    found = run(ENGINE.query_template("mode", b.ctx))
    assert [section.id for section in found] == [f"s{place}" for place in range(len(queries))]
    return [section.memory_ids for section in found]


def aged(memory_id: str, days: float, *dimensions: str, **fields: Any) -> Memory:
    return memory(memory_id, "text", *dimensions, created_at=NOW - timedelta(days=days), **fields)


def query(*dimensions: str, **fields: Any) -> SectionQuery:
    return SectionQuery(dimensions, **fields)


MIXED = [memory("1", "x", "a"), memory("2", "x", "a", "b"), memory("3", "x", "b"), memory("4", "x")]


def test_match_all_and_any() -> None:
    assert sections(MIXED, query("a", "b", match="all")) == [("2",)]
    assert sections(MIXED, query("a", "b", match="any")) == [("1", "2", "3")]
    assert sections(MIXED, query("b", "b")) == [("2", "3")]
    assert sections(MIXED, query()) == [("1", "2", "3", "4")]


def test_a_memory_is_shown_once_in_the_first_section_that_claims_it() -> None:
    assert sections(MIXED, query("b"), query("a"), query("a", "b", match="any")) == [("2", "3"), ("1",), ()]
    assert sections(MIXED, query("b"), query("a"), exclusive=False) == [("2", "3"), ("1", "2")]


def test_a_memory_beyond_the_limit_is_free_for_later_sections() -> None:
    ranked = [memory(str(rank), "x", "a", priority=rank) for rank in (10, 30, 20)]
    assert sections(ranked, query("a", limit=1), query("a", limit=1), query("a")) == [("30",), ("20",), ("10",)]


def test_priority_order_with_ties_by_id_and_unknown_last() -> None:
    ranked = [
        memory("d", "x", "a"),
        memory("c", "x", "a", priority=50),
        memory("b", "x", "a", priority=50.5),
        memory("a", "x", "a", priority=50),
    ]
    assert sections(ranked, query("a")) == [("b", "a", "c", "d")]


def test_recent_order_with_ties_by_id() -> None:
    times = [aged("c", 2, "a"), aged("b", 0.5, "a"), aged("a", 2, "a"), memory("now", "x", "a")]
    assert sections(times, query("a", sort="recent")) == [("now", "b", "a", "c")]


def test_times_in_other_zones_are_compared_as_moments() -> None:
    east, west = (datetime.fromisoformat(f"2026-01-10T{clock}") for clock in ("18:00:00+08:00", "11:00:00+00:00"))
    memories = [memory("east", "x", "a", created_at=east), memory("west", "x", "a", created_at=west)]
    assert sections(memories, query("a", sort="recent")) == [("west", "east")]


def test_priority_min_leaves_out_lower_and_unknown() -> None:
    memories = [memory("1", "x", "a", priority=69.9), memory("2", "x", "a", priority=70), memory("3", "x", "a")]
    assert sections(memories, query("a", priority_min=70)) == [("2",)]


def test_the_time_window_counts_from_the_cases_clock() -> None:
    memories = [aged("old", 3.001, "a"), aged("edge", 3, "a"), aged("new", 0, "a")]
    assert sections(memories, query("a", time_window=timedelta(days=3))) == [("edge", "new")]
    assert sections(memories, query("a", time_window=timedelta(days=999_999_999))) == [("edge", "new", "old")]


def test_ttl_counts_by_the_dimensions_that_the_section_asks_for() -> None:
    memories = [
        aged("fresh", 6, "week"),
        aged("edge", 7, "week"),
        aged("stale", 8, "week"),
        aged("month", 8, "week", "month"),
        aged("forever", 800, "a", "week"),
        aged("untagged", 800),
    ]
    assert sections(memories, query("week", ttl_filter=True)) == [("edge", "fresh")]
    # The longest life among the dimensions asked for decides, and one without a TTL never ends.
    both = query("week", "month", match="any", ttl_filter=True)
    assert sections(memories, both) == [("edge", "fresh", "month")]
    assert sections(memories, query("week", "a", match="any", ttl_filter=True)) == [("edge", "forever", "fresh")]
    assert sections(memories, query(ttl_filter=True)) == [("edge", "forever", "fresh", "month", "untagged")]
    assert sections(memories, query("week")) == [("edge", "forever", "fresh", "month", "stale")]


def test_archived_memories_are_not_shown() -> None:
    b = bench([{"memory_index": 0, "action": "merge", "target_ids": ["old"], "merged_content": "both"}])
    run(ENGINE.load([memory("old", "x", "identity")], [], b.ctx))
    (decision,) = run(ENGINE.resolve([memory("new", "y", "identity")], b.ctx))
    first = run(ENGINE.query_template("daily", b.ctx))[0]
    assert first == Section("basic_info", "👤 基本信息", (decision.result_id,))


@pytest.mark.parametrize("mode", ["daily", "coding", "work", "full"])
def test_shipped_modes_give_all_sections_of_an_empty_store(mode: str) -> None:
    b = bench()
    spec = b.ctx.templates.get(mode)
    assert spec is not None
    found = run(ENGINE.query_template(mode, b.ctx))
    assert [section.id for section in found] == [section.id for section in spec.sections]
    assert all(section.memory_ids == () for section in found)
    assert all(not block.present for block in run(ENGINE.inject(mode, [], b.ctx)))


@pytest.mark.parametrize("call", [lambda b: ENGINE.query_template("dayly", b), lambda b: ENGINE.inject("dayly", [], b)])
def test_an_unknown_mode_names_the_nearest(call: Any) -> None:
    with pytest.raises(StageError, match="did you mean 'daily'") as caught:
        run(call(bench().ctx))
    assert caught.value.kind == "unknown_mode"


ids = st.lists(st.text(alphabet="abc'\";%#１é", min_size=1, max_size=4), unique=True, max_size=12)
tags = st.lists(st.sampled_from(["a", "b", "week"]), unique=True, max_size=3)


@given(st.data(), ids, st.booleans())
def test_sections_agree_with_plain_python(data: st.DataObject, names: list[str], exclusive: bool) -> None:
    memories = [
        memory(
            name,
            "x",
            *data.draw(tags),
            priority=data.draw(st.none() | st.integers(0, 3)),
            created_at=NOW - timedelta(days=data.draw(st.integers(0, 10))),
        )
        for name in names
    ]
    queries = data.draw(
        st.lists(
            st.builds(
                SectionQuery,
                dimensions=tags.map(tuple),
                match=st.sampled_from(["all", "any"]),
                priority_min=st.none() | st.just(2.0),
                time_window=st.none() | st.just(timedelta(days=5)),
                sort=st.sampled_from(["priority", "recent"]),
                limit=st.none() | st.integers(1, 3),
            ),
            min_size=1,
            max_size=3,
        )
    )
    claimed: set[str] = set()
    expected = []
    for q in queries:
        fits = all if q.match == "all" else any
        kept = [
            m
            for m in memories
            if (not q.dimensions or fits(d in m.dimensions for d in q.dimensions))
            and (q.priority_min is None or (m.priority is not None and m.priority >= q.priority_min))
            and (q.time_window is None or (m.created_at or NOW) >= NOW - q.time_window)
            and not (exclusive and m.id in claimed)
        ]
        kept.sort(key=lambda m: str(m.id).encode())
        if q.sort == "recent":
            kept.sort(key=lambda m: m.created_at or NOW, reverse=True)
        else:
            kept.sort(key=lambda m: (m.priority is None, -(m.priority or 0)))
        chosen = tuple(str(m.id) for m in kept[: q.limit])
        claimed.update(chosen)
        expected.append(chosen)
    assert sections(memories, *queries, exclusive=exclusive) == expected


# --- injection ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("用户养了一只猫", 7), ("用 Go", 2), ("日本，", 3), ("ｶﾅ", 1)],
)
def test_token_estimates(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def injected(memories: list[Memory], *queries: SectionQuery, budget: int | None) -> list[Block]:
    b = bench(registry=REGISTRY, templates=template(*queries, budget=budget))
    run(ENGINE.load(memories, [], b.ctx))
    return run(ENGINE.inject("mode", [message(1, "anything")], b.ctx))


def test_blocks_follow_the_template_and_empty_ones_are_not_present() -> None:
    memories = [memory("1", "lives in\nLisbon", "b"), memory("2", "drinks tea", "b", priority=9)]
    assert injected(memories, query("a"), query("b"), budget=None) == [
        Block("Section 0", (), False, ""),
        Block("Section 1", ("2", "1"), True, "Section 1\n- drinks tea\n- lives in Lisbon"),
    ]


def test_a_section_over_the_budget_keeps_what_matters_most_in_its_order() -> None:
    memories = [
        aged("new", 0, "a", priority=1),
        aged("mid", 1, "a", priority=90),
        aged("old", 2, "a", priority=80),
    ]
    kept = [memories[1], memories[2]]
    exact = text_tokens(block_text("Section 0", kept))
    (block,) = injected(memories, query("a", sort="recent"), budget=exact)
    assert block == Block("Section 0", ("mid", "old"), True, "Section 0\n- text\n- text")
    (block,) = injected(memories, query("a", sort="recent"), budget=exact - 1)
    assert block.memory_ids == ("mid",)


def test_a_section_of_which_nothing_fits_is_left_out_and_later_ones_may_fit() -> None:
    memories = [memory("long", "x" * 400, "a"), memory("short", "y", "b")]
    blocks = injected(memories, query("a"), query("b"), budget=20)
    assert [(block.present, block.memory_ids) for block in blocks] == [(False, ()), (True, ("short",))]


@given(
    st.lists(st.tuples(st.text(alphabet="ab 猫\n", min_size=1, max_size=30), st.integers(0, 5)), max_size=8),
    st.integers(0, 60),
)
def test_present_blocks_never_exceed_the_budget(texts: list[tuple[str, int]], budget: int) -> None:
    memories = [
        memory(f"m{place}", content, "a" if place % 2 else "b", priority=priority)
        for place, (content, priority) in enumerate(texts)
    ]
    blocks = injected(memories, query("a"), query("b"), budget=budget)
    assert sum(text_tokens(block.text) for block in blocks) <= budget
    assert all(block.present == bool(block.memory_ids) == bool(block.text) for block in blocks)


def test_the_clock_is_the_contexts() -> None:
    b = bench(
        registry=REGISTRY, templates=template(query("week", ttl_filter=True)), clock=datetime(2030, 1, 1, tzinfo=UTC)
    )
    run(ENGINE.load([aged("1", 0, "week")], [], b.ctx))
    assert run(ENGINE.query_template("mode", b.ctx))[0].memory_ids == ()
