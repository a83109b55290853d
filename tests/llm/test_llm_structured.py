from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.structured import unwrap, wire_format

LIST = {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "string"}}}
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_levels() -> None:
    assert wire_format(None, "json_schema") is None
    assert wire_format(OBJECT, "none") is None
    assert wire_format(OBJECT, "json_object") == {"type": "json_object"}
    assert wire_format(LIST, "json_object") is None  # it would forbid the list


def test_a_list_is_wrapped_and_its_definitions_stay_at_the_root() -> None:
    wire = wire_format(MappingProxyType(LIST), "json_schema")
    assert wire is not None
    schema = wire["json_schema"]["schema"]
    assert schema["type"] == "object"
    assert schema["$defs"] == LIST["$defs"]
    assert schema["properties"]["items"] == {"type": "array", "items": {"$ref": "#/$defs/x"}}


def test_strict_only_where_every_object_is_closed() -> None:
    closed = {**OBJECT, "required": ["a"], "additionalProperties": False}
    for schema, strict in ((OBJECT, False), (closed, True), ({"type": "array", "items": OBJECT}, False)):
        wire = wire_format(schema, "json_schema")
        assert wire is not None
        assert wire["json_schema"]["strict"] is strict


@given(st.lists(st.text() | st.integers() | st.none()), st.sampled_from(["", " ", "<think>{}</think>\n"]))
def test_the_list_is_cut_out_letter_by_letter(values: list[object], prefix: str) -> None:
    text = json.dumps(values)
    assert unwrap(f'{prefix}{{ "items" : {text} }}\n', LIST).strip() == f"{prefix}{text}".strip()


@pytest.mark.parametrize(
    "text", ["[1]", '{"items": [1], "more": 2}', '{"items": [1', "", "prose", '{"memories": []}', '{"items": }']
)
def test_any_other_text_stays(text: str) -> None:
    assert unwrap(text, LIST) == text
    assert unwrap('{"items": [1]}', OBJECT) == '{"items": [1]}'
    assert unwrap('{"items": [1]}', None) == '{"items": [1]}'
