from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.documents.json_parser import parse_json
from pytest_memeval.documents.json_values import NestedTooDeep, json_value
from pytest_memeval.documents.problems import DocumentError

SENTENCE = "nested more than 100 levels deep"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(VALUES)
def test_is_json_loads(value: Any) -> None:
    assert json_value(json.dumps(value)) == value


@given(st.text(alphabet='[]{}",:1\\ \n', max_size=40))
def test_what_is_no_json_is_told_as_json_loads_does(text: str) -> None:
    assert outcome(json_value, text) == outcome(json.loads, text)


def outcome(load: Callable[[str], Any], text: str) -> object:
    try:
        return load(text)
    except json.JSONDecodeError as error:
        return error.msg, error.pos


@given(
    st.lists(st.sampled_from(["list", "object"]), min_size=90, max_size=110),
    st.booleans(),
    st.sampled_from(['"["', '"{\\"["', "1"]),
)
def test_the_limit_is_that_of_documents(shells: list[str], whole: bool, core: str) -> None:
    text = core
    for shell in shells:
        text = f"[{text}]" if shell == "list" else f'{{"a[": {text}}}'
    text = text if whole else text[: -len(shells)]
    try:
        parse_json(text, Path("x.json"))
        said = ""
    except DocumentError as error:
        said = str(error)
    if SENTENCE in said:
        with pytest.raises(NestedTooDeep) as found:
            json_value(text)
        assert found.value.msg == SENTENCE
        assert said.startswith(f"x.json:1:{found.value.colno}:")
    elif whole:
        assert json_value(text) == json.loads(text)
    else:
        with pytest.raises(json.JSONDecodeError) as other:
            json_value(text)
        assert not isinstance(other.value, NestedTooDeep)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 100_000 + "]" * 100_000])
def test_however_deep(text: str) -> None:
    with pytest.raises(NestedTooDeep, match=SENTENCE) as found:
        json_value("\n" + text)
    assert found.value.lineno == 2


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert json_value(json.dumps([[{}]] * 1000)) == [[{}]] * 1000


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("text", ["{}", "[1, {}]", '{{"NaN": "Infinity, \\" NaN", "x": [{}]}}', ' [{}, "a'])
def test_what_only_python_takes_for_a_number_is_refused_with_its_place(text: str, word: str) -> None:
    written = text.replace("{{", "{").replace("}}", "}").replace("[{}", f"[{word}").replace("{}", word)
    with pytest.raises(json.JSONDecodeError, match=f"{word} is no number of JSON") as caught:
        json_value(written)
    assert written[caught.value.pos :].startswith(word)
    assert caught.value.pos == written.rindex(word)
