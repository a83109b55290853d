"""What counts as a vector, in an answer and in a file."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.vectors import VectorEntry, is_vector, read_vectors, vector_key
from pytest_memeval.llm.wire import JunkBody

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-(2**31), 2**31)
VECTORS = st.lists(NUMBERS, min_size=1, max_size=5)
#: What no vector may hold.
FOREIGN = st.sampled_from([math.nan, math.inf, -math.inf, True, None, "1", [1], 10**400, {"a": 1}])


def answer(vectors: list[Any], order: list[int] | None = None) -> dict[str, Any]:
    places = range(len(vectors)) if order is None else order
    return {"data": [{"index": place, "embedding": vectors[place]} for place in places]}


@given(st.lists(VECTORS, max_size=5).flatmap(lambda v: st.tuples(st.just(v), st.permutations(range(len(v))))))
def test_vectors_are_read_in_the_order_of_their_texts(given: tuple[list[list[float]], list[int]]) -> None:
    vectors, order = given
    wanted = [[float(value) for value in vector] for vector in vectors]
    assert read_vectors(answer(vectors, order), len(vectors)) == wanted
    without = {"data": [{"embedding": vector} for vector in vectors]}
    assert read_vectors(without, len(vectors)) == wanted


@given(VECTORS, FOREIGN, st.integers(0, 5))
def test_one_foreign_number_is_enough(vector: list[Any], foreign: Any, place: int) -> None:
    spoilt = [*vector[:place], foreign, *vector[place:]]
    assert is_vector(vector)
    assert not is_vector(spoilt)
    with pytest.raises(JunkBody, match="no list of finite numbers"):
        read_vectors(answer([vector, spoilt]), 2)
    line = {"key": vector_key("e", "m", "t"), "endpoint": "e", "model": "m", "vector": spoilt}
    with pytest.raises(ValueError, match="no list of finite numbers"):
        VectorEntry.from_json(json.loads(json.dumps(line)))


@pytest.mark.parametrize(
    ("data", "count"),
    [(answer([[1.0]]), 2), (answer([[1.0], [2.0]]), 1), ({"data": [[1.0]]}, 1), ({"data": {}}, 1), (None, 1), ([], 0)],
)
def test_another_shape_is_no_answer(data: Any, count: int) -> None:
    with pytest.raises(JunkBody):
        read_vectors(data, count)


def test_no_text_has_no_vector() -> None:
    assert read_vectors({"data": []}, 0) == []
