"""The arguments of ``pytest_memeval.run`` by their types: one of another type is a SettingsError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from pytest_memeval.options import Option, SettingsError


def stages_text(stages: str | Iterable[str] | None) -> str | None:
    """Stages as the option has them."""
    if stages is None or isinstance(stages, str):
        return stages
    return ",".join(_texts("stages", stages))


def functions(metrics: object) -> tuple[Callable[..., Any], ...]:
    """The metrics, if that is what they are."""
    found = tuple(metrics) if isinstance(metrics, Iterable) and not isinstance(metrics, str) else None
    if found is None or not all(callable(one) for one in found):
        raise SettingsError(f"run: metrics is a list of functions, not {_described(metrics)}")
    return found


def _texts(name: str, value: object) -> list[str]:
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping) else None
    if found is None or not all(isinstance(one, str) for one in found):
        raise SettingsError(f"run: {name} is a text or a list of texts, not {_described(value)}")
    return found


def _described(value: object) -> str:
    return f"{value!r:.60} ({type(value).__name__})"


#: Kind of an option → the types of Python that it takes besides a text, and what they are called.
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "text": ((Path,), "a text"),
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "flag": ((bool,), "True or False"),
}


def typed(option: Option, value: object) -> object:
    """The value of an option as its text, or as Python writes it. Raises SettingsError for one of another type."""
    name = option.name.replace("-", "_")
    if value is None:
        return None
    if option.kind == "list":
        return [value] if isinstance(value, str) else _texts(name, value)
    types, what = _TYPES[option.kind]
    is_text = isinstance(value, str) and option.kind != "flag"
    if not is_text and (not isinstance(value, types) or (isinstance(value, bool) and option.kind != "flag")):
        raise SettingsError(f"run: {name} is {what}, not {_described(value)}")
    return str(value) if isinstance(value, Path) and not option.relative else value
