"""Embeddings from spelling, and the search for neighbours."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_texts import texts

from pytest_memeval.llm.protocol import Embedder
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.lexical import LexicalEmbedder
from pytest_memeval.search.vectors import WHY, VectorIndex

HAS_VEC = VectorIndex(["a"], [[1.0]]).backend != "numpy"
BACKENDS = ["numpy", pytest.param(None, marks=pytest.mark.skipif(not HAS_VEC, reason="sqlite-vec cannot be loaded"))]


def embedded(*given: str) -> list[list[float]]:
    return asyncio.run(LexicalEmbedder().embed(given))


def test_spelling_makes_neighbours() -> None:
    embedder = LexicalEmbedder(["he studied astronomy", "she bakes bread", "他对猫毛过敏", "喜欢喝茶"])
    rows = embedder.matrix(["he studied astronomy", "she bakes bread", "他对猫毛过敏", "喜欢喝茶"])
    for query, best in (("an astronomer", 0), ("bread baking", 1), ("过敏", 2), ("茶", 3)):
        assert int(np.argmax(rows @ embedder.matrix([query])[0])) == best, query
    assert isinstance(embedder, Embedder)
    assert LexicalEmbedder().fitted(["x"]).dimension == LexicalEmbedder().dimension


def test_rare_features_weigh_more_than_common_ones() -> None:
    corpus = ["the user likes tea", "the user likes rain", "the user likes dogs", "the user likes jazz"]
    plain, fitted = LexicalEmbedder(), LexicalEmbedder(corpus)
    query, right, wrong = "tea the user drinks", "likes tea", "the user likes jazz"

    def margin(embedder: LexicalEmbedder) -> float:
        rows = embedder.matrix([query, right, wrong])
        return float(rows[0] @ rows[1] - rows[0] @ rows[2])

    assert margin(fitted) > margin(plain)


@given(texts)
def test_a_vector_has_length_one_or_zero(text: str) -> None:
    length = float(np.linalg.norm(LexicalEmbedder().matrix([text])[0]))
    assert length == pytest.approx(1, abs=1e-5) or length == 0


def test_the_same_vectors_in_another_process() -> None:
    code = (
        "import asyncio, json; from pytest_memeval.search.lexical import LexicalEmbedder;"
        "print(json.dumps(asyncio.run(LexicalEmbedder(['a cat', '猫']).embed(['猫 and a cat']))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    here = asyncio.run(LexicalEmbedder(["a cat", "猫"]).embed(["猫 and a cat"]))
    assert np.array_equal(np.array(here), np.array(json.loads(done.stdout)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nearest_first_and_ties_by_id(backend: str | None) -> None:
    index = VectorIndex(["b", "a", "far", "zero"], [[2, 0], [1, 0], [-1, 0.1], [0, 0]], backend=backend)
    found = index.search([5, 0])
    assert [one for one, _ in found] == ["a", "b", "far"]
    assert found[0][1] == found[1][1] == pytest.approx(1)
    assert [one for one, _ in index.search([5, 0], 1)] == ["a"]
    assert [one for one, _ in index.search([5, 0], min_similarity=0)] == ["a", "b"]
    assert index.search([0, 0]) == []


@pytest.mark.skipif(not HAS_VEC, reason="sqlite-vec cannot be loaded")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_extension_and_the_scan_agree(data: st.DataObject) -> None:
    value = st.floats(-1e6, 1e6, width=32)
    rows = data.draw(st.lists(st.lists(value, min_size=3, max_size=3), min_size=1, max_size=12))
    asked = data.draw(st.lists(value, min_size=3, max_size=3))
    ids = [f"d{index}" for index in range(len(rows))]
    extension, scan = VectorIndex(ids, rows).search(asked), VectorIndex(ids, rows, backend="numpy").search(asked)
    assert {one for one, _ in extension} == {one for one, _ in scan}
    similarity = dict(scan)
    for identifier, found in extension:
        assert found == pytest.approx(similarity[identifier], abs=1e-5)
    # The order may differ only between similarities that are equal within the rounding.
    ordered = [similarity[one] for one, _ in extension]
    assert all(first >= second - 1e-5 for first, second in pairwise(ordered))


def test_what_searches_is_said() -> None:
    index = VectorIndex(["a"], [[1.0, 0.0]])
    assert (index.fallback is None) == index.backend.startswith("sqlite-vec")
    scan = VectorIndex(["a"], [[1.0, 0.0]], backend="numpy")
    assert (scan.backend, scan.fallback) == ("numpy", "asked_for")


def test_without_the_package_the_scan_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    index = VectorIndex(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
    assert (index.backend, index.fallback) == ("numpy", "no_package")
    assert "not installed" in WHY["no_package"]
    assert index.search([0.0, 2.0])[0][0] == "b"


@pytest.mark.skipif(not HAS_VEC, reason="sqlite-vec cannot be loaded")
def test_a_python_without_extensions_and_without_apsw_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    index = VectorIndex(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
    wanted = {True: "sqlite-vec over sqlite3", False: "numpy"}
    assert index.backend == wanted[hasattr(sqlite3.Connection, "enable_load_extension")]
    assert index.fallback in (None, "no_extensions")


@pytest.mark.parametrize(
    ("ids", "vectors", "text"),
    [
        (["a", "a"], [[1], [2]], "'a' is given twice"),
        (["a"], [[1], [2]], "1 ids but 2 vectors"),
        (["a", "b"], [[1], [2, 3]], "different dimensions: 1, 2"),
        (["a"], [[float("nan")]], "not finite"),
    ],
)
def test_vectors_that_do_not_fit(ids: list[str], vectors: list[list[float]], text: str) -> None:
    with pytest.raises(SearchError, match=text):
        VectorIndex(ids, vectors)


def test_a_query_of_another_dimension() -> None:
    with pytest.raises(SearchError, match="the query has 2 dimensions, the corpus 3"):
        VectorIndex(["a"], [[1, 2, 3]]).search([1, 2])
    assert VectorIndex([], []).search([1, 2]) == []
