"""The schema of files of questions, and that it is of one mind with the loader."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from dataset_samples import locomo_record, write_json

from pytest_memeval.qa.casefile import load_question_file
from pytest_memeval.qa.schema import qa_schema, qa_schema_text

QUESTION = {"id": "q", "question": "Where?", "answer": "Oslo"}
TALK = "[msg#1] 2026-01-01T10:00:00Z user: I fly to Oslo."
CASE = {"case_id": "c", "conversation": TALK, "questions": [QUESTION]}
SITTING = {"id": "s", "time": "2026-01-01T10:00:00Z", "conversation": TALK}
FILES: list[tuple[dict[str, Any], bool]] = [
    ({"kind": "qa", "cases": [CASE]}, True),
    ({"kind": "qa", "meta": {"gates": ["P0 qa.f1 >= 0.5"]}, "cases": [CASE]}, True),
    ({"kind": "qa", "cases": [{"case_id": "c", "sessions": [SITTING], "questions": [QUESTION]}]}, True),
    ({"kind": "qa", "cases": [{**CASE, "questions": [{"id": "q", "question": "?", "type": "adversarial"}]}]}, True),
    ({"kind": "qa", "cases": [{**CASE, "questions": [{**QUESTION, "expect": {"qa.f1": ">= 0.1"}}]}]}, True),
    ({"dataset": {"path": "locomo.json"}}, True),
    ({"dataset": {"format": "locomo", "path": "locomo.json", "limit": 3, "categories": [1], "captions": False}}, True),
    ({"kind": "qa", "cases": []}, False),
    ({"kind": "qa", "cases": [{**CASE, "sessions": [SITTING]}]}, False),
    ({"kind": "qa", "cases": [{"case_id": "c", "questions": [QUESTION]}]}, False),
    ({"kind": "qa", "cases": [{**CASE, "questions": []}]}, False),
    ({"kind": "qa", "cases": [{**CASE, "questions": [{**QUESTION, "type": "single_hopp"}]}]}, False),
    ({"kind": "qa", "cases": [{**CASE, "questions": [{**QUESTION, "anser": "x"}]}]}, False),
    ({"kind": "qa", "cases": [CASE], "dataset": {"path": "locomo.json"}}, False),
    ({"dataset": {"format": "locomoo", "path": "locomo.json"}}, False),
    ({"dataset": {"format": "locomo"}}, False),
    ({"dataset": {"path": "locomo.json", "limit": 0}}, False),
]


@pytest.mark.parametrize(("content", "good"), FILES)
def test_schema_and_loader_agree(tmp_path: Path, content: dict[str, Any], good: bool) -> None:
    write_json(tmp_path / "locomo.json", [locomo_record()])
    file = tmp_path / "set.memeval.yaml"
    file.write_text(json.dumps(content), encoding="utf-8")
    loaded = load_question_file(file)
    assert (not loaded.problems and not any(case.problems for case in loaded.cases)) is good
    assert jsonschema.Draft202012Validator(qa_schema()).is_valid(content) is good


def test_it_is_a_schema_and_the_committed_one() -> None:
    jsonschema.Draft202012Validator.check_schema(qa_schema())
    committed = files("pytest_memeval") / "data" / "schemas" / "qa.schema.json"
    assert committed.read_text(encoding="utf-8") == qa_schema_text()
