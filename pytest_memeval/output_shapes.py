"""What an engine returned, or a file holds, taken into the value classes, or said what is wrong with it.

An engine may return the value classes or mappings with the same keys; :func:`coerce` accepts both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from numbers import Real
from typing import Any, TypeVar, cast

from pytest_memeval.documents.bounds import calendar_problem
from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.values import Block, Decision, Hit, Memory, Scene, Section

#: What memories were injected.
INJECT_KEYS: tuple[str, ...] = ("labelled", "pipeline")

T = TypeVar("T")


class OutputError(ValueError):
    """A stage output that has not the documented shape."""


def named(key: str, value: object, read: Callable[[object], T]) -> T:
    """What ``read`` makes of the value; OutputError says under which key it fails."""
    try:
        return read(value)
    except OutputError as error:
        raise OutputError(f"{key}: {error}") from None


def memories_of(value: object) -> list[Memory]:
    """A list of :class:`Memory` or of mappings with its fields (``memory_id`` is read as ``id``)."""
    return coerce(value, Memory, _memory, "memory")


def decisions_of(value: object) -> list[Decision]:
    return coerce(value, Decision, _decision, "decision")


def scenes_of(value: object) -> list[Scene]:
    return coerce(value, Scene, _scene, "scene")


def sections_of(value: object) -> list[Section]:
    return coerce(value, Section, _section, "section")


def blocks_of(value: object) -> list[Block]:
    return coerce(value, Block, _block, "block")


def hits_of(value: object) -> list[Hit]:
    """A list of :class:`Hit`, of mappings with its fields, or of bare ids; best first. Their order counts, not the
    scores, which may be left out."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = [{"id": element} if isinstance(element, str) else element for element in value]
    return coerce(value, Hit, _hit, "hit")


def search_of(value: object) -> dict[str, list[Hit]]:
    """Query → its hits."""
    if not isinstance(value, Mapping):
        raise OutputError(f"expected a mapping of query to a list of hits, got {_kind(value)}")
    return {str(query): named(f"query {str(query)!r:.60}", hits, hits_of) for query, hits in value.items()}


def template_of(value: object) -> dict[str, list[Section]]:
    """Mode → its sections."""
    if not isinstance(value, Mapping):
        raise OutputError(f"expected a mapping of mode to a list of sections, got {_kind(value)}")
    return {str(mode): named(f"mode {mode}", sections, sections_of) for mode, sections in value.items()}


def inject_of(value: object) -> dict[str, list[Block]]:
    """What was injected from the ``labelled`` memories and from the ``pipeline``'s own."""
    if not isinstance(value, Mapping):
        raise OutputError(f"expected a mapping with 'labelled' or 'pipeline' blocks, got {_kind(value)}")
    for key in value:
        if key not in INJECT_KEYS:
            raise OutputError(f"unknown key {key!r}{did_you_mean(str(key), INJECT_KEYS)}")
    return {key: named(key, blocks, blocks_of) for key, blocks in value.items() if blocks is not None}


def _kind(value: object) -> str:
    return "None (an empty list says that there is nothing)" if value is None else type(value).__name__


def coerce(value: object, cls: type[T], read: Callable[[Mapping[str, Any]], T], word: str) -> list[T]:
    """``value`` as a list of ``cls``, or OutputError with the index and the fault. Instances are checked as mappings
    are: an engine may have put anything into their fields."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise OutputError(f"expected a list of {word} objects, got {_kind(value)}")
    result: list[T] = []
    for index, element in enumerate(value):
        if isinstance(element, cls):
            element = {name: getattr(element, name) for name in _field_names(cast("Hashable", cls))}
        if not isinstance(element, Mapping):
            raise OutputError(f"{word} {index}: expected {cls.__name__} or a mapping, got {type(element).__name__}")
        try:
            result.append(read(element))
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise OutputError(f"{word} {index}: {what}") from None
    return result


@cache
def _field_names(cls: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]  # a class; only as a key


def _known(data: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in data:
        if key not in allowed:
            raise ValueError(f"unknown key {key!r}{did_you_mean(str(key), allowed)}")


def _plain(value: object) -> object:
    """An Enum's value, and text as plain ``str``."""
    if isinstance(value, Enum):
        value = value.value
    return str.__str__(value) if isinstance(value, str) else value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = _plain(data[key])
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {_kind_of_field(value)}")
    return value


def _optional_text(data: Mapping[str, Any], key: str) -> str | None:
    value = _plain(data.get(key))
    return None if value is None else _word(key, value)


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | set | frozenset):
        raise ValueError(f"{key} must be a list, got {_kind_of_field(value)}")
    elements = [_word(key, _plain(element)) for element in value]
    return tuple(sorted(elements) if isinstance(value, set | frozenset) else elements)


def _word(key: str, value: object) -> str:
    """Text, or a number used as an id."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | bytes | Mapping | Sequence | set):
        raise ValueError(f"{key} must be text, got {_kind_of_field(value)}")
    return str(value)


def _kind_of_field(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def _number(data: Mapping[str, Any], key: str) -> float | None:
    value = data.get(key)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise ValueError(f"{key} must be a number, got {_kind_of_field(value)}")
    return float(value)


def _extra(data: Mapping[str, Any]) -> dict[str, Any]:
    value = data.get("extra")
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"extra must be a mapping, got {_kind_of_field(value)}")
    return dict(value or {})


def _memory(data: Mapping[str, Any]) -> Memory:
    _known(
        data,
        (
            "id",
            "memory_id",
            "content",
            "dimensions",
            "memory_type",
            "priority",
            "time_velocity",
            "source_message_ids",
            "created_at",
            "extra",
        ),
    )
    return Memory(
        id=_optional_text(data, "id" if data.get("id") is not None else "memory_id"),
        content=_text(data, "content"),
        dimensions=_texts(data, "dimensions"),
        memory_type=_optional_text(data, "memory_type"),
        priority=_number(data, "priority"),
        time_velocity=_optional_text(data, "time_velocity"),
        source_message_ids=_texts(data, "source_message_ids"),
        created_at=_time(data.get("created_at")),
        extra=_extra(data),
    )


def _time(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"created_at must be an ISO time, got {value!r:.60}") from None
    if (why := calendar_problem(moment)) is not None:
        raise ValueError(f"created_at is {why}; got {value!s:.60}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _decision(data: Mapping[str, Any]) -> Decision:
    _known(data, ("memory_index", "action", "target_ids", "merged_content", "result_id", "reason"))
    index = data["memory_index"]
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"memory_index must be a whole number, got {index!r}")
    return Decision(
        memory_index=index,
        action=_text(data, "action"),
        target_ids=_texts(data, "target_ids"),
        merged_content=_optional_text(data, "merged_content"),
        result_id=_optional_text(data, "result_id"),
        reason=_optional_text(data, "reason"),
    )


def _scene(data: Mapping[str, Any]) -> Scene:
    _known(data, ("id", "title", "memory_ids", "change"))
    return Scene(
        id=_word("id", _plain(data["id"])),
        title=_text(data, "title"),
        memory_ids=_texts(data, "memory_ids"),
        change=_optional_text(data, "change"),
    )


def _section(data: Mapping[str, Any]) -> Section:
    _known(data, ("id", "title", "memory_ids"))
    if data.get("id") is None and data.get("title") is None:
        raise ValueError("a section needs an id or a title")
    identity = data["id"] if data.get("id") is not None else data["title"]
    title = data["title"] if data.get("title") is not None else identity
    return Section(
        id=_word("id", _plain(identity)), title=_word("title", _plain(title)), memory_ids=_texts(data, "memory_ids")
    )


def _block(data: Mapping[str, Any]) -> Block:
    _known(data, ("title", "memory_ids", "present", "text"))
    present = data.get("present", True)
    if not isinstance(present, bool):
        raise ValueError(f"present must be true or false, got {present!r}")
    return Block(
        title=_optional_text(data, "title") or "",
        memory_ids=_texts(data, "memory_ids"),
        present=present,
        text=_optional_text(data, "text") or "",
    )


def _hit(data: Mapping[str, Any]) -> Hit:
    _known(data, ("id", "score", "content", "source_ids"))
    score = _number(data, "score")
    if score is not None and not isfinite(score):
        raise ValueError(f"score must be a finite number, got {score}")
    return Hit(
        id=_word("id", _plain(data["id"])),
        score=0.0 if score is None else float(score),
        content=_optional_text(data, "content") or "",
        source_ids=_texts(data, "source_ids"),
    )
