"""The JSON Schema of files of questions in YAML, made from the tables that the loader reads with."""

from __future__ import annotations

import json
from typing import Any

from pytest_memeval.cases.tables import CASE as DISTILLATION
from pytest_memeval.qa.casefile import CASE, FILE

Schema = dict[str, Any]


def qa_schema() -> Schema:
    """JSON Schema (draft 2020-12) of a YAML file of kind ``qa``: cases of one's own (``$defs/case``), or ``dataset:``
    that names a published file. The published files' own layouts are the benchmarks'."""
    case = CASE.schema()
    conversation = DISTILLATION.fields["conversation"].type.schema()
    for part in (case["properties"], case["properties"]["sessions"]["items"]["properties"]):
        part["conversation"] = {**part["conversation"], **conversation}
    for name in ("sessions", "questions"):
        case["properties"][name]["minItems"] = 1
    case["oneOf"] = [{"required": ["conversation"]}, {"required": ["sessions"]}]
    file = FILE.schema()
    file["properties"]["kind"] = {"const": "qa", "description": "qa"}
    # Written without quotes these are booleans to whoever reads YAML 1.1.
    file["properties"]["dataset"]["properties"]["captions"]["enum"] += [True, False]
    file["properties"]["cases"] = {
        "description": FILE.fields["cases"].description,
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/$defs/case"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-memeval file of questions",
        **file,
        "oneOf": [{"required": ["cases", "kind"]}, {"required": ["dataset"]}],
        "$defs": {"case": case},
    }


def qa_schema_text() -> str:
    """The schema as committed in ``data/schemas`` and printed by ``memeval schema qa``."""
    return json.dumps(qa_schema(), indent=2, ensure_ascii=False) + "\n"
