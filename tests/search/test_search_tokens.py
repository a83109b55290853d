"""Tokens of documents and queries."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from search_texts import texts

from pytest_memeval.search.tokens import search_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("猫", ["猫"]),
        ("一只猫", ["一", "只", "猫", "一只", "只猫"]),
        ("用Python写", ["用", "python", "写"]),
        ("ﾃｽﾄ", ["テ", "ス", "ト", "テス", "スト"]),
        ("한국", ["한", "국", "한국"]),
        ("don't", ["don't", "don"]),
        ("don’t", ["don't", "don"]),
        ("the user's", ["the", "user's", "user"]),
        ("pre-edit", ["pre-edit", "pre", "edit"]),
        ("10:30", ["10:30", "10", "30"]),
        ("１０：３０", ["10:30", "10", "30"]),
        ("1,000", ["1,000", "1000", "1", "000"]),
        ("3.14", ["3.14", "3", "14"]),
        ("C++", ["c++"]),
        ("C++17", ["c++17", "c++", "17"]),
        ("C# or F#.", ["c#", "or", "f#"]),
        ("C", ["c"]),
        ("getUserId", ["getuserid", "get", "user", "id"]),
        ("get_user_id", ["get_user_id", "get", "user", "id"]),
        ("XMLHttpRequest", ["xmlhttprequest", "xml", "http", "request"]),
        ("ÉcoleNormale", ["écolenormale", "école", "normale"]),
        ("sha256", ["sha256", "sha", "256"]),
        ("__init__", ["init"]),
        ("src/app.py", ["src/app.py", "src", "app", "py"]),
        ("Straße", ["strasse"]),
        ("भाषा", ["भाषा"]),
        ("yes 🎯 →", ["yes", "🎯", "→"]),
        ("", []),
        (" \t\n", []),
        ("... -- '\" ++ #", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert search_tokens(text) == tokens


@given(texts)
def test_tokens_are_words_that_any_index_can_hold(text: str) -> None:
    for token in search_tokens(text):
        assert token
        assert not any(
            character.isspace() or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in token
        )


@given(texts)
def test_how_a_text_is_encoded_does_not_matter(text: str) -> None:
    once = unicodedata.normalize("NFKC", text)
    assert search_tokens(once) == search_tokens(text)


@given(texts, texts)
def test_a_text_keeps_its_tokens_beside_another(first: str, second: str) -> None:
    assert search_tokens(f"{first}\n{second}") == search_tokens(first) + search_tokens(second)
