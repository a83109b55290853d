"""Plain JSON values out of files of users, nested no deeper than a document may be."""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_memeval.documents.yaml_parser import MAX_DEPTH

#: A bracket, or a string that is passed over; one that does not end reaches to the end of the text.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.?)*"?|([\[{])|([\]}])', re.DOTALL)


#: What Python takes for a number and JSON does not know, outside of strings.
_NO_NUMBERS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)


class _NoNumber(Exception):
    """A constant that is none of JSON's."""


class NestedTooDeep(json.JSONDecodeError):
    """Brackets within brackets, more than MAX_DEPTH of them; ``pos`` is the first one too many."""


def json_value(text: str, **keywords: Any) -> Any:
    """As ``json.loads``, which the keywords go to, but NestedTooDeep (a JSONDecodeError, so a ValueError) for what is
    nested more than MAX_DEPTH levels deep, however deep it is and whatever else is wrong with it, and a JSONDecodeError
    for NaN and Infinity, which are no JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse, **keywords)
    except _NoNumber as error:
        place = next((match.start() for match in _NO_NUMBERS.finditer(text) if match[1]), 0)
        raise json.JSONDecodeError(f"{error} is no number of JSON", text, place) from None
    except json.JSONDecodeError as error:
        at = _too_deep_at(text)
        if at is None or at > error.pos:
            raise
    except RecursionError:
        # A hook may run out of stack over what is nested less deep.
        at = _too_deep_at(text) or 0
    else:
        if text.count("[") + text.count("{") <= MAX_DEPTH or not _is_deep(value):
            return value
        at = _too_deep_at(text) or 0
    raise NestedTooDeep(f"nested more than {MAX_DEPTH} levels deep", text, at)


def _refuse(name: str) -> None:
    raise _NoNumber(name)


def _is_deep(value: Any) -> bool:
    """Whether containers lie too deep in one another, told level by level: each value is looked at once."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep_at(text: str) -> int | None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[1]:
            depth += 1
            if depth > MAX_DEPTH:
                return match.start()
        elif match[2]:
            depth -= 1
    return None
