"""Data sets in which the truth about tuning is known, because it was planted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from pytest_memeval.tuning.builtin import BuiltinRoutes, vector_ranks
from pytest_memeval.tuning.queries import Document, LabelledQuery, labelled_query
from pytest_memeval.tuning.rankers import RouteRanker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Documents of each query.
DEPTH = 40


def query(text: str, *relevant: str, group: str = "g", grades: Sequence[float] = ()) -> LabelledQuery:
    made = labelled_query(text, relevant, grades, group)
    assert made is not None
    return made


def _word(kind: str, *numbers: int) -> str:
    """A word of letters only, which no tokeniser takes apart, different for different numbers."""
    return kind + "z".join("".join("abcdefghij"[int(digit)] for digit in str(number)) for number in numbers)


class PlantedCorpus:
    """Queries with documents of their own, whose rank in each route is chosen.

    The word route ranks a document by how often it repeats its query's word, the vector route by its vector's angle to
    the query's. So everything runs as with real texts, through FTS5 and the vector index.
    """

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.queries: list[LabelledQuery] = []
        self.angles: dict[str, tuple[int, float]] = {}
        self._words: dict[str, int] = {}

    def add(self, ranks: Sequence[tuple[int, int]], relevant: int, group: str) -> None:
        """A query; ``ranks`` has the (word, vector) rank of each of its documents, 0 for one that a route lacks."""
        number = len(self.queries)
        word = _word("w", number)
        for place, (by_word, by_vector) in enumerate(ranks):
            repeats = DEPTH + 1 - by_word if by_word else 0
            filler = (_word("f", number, place, one) for one in count())
            content = " ".join([word] * repeats + [next(filler) for _ in range(2 * DEPTH - repeats)])
            self.documents.append(Document(f"q{number:03d}#{place}", content))
            self.angles[content] = (number, 0.01 * by_vector if by_vector else math.pi)
        self._words[word] = number
        self.queries.append(query(word, f"q{number:03d}#{relevant}", group=group))

    @property
    def name(self) -> str:
        return "planted"

    min_similarity = 0.5

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = []
        for text in texts:
            number, angle = self.angles.get(text) or (self._words[text], 0.0)
            vector = [0.0] * (len(self.queries) + 1)
            vector[number], vector[-1] = math.cos(angle), math.sin(angle)
            vectors.append(vector)
        return vectors

    def ranker(self, *, vectors: bool = True) -> RouteRanker:
        found = vector_ranks(self.documents, self.queries, self) if vectors else None
        return RouteRanker(BuiltinRoutes(self.documents, self.queries, found))


def steep_corpus(queries: int = 16) -> PlantedCorpus:
    """The right document leads the words and is far down by vector; a wrong one is eighth in both. Only a steep fusion
    (rrf_k = 10 of 10, 30, 60 …) puts the right one first."""
    corpus = PlantedCorpus()
    for number in range(queries):
        far = 26 + number % 5
        by_vector = [rank for rank in range(1, DEPTH + 1) if rank not in (8, far)]
        ranks = [(1, far), (8, 8)]
        ranks += [(rank, 0) for rank in range(2, 8)]
        ranks += [(0, rank) for rank in by_vector]
        corpus.add(ranks, 0, f"case-{number:03d}")
    return corpus


def agreeing_corpus(queries: int = 12) -> PlantedCorpus:
    """Both routes rank every query alike: no fusion can change anything."""
    corpus = PlantedCorpus()
    for number in range(queries):
        corpus.add([(rank, rank) for rank in range(1, 15)], number % 5, f"case-{number:03d}")
    return corpus


def noise_ranks(generator: np.random.Generator, kind: str, queries: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Ranks of one relevant document a query under each combination of a grid: equally good on average in every one.

    ``independent``: drawn anew in each combination. ``smooth``: neighbours are alike, as in real grids. ``rare``: most
    queries do not change. ``skewed``: small losses against rare large gains, or the other way round.
    """
    import numpy as np

    noise = generator.standard_normal((queries, *shape))
    if kind in ("smooth", "rare"):
        for axis, size in enumerate(shape, 1):
            steps = np.arange(1, size + 1).reshape([-1 if one == axis else 1 for one in range(noise.ndim)])
            noise = np.cumsum(noise, axis=axis) / np.sqrt(steps)
    flat = noise.reshape(queries, -1).T
    if kind == "rare":
        flat[:, generator.random(queries) < 0.7] = 0.0
    if kind == "skewed":
        rare, common = (1, 3) if generator.random() < 0.5 else (11, 2)
        return np.where(flat > 1.3, rare, common).astype(np.int32)
    return (1 + np.exp(np.clip(flat, -3, 3) + 1.0)).astype(np.int32)
