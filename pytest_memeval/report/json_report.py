"""Strict JSON: whatever a case's result holds becomes text that every JSON reader accepts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: Python refuses to print integers of more than 4,300 digits; beyond this many bits an integer is given in hexadecimal.
_MAX_INT_BITS = 14_000
#: Whole numbers up to here need no second look.
_EXACT = 2**63
#: Deeper nesting than this is given as text: neither json nor its readers go much further.
_MAX_DEPTH = 100


def plain(value: Any) -> Any:
    """``value`` as dicts with string keys, lists, strings, finite numbers, booleans and ``None`` only.

    An Enum gives its value, dates and times their ISO form, Decimal and Fraction a float, a Path its text with forward
    slashes, a dataclass its fields, a set a sorted list, a numpy scalar or array its Python counterpart. NaN and
    infinity give ``None``. Anything else gives its ``str()``.
    """
    return _plain(value, 0, set())


def _plain(value: Any, depth: int, inside: set[int]) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return _plain(value.value, depth + 1, inside) if depth < _MAX_DEPTH else _text(value)
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _MAX_INT_BITS else hex(number)
    scalar, result = _scalar(value)
    if scalar:
        return result
    if depth >= _MAX_DEPTH or id(value) in inside:
        return f"<{kind.__name__}: {'circular' if id(value) in inside else 'nested too deeply'}>"
    inside.add(id(value))
    try:
        return _container(value, lambda item: _plain(item, depth + 1, inside))
    finally:
        inside.discard(id(value))


def _scalar(value: Any) -> tuple[bool, Any]:
    """(True, plain value) for what holds no other values, else (False, None)."""
    if isinstance(value, str):
        return True, str.__str__(value)
    if isinstance(value, (float, Decimal, Fraction)):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            return True, None
        return True, number if math.isfinite(number) else None
    if isinstance(value, (datetime, date, time)):
        return True, value.isoformat()
    if isinstance(value, PurePath):
        return True, value.as_posix()
    if isinstance(value, (bytes, bytearray)):
        return True, bytes(value).decode("utf-8", "backslashreplace")
    return False, None


def _container(value: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): inner(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((inner(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, Sequence):
        return [inner(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: inner(getattr(value, field.name)) for field in fields(value)}
    # numpy is not imported for this: its scalars and arrays are known by their module and their tolist().
    if type(value).__module__.partition(".")[0] == "numpy" and callable(getattr(value, "tolist", None)):
        return inner(value.tolist())
    return _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # a class of somebody's whose __str__ does not work
        return f"<{type(value).__name__}: no text>"


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    scalar, result = _scalar(key)
    return _text(result if scalar and result is not None else key)


#: Made once: every case is written three times. What refers to itself ends in a RecursionError here.
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, default=plain)


def dumps(obj: Any, *, indent: int | None = None) -> str:
    """Strict JSON text of any value (see :func:`plain`), with non-ASCII text as it is.

    Never raises for what a value holds: there is no NaN or infinity in the result, and half a surrogate pair is
    written as an escape, so that encoding the text as UTF-8 cannot fail.
    """
    try:
        if indent is None:
            text = _COMPACT.encode(obj)
        else:
            text = json.dumps(obj, ensure_ascii=False, allow_nan=False, default=plain, indent=indent)
    except (ValueError, TypeError, RecursionError):
        # NaN, a circular reference, a key that is no string, great depth: rare, and worth the slower walk only then.
        text = json.dumps(plain(obj), ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def own_copy(value: Any) -> Any:
    """What reading :func:`dumps` of ``value`` gives: its JSON form, with containers of its own all the way down."""
    try:
        return _copied(value)
    except (_NotJson, RecursionError):
        return json.loads(dumps(value))


class _NotJson(Exception):
    """A value that its JSON form is not equal to."""


def _copied(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise _NotJson
        return {key: _copied(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_copied(item) for item in value]
    if (kind is float and math.isfinite(value)) or (kind is int and -_EXACT <= value <= _EXACT):
        return value
    raise _NotJson


#: Lists of a report that have a row for each case, in a line of its own.
_ROWS = frozenset({"per_case", "not_run", "gone"})


def report_chunks(
    report: Mapping[str, Any], line_of: Callable[[Mapping[str, Any]], str] | None = None
) -> Iterator[str]:
    """The text of ``report.json`` piece by piece: the keys indented, ``per_case`` and other long lists with one line a
    case. ``line_of`` gives the text of an entry of ``per_case`` where it is known already."""
    yield "{"
    for position, (name, value) in enumerate(report.items()):
        yield ("," if position else "") + f"\n  {dumps(name)}: "
        if name in _ROWS and value:
            text_of = dumps if line_of is None or name != "per_case" else line_of
            for number, entry in enumerate(value):
                yield (",\n    " if number else "[\n    ") + text_of(entry)
            yield "\n  ]"
        elif isinstance(value, (Mapping, list, tuple)):
            yield dumps(value, indent=2).replace("\n", "\n  ")
        else:
            yield dumps(value)
    yield "\n}\n"
