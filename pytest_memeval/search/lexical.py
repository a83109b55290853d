"""Embeddings without a model: hashed character n-grams weighted by IDF. Deterministic, offline."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.tokens import is_unspaced

if TYPE_CHECKING:
    import numpy as np

_WORDS = re.compile(r"\w+")


class LexicalEmbedder:
    """An :class:`~pytest_memeval.llm.protocol.Embedder` that compares spelling, not meaning.

    A text's features are the character n-grams of its words (folded, with the word's bounds marked): 3 to 5 characters
    for Latin and the like, 1 and 2 for scripts without spaces. A feature weighs (1 + ln tf) · idf, idf =
    ln((N + 1) / (n + 1)) + 1 over the ``corpus``; without a corpus idf is 1. Features are hashed (CRC-32) to
    ``dimension`` places with a sign, and the vector has length 1. A text without a word gives zeros. Equal texts have
    equal vectors in every process and on every machine.
    """

    #: Texts with nothing in common have a cosine of about 0: only what is above this counts as found.
    min_similarity = 0.05

    def __init__(self, corpus: Iterable[str] = (), *, dimension: int = 1024) -> None:
        if dimension < 8:
            raise SearchError(f"an embedding needs 8 dimensions or more, not {dimension}")
        self.dimension = dimension
        self._documents = 0
        self._frequency: Counter[str] = Counter()
        for text in corpus:
            self._documents += 1
            self._frequency.update(dict.fromkeys(ngrams(text), 1))

    @property
    def name(self) -> str:
        return f"lexical-{self.dimension}"

    def fitted(self, corpus: Iterable[str]) -> LexicalEmbedder:
        """The same embedder with the IDF of this corpus."""
        return LexicalEmbedder(corpus, dimension=self.dimension)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order."""
        found: list[list[float]] = self.matrix(texts).tolist()
        return found

    def matrix(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors as rows of an array, ``float32``, shape ``(len(texts), dimension)``."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in self._weights(ngrams(text)).items():
                code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                row[(code >> 1) % self.dimension] += weight if code & 1 else -weight
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(length > 0, length, 1.0)).astype(np.float32)

    def _weights(self, features: Mapping[str, int]) -> dict[str, float]:
        if not self._documents:
            return {feature: 1 + math.log(count) for feature, count in features.items()}
        return {
            feature: (1 + math.log(count))
            * (math.log((self._documents + 1) / (self._frequency.get(feature, 0) + 1)) + 1)
            for feature, count in features.items()
        }


def ngrams(text: str) -> Counter[str]:
    """How often each n-gram occurs in the text."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    found: Counter[str] = Counter()
    for run in _WORDS.findall(folded):
        for part, unspaced in _runs(run):
            padded, sizes = (part, (1, 2)) if unspaced else (f"<{part}>", (3, 4, 5))
            for size in sizes:
                found.update(padded[at : at + size] for at in range(len(padded) - size + 1))
    return found


def _runs(word: str) -> list[tuple[str, bool]]:
    """The word cut where script with spaces and script without meet."""
    runs: list[tuple[str, bool]] = []
    for character in word:
        unspaced = is_unspaced(character)
        if runs and runs[-1][1] == unspaced:
            runs[-1] = (runs[-1][0] + character, unspaced)
        else:
            runs.append((character, unspaced))
    return runs
