from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cached_model import CachedChatModel
from pytest_memeval.llm.export import write_jsonl
from pytest_memeval.llm.factory import ModelSetupError, build_chat_model
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import ChatModel
from pytest_memeval.llm.retry import CircuitBreaker
from pytest_memeval.llm.settings import ModelSettings

LOCAL = ModelSettings(model="m", base_url="http://127.0.0.1:9/v1")
OPENAI = ModelSettings(model="gpt-4o")


def test_embedded_and_recorded(tmp_path: Path) -> None:
    assert isinstance(build_chat_model("embedded"), ChatModel)
    assert build_chat_model("embedded").name == "embedded"
    write_jsonl(tmp_path / "a.jsonl", [])
    assert build_chat_model("recorded", recorded=tmp_path / "a.jsonl").name == "recorded"


def test_openai_with_and_without_a_cache(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "c.sqlite")
    breaker = CircuitBreaker()
    bare = build_chat_model("openai", settings=LOCAL, breaker=breaker)
    assert isinstance(bare, OpenAIChatModel)
    assert bare.breaker is breaker
    assert isinstance(build_chat_model("openai", settings=LOCAL, cache=cache, mode="off"), OpenAIChatModel)
    cached = build_chat_model("openai", settings=LOCAL, cache=cache, mode="record")
    assert isinstance(cached, CachedChatModel)
    assert (cached.mode, cached.name, cached.model, cached.endpoint) == ("record", "openai", "m", LOCAL.base_url)
    assert list(tmp_path.iterdir()) == []  # nothing is opened before the first question


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("openia", {}, "unknown chat model 'openia'; did you mean 'openai'"),
        ("gpt", {}, "known: recorded, embedded, openai"),
        ("recorded", {}, "memeval_recorded"),
        ("recorded", {"recorded": Path("nowhere.jsonl")}, "there is no file nowhere.jsonl"),
        ("openai", {"settings": ModelSettings(base_url=LOCAL.base_url)}, "--memeval-model"),
        ("openai", {"settings": OPENAI}, "MEMEVAL_API_KEY or OPENAI_API_KEY"),
        ("openai", {"settings": LOCAL, "mode": "recrod"}, "did you mean 'record'"),
        ("openai", {"settings": LOCAL, "mode": "replay"}, "needs a cache"),
    ],
)
def test_what_is_missing_is_one_sentence(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelSetupError) as caught:
        build_chat_model(name, **options)
    assert words in str(caught.value)


def test_replay_and_batch_need_no_key(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "c.sqlite")
    for mode in ("replay", "batch"):
        model = build_chat_model(
            "openai", settings=OPENAI, cache=cache, mode=mode, requests=BatchRequests(tmp_path / "r.jsonl")
        )
        assert isinstance(model, CachedChatModel)
