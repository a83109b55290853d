"""How dimensions, conversations, memories and scenes look inside a prompt.

Each kind stands in a block of its own, ``<kind>`` and ``</kind>`` on lines by themselves. Memories and scenes are one
JSON object a line; text is never escaped otherwise, so that a conversation reaches the model as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_memeval.assets.registry import Dimension, Registry
from pytest_memeval.values import Memory, Message, Scene

#: The fields of a line of ``<dimensions>``, in their order.
DIMENSION_FIELDS = ("id", "name", "description", "boundaries", "cues")


@dataclass(frozen=True, slots=True)
class SceneText:
    """An existing scene together with the contents of its memories."""

    id: str
    title: str
    memories: tuple[str, ...] = ()


def block(name: str, body: str) -> str:
    """``body`` between the tags of ``name``."""
    return f"<{name}>\n{body}\n</{name}>" if body else f"<{name}>\n</{name}>"


def render_dimensions(registry: Registry, fields: Sequence[str] = DIMENSION_FIELDS) -> str:
    """One line ``- id | name | description | boundaries | cues`` a dimension; fields not in ``fields`` stay empty."""
    fields = tuple(fields)
    known = registry.rendered.get(fields)
    if known is not None:
        return known
    lines = []
    for dimension in registry.dimensions:
        values = _dimension_values(dimension)
        lines.append("- " + " | ".join(values[name] if name in fields else "" for name in DIMENSION_FIELDS).rstrip())
    return registry.rendered.setdefault(fields, block("dimensions", "\n".join(lines)))


def _dimension_values(dimension: Dimension) -> dict[str, str]:
    values = {
        "id": dimension.id,
        "name": dimension.display_name,
        "description": dimension.description,
        "boundaries": dimension.boundaries,
        "cues": ", ".join(cue.replace(",", " ") for cue in dimension.cues),
    }
    # A bar separates the fields, so that one inside a text is written as a slash.
    return {name: " ".join(value.replace("|", "/").split()) for name, value in values.items()}


def render_message(message: Message) -> str:
    """``[id] time role: text``; ``role (name)`` for a named speaker, no time where it is unknown."""
    role = message.role
    if message.name and message.name != role:
        role = f"{role} ({message.name})"
    time = f" {message.time.isoformat()}" if message.time is not None else ""
    return f"[{message.id}]{time} {role}: {message.content}"


def render_conversation(messages: Iterable[Message]) -> str:
    """The messages in their order; a message's further lines stand as they are."""
    return block("conversation", "\n".join(render_message(message) for message in messages))


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _memory_fields(memory: Memory) -> dict[str, Any]:
    return {
        "content": memory.content,
        "dimensions": list(memory.dimensions),
        "memory_type": memory.memory_type,
        "priority": memory.priority,
        "time_velocity": memory.time_velocity,
    }


def render_new_memories(memories: Iterable[Memory]) -> str:
    """Each memory with its ``index`` in the list given, from 0."""
    lines = (_line({"index": index, **_memory_fields(memory)}) for index, memory in enumerate(memories))
    return block("new_memories", "\n".join(lines))


def render_candidates(memories: Iterable[Memory]) -> str:
    """Each stored memory with its ``id``."""
    lines = (_line({"id": memory.id, **_memory_fields(memory)}) for memory in memories)
    return block("candidates", "\n".join(lines))


def render_scenes(scenes: Iterable[Scene | SceneText], contents: Mapping[str, str] | None = None) -> str:
    """Each scene with its memories' contents; ``contents`` maps memory ids to texts (without one the id stands)."""
    lines = []
    for scene in scenes:
        if isinstance(scene, Scene):
            memories = [(contents or {}).get(memory_id, memory_id) for memory_id in scene.memory_ids]
        else:
            memories = list(scene.memories)
        lines.append(_line({"id": scene.id, "title": scene.title, "memories": memories}))
    return block("existing_scenes", "\n".join(lines))


def render_now(now: datetime) -> str:
    """ISO 8601 with the offset."""
    return now.isoformat()
