"""Brings the labels of an engine's memories into the registry's spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_memeval.values import Memory

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry


def normalize_memories(
    memories: Sequence[Memory], registry: Registry, record: Callable[..., None] | None = None
) -> list[Memory]:
    """The memories, in their order, with labels that the registry knows.

    A dimension label is looked up by id, display name or alias (NFKC, case and white space folded), then by
    similarity, which is noted as ``fuzzy_label``. One that is still unknown is dropped and noted as ``dropped_label``;
    labels that come to the same dimension count once, at the first one's place. ``memory_type`` and ``time_velocity``
    take the registry's spelling where they differ from it in case, width or white space only; any other value stays,
    and is simply wrong. An empty list gives an empty list. Nothing else of a memory changes, and a second run over
    the result changes and notes nothing.
    """
    note = record or _forget
    types = _by_fold(tuple(registry.memory_types))
    velocities = _by_fold(tuple(registry.time_velocities))
    return [
        replace(
            memory,
            dimensions=_dimensions(memory, index, registry, note),
            memory_type=_spelling(memory.memory_type, types),
            time_velocity=_spelling(memory.time_velocity, velocities),
        )
        for index, memory in enumerate(memories)
    ]


def _dimensions(memory: Memory, index: int, registry: Registry, record: Callable[..., None]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    labels: Iterable[object] = memory.dimensions or ()
    if isinstance(labels, str):  # an engine that returns one label as it is, not a sequence of letters
        labels = (labels,)
    for label in map(str, labels):
        resolution = registry.resolve(label)
        if resolution.dimension is None:
            record("dropped_label", label=label, memory_index=index)
            continue
        if resolution.how == "fuzzy":
            record(
                "fuzzy_label",
                label=label,
                dimension=resolution.dimension,
                score=round(resolution.score, 4),
                memory_index=index,
            )
        found[resolution.dimension] = None
    return tuple(found)


def fold(text: str) -> str:
    """NFKC, case folded, runs of white space as one blank, ends trimmed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=64)
def _by_fold(values: tuple[str, ...]) -> Mapping[str, str]:
    return {fold(value): value for value in values}


def _spelling(value: str | None, known: Mapping[str, str]) -> str | None:
    return known.get(fold(value), value) if isinstance(value, str) else value


def _forget(_kind: str, **_fields: object) -> None:
    return None
