"""The values that travel between a case, an engine's stages and the metrics.

Plain frozen data, no behaviour and no third-party types, so that an engine written anywhere can return them.
Times are aware ``datetime`` objects or ``None``; ids are opaque strings chosen by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Stage = Literal["l1", "l15", "l2", "template", "inject", "search", "qa", "rag"]
Action = Literal["store", "update", "merge", "skip"]
Change = Literal["created", "updated", "merged"]

#: Stages of the distillation pipeline in the order in which they run.
DISTILL_STAGES: tuple[Stage, ...] = ("l1", "l15", "l2", "template", "inject", "search")
#: Every stage an engine can support.
ALL_STAGES: tuple[Stage, ...] = (*DISTILL_STAGES, "qa", "rag")
ACTIONS: tuple[Action, ...] = ("store", "update", "merge", "skip")
#: Chat models whose answers cost a run nothing.
FREE_MODELS: tuple[str, ...] = ("embedded", "recorded")


def _no_extra() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. ``role`` is ``user``, ``assistant``, ``system`` or another speaker's role."""

    id: str
    role: str
    content: str
    name: str | None = None
    time: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, extracted or stored.

    ``priority`` lies in the registry's range (shipped: 0–100). A field that the producer left out is ``None``.
    """

    id: str | None
    content: str
    dimensions: tuple[str, ...] = ()
    memory_type: str | None = None
    priority: float | None = None
    time_velocity: str | None = None
    source_message_ids: tuple[str, ...] = ()
    created_at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=_no_extra)


@dataclass(frozen=True, slots=True)
class Decision:
    """What conflict resolution did with the new memory at ``memory_index`` (index into the list it was given).

    ``target_ids`` are the existing memories concerned (none for ``store``). ``result_id`` is the id under which the
    memory's information lives on: its own id for ``store``, the surviving memory's for the others.
    """

    memory_index: int
    action: str
    target_ids: tuple[str, ...] = ()
    merged_content: str | None = None
    result_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A group of memories. ``change`` says what the aggregation did with it, ``None`` for one that was only loaded."""

    id: str
    title: str
    memory_ids: tuple[str, ...] = ()
    change: str | None = None


def kind_of_value(value: object) -> str:
    """What somebody gave, for messages: ``an int``, ``a list``, ``None``."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a template with the ids of the memories placed in it."""

    id: str
    title: str
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A section as injected into a prompt; ``present`` is false for one left out (empty or over the budget)."""

    title: str
    memory_ids: tuple[str, ...]
    present: bool
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked search result. The order of hits counts; ``score`` is what the search says of this one, if anything."""

    id: str
    score: float | None = None
    content: str = ""
    source_ids: tuple[str, ...] = ()
