"""The memories that come with the package."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_memeval.datasets.models import Session
from pytest_memeval.qa.memories import (
    MEMORIES,
    Bm25Memory,
    FullContextMemory,
    NullMemory,
    RecentMemory,
    VectorMemory,
    build_memory,
)
from pytest_memeval.qa.memory import as_hits, sources_of, turn_text
from pytest_memeval.values import Hit, Message

TIME = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
MESSAGES = (
    Message("D1:1", "user", "I adopted a cat called Miso.", "Ann", TIME),
    Message("D1:2", "user", "My boat is red.", "Ben", TIME),
    Message("D1:3", "user", "我最近养了一只猫。", "安", TIME),
    Message("D1:4", "user", "Lunch was fine.", None, None),
)
SESSION = Session("D1", MESSAGES, TIME)


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_every_memory_forgets_when_reset(name: str) -> None:
    memory = build_memory(name)
    assert memory.name == name
    memory.ingest_session(SESSION)
    memory.flush()
    memory.retrieve("cat")
    memory.reset()
    assert list(memory.retrieve("cat boat 猫")) == []
    memory.ingest(MESSAGES[1])
    assert sources_of(memory.retrieve("red boat")) == ([] if name == "null" else ["D1:2"])


@pytest.mark.parametrize("memory", [Bm25Memory(), VectorMemory()])
@pytest.mark.parametrize(("query", "first"), [("the name of the cat", "D1:1"), ("red boat", "D1:2"), ("猫", "D1:3")])
def test_searching_memories_find(memory: Bm25Memory | VectorMemory, query: str, first: str) -> None:
    memory.reset()
    memory.ingest_session(SESSION)
    assert sources_of(memory.retrieve(query))[0] == first
    # A later message is found too.
    memory.ingest(Message("D2:1", "user", "The zeppelin landed."))
    assert sources_of(memory.retrieve("zeppelin"))[0] == "D2:1"


@pytest.mark.parametrize("memory", [Bm25Memory(1), VectorMemory(1), RecentMemory(1)])
def test_k_is_the_number_of_messages(memory: Bm25Memory | VectorMemory | RecentMemory) -> None:
    memory.reset()
    memory.ingest_session(SESSION)
    assert len(memory.retrieve("cat boat lunch")) == 1
    with pytest.raises(ValueError, match="at least 1"):
        type(memory)(0)


def test_memories_that_do_not_search() -> None:
    everything, recent, nothing = FullContextMemory(), RecentMemory(2), NullMemory()
    for memory in (everything, recent, nothing):
        memory.ingest_session(SESSION)
    assert sources_of(everything.retrieve("x")) == ["D1:1", "D1:2", "D1:3", "D1:4"]
    assert sources_of(recent.retrieve("x")) == ["D1:3", "D1:4"]
    assert nothing.retrieve("cat") == []


def test_a_line_of_context_says_when_and_who() -> None:
    assert turn_text(MESSAGES[0]) == "[2023-05-08 13:56] Ann: I adopted a cat called Miso."
    assert turn_text(MESSAGES[3]) == "user: Lunch was fine."


def test_what_a_memory_may_return() -> None:
    assert as_hits([]) == []
    assert as_hits("  ") == []
    assert as_hits("a fact") == [Hit("", None, "a fact")]
    assert as_hits(["a", {"id": 7, "content": "b", "source_ids": ["D1:1"]}]) == [
        Hit("", None, "a"),
        Hit("7", None, "b", ("D1:1",)),
    ]
    for wrong in (None, 3, [3], [None], {"content": "x"}):
        with pytest.raises(TypeError, match="retrieve returned"):
            as_hits(wrong)


@pytest.mark.parametrize(
    ("hit", "what"),
    [
        ({"content": "x", "source_id": ["D1:1"]}, "unknown key 'source_id'; did you mean 'source_ids'"),
        ({"content": "x", "source_ids": None}, "source_ids must be a list, got None"),
        ({"content": "x", "source_ids": "D1:1"}, "source_ids must be a list, got str 'D1:1'"),
        ({"content": 5}, "content must be text, got int 5"),
        ({"id": "D1:1", "score": 1.0}, "'content' is missing"),
        ({"content": "x", "score": "high"}, "score must be a number, got str 'high'"),
        (Hit("a", float("nan"), "x"), "score must be a finite number, got nan"),
    ],
)
def test_a_hit_with_a_wrong_key_or_value_is_none(hit: Any, what: str) -> None:
    with pytest.raises(TypeError, match=f"retrieve returned a hit at place 1 .*{what}"):
        as_hits(["fine", hit])


def test_sources_are_messages_each_once() -> None:
    assert sources_of([Hit("m1", 1, "", ("D1:2", "D1:1")), Hit("D1:1", 0.5), Hit("", 0.2, "text")]) == ["D1:2", "D1:1"]
