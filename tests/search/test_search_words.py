"""Word search by FTS5 and by bm25s."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from search_texts import documents, texts

from pytest_memeval.search.bm25 import Bm25Index
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fts import FtsIndex
from pytest_memeval.search.tokens import search_tokens

CORPUS = [
    ("cat", "用户最近养了一只猫"),
    ("dont", "I don't eat meat"),
    ("pre", "the pre-edit hook failed"),
    ("edit", "edit the file before lunch"),
    ("time", "stand-up at 10:30"),
    ("late", "stand-up at 11:30"),
    ("cpp", "knows C++ and Rust"),
    ("c", "knows C and Rust"),
    ("code", "calls getUserId in user_store.py"),
]
QUERIES = ["猫", "一只", "don't", "pre-edit", "10:30", "C++", "C", "user", "getuserid", "knows rust", "the"]
INDEXES = [FtsIndex, Bm25Index]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("猫", "cat"),
        ("养了", "cat"),
        ("don't", "dont"),
        ("pre-edit", "pre"),
        ("10:30", "time"),
        ("C++", "cpp"),
        ("C", "c"),
        ("getUserId", "code"),
        ("userid store", "code"),
    ],
)
def test_the_right_document_is_first(index: type[FtsIndex | Bm25Index], query: str, first: str) -> None:
    assert index(CORPUS).search(query)[0][0] == first


@pytest.mark.parametrize("index", INDEXES)
def test_a_query_is_read_as_words_and_never_as_a_language(index: type[FtsIndex | Bm25Index]) -> None:
    found = index(CORPUS)
    for query in ("", "  ", "'", '"', "*", "( OR", "^", "-", "...", "\x00"):
        assert found.search(query) == [], query
    assert [identifier for identifier, _ in found.search("C++")] == ["cpp"]
    # NOT, NEAR and a column's name are words that no document holds.
    for query in ("NOT", "NEAR(", "words:", "tokens : x", "NOT* NEAR/2"):
        assert found.search(query) == [], query


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=60)
@given(documents=documents, query=texts)
def test_what_is_found_shares_a_token_with_the_query(
    index: type[FtsIndex | Bm25Index], documents: list[tuple[str, str]], query: str
) -> None:
    wanted = set(search_tokens(query))
    found = index(documents).search(query)
    assert {identifier for identifier, _ in found} == {
        identifier for identifier, text in documents if wanted.intersection(search_tokens(text))
    }
    assert all(score >= 0 for _, score in found)
    assert found == index(list(reversed(documents))).search(query)


@pytest.mark.parametrize("index", INDEXES)
def test_equal_documents_stand_in_the_order_of_their_ids(index: type[FtsIndex | Bm25Index]) -> None:
    same = [("b", "green tea"), ("c", "green tea"), ("a", "green tea"), ("x", "coffee"), ("y", "milk"), ("z", "water")]
    found = index([*same, ("w", "juice")]).search("tea")
    assert [identifier for identifier, _ in found] == ["a", "b", "c"]
    assert index([*same, ("w", "juice")]).search("tea", 2) == found[:2]


@pytest.mark.parametrize("index", INDEXES)
def test_an_id_given_twice_is_refused(index: type[FtsIndex | Bm25Index]) -> None:
    with pytest.raises(SearchError, match="'a' is given twice"):
        index([("a", "x"), ("b", "y"), ("a", "z")])


@pytest.mark.parametrize("index", INDEXES)
def test_an_empty_corpus_finds_nothing(index: type[FtsIndex | Bm25Index]) -> None:
    assert index([]).search("tea") == []
    assert index([("a", ""), ("b", "...")]).search("tea") == []


def test_both_agree_at_the_constants_that_fts5_has_built_in() -> None:
    # Tokens in fewer than half of the documents: there both have Robertson's idf.
    fts, bm25 = FtsIndex(CORPUS), Bm25Index(CORPUS)
    for query in QUERIES:
        assert [one for one, _ in fts.search(query)] == [one for one, _ in bm25.search(query)], query
        assert [score for _, score in fts.search(query)] == pytest.approx(
            [score for _, score in bm25.search(query)], rel=1e-6
        ), query


def test_a_token_of_most_documents_weighs_next_to_nothing() -> None:
    most = [("a", "tea now"), ("b", "tea"), ("c", "tea"), ("d", "milk")]
    assert [score for _, score in Bm25Index(most).search("tea")] == [0, 0, 0]
    assert all(0 < score < 1e-5 for _, score in FtsIndex(most).search("tea"))


def test_k1_and_b_change_the_order() -> None:
    corpus = [
        ("long", "tea tea tea " + "word " * 30),
        ("short", "tea leaf"),
        *((f"n{i}", "other words") for i in range(9)),
    ]
    assert [one for one, _ in Bm25Index(corpus, k1=1.2, b=1).search("tea")] == ["short", "long"]
    assert [one for one, _ in Bm25Index(corpus, k1=1.2, b=0).search("tea")] == ["long", "short"]
    # With k1 = 0 only the presence of a word counts.
    assert len({round(score, 9) for _, score in Bm25Index(corpus, k1=0).search("tea")}) == 1


@pytest.mark.parametrize(
    ("k1", "b", "text"), [(-1, 0.5, "bm25_k1"), (float("nan"), 0.5, "bm25_k1"), (1, 1.5, "bm25_b")]
)
def test_constants_out_of_range(k1: float, b: float, text: str) -> None:
    with pytest.raises(SearchError, match=f"{text} must be"):
        Bm25Index(CORPUS, k1=k1, b=b)


def test_a_long_text_is_a_query_like_any_other() -> None:
    long = " ".join(f"word-x{number}" for number in range(100, 3_000))
    assert [one for one, _ in FtsIndex([*CORPUS, ("long", "word-x107")]).search(long)] == ["long"]


def test_an_index_in_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    index = FtsIndex(CORPUS, path=path)
    index.close()
    again = FtsIndex(path=path)
    assert len(again) == len(CORPUS)
    assert again.search("猫")[0][0] == "cat"
    with pytest.raises(SearchError, match="'cat' is given twice"):
        again.add([("new", "x"), ("cat", "y")])
    assert again.search("x") == []
    again.close()


def test_several_threads_search_at_once() -> None:
    index = FtsIndex(CORPUS)
    wanted = {query: index.search(query) for query in QUERIES}
    wrong: list[str] = []

    def ask() -> None:
        for _ in range(20):
            wrong.extend(query for query in QUERIES if index.search(query) != wanted[query])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
