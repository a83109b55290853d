"""The keys of a mapping in braces, found without parsing what is nested in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.documents.braces import keys_in_braces

NAMES = st.text("abcdefgkind_", min_size=1)
SCALARS = st.one_of(st.booleans(), st.none(), st.integers(), NAMES)
NESTED = st.recursive(
    st.one_of(SCALARS, st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=20,
)
HOLDERS = st.one_of(st.lists(NESTED), st.dictionaries(st.text(), NESTED))


@given(st.dictionaries(NAMES, st.one_of(SCALARS, HOLDERS)), st.sampled_from([None, 1]), st.booleans())
def test_every_key_is_found_with_its_scalar(document: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    shown = {
        key: "" if isinstance(value, list | dict) else value if isinstance(value, str) else json.dumps(value)
        for key, value in document.items()
    }
    found = keys_in_braces(text)
    assert found is not None
    assert dict(found) == shown


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("{}", {}),
        ("# first\n--- {kind: qa, cases: [{a: 'b}', c: \"]\"}], more: 1}", {"kind": "qa", "cases": "", "more": "1"}),
        ("{a: [1, # ] }\n 2], b: 3}", {"a": "", "b": "3"}),
        ("{a: [x#], b: 2}", {"a": "", "b": "2"}),
        ('{"a": ["\\"]", "\\\\"], "b": {"kind": "rag"}}', {"a": "", "b": ""}),
        ("{[1, 2]: 3, b: 4}", {"b": "4"}),
        # what is cut off is told as far as it goes
        ('{"kind": "qa", "cases": [{"a": "x', {"kind": "qa", "cases": ""}),
        ('{"kind": "qa", "cases": [{"a": 1}', {"kind": "qa", "cases": ""}),
        ('{"kind": "q', {}),
    ],
)
def test_strings_comments_and_nesting(text: str, keys: dict[str, str]) -> None:
    found = keys_in_braces(text.encode())
    assert found is not None
    assert dict(found) == keys


def test_what_begins_otherwise_has_none() -> None:
    assert keys_in_braces(b"kind: qa\n") is None
    assert keys_in_braces(b"[{}]") is None
    assert keys_in_braces(b"") is None


def test_what_closes_the_mapping_ends_it() -> None:
    assert dict(keys_in_braces(b"{a: 1} {kind: qa}") or ()) == {"a": "1"}
