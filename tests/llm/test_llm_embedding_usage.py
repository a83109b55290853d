"""What an embedding server is asked for: counted, limited, asked once by several processes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import chat_server as fake
import pytest
from chat_server import ChatServer

from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.cached_embedder import CachedEmbedder
from pytest_memeval.llm.embedding_usage import EmbeddingLedger, EmbeddingUsage
from pytest_memeval.llm.filelock import file_lock
from pytest_memeval.llm.openai_client import OpenAIEmbedder
from pytest_memeval.llm.protocol import ModelUnavailable
from pytest_memeval.llm.rate import RateLimiter
from pytest_memeval.llm.retry import RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

QUICK = RetryPolicy(max_attempts=2, base_delay=0.01)


def embedder(server: ChatServer, ledger: EmbeddingLedger, limiter: RateLimiter | None = None) -> OpenAIEmbedder:
    settings = ModelSettings(model="small", base_url=server.base_url)
    return OpenAIEmbedder(settings, policy=QUICK, ledger=ledger, limiter=limiter, batch_size=2)


def test_requests_texts_and_tokens_are_counted_and_taken_once(chat_server: ChatServer) -> None:
    ledger = EmbeddingLedger()
    asyncio.run(embedder(chat_server, ledger).embed(["one two", "three", "four five six"]))
    assert ledger.pending == EmbeddingUsage(requests=2, texts=3, input_tokens=6)
    taken = ledger.take()
    assert EmbeddingUsage.from_json(taken.to_json()) == taken
    assert not ledger.take()


def test_a_request_that_fails_was_sent_all_the_same(chat_server: ChatServer) -> None:
    ledger = EmbeddingLedger()
    chat_server.then(fake.status(500), fake.status(500))
    with pytest.raises(ModelUnavailable):
        asyncio.run(embedder(chat_server, ledger).embed(["one"]))
    assert ledger.take() == EmbeddingUsage(requests=2, texts=1, input_tokens=0, unknown_tokens=2)
    chat_server.then(fake.status(500))
    asyncio.run(embedder(chat_server, ledger).embed(["one"]))
    assert ledger.take() == EmbeddingUsage(requests=2, texts=1, input_tokens=1, unknown_tokens=1)


def test_requests_wait_for_the_servers_limit(chat_server: ChatServer) -> None:
    limiter = RateLimiter(2, period=0.6)
    started = time.monotonic()
    asyncio.run(embedder(chat_server, EmbeddingLedger(), limiter).embed(["a", "b", "c", "d", "e", "f"]))
    assert chat_server.count == 3
    assert time.monotonic() - started >= 0.6


def test_embeddings_set_no_tokens_aside_for_an_answer_and_teach_the_limiter_none() -> None:
    limiter = RateLimiter(None, 1000, clock=lambda: 0.0)
    permits = [limiter.reserve(100, answers=False) for _ in range(10)]
    assert all(permit.start == 0 for permit in permits)
    limiter.settle(permits[0], 40, None)
    assert permits[0].tokens == 40
    # A chat call still has the first guess of 256 tokens for its answer: 940 are taken, so it waits.
    assert limiter.reserve(1).tokens == 257
    assert limiter.reserve(1).start > 0


def test_what_several_processes_miss_is_asked_once(chat_server: ChatServer, tmp_path: Path) -> None:
    chat_server.latency = 0.2
    ledger = EmbeddingLedger()
    texts = ["a", "b"]

    def cached() -> CachedEmbedder:
        # A cache of its own, as each process has.
        return CachedEmbedder(embedder(chat_server, ledger), AnswerCache(tmp_path / "c.sqlite"))

    async def both() -> list[list[list[float]]]:
        return await asyncio.gather(*(cached().embed(texts) for _ in range(3)))

    first, *others = asyncio.run(both())
    assert all(other == first for other in others)
    assert chat_server.count == 1
    assert ledger.take().texts == 2
    # Whoever dies while it asks leaves the lock to the next.
    with file_lock(tmp_path / "embeddings", wait=False) as held:
        assert held
        with file_lock(tmp_path / "embeddings", wait=False) as again:
            assert not again
    assert asyncio.run(cached().embed(["c", "d"]))


def test_a_cache_that_cannot_be_written_loses_no_vectors(
    chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise CacheError("the disk is full")

    monkeypatch.setattr(AnswerCache, "put_vectors", full)
    with AnswerCache(tmp_path / "c.sqlite") as cache:
        with pytest.warns(CacheWarning, match="disk is full; the run goes on"):
            assert len(asyncio.run(CachedEmbedder(embedder(chat_server, EmbeddingLedger()), cache).embed(["a"]))) == 1
        with pytest.raises(CacheError, match="disk is full"):
            asyncio.run(CachedEmbedder(embedder(chat_server, EmbeddingLedger()), cache, "record").embed(["a"]))
