"""The schema of files of RAG samples, and that it is of one mind with the loader."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_memeval.rag.loading import load_rag_set
from pytest_memeval.rag.rows import CASE_KEYS, COLUMNS
from pytest_memeval.rag.schema import rag_schema, rag_schema_text

ROW = {"query": "q", "response": "r"}
YAML: list[tuple[dict[str, Any], bool]] = [
    ({"kind": "rag", "cases": [ROW]}, True),
    ({"kind": "rag", "meta": {"version": 1, "gates": ["P0 rag.answer_f1 >= 0.5"]}, "cases": [ROW]}, True),
    ({"kind": "rag", "cases": [{**ROW, "contexts": ["a", {"text": "b"}, 3], "tags": ["slow"], "group": 7}]}, True),
    ({"kind": "rag", "cases": [{**ROW, "contexts": None, "expect": {"rag.answer_f1": ">= 0.5"}}]}, True),
    ({"kind": "rag", "cases": [{"user_input": "q", "reference": ["t"]}]}, True),
    ({"kind": "rag", "cases": [{"response": "r"}]}, False),
    ({"kind": "rag", "cases": [{**ROW, "respnse": "r"}]}, False),
    ({"kind": "rag", "cases": [{**ROW, "contexts": {"text": "b"}}]}, False),
    ({"kind": "rag", "cases": [{**ROW, "contexts": [["b"]]}]}, False),
    ({"kind": "rag", "cases": [{**ROW, "difficulty": "hrad"}]}, False),
    ({"kind": "rag", "cases": [{**ROW, "expect": {"l1.memory_recall": ">= 0.5"}}]}, False),
    ({"kind": "rag", "cases": []}, False),
    ({"kind": "rag", "case": [ROW]}, False),
]
JSON: list[tuple[Any, bool]] = [
    ([ROW, {**ROW, "score": 0.5, "model": {"name": "x"}}], True),
    ([{"kind": "rag", "meta": {"version": "1"}}, ROW], True),
    ([{"response": "r", "contexts": []}], False),
    ([{**ROW, "tags": "slow"}], False),
]


def accepted(path: Path, value: Any) -> bool:
    path.write_text(json.dumps(value), encoding="utf-8")
    loaded = load_rag_set(path)
    return not loaded.problems and not any(case.problems for case in loaded.cases)


def is_valid(value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(rag_schema()).is_valid(value))


def test_it_is_a_schema_and_the_committed_copy_is_up_to_date() -> None:
    jsonschema.Draft202012Validator.check_schema(rag_schema())
    committed = files("pytest_memeval") / "data" / "schemas" / "rag.schema.json"
    assert committed.read_text(encoding="utf-8") == rag_schema_text()


def test_it_knows_every_key_of_the_loader() -> None:
    known = {name for names in COLUMNS.values() for name in names} | set(CASE_KEYS)
    for name in ("sample", "row"):
        assert set(rag_schema()["$defs"][name]["properties"]) == known


@pytest.mark.parametrize(("value", "good"), YAML)
def test_yaml_files(tmp_path: Path, value: dict[str, Any], good: bool) -> None:
    assert (is_valid(value), accepted(tmp_path / "a.yaml", value)) == (good, good)


@pytest.mark.parametrize(("value", "good"), JSON)
def test_lists_of_rows(tmp_path: Path, value: list[Any], good: bool) -> None:
    assert (is_valid(value), accepted(tmp_path / "a.json", value)) == (good, good)
