"""What an engine returned, or a file holds, taken into the value classes, or said what is wrong with it.

An engine may return the value classes or mappings with the same keys; :func:`coerce` accepts both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from math import isfinite
from typing import Any, TypeVar, cast

from pytest_memeval import output_fields as of
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


def _memory(data: Mapping[str, Any]) -> Memory:
    of.known_keys(
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
        id=of.optional_identity(data, "id" if data.get("id") is not None else "memory_id"),
        content=of.text(data, "content"),
        dimensions=of.texts(data, "dimensions"),
        memory_type=of.optional_text(data, "memory_type"),
        priority=of.number(data, "priority"),
        time_velocity=of.optional_text(data, "time_velocity"),
        source_message_ids=of.identities(data, "source_message_ids"),
        created_at=of.time(data, "created_at"),
        extra=of.extra(data),
    )


def _decision(data: Mapping[str, Any]) -> Decision:
    of.known_keys(data, ("memory_index", "action", "target_ids", "merged_content", "result_id", "reason"))
    index = data["memory_index"]
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"memory_index must be a whole number, got {index!r}")
    return Decision(
        memory_index=index,
        action=of.text(data, "action"),
        target_ids=of.identities(data, "target_ids"),
        merged_content=of.optional_text(data, "merged_content"),
        result_id=of.optional_identity(data, "result_id"),
        reason=of.optional_text(data, "reason"),
    )


def _scene(data: Mapping[str, Any]) -> Scene:
    of.known_keys(data, ("id", "title", "memory_ids", "change"))
    return Scene(
        id=of.identity(data, "id"),
        title=of.text(data, "title"),
        memory_ids=of.identities(data, "memory_ids"),
        change=of.optional_text(data, "change"),
    )


def _section(data: Mapping[str, Any]) -> Section:
    of.known_keys(data, ("id", "title", "memory_ids"))
    identity, title = of.optional_identity(data, "id"), of.optional_text(data, "title")
    if identity is None and title is None:
        raise ValueError("a section needs an id or a title")
    return Section(
        id=identity if identity is not None else cast("str", title),
        title=title if title is not None else cast("str", identity),
        memory_ids=of.identities(data, "memory_ids"),
    )


def _block(data: Mapping[str, Any]) -> Block:
    of.known_keys(data, ("title", "memory_ids", "present", "text"))
    title, memory_ids = of.text(data, "title"), of.identities(data, "memory_ids", required=True)
    present = data["present"]
    if not isinstance(present, bool):
        raise ValueError(f"present must be true or false, got {present!r}")
    return Block(title=title, memory_ids=memory_ids, present=present, text=of.text(data, "text"))


def _hit(data: Mapping[str, Any]) -> Hit:
    of.known_keys(data, ("id", "score", "content", "source_ids"))
    return Hit(
        id=of.identity(data, "id"),
        score=finite_score(data),
        content=of.text_or(data, "content", ""),
        source_ids=of.identities(data, "source_ids"),
    )


def finite_score(data: Mapping[str, Any]) -> float | None:
    """A hit's score; ``None`` for one that has none."""
    score = of.number(data, "score")
    if score is not None and not isfinite(score):
        raise ValueError(f"score must be a finite number, got {score}")
    return None if score is None else float(score)
