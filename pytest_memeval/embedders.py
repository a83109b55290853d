"""Embedders by name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.options import SettingsError
from pytest_memeval.settings.model import EMBEDDERS

if TYPE_CHECKING:
    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.embedding_usage import EmbeddingLedger
    from pytest_memeval.llm.protocol import Embedder
    from pytest_memeval.llm.rate import RateLimiter
    from pytest_memeval.llm.retry import RetryPolicy
    from pytest_memeval.llm.settings import ModelSettings


def build_embedder(
    name: str,
    *,
    model: str | None = None,
    settings: ModelSettings | None = None,
    cache: AnswerCache | None = None,
    mode: str = "auto",
    policy: RetryPolicy | None = None,
    limiter: RateLimiter | None = None,
    ledger: EmbeddingLedger | None = None,
) -> Embedder:
    """The embedder ``name``: ``lexical``; ``openai`` (needs ``settings``; cached with ``cache``, by ``mode``; what it
    sends waits for ``limiter`` and is added to ``ledger``); ``sentence-transformers`` (needs ``model``, a name or a
    folder). Raises SettingsError for an unknown name and for what is missing. Sends nothing and loads no model before
    the first text.
    """
    if name == "lexical":
        from pytest_memeval.search.lexical import LexicalEmbedder

        return LexicalEmbedder()
    if name == "sentence-transformers":
        if not model:
            raise SettingsError("embedder 'sentence-transformers' needs the name of a model")
        return SentenceEmbedder(model)
    if name != "openai" or settings is None:
        from pytest_memeval.documents.problems import did_you_mean

        raise SettingsError(f"unknown embedder {name!r}{did_you_mean(name, EMBEDDERS)}")
    problem = None if mode in ("replay", "batch") else settings.missing_key_message()
    if problem is not None:
        raise SettingsError(f"embedder 'openai': {problem}")
    from pytest_memeval.llm.cached_embedder import CachedEmbedder
    from pytest_memeval.llm.openai_client import OpenAIEmbedder

    inner = OpenAIEmbedder(settings, policy=policy, limiter=limiter, ledger=ledger)
    return inner if cache is None else CachedEmbedder(inner, cache, mode)


#: One model at a time: a model computes on all cores.
_LOADING = threading.Lock()


class SentenceEmbedder:
    """A model of the package sentence-transformers (extra ``eval``), loaded when the first text comes. Vectors have
    length 1."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._loaded: Any = None

    @property
    def name(self) -> str:
        return f"sentence-transformers/{self.model}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order. Raises StageError where the package or the model is missing."""
        if not texts:
            return []
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with _LOADING:
            if self._loaded is None:
                self._loaded = self._load()
            vectors = self._loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return [[float(value) for value in vector] for vector in vectors]

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise StageError(
                "embedder 'sentence-transformers' needs the package of that name: pip install 'pytest-memeval[eval]'",
                kind="embedder",
            ) from error
        try:
            return SentenceTransformer(self.model)
        except Exception as error:  # a missing model, no network, a broken file: each has its own kind
            text = f"embedder 'sentence-transformers': model {self.model!r} cannot be loaded: {error}"
            raise StageError(text, kind="embedder") from error
