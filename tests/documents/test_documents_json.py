from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.documents.json_parser import parse_json, parse_jsonl
from pytest_memeval.documents.problems import DocumentError

PATH = Path("x.json")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(json_values, st.booleans(), st.sampled_from([None, 2]))
def test_dumped_values_come_back(value: Any, ascii_only: bool, indent: int | None) -> None:
    document = parse_json(json.dumps(value, ensure_ascii=ascii_only, indent=indent), PATH)
    assert document.problems == ()
    assert document.root.value() == value


@given(st.text(alphabet=list('{}[]:,"\\ud83e+-.0123tfnrals\n \t'), max_size=40))
def test_accepts_exactly_what_json_accepts(text: str) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
        accepted = True
    except ValueError:
        accepted = False
    try:
        parse_json(text, PATH)
        ours = True
    except DocumentError:
        ours = False
    assert ours == accepted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "a": 1,\n}', "3:1: not readable as JSON: expected a key in double quotes, found '}'"),
        ("[1,\n 2", "2:3: not readable as JSON: expected ',' or the closing bracket, found the end"),
        ('{"a" 1}', "1:6: not readable as JSON: expected ':', found '1}'"),
        ("[NaN]", "1:2: not readable as JSON: expected a value or ']', found 'NaN]'"),
        ('["a\nb"]', "1:4: not readable as JSON: a string is not closed on its line"),
        ('["a\x01b"]', "1:4: not readable as JSON: a control character in a string"),
        ('["a\\x"]', "not readable as JSON: a backslash that begins no escape"),
        ('["a', "not readable as JSON: a string is not closed"),
        ("{} {}", "1:4: not readable as JSON: '{}' follows the end of the value"),
        ("", "expected a value, found the end"),
    ],
)
def test_faults_have_their_place(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_json(text, PATH)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 10_000, '{"a":' * 10_000])
def test_f35_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="nested more than 100 levels deep"):
        parse_json(text, PATH)


def test_f15_duplicate_keys_name_both_lines() -> None:
    document = parse_json('{"a": 1,\n "b": {"c": 1,\n "c": 2},\n "a": 3}', PATH)
    assert [(problem.line, problem.message) for problem in document.problems] == [
        (3, "duplicate key 'c' in one object: lines 2 and 3"),
        (4, "duplicate key 'a' in one object: lines 1 and 4"),
    ]


def test_f34_surrogates() -> None:
    document = parse_json('{"a": "\\ud83d\\ude00", "b": [\n"\\ud83d"]}', PATH)
    assert document.root.value() == {"a": "😀", "b": ["\ufffd"]}
    (lone,) = document.lone_surrogates
    assert document.place(document.tape.offsets[lone])[0] == 2


def test_numbers_keep_their_text() -> None:
    document = parse_json("[3.10, 1e2, -0]", PATH)
    assert [node.text for node in document.root.elements()] == ["3.10", "1e2", "-0"]


def test_jsonl_lines_are_read_apart() -> None:
    text = '{"a": 1}\r\n\n{"a": \n  {"b": "\u2028"}\n[}\n{"c": 1, "c": 2}\n"last"'
    document = parse_jsonl(text, PATH)
    assert document.root.value() == [{"a": 1}, {"b": "\u2028"}, {"c": 2}, "last"]
    assert [problem.line for problem in document.problems] == [3, 5, 6]
    assert [node.line for node in document.root.elements()] == [1, 4, 6, 7]


def test_an_empty_jsonl_is_an_empty_list() -> None:
    assert parse_jsonl("\n\n", PATH).root.value() == []
