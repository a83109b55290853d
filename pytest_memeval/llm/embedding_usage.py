"""What embeddings cost a process: requests, texts and tokens of those that a server was asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EmbeddingUsage:
    """Requests sent, the texts in them and the input tokens that the server counted; ``unknown_tokens`` are the
    requests for which it told none. What comes from the cache is no part of it. All are whole numbers from 0."""

    requests: int = 0
    texts: int = 0
    input_tokens: int = 0
    unknown_tokens: int = 0

    def __bool__(self) -> bool:
        return self.requests > 0

    def __add__(self, other: EmbeddingUsage) -> EmbeddingUsage:
        return EmbeddingUsage(
            self.requests + other.requests,
            self.texts + other.texts,
            self.input_tokens + other.input_tokens,
            self.unknown_tokens + other.unknown_tokens,
        )

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EmbeddingUsage:
        return cls(**{name: int(data.get(name, 0)) for name in cls.__slots__})


class EmbeddingLedger:
    """The usage of a process, added up from any thread and taken in parts.

    A corpus is embedded for all of its cases, by whichever comes first: to charge it to that one would make equal runs
    unequal. So usage is told by time, with each case what has come up since the last one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending = EmbeddingUsage()

    def add(self, usage: EmbeddingUsage) -> None:
        with self._lock:
            self._pending += usage

    @property
    def pending(self) -> EmbeddingUsage:
        """What has come up since it was last taken."""
        return self._pending

    def take(self) -> EmbeddingUsage:
        """What has come up since the last call."""
        with self._lock:
            taken, self._pending = self._pending, EmbeddingUsage()
            return taken
