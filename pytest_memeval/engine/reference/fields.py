"""Reads single fields of a model's answer, strictly enough that nothing is guessed."""

from __future__ import annotations

import math
from typing import Any

from pytest_memeval.llm.payload import has_lone_surrogate


class InvalidItem(ValueError):
    """Why an item of an answer is dropped."""


def as_object(item: Any) -> dict[str, Any]:
    """The item as an object whose texts can be stored. Raises InvalidItem."""
    if not isinstance(item, dict):
        raise InvalidItem("not an object")
    if has_lone_surrogate(item):
        raise InvalidItem("holds half of a surrogate pair")
    return item


def text(item: dict[str, Any], key: str) -> str | None:
    """A text that is not blank, trimmed; anything else is None."""
    value = item.get(key)
    return value.strip() or None if isinstance(value, str) else None


def required_text(item: dict[str, Any], key: str) -> str:
    """A text that is not blank, trimmed. Raises InvalidItem."""
    value = text(item, key)
    if value is None:
        absent = item.get(key) is None or isinstance(item[key], str)
        raise InvalidItem(f"{key!r} is missing or empty" if absent else f"{key!r} is not a text")
    return value


def texts(item: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, each once; one text counts as a list of one, a missing list as empty. Raises InvalidItem."""
    value = item.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
        raise InvalidItem(f"{key!r} is not a list of texts")
    return tuple(dict.fromkeys(element.strip() for element in value if element.strip()))


def indexes(item: dict[str, Any], key: str, count: int) -> tuple[int, ...]:
    """A list of indexes below ``count``, each once; a missing list is empty. Raises InvalidItem."""
    value = item.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidItem(f"{key!r} is not a list of indexes")
    return tuple(dict.fromkeys(index_below(element, key, count) for element in value))


def index_below(value: Any, key: str, count: int) -> int:
    """A whole number from 0 to ``count`` - 1 (``2.0`` is one). Raises InvalidItem."""
    number = finite(value)
    if number is None or number != int(number):
        raise InvalidItem(f"{key!r} holds {value!r}, not an index")
    if not 0 <= number < count:
        raise InvalidItem(f"{key!r} holds {value!r}, outside of 0–{count - 1}")
    return int(number)


def finite(value: Any) -> float | None:
    """A finite number; a boolean, a text or anything else is None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond what a float holds
        return None


def shown(item: Any, limit: int = 500) -> str:
    """An item for a record: short, and free of what a file could not hold."""
    import json

    try:
        written = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        written = "an item that cannot be written"
    written = written.encode("utf-8", "replace").decode("utf-8")
    return written if len(written) <= limit else written[: limit - 1] + "…"
