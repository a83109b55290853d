"""The memories that come with the package: from none at all to everything, and two that search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_memeval.qa.memory import BaseMemory, turn_text
from pytest_memeval.values import Hit, Message

#: Turns that a searching memory returns unless told otherwise.
DEFAULT_K = 10


class _Turns(BaseMemory):
    """Keeps every message."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def ingest(self, message: Message) -> None:
        self._messages.append(message)

    def reset(self) -> None:
        self._messages = []

    @staticmethod
    def _hit(message: Message, score: float) -> Hit:
        return Hit(message.id, score, turn_text(message), (message.id,))


class NullMemory(BaseMemory):
    """Remembers nothing: what the answerer knows by itself."""

    name = "null"

    def ingest(self, message: Message) -> None:
        """Read and forgotten."""

    def retrieve(self, query: str) -> list[Hit]:
        return []

    def reset(self) -> None:
        """There is nothing to forget."""


class FullContextMemory(_Turns):
    """The whole conversation, whatever the question."""

    name = "full-context"

    def retrieve(self, query: str) -> list[Hit]:
        return [self._hit(message, 0.0) for message in self._messages]


class RecentMemory(_Turns):
    """The last ``k`` messages."""

    name = "recent"

    def __init__(self, k: int = DEFAULT_K) -> None:
        super().__init__()
        self.k = _at_least_1(k)

    def retrieve(self, query: str) -> list[Hit]:
        return [self._hit(message, 0.0) for message in self._messages[-self.k :]]


class _Searched(_Turns):
    """Finds messages by an index, built when the first question comes."""

    def __init__(self, k: int = DEFAULT_K) -> None:
        super().__init__()
        self.k = _at_least_1(k)
        self._index: Any = None

    def ingest(self, message: Message) -> None:
        super().ingest(message)
        self._drop()

    def flush(self) -> None:
        self._build()

    def reset(self) -> None:
        super().reset()
        self._drop()

    def _drop(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _build(self) -> Any:
        if self._index is None:
            self._index = self._made([(str(place), turn_text(message)) for place, message in self._placed()])
        return self._index

    def _placed(self) -> list[tuple[int, Message]]:
        return list(enumerate(self._messages))

    def _made(self, documents: list[tuple[str, str]]) -> Any:
        raise NotImplementedError

    def _found(self, query: str) -> Sequence[tuple[str, float]]:
        found: Sequence[tuple[str, float]] = self._build().search(query, self.k)
        return found

    def retrieve(self, query: str) -> list[Hit]:
        return [self._hit(self._messages[int(place)], score) for place, score in self._found(query)]


class Bm25Memory(_Searched):
    """The ``k`` messages that BM25 (SQLite's FTS5, k1 1.2, b 0.75) ranks highest for the question."""

    name = "bm25"

    def _made(self, documents: list[tuple[str, str]]) -> Any:
        from pytest_memeval.search.fts import FtsIndex

        return FtsIndex(documents)


class VectorMemory(_Searched):
    """The ``k`` messages nearest to the question by the lexical embedding, which needs no model."""

    name = "vector"

    def __init__(self, k: int = DEFAULT_K) -> None:
        super().__init__(k)
        self._embedder: Any = None

    def _made(self, documents: list[tuple[str, str]]) -> Any:
        from pytest_memeval.search.lexical import LexicalEmbedder
        from pytest_memeval.search.vectors import VectorIndex

        texts = [text for _, text in documents]
        self._embedder = LexicalEmbedder(texts)
        return VectorIndex([place for place, _ in documents], self._embedder.matrix(texts))

    def _found(self, query: str) -> Sequence[tuple[str, float]]:
        index = self._build()
        vector = self._embedder.matrix([query])[0]
        found: Sequence[tuple[str, float]] = index.search(vector, self.k, min_similarity=self._embedder.min_similarity)
        return found


def _at_least_1(k: int) -> int:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return k


#: The memories by the name that options know; ``k`` is passed to those that take it.
MEMORIES: Mapping[str, type[BaseMemory]] = {
    memory.name: memory for memory in (Bm25Memory, VectorMemory, RecentMemory, FullContextMemory, NullMemory)
}

#: Those whose order means nothing.
UNRANKED: frozenset[str] = frozenset({"full-context", "recent", "null"})


def build_memory(name: str, k: int = DEFAULT_K) -> BaseMemory:
    """A new memory of that name. KeyError for an unknown one."""
    kind = MEMORIES[name]
    return kind(k) if kind in (Bm25Memory, VectorMemory, RecentMemory) else kind()
