"""What is handed to a project's own code, as copies: it may sort, change or keep what it is given."""

from __future__ import annotations

import copy
import datetime
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PosixPath, WindowsPath
from types import MappingProxyType
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: What nobody can change.
_FIXED: frozenset[type] = frozenset(
    {
        *(str, int, float, bool, type(None), bytes, complex, range, PosixPath, WindowsPath),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
    }
)


def copied(value: T) -> T:
    """The value with containers of its own all the way down, each of the type that it had; what holds nothing that
    could be changed is the value itself. An object that cannot be copied is left as it is."""
    if type(value) in _FIXED:
        return value
    try:
        return cast("T", _copied(value, {}))
    except RecursionError:  # it is nested more deeply than anything that is read from a file
        return value


def _copied(value: Any, known: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _FIXED:
        return value
    found = known.get(id(value))
    if found is not None:
        return found
    if kind is list:
        own_list: list[Any] = []
        known[id(value)] = own_list
        own_list += [_copied(item, known) for item in value]
        return own_list
    if kind is dict:
        own_dict: dict[Any, Any] = {}
        known[id(value)] = own_dict
        own_dict.update((key, _copied(item, known)) for key, item in value.items())
        return own_dict
    own = _other(kind, value, known)
    known[id(value)] = own
    return own


def _other(kind: type, value: Any, known: dict[int, Any]) -> Any:
    if kind is tuple:
        items = [_copied(item, known) for item in value]
        return tuple(items) if _differ(items, value) else value
    if kind is MappingProxyType:
        table = {key: _copied(item, known) for key, item in value.items()}
        return MappingProxyType(table) if _differ(table.values(), value.values()) else value
    names = _field_names(kind)
    if names is not None:
        return _with_fields(kind, value, names, known)
    if isinstance(value, Enum | type):
        return value
    try:
        return copy.deepcopy(value, known)
    except RecursionError:
        raise
    except Exception:  # a class of somebody's that cannot be copied: a connection, a lock
        return value


def _with_fields(kind: type, value: Any, names: tuple[str, ...], known: dict[int, Any]) -> Any:
    was = [getattr(value, name) for name in names]
    now = [_copied(item, known) for item in was]
    if _is_frozen(kind) and not _differ(now, was):
        return value
    own: Any = object.__new__(kind)
    if hasattr(value, "__dict__"):
        own.__dict__.update(value.__dict__)
    for name, item in zip(names, now, strict=True):
        object.__setattr__(own, name, item)
    return own


def _differ(now: Any, was: Any) -> bool:
    return any(one is not other for one, other in zip(now, was, strict=True))


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that is made as any object is; ``None`` for every other class."""
    made: Any = kind.__new__
    if not is_dataclass(kind) or made is not object.__new__:
        return None
    return tuple(one.name for one in fields(kind))


@cache
def _is_frozen(kind: type) -> bool:
    return bool(cast("Any", kind).__dataclass_params__.frozen)
