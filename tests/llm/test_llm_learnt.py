"""What a server takes is learnt once, from real requests, by all who ask it for one model."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from chat_server import Answer, ChatServer, Request

from pytest_memeval.llm.learnt import KnownServers, ServerManners, patience_with
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import ChatReply
from pytest_memeval.llm.settings import ModelSettings

SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}}


def settings(server: ChatServer, model: str = "m", **changes: Any) -> ModelSettings:
    return ModelSettings(model=model, base_url=server.base_url, **changes)


def test_one_model_of_one_server_is_known_whoever_asks(chat_server: ChatServer) -> None:
    known = KnownServers()
    first = known.of(settings(chat_server))
    assert known.of(settings(chat_server, role="judge")) is first
    assert known.of(settings(chat_server, "other")) is not first
    assert known.of(ModelSettings(model="m", base_url="http://127.0.0.1:9/v1")) is not first


def test_a_second_model_object_begins_with_what_the_first_one_learnt(chat_server: ChatServer) -> None:
    chat_server.rejects = {"json_schema", "temperature"}
    known = KnownServers()

    def ask() -> ChatReply:
        model = OpenAIChatModel(settings(chat_server), manners=known.of(settings(chat_server)))
        return model.complete_sync([{"role": "user", "content": "json"}], stage="s", response_format=SCHEMA)

    assert [ask().attempts for _ in range(3)] == [3, 1, 1]
    # No request was made up to find it out: each one asks the question itself.
    assert {request.prompt for request in chat_server.requests} == {"json"}


def test_the_first_calls_with_a_schema_learn_together_after_calls_without_one(chat_server: ChatServer) -> None:
    chat_server.rejects = {"json_schema", "json_object"}
    chat_server.latency = 0.02
    model = OpenAIChatModel(settings(chat_server), manners=ServerManners(patience=30.0))

    async def ask_all() -> list[ChatReply]:
        await model.complete([{"role": "user", "content": "plain"}], stage="s")
        asked = (
            model.complete([{"role": "user", "content": f"json {n}"}], stage="s", response_format=SCHEMA)
            for n in range(6)
        )
        replies = await asyncio.gather(*asked)
        await model.aclose()
        return list(replies)

    attempts = Counter(reply.attempts for reply in asyncio.run(ask_all()))
    assert attempts == {3: 1, 1: 5}
    assert chat_server.count == 1 + 6 + 2


def ask_together(model: OpenAIChatModel, count: int) -> list[ChatReply]:
    async def ask_all() -> list[ChatReply]:
        asked = (
            model.complete([{"role": "user", "content": f"json {n}"}], stage="s", response_format=SCHEMA)
            for n in range(count)
        )
        replies = await asyncio.gather(*asked)
        await model.aclose()
        return list(replies)

    return asyncio.run(ask_all())


def test_the_others_wait_for_a_refusal_and_not_for_the_first_answer(chat_server: ChatServer) -> None:
    """A model takes seconds to answer; a run must not begin with one call by itself."""
    first_answered: list[int] = []

    def answer(request: Request) -> Answer:
        if "json 0" in request.prompt:
            first_answered.append(chat_server.most_in_flight)
        return Answer("{}", latency=5.0 if "json 0" in request.prompt else 0.0)

    chat_server.script = answer
    model = OpenAIChatModel(settings(chat_server), manners=ServerManners(patience=0.05))

    async def ask_all() -> list[str]:
        leader = asyncio.create_task(
            model.complete([{"role": "user", "content": "json 0"}], stage="s", response_format=SCHEMA)
        )
        await asyncio.sleep(0)
        others = [
            model.complete([{"role": "user", "content": f"json {n}"}], stage="s", response_format=SCHEMA)
            for n in range(1, 5)
        ]
        replies = await asyncio.gather(*others)
        assert not leader.done()
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        await model.aclose()
        return [reply.text for reply in replies]

    assert asyncio.run(ask_all()) == ["{}"] * 4
    assert first_answered == [1]


def test_a_refusal_that_comes_late_costs_refusals_and_no_answer(chat_server: ChatServer) -> None:
    chat_server.rejects = {"json_schema", "json_object", "temperature"}
    model = OpenAIChatModel(settings(chat_server), manners=ServerManners(patience=0.0))
    replies = ask_together(model, 6)
    assert [reply.text for reply in replies] == ["[]"] * 6
    assert all(reply.attempts <= 4 for reply in replies)
    assert chat_server.count == sum(reply.attempts for reply in replies)


def test_a_server_on_this_machine_refuses_sooner(chat_server: ChatServer) -> None:
    far = ModelSettings(model="m", base_url="https://models.example/v1")
    assert 0 < patience_with(settings(chat_server)) < patience_with(far) < 1
