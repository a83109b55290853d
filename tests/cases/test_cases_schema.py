from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cases_sample import FULL

from pytest_memeval.cases.loader import load_case_set
from pytest_memeval.cases.schema import case_schema, schema_text
from pytest_memeval.cases.tables import ACTION, CASE, EXISTING_MEMORY, GT_MEMORY
from pytest_memeval.documents.reader import parse_document


@pytest.fixture
def sample() -> dict[str, Any]:
    loaded: dict[str, Any] = parse_document(FULL, Path("x.yaml")).root.value()
    return loaded


def is_valid(value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(case_schema()).is_valid(value))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(case_schema())


def test_the_committed_copy_is_up_to_date() -> None:
    committed = files("pytest_memeval") / "data" / "schemas" / "cases.schema.json"
    assert committed.read_text(encoding="utf-8") == schema_text()


def test_it_knows_every_key_of_the_loader() -> None:
    case = case_schema()["$defs"]["case"]
    assert set(case["properties"]) == set(CASE.fields)
    memory = case["properties"]["expected_l1"]["properties"]["memories"]["items"]
    assert set(memory["properties"]) == set(GT_MEMORY.fields)


def test_valid_files_validate(sample: dict[str, Any]) -> None:
    jsonschema.validate(sample, case_schema(), jsonschema.Draft202012Validator)
    jsonschema.validate(json.loads(json.dumps(yaml.load(FULL, yaml.BaseLoader))), case_schema())


def test_nulls_count_as_absent(sample: dict[str, Any]) -> None:
    sample["cases"][0].update(notes=None, tags=None, existing_scenes=None, difficulty=None, extra=None)
    sample["meta"]["gates"] = None
    assert is_valid(sample)


def rename(mapping: dict[str, Any], old: str, new: str) -> None:
    mapping[new] = mapping.pop(old)


def test_misspelt_keys_do_not_validate(sample: dict[str, Any]) -> None:
    fresh = json.dumps(sample)
    first = ("cases", 0)
    for place, key in [
        ((), "kind"),
        (first, "notes"),
        (first, "case_id"),
        ((*first, "existing_memories", 0), "priority"),
        ((*first, "expected_l1", "memories", 0), "memory_type"),
        ((*first, "expected_l15", "actions", 1), "reason"),
        ((*first, "expected_l2"), "scenes"),
        ((*first, "expected_inject"), "referenced_memory_indices"),
        ((*first, "expected_search_results", 0), "grades"),
        (("cases", 1, "conversation", 0), "role"),
    ]:
        changed = json.loads(fresh)
        mapping = changed
        for step in place:
            mapping = mapping[step]
        rename(mapping, key, key + "x")
        assert is_valid(json.loads(fresh))
        assert not is_valid(changed), key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("difficulty", "esay"),
        ("tags", "slow"),
        ("timeout", 0),
        ("timeout", "soon"),
        ("expected_l1", {}),
        ("notes", {"a": 1}),
        ("case_id", None),
    ],
)
def test_wrong_values_do_not_validate(sample: dict[str, Any], key: str, value: Any) -> None:
    sample["cases"][0][key] = value
    assert not is_valid(sample)


def test_a_case_needs_an_input_and_a_truth(sample: dict[str, Any]) -> None:
    truth: dict[str, Any] = {"memories": []}
    assert is_valid({"cases": [{"case_id": "a", "conversation": "hi", "expected_l1": truth}]})
    assert not is_valid({"cases": [{"case_id": "a", "conversation": "hi"}]})
    assert not is_valid({"cases": [{"case_id": "a", "expected_l1": truth}]})
    assert not is_valid({"cases": []})
    assert not is_valid({"meta": {}})


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (GT_MEMORY, ("expected_l1", "memories", 0)),
        (EXISTING_MEMORY, ("existing_memories", 0)),
        (ACTION, ("expected_l15", "actions", 0)),
    ],
    ids=["labelled memory", "existing memory", "action"],
)
def test_what_may_not_be_left_out_is_marked(
    sample: dict[str, Any], tmp_path: Path, table: Any, place: tuple[str | int, ...]
) -> None:
    """The reference's tables and the schema say of each key what the loader does without it."""
    fresh = json.dumps(sample)
    path = tmp_path / "x.yaml"
    for key, field in table.fields.items():
        for absent in ("left out", "null"):
            changed = json.loads(fresh)
            mapping: Any = changed["cases"][0]
            for step in place:
                mapping = mapping[step]
            mapping.pop(key, None)
            if absent == "null":
                mapping[key] = None
            path.write_text(json.dumps(changed), encoding="utf-8")
            found = load_case_set(path)
            problems = [*found.problems, *(problem for case in found.cases for problem in case.problems)]
            marked = field.required or field.needed
            assert bool(problems) is marked, (key, absent, problems)
            assert is_valid(changed) is not marked, (key, absent)
