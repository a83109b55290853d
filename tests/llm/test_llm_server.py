"""The test server itself, by the real client: what other tests rely on."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

import chat_server as fake
import openai
import pytest
from chat_server import Answer, ChatServer, log_normal


def client(server: ChatServer) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(api_key="none", base_url=server.base_url, max_retries=0, http_client=http)


def test_streaming_with_usage(chat_server: ChatServer) -> None:
    chat_server.script = lambda request: Answer("one two three", usage=(5, 3))

    async def run() -> tuple[str, list[Any], list[str | None]]:
        async with client(chat_server) as model:
            stream = await model.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "x"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            text, usages, reasons = "", [], []
            async for chunk in stream:
                if chunk.usage is not None:
                    usages.append(chunk.usage.completion_tokens)
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    reasons.append(choice.finish_reason)
            return text, usages, reasons

    text, usages, reasons = asyncio.run(run())
    assert (text, usages, reasons[-1]) == ("one two three", [3], "stop")


def test_embeddings_are_the_texts_own(chat_server: ChatServer) -> None:
    async def run() -> Any:
        async with client(chat_server) as model:
            return await model.embeddings.create(model="e", input=["a", "b", "a"], encoding_format="float")

    first, second, third = (row.embedding for row in asyncio.run(run()).data)
    assert first == third != second
    assert len(first) == chat_server.dimension


def test_latency_is_seeded() -> None:
    first, second = log_normal(0.3, seed=1), log_normal(0.3, seed=1)
    drawn = [first() for _ in range(500)]
    assert drawn == [second() for _ in range(500)]
    assert 0.25 < statistics.median(drawn) < 0.36


def test_an_unknown_path_and_counts(chat_server: ChatServer) -> None:
    async def run() -> None:
        async with client(chat_server) as model:
            with pytest.raises(openai.NotFoundError):
                await model.models.list()
            chat_server.then(fake.status(503))
            with pytest.raises(openai.InternalServerError):
                await model.chat.completions.create(model="m", messages=[])

    asyncio.run(run())
    assert chat_server.count == 2
    assert chat_server.in_flight == 0
