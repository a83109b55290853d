"""What an unquoted scalar stands for where its type is not known beforehand: YAML 1.2's core schema."""

from __future__ import annotations

import math
import re
from typing import Any

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def is_null(text: str) -> bool:
    """Whether unquoted ``text`` is null."""
    return text in _NULLS


def core_value(text: str) -> Any:
    """The value of unquoted ``text``: ``None``, ``bool``, ``int``, ``float`` (finite), else the text itself.

    Infinities and NaN stay text, since nothing downstream can hold them in strict JSON.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = number_value(text)
    return text if number is None else number


def number_value(text: str) -> int | float | None:
    """``text`` as a finite number (``85``, ``-1``, ``1e-1``, ``0x1F``) that a ``float`` can hold, or ``None``."""
    number: int | float
    try:
        if _INTEGER.fullmatch(text):
            number = int(text)
        elif _OCTAL_OR_HEX.fullmatch(text):
            number = int(text, 0)
        elif _FLOAT.fullmatch(text):
            number = float(text)
        else:
            return None
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):  # more digits than Python converts, or than a float holds
        return None


def is_too_large(text: str) -> bool:
    """Whether ``text`` is written as a number, but is none that a ``float`` can hold."""
    return number_value(text) is None and bool(_FLOAT.fullmatch(text) or _OCTAL_OR_HEX.fullmatch(text))


def typed_text(text: str) -> str | None:
    """A canonical spelling of unquoted ``text`` if it is null, a boolean or a number, else ``None``."""
    if text in _NULLS:
        return "null"
    if text in _BOOLEANS:
        return text.lower()
    return text if _FLOAT.fullmatch(text) or _OCTAL_OR_HEX.fullmatch(text) else None
