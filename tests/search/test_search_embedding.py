from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pytest_memeval.search import embedding
from pytest_memeval.search.embedding import embed_texts
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.index import SearchIndex
from pytest_memeval.search.lexical import LexicalEmbedder
from pytest_memeval.search.params import SearchParams


class Given:
    """An embedder that gives what ``answer`` makes of the texts."""

    name = "given"

    def __init__(self, answer: Callable[[list[str]], Any]) -> None:
        self._answer = answer
        self.parts: list[int] = []

    async def embed(self, texts: Sequence[str]) -> Any:
        self.parts.append(len(texts))
        return self._answer(list(texts))


def test_a_corpus_is_embedded_in_parts_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PART", 3)
    given = Given(lambda texts: [[float(text), 1.0] for text in texts])
    rows = asyncio.run(embed_texts(given, [str(number) for number in range(7)]))
    assert given.parts == [3, 3, 1]
    assert rows.tolist() == [[number, 1.0] for number in range(7)]
    assert rows.dtype == np.float32
    assert asyncio.run(embed_texts(given, [])).shape == (0, 0)
    texts = ["green tea", "白茶", "coffee", ""]
    assert np.array_equal(asyncio.run(embed_texts(LexicalEmbedder(), texts)), LexicalEmbedder().matrix(texts))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda texts: [[1.0]], "gave 1 vectors for 3 texts"),
        (lambda texts: [[1.0], [1.0, 2.0], [1.0]], "dimension of embedder given changed: its vectors have 1 and 2"),
        (lambda texts: [["a"], ["b"], ["c"]], "given gave no list of vectors of numbers"),
        (lambda texts: [None] * 3, "given gave no list of vectors of numbers"),
        (lambda texts: None, "given gave no list of vectors of numbers"),
        (lambda texts: [1.0, 2.0, 3.0], "given gave no list of vectors of numbers"),
        (lambda texts: [[], [], []], "vectors without numbers"),
    ],
)
def test_what_is_no_list_of_vectors_is_one_sentence(answer: Callable[[list[str]], Any], text: str) -> None:
    with pytest.raises(SearchError, match=text):
        asyncio.run(embed_texts(Given(answer), ["a", "b", "c"]))


def test_parts_of_different_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PART", 2)
    given = Given(lambda texts: [[1.0] * len(texts)] * len(texts))
    with pytest.raises(SearchError, match="have 1 and 2 numbers"):
        asyncio.run(embed_texts(given, ["a", "b", "c"]))


def test_a_query_of_another_dimension_names_the_embedder() -> None:
    index = SearchIndex([("1", "a"), ("2", "b")], Given(lambda texts: [[1.0] * len(texts)] * len(texts)))
    with pytest.raises(SearchError, match="embedder given gives the query 1 dimensions and gave the documents 2"):
        asyncio.run(index.search("a", SearchParams()))
