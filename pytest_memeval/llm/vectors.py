"""Embeddings: what a server answers, a row of the cache, a line of its export."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_memeval.llm.cache_entry import canonical_json
from pytest_memeval.llm.redaction import redact
from pytest_memeval.llm.wire import JunkBody

_KEY = re.compile(r"[0-9a-f]{64}")


def vector_key(endpoint: str, model: str, text: str) -> str:
    """SHA-256 (hex) over endpoint, model and text: the cache's key of an embedding."""
    return hashlib.sha256(canonical_json([1, endpoint, model, text]).encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """A text's vector under the key that stands for the text; the text itself is not kept. ``created``: ISO time."""

    key: str
    endpoint: str
    model: str
    vector: tuple[float, ...]
    created: str = ""

    @property
    def row(self) -> tuple[str, str, str, int, bytes, str]:
        """The row in the cache's table of embeddings."""
        return self.key, self.endpoint, self.model, len(self.vector), array("d", self.vector).tobytes(), self.created

    @staticmethod
    def of_row(row: tuple[str, str, str, int, bytes, str]) -> VectorEntry:
        key, endpoint, model, _, vector, created = row
        return VectorEntry(key, endpoint, model, tuple(array("d", vector)), created)

    def to_json(self) -> dict[str, Any]:
        """The line of an export. Numbers are written so that they read back bit by bit."""
        return {
            "key": self.key,
            "endpoint": self.endpoint,
            "model": self.model,
            "created": self.created,
            "vector": list(self.vector),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> VectorEntry:
        """Read a line of an export. Raises ``ValueError`` with a sentence that goes on after "this line"."""
        key, endpoint, model, vector = (data.get(name) for name in ("key", "endpoint", "model", "vector"))
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(f"has the key {str(key)[:12]!r}, which is none of an embedding")
        if not isinstance(endpoint, str) or not isinstance(model, str):
            raise ValueError("is an embedding without `endpoint` or `model`")
        if not isinstance(vector, list) or not is_vector(vector):
            raise ValueError("has a `vector` that is no list of finite numbers")
        return VectorEntry(
            key, redact(endpoint), model, tuple(float(value) for value in vector), str(data.get("created") or "")
        )


def is_vector(value: Any) -> bool:
    """Whether a JSON value is a vector: a list of finite numbers, at least one."""
    return isinstance(value, list) and bool(value) and all(_is_finite(number) for number in value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # JSON's integers have no end, a float has
        return False


def read_vectors(data: Any, count: int) -> list[list[float]]:
    """The vectors of an embeddings answer to ``count`` texts, in the order of the texts.

    Raises :class:`JunkBody` for anything else: another number of vectors, or one that is no list of finite numbers.
    """
    rows = data.get("data") if isinstance(data, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise JunkBody("the answer is no list of embeddings")
    if len(rows) != count:
        raise JunkBody(f"the answer has {len(rows)} embeddings for {count} texts")
    by_index = {row["index"]: row for row in rows if isinstance(row.get("index"), int)}
    ordered = [by_index[place] for place in range(count)] if set(by_index) == set(range(count)) else rows
    vectors = []
    for row in ordered:
        vector = row.get("embedding")
        if not is_vector(vector):
            raise JunkBody("an embedding is no list of finite numbers")
        vectors.append([float(value) for value in vector])
    return vectors
