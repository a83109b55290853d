"""An embedder that answers from the cache first."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence

from pytest_memeval.llm.cache import AnswerCache, DimensionMismatch
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.cached_model import check_mode
from pytest_memeval.llm.filelock import file_lock
from pytest_memeval.llm.protocol import Embedder, NotRecorded

#: Seconds between two looks whether another process is done.
_POLL = 0.05


class CachedEmbedder:
    """``inner`` behind the cache of answers, text by text. A cached vector must have the dimension of the others.

    Processes that miss the same texts ask for them once: where several are missing, one process asks and the others
    wait for what it stores. Raises :class:`NotRecorded` for a miss in ``replay`` and in ``batch`` (embeddings are not
    collected), and :class:`DimensionMismatch` where a model gives vectors of several dimensions. A cache that cannot be
    written is a warning, in ``record`` an error.
    """

    def __init__(self, inner: Embedder, cache: AnswerCache, mode: str = "auto") -> None:
        self.inner = inner
        self.cache = cache
        self.mode = check_mode(mode)
        self._warned = False

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def _server(self) -> tuple[str, str]:
        """Endpoint and model, under which the cache keeps vectors."""
        endpoint = str(getattr(self.inner, "endpoint", self.inner.name))
        return endpoint, str(getattr(self.inner, "model", None) or self.inner.name)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.mode == "off":
            return await self.inner.embed(list(texts))
        held = {} if self.mode == "refresh" else self.held(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in held]
        if missing and self.mode in ("replay", "batch"):
            endpoint, model = self._server
            raise NotRecorded(
                f"the cache holds no embedding of {model} on {endpoint} for {len(missing)} of {len(texts)} texts"
            )
        if missing:
            # A single query is hardly ever two processes' at once.
            shared = len(missing) > 1 and self.mode != "refresh"
            held |= await (self._ask_alone(missing) if shared else self._ask(missing))
        return [list(held[text]) for text in texts]

    def held(self, texts: Sequence[str]) -> dict[str, list[float]]:
        """What the cache has of the texts."""
        return self.cache.get_vectors(*self._server, texts)

    async def _ask(self, texts: Sequence[str]) -> dict[str, list[float]]:
        new = dict(zip(texts, await self.inner.embed(list(texts)), strict=True))
        try:
            await asyncio.to_thread(self.cache.put_vectors, *self._server, new, replace=self.mode == "refresh")
        except DimensionMismatch:
            raise
        except CacheError as error:
            if self.mode == "record":
                raise
            if not self._warned:
                self._warned = True
                text = f"{error}; the run goes on without storing embeddings"
                warnings.warn(text, CacheWarning, stacklevel=2)
        return new

    async def _ask_alone(self, texts: Sequence[str]) -> dict[str, list[float]]:
        lock = self.cache.path.with_name("embeddings")
        while True:
            try:
                holder = file_lock(lock, wait=False)
                alone = holder.__enter__()
            except OSError:  # a folder that takes no lock takes no answers either, which storing them will tell
                return await self._ask(texts)
            try:
                if alone:
                    held = self.held(texts)
                    missing = [text for text in texts if text not in held]
                    return held | (await self._ask(missing) if missing else {})
            finally:
                holder.__exit__(None, None, None)
            await asyncio.sleep(_POLL)
