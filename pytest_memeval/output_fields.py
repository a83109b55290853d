"""The fields of what an engine returned, or a file holds: each is read as its type, or it is said what was there.

A field that has a default may be left out; ``None`` is a value only where the default is ``None``. A number that JSON
does not have is written as one of three texts, and such a text is read as that number where a number belongs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from math import inf, isfinite, isnan, nan
from numbers import Integral, Real
from typing import Any
from uuid import UUID

from pytest_memeval.copies import copied
from pytest_memeval.documents.bounds import calendar_problem
from pytest_memeval.documents.problems import did_you_mean

NAN, INFINITY, MINUS_INFINITY = "NaN", "Infinity", "-Infinity"
#: How numbers are written that JSON does not have.
NO_NUMBERS: tuple[str, ...] = (NAN, INFINITY, MINUS_INFINITY)
#: What is nested deeper than this in an ``extra`` is left as it is.
_MAX_DEPTH = 100


def known_keys(data: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in data:
        if key not in allowed:
            raise ValueError(f"unknown key {key!r}{did_you_mean(str(key), allowed)}")


def kind_of(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def plain(value: object) -> object:
    """An Enum's value, and text as plain ``str``."""
    if isinstance(value, Enum):
        value = value.value
    return str.__str__(value) if isinstance(value, str) else value


# -- texts and ids -----------------------------------------------------------------------------------------------------


def text(data: Mapping[str, Any], key: str) -> str:
    """A text that has to be there: KeyError where it is not."""
    value = plain(data[key])
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {kind_of(value)}")
    return value


def text_or(data: Mapping[str, Any], key: str, default: str) -> str:
    return text(data, key) if key in data else default


def optional_text(data: Mapping[str, Any], key: str) -> str | None:
    return None if data.get(key) is None else text(data, key)


def identity(data: Mapping[str, Any], key: str) -> str:
    """An id that has to be there: KeyError where it is not."""
    return _identity(key, data[key])


def optional_identity(data: Mapping[str, Any], key: str) -> str | None:
    return None if data.get(key) is None else identity(data, key)


def identities(data: Mapping[str, Any], key: str, *, required: bool = False) -> tuple[str, ...]:
    """A list of ids or labels; none where the key is left out, unless it is required."""
    return tuple(_identity(key, element) for element in _elements(data, key, required=required))


def texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of labels; none where the key is left out."""
    found = []
    for element in _elements(data, key, required=False):
        value = plain(element)
        if not isinstance(value, str):
            raise ValueError(f"{key} must be text, got {kind_of(value)}")
        found.append(value)
    return tuple(found)


def _elements(data: Mapping[str, Any], key: str, *, required: bool) -> list[object]:
    if key not in data and not required:
        return []
    value = data[key]
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | set | frozenset):
        raise ValueError(f"{key} must be a list, got {kind_of(value)}")
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda element: str(plain(element)))
    return list(value)


def _identity(key: str, value: object) -> str:
    """Text, or a whole number or UUID used as an id. Another number is none: 7.0 would never be found as 7."""
    value = plain(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Integral | UUID):
        raise ValueError(f"{key} must be text or a whole number, got {kind_of(value)}")
    return str(value)


# -- numbers, times and what is free -----------------------------------------------------------------------------------


def number(data: Mapping[str, Any], key: str) -> float | None:
    """A number, NaN and infinity included, or ``None``; what is too large for a ``float`` is infinite."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value in NO_NUMBERS:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise ValueError(f"{key} must be a number, got {kind_of(value)}")
    read = _float(value)
    return int(value) if isinstance(value, int) and isfinite(read) else read


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
    except ValueError:  # a NaN that signals
        return nan


def number_to_json(value: float | None) -> float | str | None:
    """A number as :func:`number` reads it back: what JSON has no number for is a text."""
    if value is None or isfinite(value):
        return value
    return NAN if isnan(value) else INFINITY if value > 0 else MINUS_INFINITY


def time(data: Mapping[str, Any], key: str) -> datetime | None:
    value = data.get(key)
    if value is None:
        return None
    try:
        if not isinstance(value, str | date):
            raise ValueError
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{key} must be an ISO time, got {value!r:.60}") from None
    if (why := calendar_problem(moment)) is not None:
        raise ValueError(f"{key} is {why}; got {value!s:.60}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def extra(data: Mapping[str, Any]) -> dict[str, Any]:
    value = data.get("extra", {})
    if not isinstance(value, Mapping):
        raise ValueError(f"extra must be a mapping, got {kind_of(value)}")
    return copied(dict(value))


def extra_to_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """``extra`` with a text for each number that JSON does not have: null would say that there was nothing. It has no
    fields of known types, so that such a text stays one when it is read."""
    return {key: _free(item, 1, ()) for key, item in value.items()}


def _free(value: Any, depth: int, above: tuple[int, ...]) -> Any:
    if isinstance(value, float | Decimal):
        return value if isfinite(_float(value)) else number_to_json(_float(value))
    if depth >= _MAX_DEPTH or id(value) in above:
        return value
    if type(value) is dict:
        return {key: _free(item, depth + 1, (*above, id(value))) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_free(item, depth + 1, (*above, id(value))) for item in value]
    return value
