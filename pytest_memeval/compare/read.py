"""A comparison read back from its JSON form, as a report with a baseline holds it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_memeval.compare.model import COMPARISON_VERSION, Comparison
from pytest_memeval.report.reader import ReportError


def comparison_from_json(data: Mapping[str, Any]) -> Comparison:
    """The comparison that :meth:`Comparison.to_json` gave. Raises ReportError for another major version and for data
    that is no comparison."""
    version = str(data.get("comparison_version", ""))
    if version.partition(".")[0] != COMPARISON_VERSION.partition(".")[0]:
        raise ReportError(f"The comparison has version {version or 'none'}; this version reads {COMPARISON_VERSION}.")
    try:
        comparison: Comparison = _read(Comparison, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"The comparison is damaged: {type(error).__name__} {error}.") from error
    return comparison


def _read(kind: Any, value: Any) -> Any:
    """``value`` as the declared ``kind``: data classes from mappings, tuples from lists, anything else as it is."""
    if value is None:
        return None
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{one.name: _read(hints[one.name], value[one.name]) for one in fields(kind) if one.name in value})
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read(next(each for each in inner if each is not type(None)), value)
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1:] == (Ellipsis,) else inner
        return tuple(_read(each, one) for each, one in zip(kinds, value, strict=True))
    return value
