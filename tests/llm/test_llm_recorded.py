from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.export import write_jsonl
from pytest_memeval.llm.protocol import ChatModel, ChatReply, NotRecorded, Usage
from pytest_memeval.llm.recorded import RecordedChatModel


def ask_for(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def entry(text: str, answer: str, *, day: int = 1, server_model: str | None = None, **changes: Any) -> CacheEntry:
    fields: dict[str, Any] = {"endpoint": "lab", "model": "big", "stage": "l1_extraction", **changes}
    request = ChatRequest(messages=tuple(ask_for(text)), **fields)
    reply = ChatReply(answer, "stop", Usage(3, 1), server_model, 0.5)
    return CacheEntry.of(request, reply, created=datetime(2026, 1, day, tzinfo=UTC))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def test_a_request_is_found_whoever_answered_it_and_however_it_was_asked(path: Path) -> None:
    write_jsonl(path, [entry("a", "[1]", max_tokens=99, server_model="big-2026"), entry("a", "[2]", trial=1)])
    model = RecordedChatModel(path)
    assert isinstance(model, ChatModel)
    assert model.name == "recorded"
    reply = model.complete_sync(ask_for("a"), stage="anything", response_format={"type": "array"}, temperature=0.7)
    assert (reply.text, reply.cached, reply.attempts, reply.latency) == ("[1]", True, 0, 0.5)
    assert (reply.model, reply.usage) == ("big-2026", Usage(3, 1))
    assert model.complete_sync(ask_for("a"), stage="s", trial=1).text == "[2]"
    assert model.load() == 2
    assert model.models == ("big", "big-2026")
    assert model.model is None


def test_a_miss_names_stage_file_and_ways_on(path: Path) -> None:
    write_jsonl(path, [entry("a", "[1]")])
    model = RecordedChatModel(path)
    with pytest.raises(NotRecorded) as caught:
        model.complete_sync(ask_for("b"), stage="l2_scene", trial=1)
    for words in ("l2_scene", "answers.jsonl", "trial 1", "--memeval-llm openai", "--memeval-llm embedded",
                  "--memeval-cache batch"):  # fmt: skip
        assert words in str(caught.value)
    assert "same conversation" not in str(caught.value)
    with pytest.raises(NotRecorded):
        model.complete_sync(ask_for("a"), stage="s", trial=1)  # never another trial's answer


def test_a_miss_tells_a_changed_prompt_from_a_new_case(path: Path) -> None:
    talk = "<conversation>\nuser: hi\n</conversation>"
    write_jsonl(path, [entry(f"old prompt {talk}", "[1]")])
    model = RecordedChatModel(path)
    with pytest.raises(NotRecorded, match="the same conversation under another prompt"):
        model.complete_sync(ask_for(f"new prompt {talk}"), stage="s")


def test_of_several_answers_the_wanted_models_then_the_same_parameters_then_the_newest(path: Path) -> None:
    schema = {"type": "array"}
    write_jsonl(path, [
        entry("a", "old", day=1), entry("a", "new", day=9, temperature=0.5), entry("a", "schema", day=2,
                                                                                   response_format=schema),
        entry("a", "small", day=3, model="small"),
    ])  # fmt: skip
    model = RecordedChatModel(path)
    assert model.complete_sync(ask_for("a"), stage="s", response_format=schema).text == "schema"
    assert model.complete_sync(ask_for("a"), stage="s", temperature=0.5).text == "new"
    assert model.complete_sync(ask_for("a"), stage="s").text == "small"  # the newest of the two with its parameters
    assert model.complete_sync(ask_for("a"), stage="s", temperature=0.9).text == "new"
    big = RecordedChatModel(path, model="big")
    assert big.complete_sync(ask_for("a"), stage="s").text == "old"
    assert big.model == "big"
    with pytest.raises(NotRecorded, match="holds no answer of other"):
        RecordedChatModel(path, model="other").complete_sync(ask_for("a"), stage="s")


def test_a_bad_file_is_said_with_its_line(path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        RecordedChatModel(path).complete_sync(ask_for("a"), stage="s")
    path.write_text('\n{"key": 1}\n', encoding="utf-8")
    with pytest.raises(DocumentError, match=r"answers\.jsonl:2: this line"):
        RecordedChatModel(path).load()
