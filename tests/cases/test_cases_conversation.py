from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.conversation import ConversationError, Fault, parse_conversation, parse_time
from pytest_memeval.values import Message

SHANGHAI = ZoneInfo("Asia/Shanghai")
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)


def faults_of(conversation: str | list[Any]) -> tuple[Fault, ...]:
    with pytest.raises(ConversationError) as caught:
        parse_conversation(conversation, UTC)
    return caught.value.faults


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("[msg#1] 2026-01-01T10:00:00Z user: hi", Message("msg_1", "user", "hi", None, TEN)),
        ("[msg#1] 2026-01-01T10:00Z Assistant: hi", Message("msg_1", "assistant", "hi", None, TEN)),
        ("[msg#1] 2026-01-01 18:00:00+08:00 user: hi", Message("msg_1", "user", "hi", None, TEN)),
        ("[msg#1] [2026-01-01T10:00:00Z] [user]: hi", Message("msg_1", "user", "hi", None, TEN)),
        ("[msg#a7] user: at 10:30: hi", Message("msg_a7", "user", "at 10:30: hi")),
        ("[msg#1] 2026-01-01T10:00:00Z: hi", Message("msg_1", "user", "hi", None, TEN)),
        ("[msg#1]: hi", Message("msg_1", "user", "hi")),
        ("[msg#1] 张明：你好", Message("msg_1", "user", "你好", "张明")),
        ("[msg#1] 助手: hi", Message("msg_1", "assistant", "hi")),
        ("[msg#1] 42: hi", Message("msg_1", "user", "hi", "42")),
        ("[msg#1] 007 Bond: hi", Message("msg_1", "user", "hi", "007 Bond")),
        ("[msg#1] 100200300: hi", Message("msg_1", "user", "hi", "100200300")),
        ("[msg#1] user: [message 2] and\n[msgs]", Message("msg_1", "user", "[message 2] and\n[msgs]")),
        ("[msg#1] Mary Ann Smith: hi", Message("msg_1", "user", "hi", "Mary Ann Smith")),
    ],
)
def test_headers(header: str, expected: Message) -> None:
    (message,) = parse_conversation(header, UTC)
    assert message == expected
    # Aware times are equal in any zone; the one written is kept.
    if "+08:00" in header:
        assert message.time is not None
        assert str(message.time.tzinfo) == "UTC+08:00"


def test_content_on_the_following_lines_loses_its_common_indentation() -> None:
    text = """\
[msg#1] user: look
  at this:

    def f():
        return [msg#2]
  done

[msg#2] assistant:

  ok [msg#3] user: no header
  [msg#4] user: none either
[msg#5] user:
"""
    assert [(message.id, message.content) for message in parse_conversation(text, UTC)] == [
        ("msg_1", "look\nat this:\n\n  def f():\n      return [msg#2]\ndone"),
        ("msg_2", "ok [msg#3] user: no header\n[msg#4] user: none either"),
        ("msg_5", ""),
    ]


def test_an_indented_conversation_is_dedented_as_a_whole() -> None:
    messages = parse_conversation("  [msg#1] user:\n    a\n  [msg#2] user: b\n", UTC)
    assert [message.content for message in messages] == ["a", "b"]


def test_text_without_headers_is_one_message() -> None:
    assert parse_conversation("  I like tea\nand coffee\n", UTC) == (
        Message("msg_1", "user", "  I like tea\nand coffee"),
    )
    assert parse_conversation("", UTC) == parse_conversation(" \n", UTC) == parse_conversation([], UTC) == ()


def test_f31_braces_stay_as_written() -> None:
    text = "{braces} %s {{conversation}} $x \\d"
    (message,) = parse_conversation(f"[msg#1] user: {text}", UTC)
    assert message.content == text


def test_times_without_zone_are_in_the_sets_zone() -> None:
    (message,) = parse_conversation("[msg#1] 2026-01-01T18:00:00 user: hi", SHANGHAI)
    assert message.time == TEN
    (message,) = parse_conversation([{"role": "user", "content": "hi", "time": "2026-01-01 18:00"}], SHANGHAI)
    assert message.time == TEN
    assert parse_time("2026-01-01", SHANGHAI) == datetime(2026, 1, 1, tzinfo=SHANGHAI)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[msg#1] 2026-13-01T10:00:00Z user: x", 0, "'2026-13-01T10:00:00Z' is not an ISO time"),
        ("[msg#1] user: x\n[msg#2] 2023/05/20 02:21 user: y", 1, "is not an ISO time"),
        ("[msg#1] May 8 1:56 pm user: x", 0, "is not an ISO time"),
        ("[msg#1] 2026 user: x", 0, "is not an ISO time"),
        ("[msg#1] 2026: x", 0, "is not an ISO time"),
        ("[msg#1] 20260101 user: x", 0, "is not an ISO time"),
        ("[msg#1] 1767261600 user: x", 0, "is not an ISO time"),
        ("[msg#1] user: x\n\n[msg 2] user: y", 2, "'[msg 2]' looks like a message header, which is written [msg#N]"),
        ("[msg#1] user: x\n[msg_2] user: y", 1, "'[msg_2]' looks like"),
        ("[msg#1] user: x\n[MSG#2] user: y\n[msg#3] user: z", 1, "'[MSG#2]' looks like"),
        ("[ msg#1] user: x", 0, "'[ msg#1]' looks like"),
        ("[msg2] user: x\n[msg#3] user: y", 0, "'[msg2]' looks like"),
        ("  [Msg#1] user: x\n    y", 0, "'[Msg#1]' looks like"),
        ("[msg#1] user x", 0, "needs a colon"),
        ("[msg#] user: x", 0, "needs a number"),
        ("[msg#1] user: x\n[msg#1] user: y", 1, "a second message [msg#1]"),
        ("\nhello\n[msg#1] user: x", 1, "text before the first message header"),
    ],
)
def test_unreadable_text(text: str, line: int, said: str) -> None:
    (fault,) = faults_of(text)
    assert fault.line == line
    assert said in fault.text


def test_native_messages() -> None:
    entries = [
        {"id": "a", "role": "user", "name": "Ann", "content": "hi", "time": "2026-01-01T10:00:00Z", "extra": {"k": 1}},
        {"role": "narrator", "name": "N", "content": ""},
        {"role": "Bob", "content": "yo"},
        {"content": "no role"},
    ]
    assert parse_conversation(entries, UTC) == (
        Message("a", "user", "hi", "Ann", TEN, {"k": 1}),
        Message("msg_2", "narrator", "", "N"),
        Message("msg_3", "user", "yo", "Bob"),
        Message("msg_4", "user", "no role"),
    )


def test_openai_messages() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    entries = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "see"}, image, {"type": "text", "text": "this"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    assert parse_conversation(entries, UTC) == (
        Message("msg_1", "system", "be kind"),
        Message("msg_2", "user", "see\nthis", extra={"parts": [image]}),
        Message("msg_3", "assistant", "", extra={"tool_calls": [call]}),
        Message("msg_4", "tool", "42", extra={"tool_call_id": "c1"}),
    )


def test_sharegpt_messages() -> None:
    entries = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}, {"from": "system", "value": "s"}]
    assert [(message.role, message.name, message.content) for message in parse_conversation(entries, UTC)] == [
        ("user", None, "hi"),
        ("assistant", None, "hello"),
        ("system", None, "s"),
    ]


def test_unreadable_lists_name_every_message_at_fault() -> None:
    faults = faults_of(
        [
            {"id": "x", "content": "a"},
            {"id": "x", "content": "b"},
            {"role": "user"},
            {"roel": "user", "content": "c"},
            {"content": "d", "time": "soon"},
            {"content": [3]},
            {"content": {"a": 1}},
            "text",
        ]
    )
    assert [(fault.message, fault.key, fault.structural) for fault in faults] == [
        (1, "id", False),
        (2, None, False),
        (3, "roel", True),
        (4, "time", False),
        (5, "content", False),
        (6, "content", False),
        (7, None, False),
    ]
    assert "did you mean 'role'?" in faults[2].text


@given(st.lists(st.text(), max_size=5))
def test_contents_of_lists_stay_as_they_are(contents: list[str]) -> None:
    messages = parse_conversation([{"role": "user", "content": content} for content in contents], UTC)
    assert [message.content for message in messages] == contents


@given(st.text())
def test_arbitrary_text_is_read_or_refused(text: str) -> None:
    for source in (text, f"[msg#1] {text}", f"[msg#1] user:\n{text}"):
        try:
            messages = parse_conversation(source, UTC)
        except ConversationError as error:
            faults = error.faults
        else:
            faults = ()
            assert len({message.id for message in messages}) == len(messages)
        assert all(fault.text for fault in faults)
