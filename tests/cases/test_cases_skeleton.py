from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.models import EvalCase
from pytest_memeval.cases.skeleton import Masking, prepare, read_conversations, skeleton
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.values import Message

PATH = Path("chat.txt")
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def read(text: str) -> list[tuple[str, str, str | None]]:
    (messages,) = read_conversations(text, PATH)
    return [(message.role, message.content, message.name) for message in messages]


def labelled(text: str, folder: Path) -> list[EvalCase]:
    """The cases of a skeleton whose empty memories were filled in."""
    filled = text.replace('content: ""', "content: something").replace("dimensions: []", "dimensions: [identity]")
    path = folder / "new.yaml"
    path.write_text(filled, encoding="utf-8")
    case_set = load_case_set(path)
    assert case_set.problems == ()
    assert [problem for case in case_set.cases for problem in case.problems] == []
    return list(case_set.cases)


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "I moved to 厦门."},
    {"role": "assistant", "content": "Nice!"},
]
SHAREGPT = [{"from": "human", "value": "I moved."}, {"from": "gpt", "value": "Nice!"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OPENAI, [("system", "Be brief.", None), ("user", "I moved to 厦门.", None), ("assistant", "Nice!", None)]),
        ({"model": "m", "messages": OPENAI[1:]}, [("user", "I moved to 厦门.", None), ("assistant", "Nice!", None)]),
        (SHAREGPT, [("user", "I moved.", None), ("assistant", "Nice!", None)]),
        ({"id": "x", "conversations": SHAREGPT}, [("user", "I moved.", None), ("assistant", "Nice!", None)]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]}],
            [("user", "look", None)],
        ),
        (
            [{"role": "user", "name": "Ines", "content": "hi", "annotations": [], "audio": None}],
            [("user", "hi", "Ines")],
        ),
    ],
)
def test_chat_json(value: Any, expected: list[tuple[str, str, str | None]]) -> None:
    assert read(json.dumps(value)) == expected
    assert read("\ufeff" + json.dumps(value, ensure_ascii=False, indent=1)) == expected


def test_several_conversations_become_several_cases(tmp_path: Path) -> None:
    text = json.dumps([{"conversations": SHAREGPT}, {"conversations": SHAREGPT[:1]}])
    conversations = [prepare(messages, START, None) for messages in read_conversations(text, PATH)]
    cases = labelled(skeleton(conversations, "chat", ("identity",)), tmp_path)
    assert [(case.case_id, len(case.conversation)) for case in cases] == [("chat-1", 2), ("chat-2", 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User: hi\nAssistant: hello", [("user", "hi", None), ("assistant", "hello", None)]),
        ("用户：我搬到厦门了\n助手：恭喜", [("user", "我搬到厦门了", None), ("assistant", "恭喜", None)]),
        (
            "You said:\nI moved\nto Graz\n\nChatGPT said:\nNice!",
            [("user", "I moved\nto Graz", None), ("assistant", "Nice!", None)],
        ),
        ("Ines: hi\nPaul: hello", [("user", "hi", "Ines"), ("user", "hello", "Paul")]),
        (
            "Ines: see below\nnote: not a speaker\nok\nInes: https://x.example/a",
            [("user", "see below\nnote: not a speaker\nok", "Ines"), ("user", "https://x.example/a", "Ines")],
        ),
        ("I only want to say: I moved", [("user", "I only want to say: I moved", None)]),
        ("one line\nand another", [("user", "one line\nand another", None)]),
        ("[msg#4] user: hi\n[msg#5] assistant: hello", [("user", "hi", None), ("assistant", "hello", None)]),
    ],
)
def test_text_with_speakers(text: str, expected: list[tuple[str, str, str | None]]) -> None:
    assert read(text) == expected
    assert read(text.replace("\n", "\r\n")) == expected


def test_times_are_kept_and_the_rest_follows_by_minutes() -> None:
    text = "[2026-03-01 9:05] Ines: hi\nPaul: hello\n2026/3/1 10:00 Ines: bye"
    (messages,) = read_conversations(text, PATH)
    times = [message.time for message in prepare(messages, START, None)]
    assert [time.isoformat() for time in times if time] == [
        "2026-03-01T09:05:00+00:00",
        "2026-03-01T09:06:00+00:00",
        "2026-03-01T10:00:00+00:00",
    ]
    epoch = json.dumps(
        [{"role": "user", "content": "a", "create_time": 1767603600.0}, {"role": "user", "content": "b"}]
    )
    (messages,) = read_conversations(epoch, PATH)
    assert [message.time for message in prepare(messages, START, None)] == [START, START.replace(minute=1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no conversation"),
        ("  \n", "no conversation"),
        ('{"messages": [', "chat.txt:1:15: not JSON"),
        ('{"a": 1}', "no chat messages: expected a list"),
        ("[1, 2]", "no chat messages"),
        ('[{"role": "user"}]', "'content' is missing"),
        ("[]", "no chat messages"),
    ],
)
def test_what_is_no_conversation_is_named(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        read_conversations(text, PATH)
    assert message in str(error.value)


# -- masking


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("write to ines.k+x@mail.example.org!", "write to <email>!"),
        ("my key is sk-abcdefgh12345678", "my key is <redacted>"),
        ("电话 138 1234 5678，或 +86 13912345678", "电话 <phone>，或 <phone>"),
        ("call +43 660 1234567 or (212) 555-0123", "call <phone> or <phone>"),
        ("座机 010-62345678", "座机 <phone>"),
        ("身份证 11010519491231002X", "身份证 <number>"),
        ("card 4111 1111 1111 1111", "card <number>"),
        (
            "on 2026-01-05 at 10:30, 20,000 steps, v1.2.3, room 1204",
            "on 2026-01-05 at 10:30, 20,000 steps, v1.2.3, room 1204",
        ),
        ("订单 20260105 里有 1500 件", "订单 20260105 里有 1500 件"),
    ],
)
def test_what_is_masked(text: str, masked: str) -> None:
    mask = Masking()
    assert mask(text) == masked
    assert mask(masked) == masked
    assert bool(mask.found) == (text != masked)


def test_names_and_extras_are_masked_too() -> None:
    message = Message("m", "user", "hi", "ines@x.example", extra={"tool_calls": [{"arguments": "mail bob@x.example"}]})
    mask = Masking()
    (found,) = prepare([message], START, mask)
    assert found.name == "<email>"
    assert found.extra == {"tool_calls": [{"arguments": "mail <email>"}]}
    assert mask.sentence() == "masked: 2 email"
    (kept,) = prepare([message], START, None)
    assert kept.extra == message.extra


# -- round trip


def test_a_skeleton_cannot_pass_for_a_labelled_case(tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    path.write_text(
        skeleton([prepare([Message("x", "user", "hi")], START, None)], "n", ("identity",)), encoding="utf-8"
    )
    case_set = load_case_set(path)
    problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
    assert any("at least one dimension" in str(problem) for problem in problems)


def test_the_text_form_is_used_where_it_reads_back(tmp_path: Path) -> None:
    messages = prepare([Message("x", "user", "hi\n\n  - a\n  - b"), Message("y", "assistant", "ok")], START, None)
    text = skeleton([messages], "n", ("identity",))
    assert "conversation: |" in text
    assert labelled(text, tmp_path)[0].conversation == messages


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=30).filter(str.strip)
messages_drawn = st.lists(
    st.builds(
        Message,
        st.just("x"),
        st.sampled_from(["user", "assistant", "system", "tool"]),
        st.one_of(
            texts,
            st.sampled_from(
                ["[msg#1] user: x", "  indented", "a\n[msg#2] b:", "# no comment", "- x: {", "é\u2028y", "\x07"]
            ),
        ),
        st.sampled_from([None, "Ines", "小陈", "a: b", "AI", "用户", "2026-01-01"]),
        st.none(),
        st.sampled_from([{}, {"tool_calls": [{"id": "t"}]}]),
    ),
    min_size=1,
    max_size=4,
)


@given(messages_drawn)
def test_every_conversation_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Message]
) -> None:
    messages = prepare(drawn, START, None)
    text = skeleton([messages], "drawn-1", ("identity", "skills"))
    (case,) = labelled(text, tmp_path_factory.mktemp("skeleton"))
    assert [one.content for one in case.conversation] == [one.content for one in messages]
    assert [one.id for one in case.conversation] == [f"msg_{n + 1}" for n in range(len(messages))]
    assert [one.time for one in case.conversation] == [one.time for one in messages]
    assert [dict(one.extra) for one in case.conversation] == [dict(one.extra) for one in messages]
    assert [(one.role, one.name) for one in case.conversation] == [(one.role, one.name) for one in messages]
