"""Chat models and embedders behind any server that speaks OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_memeval.llm.connection import Attempts, ServerConnection
from pytest_memeval.llm.embedding_usage import EmbeddingLedger, EmbeddingUsage
from pytest_memeval.llm.learnt import ServerManners, patience_with
from pytest_memeval.llm.protocol import ChatModelError, ChatReply, ModelQuota, ModelRejected, Usage
from pytest_memeval.llm.rate import RateLimiter, estimate_tokens
from pytest_memeval.llm.redaction import redact_known
from pytest_memeval.llm.retry import CircuitBreaker, RetryPolicy
from pytest_memeval.llm.settings import ModelSettings
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.llm.vectors import read_vectors
from pytest_memeval.llm.wire import Accepted, chat_body, read_completion, read_usage


class _Client:
    """What a chat model and an embedder have in common."""

    name = "openai"

    def __init__(
        self,
        settings: ModelSettings,
        *,
        policy: RetryPolicy | None = None,
        limiter: RateLimiter | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        self.settings = settings
        self._connection = ServerConnection(settings, policy=policy, limiter=limiter, breaker=breaker)

    @property
    def endpoint(self) -> str:
        """The server's name in caches and reports."""
        return self._connection.redacted(self.settings.endpoint)

    @property
    def model(self) -> str | None:
        """The model asked for."""
        return self.settings.model

    @property
    def breaker(self) -> CircuitBreaker:
        return self._connection.breaker

    def _check_settings(self) -> str:
        """The model's name. Raises before anything is sent if the settings cannot work."""
        self.breaker.check()
        if (missing := self.settings.missing_model_message()) is not None:
            raise ModelRejected(missing)
        if (missing := self.settings.missing_key_message()) is not None:
            raise ModelQuota(self.breaker.trip(missing))
        assert self.settings.model is not None
        return self.settings.model

    async def aclose(self) -> None:
        """Close the running event loop's connections."""
        await self._connection.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, endpoint={self.endpoint!r})"


class OpenAIChatModel(_Client, SyncCompletion):
    """A chat model on a server with a chat completions endpoint.

    Which parameters the server takes (the token cap's name, temperature, JSON by schema or at all) is learnt from the
    first request that it rejects for one of them, once for all models that share ``manners``. ``ChatReply.attempts``
    counts all requests sent for a reply, and ``latency`` is the time of the one that was answered, without waits.
    Usable from several event loops, one after another or at once; ``complete_sync`` is for code without one.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        policy: RetryPolicy | None = None,
        limiter: RateLimiter | None = None,
        breaker: CircuitBreaker | None = None,
        manners: ServerManners | None = None,
    ) -> None:
        super().__init__(settings, policy=policy, limiter=limiter, breaker=breaker)
        self.manners = manners or ServerManners(patience_with(settings))

    @property
    def accepted(self) -> Accepted:
        """How the server wants to be asked, as far as is known."""
        return self.manners.accepted

    @property
    def default_max_tokens(self) -> int | None:
        """The token cap of calls that name none."""
        return self.settings.max_tokens

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        """Ask the model once. ``stage`` and ``trial`` change nothing of what is sent.

        Raises :class:`ChatModelError`: ``ModelUnavailable`` after the last retry, ``ModelQuota`` for quota and
        authentication (and from then on at once), ``ModelTruncated``, ``ModelRefused``, ``ModelEmpty``,
        ``ModelOverflow`` for a request longer than the model's context, ``ModelRejected`` for any other 4xx.
        """
        model = self._check_settings()
        cap = self.default_max_tokens if max_tokens is None else max_tokens

        def body() -> dict[str, Any]:
            return chat_body(
                model,
                messages,
                response_format=response_format,
                temperature=temperature,
                max_tokens=cap,
                accepted=self.accepted,
            )

        def read(data: Any, attempts: Attempts) -> ChatReply:
            return read_completion(
                data,
                response_format=response_format,
                max_tokens=cap,
                attempts=attempts.sent,
                latency=attempts.latency,
            )

        self._connection.open()  # which takes a while, and is no time in which the server could refuse anything
        async with self.manners.first_call(formatted=response_format is not None, capped=cap is not None):
            reply = await self._connection.call(
                "chat", body, read, adapt=self.manners.adapt, input_tokens=lambda: estimate_tokens(messages)
            )
        # A server may echo what it was sent; its own key must get no further.
        secrets = self.settings.secrets
        return replace(
            reply,
            text=redact_known(reply.text, secrets),
            model=None if reply.model is None else redact_known(reply.model, secrets),
        )


#: Texts of one request for embeddings.
BATCH_SIZE = 128


class OpenAIEmbedder(_Client):
    """An embedding model on a server with an embeddings endpoint. Sends at most ``batch_size`` texts a request, and
    adds what it sent to ``ledger``."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        policy: RetryPolicy | None = None,
        limiter: RateLimiter | None = None,
        breaker: CircuitBreaker | None = None,
        ledger: EmbeddingLedger | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        super().__init__(settings, policy=policy, limiter=limiter, breaker=breaker)
        self._ledger = ledger if ledger is not None else EmbeddingLedger()
        self._batch_size = batch_size

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order; ``[]`` for none. Raises :class:`ChatModelError`."""
        model = self._check_settings()
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch_size):
            vectors += await self._embed_part(model, list(texts[start : start + self._batch_size]))
        if len({len(vector) for vector in vectors}) > 1:
            raise ModelRejected(f"{self.endpoint} answered vectors of different dimensions")
        return vectors

    async def _embed_part(self, model: str, part: list[str]) -> list[list[float]]:
        """The vectors of one request's texts. What was sent is counted, whatever became of it."""
        sent, tokens = 0, Usage()

        def read(data: Any, attempts: Attempts) -> list[list[float]]:
            nonlocal sent, tokens
            vectors = read_vectors(data, len(part))
            sent, tokens = attempts.sent, read_usage(data)
            return vectors

        try:
            return await self._connection.call(
                "embeddings",
                lambda: {"model": model, "input": part, "encoding_format": "float"},
                read,
                input_tokens=lambda: estimate_tokens([{"content": text} for text in part]),
            )
        except ChatModelError as error:
            sent = error.attempts
            raise
        finally:
            known = tokens.input_tokens
            if sent:
                self._ledger.add(EmbeddingUsage(sent, len(part), known or 0, sent - (known is not None)))
