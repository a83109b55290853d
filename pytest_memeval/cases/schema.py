"""The JSON Schema of case files, made from the tables that the loader reads with."""

from __future__ import annotations

import json
from typing import Any

from pytest_memeval.cases.tables import CASE, CASE_FILE, INPUT_KEYS, TRUTH_KEYS


def case_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a case file; a line of a ``.memeval.jsonl`` file is ``$defs/case``.

    It knows keys and structure. Labels depend on a set's own registry and templates, so only the loader checks those.
    """
    case = CASE.schema()
    case["allOf"] = [{"anyOf": [{"required": [key]} for key in keys]} for keys in (INPUT_KEYS, TRUTH_KEYS)]
    schema = CASE_FILE.schema()
    schema["properties"]["cases"] = {
        "description": CASE_FILE.fields["cases"].description,
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/$defs/case"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-memeval case file",
        **schema,
        "anyOf": [{"required": ["cases"]}, {"required": ["dataset"]}],
        "$defs": {"case": case},
    }


def schema_text() -> str:
    """The schema as committed in ``data/schemas`` and printed by ``memeval schema``."""
    return json.dumps(case_schema(), indent=2, ensure_ascii=False) + "\n"
