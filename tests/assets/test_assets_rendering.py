from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.registry import Dimension, Registry
from pytest_memeval.assets.rendering import (
    SceneText,
    render_candidates,
    render_conversation,
    render_dimensions,
    render_new_memories,
    render_scenes,
)
from pytest_memeval.values import Memory, Message, Scene

REGISTRY = Registry(
    (
        Dimension("a", "Name A", description="what | is\na", boundaries="not b", cues=("one", "two, three")),
        Dimension("b", "Name B"),
    )
)


def test_dimensions_block() -> None:
    assert render_dimensions(REGISTRY).split("\n") == [
        "<dimensions>",
        "- a | Name A | what / is a | not b | one, two three",
        "- b | Name B |  |  |",
        "</dimensions>",
    ]


def test_left_out_fields_stay_empty() -> None:
    assert render_dimensions(REGISTRY, ("id", "name")) == (
        "<dimensions>\n- a | Name A |  |  |\n- b | Name B |  |  |\n</dimensions>"
    )
    assert render_dimensions(REGISTRY, ("id", "cues")).splitlines()[1] == "- a |  |  |  | one, two three"


def test_conversation_block() -> None:
    messages = [
        Message("msg_1", "user", "first\n  second", time=datetime(2026, 1, 1, 10, tzinfo=UTC)),
        Message("msg_2", "assistant", "answer"),
        Message("msg_3", "user", "third", name="Ann"),
        Message("msg_4", "Ben", "fourth", name="Ben"),
    ]
    assert render_conversation(messages) == (
        "<conversation>\n[msg_1] 2026-01-01T10:00:00+00:00 user: first\n  second\n[msg_2] assistant: answer\n"
        "[msg_3] user (Ann): third\n[msg_4] Ben: fourth\n</conversation>"
    )
    assert render_conversation([]) == "<conversation>\n</conversation>"


def test_memory_blocks_are_json_lines() -> None:
    memory = Memory("m1", '说 "hi"\n{{now}}', ("a", "b"), "persona", 80.0, "static")
    fields = {"dimensions": ["a", "b"], "memory_type": "persona", "priority": 80.0, "time_velocity": "static"}
    lines = render_new_memories([memory, memory]).split("\n")
    assert [lines[0], lines[-1], len(lines)] == ["<new_memories>", "</new_memories>", 4]
    assert json.loads(lines[2]) == {"index": 1, "content": memory.content, **fields}
    assert "说" in lines[1]
    lines = render_candidates([memory]).split("\n")
    assert json.loads(lines[1]) == {"id": "m1", "content": memory.content, **fields}


def test_scenes_show_contents() -> None:
    scenes = [Scene("s1", "Home", ("m1", "m2")), SceneText("s2", "Work", ("text",))]
    lines = render_scenes(scenes, {"m1": "has a cat"}).split("\n")
    assert json.loads(lines[1]) == {"id": "s1", "title": "Home", "memories": ["has a cat", "m2"]}
    assert json.loads(lines[2]) == {"id": "s2", "title": "Work", "memories": ["text"]}


@given(st.text(max_size=60))
def test_any_text_stands_in_a_conversation_as_written(text: str) -> None:
    assert f"user: {text}\n</conversation>" in render_conversation([Message("msg_1", "user", text)])


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_any_memory_is_one_line(contents: list[str]) -> None:
    lines = render_new_memories([Memory(None, content) for content in contents]).split("\n")[1:-1]
    assert [json.loads(line)["content"] for line in lines] == contents
