"""L1: memories out of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pytest_memeval.engine.normalize import fold
from pytest_memeval.engine.protocol import StageContext, UnusableAnswer
from pytest_memeval.engine.reference.answers import ask_for_items, extraction_schema
from pytest_memeval.engine.reference.db import MemoryStore, fresh_ids
from pytest_memeval.engine.reference.fields import InvalidItem, as_object, finite, required_text, shown, text, texts
from pytest_memeval.values import Memory, Message


async def extract(conversation: Sequence[Message], ctx: StageContext, *, chunk_characters: int) -> list[Memory]:
    """The memories of a conversation, in the order in which the model gave them, with ids that the store lacks.

    A long conversation is read in chunks; a memory whose text a former chunk has given already adds its sources and
    labels to that one. Invalid items are dropped and recorded. Without messages there is nothing to ask: no memories.
    Raises StageError, or UnusableAnswer where a chunk's answer has no valid item among its items.
    """
    found: list[Memory] = []
    places: dict[str, int] = {}
    for chunk in split(conversation, chunk_characters):
        earlier = dict(places)
        for memory in await _extract_chunk(chunk, ctx):
            key = fold(memory.content)
            if key in earlier:
                found[earlier[key]] = _union(found[earlier[key]], memory)
            else:
                places.setdefault(key, len(found))
                found.append(memory)
    ids = fresh_ids("mem", MemoryStore(ctx.memory_db).ids(), len(found))
    return [
        replace(memory, id=memory_id, created_at=_source_time(memory, conversation, ctx.clock))
        for memory, memory_id in zip(found, ids, strict=True)
    ]


def split(conversation: Iterable[Message], characters: int) -> list[list[Message]]:
    """Consecutive messages in chunks of at most ``characters`` of content; a longer message is a chunk of its own."""
    chunks: list[list[Message]] = []
    size = 0
    for message in conversation:
        length = len(message.content)
        if not chunks or size + length > characters:
            chunks.append([])
            size = 0
        chunks[-1].append(message)
        size += length
    return chunks


async def _extract_chunk(chunk: Sequence[Message], ctx: StageContext) -> list[Memory]:
    items = await ask_for_items(
        ctx,
        "l1",
        "l1_extraction",
        extraction_schema(ctx.registry),
        key="memories",
        registry=ctx.registry,
        conversation=chunk,
        now=ctx.clock,
    )
    known = {message.id for message in chunk}
    memories: list[Memory] = []
    reason = ""
    for item in items:
        try:
            memories.append(_read(item, known, ctx))
        except InvalidItem as error:
            reason = str(error)
            ctx.record("invalid_item", stage="l1", reason=reason, item=shown(item))
    if items and not memories:
        raise UnusableAnswer(f"none of the {len(items)} items is a memory; the last one's fault: {reason}", stage="l1")
    return memories


def _read(item: Any, known: set[str], ctx: StageContext) -> Memory:
    data = as_object(item)
    content = required_text(data, "content")
    return Memory(
        id=None,
        content=content,
        dimensions=texts(data, "dimensions"),
        memory_type=_optional_text(data, "memory_type", ctx),
        priority=_priority(data, ctx),
        time_velocity=_optional_text(data, "time_velocity", ctx),
        source_message_ids=_sources(data, known, ctx),
    )


def _optional_text(data: dict[str, Any], key: str, ctx: StageContext) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        ctx.record("note", text=f"l1: {key} {shown(value, 60)} is not a text and was left out")
    return text(data, key)


def _priority(data: dict[str, Any], ctx: StageContext) -> float | None:
    value = data.get("priority")
    if value is None:
        return None
    number = finite(value)
    low, high = ctx.registry.priority_min, ctx.registry.priority_max
    if number is None or not low <= number <= high:
        ctx.record(
            "note", text=f"l1: priority {shown(value, 60)} is no number from {low:g} to {high:g} and was left out"
        )
        return None
    return number


def _sources(data: dict[str, Any], known: set[str], ctx: StageContext) -> tuple[str, ...]:
    """Message ids as texts; brackets around an id, as the conversation shows them, are taken off."""
    value = data.get("source_message_ids")
    if value is None:
        return ()
    elements = value if isinstance(value, list) else [value]
    found: dict[str, None] = {}
    for element in elements:
        if isinstance(element, bool) or not isinstance(element, str | int):
            ctx.record("note", text=f"l1: source message id {shown(element, 60)} is not a text and was left out")
            continue
        name = str(element).strip()
        bare = name.removeprefix("[").removesuffix("]").strip()
        if chosen := bare if bare in known and name not in known else name:
            found[chosen] = None
    return tuple(found)


def _union(first: Memory, second: Memory) -> Memory:
    return replace(
        first,
        dimensions=tuple(dict.fromkeys((*first.dimensions, *second.dimensions))),
        memory_type=first.memory_type if first.memory_type is not None else second.memory_type,
        priority=first.priority if first.priority is not None else second.priority,
        time_velocity=first.time_velocity if first.time_velocity is not None else second.time_velocity,
        source_message_ids=tuple(dict.fromkeys((*first.source_message_ids, *second.source_message_ids))),
    )


def _source_time(memory: Memory, conversation: Sequence[Message], clock: datetime) -> datetime:
    """The time of the last message that the memory names, else of the last message that has one, else the clock."""
    timed = [message for message in conversation if message.time is not None]
    sources = [message for message in timed if message.id in memory.source_message_ids]
    last = (sources or timed)[-1:]
    return last[0].time or clock if last else clock
