from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.tree import Document
from pytest_memeval.documents.yaml_parser import parse_yaml

PATH = Path("x.yaml")
BOTH = pytest.mark.parametrize("pure", [False, True], ids=["libyaml", "python"])


def value_of(text: str, pure: bool = False) -> Any:
    document = parse_yaml(text, PATH, pure_python=pure)
    assert document.problems == ()
    return document.root.value()


def message_of(text: str, pure: bool = False) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, PATH, pure_python=pure)
    return str(caught.value)


@BOTH
def test_f03_scalars_keep_their_text(pure: bool) -> None:
    written = ["no", "010", "12:30", "2024-05-01", "3.10", "1e-1", "0x1F", "yes", "~", "null", ".inf", "1_000"]
    document = parse_yaml("".join(f"- {text}\n" for text in written), PATH, pure_python=pure)
    assert [node.text for node in document.root.elements()] == written
    assert document.root.texts() == [None if text in ("~", "null") else text for text in written]


@BOTH
def test_plain_values_follow_yaml_1_2(pure: bool) -> None:
    text = "{a: no, b: 010, c: 12:30, d: 2024-05-01, e: 3.10, f: 1e-1, g: ~, h: , i: true, j: 0x1F, k: .inf, l: '7'}"
    assert value_of(text, pure) == {
        "a": "no", "b": 10, "c": "12:30", "d": "2024-05-01", "e": 3.1, "f": 0.1, "g": None, "h": None, "i": True,
        "j": 31, "k": ".inf", "l": "7",
    }  # fmt: skip


@BOTH
def test_places(pure: bool) -> None:
    document = parse_yaml("# first\na:\n  - x\n  - {b: 'y'}\nc: |\n  one\n  two\n", PATH, pure_python=pure)
    places = {}
    for key, value in document.root.items():
        places[key.text] = (key.place, value.place)
    assert places["a"][0] == (2, 1)
    assert places["c"] == ((5, 1), (5, 4))
    first, second = next(value for key, value in document.root.items() if key.text == "a").elements()
    assert first.place == (3, 5)
    (b,) = second.items()
    assert (b[0].place, b[1].place) == ((4, 6), (4, 9))
    block = document.root.get("c")
    assert block is not None
    assert [block.line_of_text(index) for index in (0, 1)] == [6, 7]


@BOTH
def test_f15_duplicate_keys_name_both_lines(pure: bool) -> None:
    document = parse_yaml("a: 1\nb:\n  x: 1\n  y: 2\n  x: 3\na: 2\n", PATH, pure_python=pure)
    assert [(p.line, p.column, p.message) for p in document.problems] == [
        (5, 3, "duplicate key 'x' in one mapping: lines 3 and 5"),
        (6, 1, "duplicate key 'a' in one mapping: lines 1 and 6"),
    ]
    with pytest.raises(DocumentError, match="duplicate key 'x'"):
        document.raise_problems()


@BOTH
def test_f15_merges_with_override_work(pure: bool) -> None:
    text = """\
base: &base {a: 1, b: {c: 2}, d: [3]}
one:
  <<: *base
  a: 9
two: {<<: [{a: 5}, *base, {e: 6}]}
nested:
  - &anchored
    <<: *base
    d: &inner [x]
  - *anchored
  - *inner
"""
    value = value_of(text, pure)
    assert value == {
        "base": {"a": 1, "b": {"c": 2}, "d": [3]},
        "one": {"a": 9, "b": {"c": 2}, "d": [3]},
        "two": {"a": 5, "b": {"c": 2}, "d": [3], "e": 6},
        "nested": [{"d": ["x"], "a": 1, "b": {"c": 2}}, {"d": ["x"], "a": 1, "b": {"c": 2}}, ["x"]],
    }
    assert value == yaml.safe_load(text)


@BOTH
def test_a_quoted_merge_key_is_an_ordinary_key(pure: bool) -> None:
    assert value_of('{"<<": 1}', pure) == {"<<": 1}
    assert "'<<' merges a mapping" in message_of("{<<: 1}", pure)


@BOTH
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1:1: the file is empty"),
        ("# only a comment\n", "1:1: the file is empty"),
        ("a: 1\n---\nb: 2\n", "2:1: the file holds several YAML documents"),
        ("a: !custom 1\n", "1:4: the YAML tag '!custom' is not supported here"),
        ("a:\n  !!python/object:os.system {}\n", "2:3: the YAML tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("[a, b]: 1\n", "1:1: a mapping or list cannot be a key"),
        ("a: *nothing\n", "1:4: the alias *nothing names nothing"),
        ("a: &x [1, *x]\n", "the alias *x stands inside what it names"),
        ("a: [1, 2\nb: 3\n", "not readable as YAML"),
        ("a: \x01\n", "1:4: not readable as YAML: the character U+0001 is not allowed"),
        ("é: [\n", "not readable as YAML"),
    ],
)
def test_what_is_refused(text: str, said: str, pure: bool) -> None:
    assert said in message_of(text, pure)


@BOTH
def test_standard_tags_and_keys_by_alias(pure: bool) -> None:
    document = parse_yaml("&k a: !!str 1\nb: !!int 2\nc: ! 3\nd: !!seq []\ne: {*k : x}\n", PATH, pure_python=pure)
    assert document.root.value() == {"a": "1", "b": 2, "c": "3", "d": [], "e": {"a": "x"}}


def test_f35_alias_bomb_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    started = time.process_time()
    assert "aliases expand this file too far" in message_of("\n".join(lines))
    assert time.process_time() - started < 2


def test_f35_a_merge_bomb_is_refused_quickly() -> None:
    lines = ["a0: &a0 {k: [x, x, x, x, x, x, x, x, x]}"]
    for level in range(1, 12):
        keys = ", ".join(f"k{index}: *a{level - 1}" for index in range(9))
        lines.append(f"a{level}: &a{level} {{<<: *a{level - 1}, {keys}}}")
    assert "aliases expand this file too far" in message_of("\n".join(lines))


def test_aliases_in_reason_are_expanded() -> None:
    text = "base: &base [1, 2, 3]\nall:\n" + "  - *base\n" * 20_000
    assert len(value_of(text)["all"]) == 20_000


@BOTH
@pytest.mark.parametrize("text", ["[" * 10_000, "- " * 10_000, "{a: " * 500, "[" * 101 + "]" * 101])
def test_f35_deep_nesting_is_refused(text: str, pure: bool) -> None:
    assert "nest" in message_of(text, pure)


def test_f35_nesting_through_aliases_is_refused() -> None:
    lines = ["- &a0 [x]", *(f"- &a{level} [*a{level - 1}]" for level in range(1, 200))]
    assert "nested more than 100 levels deep" in message_of("\n".join(lines))


def test_nesting_up_to_the_limit_is_read() -> None:
    value = value_of("[" * 100 + "]" * 100)
    for _ in range(99):
        (value,) = value
    assert value == []


def lone_texts(document: Document) -> list[str]:
    return [document.tape.texts[at] for at in document.lone_surrogates]


@BOTH
def test_f34_escaped_surrogates(pure: bool) -> None:
    text = (
        'pair: "a \\ud83d\\ude00 b"\n'
        'lone: "x \\uD83D y"\n'
        'escaped: "\\\\ud83d\\\\ude00"\n'
        "single: '\\ud83d\\uDE00'\n"
        "# a comment \\ud83d\n"
        "block: |\n  \\uD83D\\ude00\n"
        'again: "\\ude00\\ud83d\\ude00"\n'
        '"\\ud83d\\ude01": key\n'
    )
    document = parse_yaml(text, PATH, pure_python=pure)
    assert document.root.value() == {
        "pair": "a 😀 b",
        "lone": "x \ufffd y",
        "escaped": "\\ud83d\\ude00",
        "single": "\\ud83d\\uDE00",
        "block": "\\uD83D\\ude00\n",
        "again": "\ufffd😀",
        "😁": "key",
    }
    assert lone_texts(document) == ["x \ufffd y", "\ufffd😀"]


@BOTH
def test_f34_lone_surrogates_are_found_through_merges_and_aliases(pure: bool) -> None:
    text = 'base: &b {x: "\\ud83d", y: 1}\none: {<<: *b, y: [2, 3]}\n"\\ud83d": *b\n'
    document = parse_yaml(text, PATH, pure_python=pure)
    assert lone_texts(document) == ["\ufffd"] * 4
    assert [document.place(document.tape.offsets[at])[0] for at in document.lone_surrogates] == [1, 1, 3, 1]


@BOTH
def test_columns_count_characters(pure: bool) -> None:
    document = parse_yaml('{"😀猫": x, "\\ud83d\\ude00": y}', PATH, pure_python=pure)
    assert [(key.place, value.place) for key, value in document.root.items()] == [((1, 2), (1, 8)), ((1, 11), (1, 27))]


@BOTH
def test_unicode_line_separators_are_text(pure: bool) -> None:
    text = 'a: "x\u2028   y\x85z"\nb: |\n  q\u2029r\nc: m\u2028n\n'
    document = parse_yaml(text, PATH, pure_python=pure)
    assert document.root.value() == {"a": "x\u2028   y\x85z", "b": "q\u2029r\n", "c": "m\u2028n"}
    assert [key.line for key, _ in document.root.items()] == [1, 2, 4]


def test_what_a_yaml_1_1_dumper_makes_of_line_separators_comes_back() -> None:
    for text in ("a\u2028b", "\u2029", "x\x85y z", "a\u2028 b", "  \u2028"):
        dumped = yaml.safe_dump({"deep": {"er": [text]}}, allow_unicode=True)
        assert value_of(dumped) == {"deep": {"er": [text]}}


def test_private_use_characters_are_not_disturbed_by_the_shield() -> None:
    assert value_of('a: "\ue000\\ue001 \\ud83d\\ude00\u2028"\n') == {"a": "\ue000\ue001 😀\u2028"}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def has_separator(value: Any) -> bool:
    """Runs of these characters and line feeds are not written in a way that any reader gets back, unless escaped."""
    return any(character in "\x85\u2028\u2029" for character in json.dumps(value, ensure_ascii=False))


@given(json_like, st.booleans(), st.booleans())
def test_dumped_values_come_back(value: Any, unicode: bool, flow: bool) -> None:
    text = yaml.safe_dump(
        value, allow_unicode=unicode and not has_separator(value), default_flow_style=flow, sort_keys=False
    )
    back = parse_yaml(text, PATH).root
    strings_quoted = back.value()
    assert strings_quoted == _as_1_2(value, yaml.safe_load(text))


def _as_1_2(value: Any, loaded: Any) -> Any:
    """What YAML 1.2 reads where the 1.1 dumper left a string plain that 1.1 would read as the same string."""
    assert loaded == value
    if isinstance(value, dict):
        return {str(key): _as_1_2(inner, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_1_2(inner, inner) for inner in value]
    if isinstance(value, str):
        node = parse_yaml(yaml.safe_dump([value]), PATH).root
        (element,) = node.elements()
        assert element.text == value
        return element.value()
    return value


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_document_errors(content: bytes) -> None:
    _never_otherwise(content.decode("utf-8", "replace"))


@given(st.text(alphabet=list("{}[]:,-&*!|>'\"%#?<\\ud83\n \tab@`~"), max_size=60))
def test_arbitrary_syntax_raises_nothing_but_document_errors(text: str) -> None:
    _never_otherwise(text)


def _never_otherwise(text: str) -> None:
    for pure in (False, True):
        problems: tuple[Problem, ...] = ()
        try:
            parse_yaml(text, PATH, pure_python=pure).root.value()
        except DocumentError as error:
            problems = error.problems
        assert all(problem.line >= 1 and problem.message for problem in problems)
