"""Texts into one array of vectors, with any embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.search.errors import SearchError

if TYPE_CHECKING:
    import numpy as np

    from pytest_memeval.llm.protocol import Embedder

#: So many texts are handed to an embedder at a time. What it gave for the parts before one that fails can be in its
#: cache by then, and lists of Python's own numbers, eight times as large as the array, never hold a whole corpus.
PART = 512


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """The vectors of the texts as rows, ``float32``, shape ``(len(texts), dimension)``; ``(0, 0)`` for no text.

    An embedder that offers ``matrix(texts)`` is asked for the array itself. Raises :class:`SearchError` for another
    number of vectors than texts, for what is no vector of numbers, and for vectors of different dimensions.
    """
    import numpy as np

    matrix = getattr(embedder, "matrix", None)
    parts: list[np.ndarray] = []
    for start in range(0, len(texts), PART):
        asked = list(texts[start : start + PART])
        count = len(asked)  # the embedder may change its list
        given: Any = await asyncio.to_thread(matrix, asked) if callable(matrix) else await embedder.embed(asked)
        parts.append(_rows(embedder, given, count))
    check_dimensions(embedder, parts)
    return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)


def _rows(embedder: Embedder, given: Any, number: int) -> np.ndarray:
    import numpy as np

    try:
        count = len(given)
        if count == number:
            _check(embedder, {len(vector) for vector in given})
        rows = np.asarray(given, dtype=np.float32)
    except SearchError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise SearchError(f"embedder {_name(embedder)} gave no list of vectors of numbers") from None
    if count != number:
        raise SearchError(f"embedder {_name(embedder)} gave {count} vectors for {number} texts")
    if rows.ndim != 2 or not rows.shape[1]:
        raise SearchError(f"embedder {_name(embedder)} gave vectors without numbers")
    return rows


def check_dimensions(embedder: Embedder, arrays: Sequence[np.ndarray]) -> None:
    """Raises :class:`SearchError` for arrays of vectors, where they hold any, whose dimensions differ."""
    _check(embedder, {array.shape[1] for array in arrays if len(array)})


def _check(embedder: Embedder, dimensions: set[int]) -> None:
    if len(dimensions) > 1:
        found = " and ".join(map(str, sorted(dimensions)))
        raise SearchError(
            f"the dimension of embedder {_name(embedder)} changed: its vectors have {found} numbers; if answers are"
            " cached, remove those of the other model"
        )


def _name(embedder: Embedder) -> str:
    return str(getattr(embedder, "name", type(embedder).__name__))
