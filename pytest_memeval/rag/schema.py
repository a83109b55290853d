"""The JSON Schema of files of RAG samples, made from the columns that the loader reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_memeval.cases.tables import DIFFICULTIES, SOURCES
from pytest_memeval.documents.bounds import MAX_SECONDS
from pytest_memeval.rag.loading import META
from pytest_memeval.rag.rows import COLUMNS, PASSAGE_KEYS

Schema = dict[str, Any]

#: Unquoted numbers and booleans are text where text is expected, and null counts as absent.
_TEXT: Schema = {"type": ["string", "number", "boolean", "null"]}
_PASSAGE: Schema = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        {"type": "object", "anyOf": [{"required": [key]} for key in PASSAGE_KEYS]},
    ]
}
_PASSAGES: Schema = {"anyOf": [_TEXT, {"type": "array", "items": {"$ref": "#/$defs/passage"}}]}
#: Field → what stands under each of its columns.
_FIELDS: Mapping[str, tuple[Schema, str]] = {
    "query": (_TEXT, "the question"),
    "contexts": (_PASSAGES, "the retrieved passages, best first"),
    "response": (_TEXT, "the system's answer"),
    "ground_truth": ({"anyOf": [_TEXT, {"type": "array", "maxItems": 1, "items": _TEXT}]}, "the right answer"),
    "reference_contexts": (_PASSAGES, "the passages that should be retrieved"),
    "case_id": (_TEXT, "unique in the file; without it row-1, row-2 …"),
    "group": (_TEXT, "what samples share: intervals are over groups"),
}
_CASE_KEYS: Mapping[str, Schema] = {
    "source": {"enum": [*SOURCES, None], "description": "where the sample comes from"},
    "difficulty": {"enum": [*DIFFICULTIES, None], "description": "how hard the sample is"},
    "tags": {"type": ["array", "null"], "items": {"type": "string"}, "description": "markers for -m"},
    "timeout": {
        "type": ["number", "string", "null"],
        "exclusiveMinimum": 0,
        "maximum": MAX_SECONDS,
        "description": "seconds for the sample",
    },
    "expect": {
        "type": ["object", "null"],
        "propertyNames": {"pattern": r"^(rag|metrics)\."},
        "additionalProperties": {"type": ["string", "number"]},
        "description": "metric → threshold of this sample, such as '>= 0.6'",
    },
    "extra": {"description": "anything, kept in the sample's meta"},
    "notes": {**_TEXT, "description": "remarks"},
}


def rag_schema() -> Schema:
    """JSON Schema (draft 2020-12) of a file of kind ``rag``. ``$defs/sample`` is a sample in YAML, where an unknown key
    is an error, ``$defs/row`` one in JSON or a line of JSONL, where other columns are kept, ``$defs/head`` what may
    stand before the first of those."""
    columns: Schema = {
        name: {**schema, "description": what if name == field else f"another name of {field}"}
        for field, (schema, what) in _FIELDS.items()
        for name in COLUMNS[field]
    }
    row: Schema = {
        "type": "object",
        "properties": {**columns, **_CASE_KEYS},
        "anyOf": [{"required": [name]} for name in COLUMNS["query"]],
    }
    head: Schema = {
        "type": "object",
        "properties": {"kind": {"const": "rag"}, "meta": META.schema()},
        "minProperties": 1,
        "additionalProperties": False,
    }
    rows: Schema = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"$ref": "#/$defs/row"}, {"$ref": "#/$defs/head"}]},
    }
    file: Schema = {
        "type": "object",
        "properties": {
            "kind": {"const": "rag"},
            "meta": META.schema(),
            "cases": {**rows, "items": {"$ref": "#/$defs/sample"}, "description": "the samples"},
            "generate": {"type": "string", "pattern": "^[^:]+:.+$", "description": "module:attribute that makes them"},
        },
        "required": ["kind"],
        "oneOf": [{"required": ["cases"]}, {"required": ["generate"]}],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest-memeval file of RAG samples",
        "anyOf": [{"$ref": "#/$defs/file"}, rows],
        "$defs": {
            "file": file,
            "sample": {**row, "additionalProperties": False},
            "row": row,
            "head": head,
            "passage": _PASSAGE,
        },
    }


def rag_schema_text() -> str:
    """The schema as committed in ``data/schemas`` and printed by ``memeval schema rag``."""
    return json.dumps(rag_schema(), indent=2, ensure_ascii=False) + "\n"
