"""The file of distractors and its schema: both take and refuse the same lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_memeval.cases.distractors import load_distractors
from pytest_memeval.documents.problems import DocumentError

SCHEMA = Path(__file__).parents[2] / "pytest_memeval" / "data" / "schemas" / "distractors.schema.json"

GOOD: list[Any] = [
    {"content": "drinks oat milk"},
    {"id": "cat", "content": "对猫过敏", "extra": {"from": "elsewhere"}},
    {"content": "é\u0301 👩‍👩‍👧 שלום"},
    "a text by itself",
]
BAD: list[tuple[Any, str]] = [
    ({}, "content is missing"),
    ({"content": " "}, "content is missing"),
    ({"content": 7}, "content is missing"),
    ({"content": "x", "contents": "y"}, "unknown key 'contents'; did you mean 'content'"),
    ({"content": "x", "id": 7}, "id must be text, got 7"),
    ({"content": "x", "id": " "}, "id must be text, got ' '"),
    ({"content": "x", "id": "tea#0"}, "id 'tea#0' holds a '#'"),
    ("", "content is missing"),
    (["x"], "expected a JSON object or text, got list"),
    (None, "expected a JSON object or text, got NoneType"),
]


def fits(row: Any) -> bool:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(row)


def test_good_lines_are_read_and_fit(tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text("\ufeff" + "\r\n\r\n".join(json.dumps(row) for row in GOOD), encoding="utf-8")
    found = load_distractors(file)
    assert [memory.id for memory in found] == ["distractor-1", "cat", "distractor-5", "distractor-7"]
    assert [memory.content for memory in found] == ["drinks oat milk", "对猫过敏", GOOD[2]["content"], GOOD[3]]
    assert all(fits(row) for row in GOOD)


@pytest.mark.parametrize(("row", "message"), BAD)
def test_bad_lines_are_told_with_their_place_and_do_not_fit(row: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text(f'{{"content": "fine"}}\n{json.dumps(row)}\n', encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load_distractors(file)
    assert message in str(caught.value)
    assert "more.jsonl:2" in str(caught.value)
    assert not fits(row)
