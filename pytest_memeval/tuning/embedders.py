"""Embedders by name, as ``memeval tune`` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.tuning.queries import TuningError

if TYPE_CHECKING:
    from pytest_memeval.llm.protocol import Embedder


def build_embedder(
    name: str,
    corpus: Sequence[str],
    *,
    model: str | None = None,
    base_url: str | None = None,
    cache_folder: Path | None = None,
) -> Embedder | None:
    """The embedder ``lexical`` (fitted to the corpus), ``openai`` (cached in ``cache_folder``) or
    ``sentence-transformers``; ``None`` for ``none``.

    TuningError for what is missing or does not fit; CacheError where the cache cannot be used. Sends nothing.
    """
    if name not in ("openai", "sentence-transformers") and model is not None:
        raise TuningError(f"--model {model} needs --embedder openai or sentence-transformers, not {name}")
    if name != "openai" and base_url is not None:
        raise TuningError(f"--base-url needs --embedder openai, not {name}")
    if name == "none":
        return None
    if name == "lexical":
        from pytest_memeval.search.lexical import LexicalEmbedder

        return LexicalEmbedder(corpus)
    if model is None:
        raise TuningError(f"--embedder {name} needs the name of a model: --model NAME")
    return _cached_openai(model, base_url, cache_folder) if name == "openai" else SentenceEmbedder(model)


def _cached_openai(model: str, base_url: str | None, cache_folder: Path | None) -> Embedder:
    from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
    from pytest_memeval.llm.cached_model import CachedEmbedder
    from pytest_memeval.llm.openai_client import OpenAIEmbedder
    from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings

    try:
        settings = ModelSettings(model=model, base_url=base_url or DEFAULT_BASE_URL)
    except ValueError as error:
        raise TuningError(f"--base-url: {error}") from None
    embedder = OpenAIEmbedder(settings)
    return embedder if cache_folder is None else CachedEmbedder(embedder, AnswerCache(cache_folder / CACHE_FILE_NAME))


class SentenceEmbedder:
    """A local model of the package sentence-transformers (extra ``eval``)."""

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise TuningError(
                "--embedder sentence-transformers needs that package: pip install 'pytest-memeval[eval]'"
            ) from None
        self.name = f"sentence-transformers {model}"
        try:
            self._model = SentenceTransformer(model)
        except Exception as error:
            raise TuningError(f"--model {model} cannot be loaded: {error}") from None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order."""
        found: list[list[float]] = self._model.encode(list(texts), show_progress_bar=False).tolist()
        return found
