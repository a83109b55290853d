"""Asking for JSON by schema, and taking the answer out of the wrapping that servers insist on.

Servers want an object at a schema's root, while many answers here are lists. Such a schema is sent as an object with
the one property ``items``, and the list is cut out of the answer again, letter by letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

FormatLevel = Literal["json_schema", "json_object", "none"]

_WRAPPER = "items"
_DEFINITIONS = ("$defs", "definitions", "$schema")
_WRAPPED = re.compile(r"\A(\s*(?:<think>.*?</think>\s*)?)\{\s*\"items\"\s*:\s*(.*)\}\s*\Z", re.DOTALL)


def plain(value: Any) -> Any:
    """A JSON value in dicts and lists only, whatever mappings and sequences it was built of."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def needs_wrapping(schema: Mapping[str, Any]) -> bool:
    """Whether the schema's root is something else than an object."""
    return schema.get("type") in ("array", "string", "number", "integer", "boolean", "null")


def wire_format(schema: Mapping[str, Any] | None, level: FormatLevel) -> dict[str, Any] | None:
    """The ``response_format`` of a request for an answer by ``schema``, or ``None`` to leave it out.

    ``json_object`` is not used for a list: the server would force an object where the prompt asks for a list.
    """
    if schema is None or level == "none":
        return None
    if level == "json_object":
        return None if needs_wrapping(schema) else {"type": "json_object"}
    root = plain(schema)
    if needs_wrapping(schema):
        hoisted = {name: root.pop(name) for name in _DEFINITIONS if name in root}
        root = {
            **hoisted,
            "type": "object",
            "properties": {_WRAPPER: root},
            "required": [_WRAPPER],
            "additionalProperties": False,
        }
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": root, "strict": _is_strict(root)}}


def unwrap(text: str, schema: Mapping[str, Any] | None) -> str:
    """The text without the ``items`` object around it; any other text as it is."""
    if schema is None or not needs_wrapping(schema):
        return text
    match = _WRAPPED.match(text)
    if match is None:
        return text
    prefix, inner = match.groups()
    try:
        # Only a whole value may be cut out: `{"items": [], "more": 1}` has a rest and stays.
        json.loads(inner)
    except (ValueError, RecursionError):
        return text
    return str(prefix + inner.rstrip())


def _is_strict(schema: Any) -> bool:
    """Whether a schema keeps strict mode's rule: every object closed, and all its properties required."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties", {})
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
                return False
        return all(_is_strict(value) for value in schema.values())
    if isinstance(schema, list):
        return all(_is_strict(value) for value in schema)
    return True
