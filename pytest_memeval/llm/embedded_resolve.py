"""Conflict resolution and scenes as the embedded model does them: by the likeness of texts alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.llm.embedded_markers import CHANGE
from pytest_memeval.llm.embedded_text import (
    CJK,
    covered,
    feature_weights,
    features,
    is_negated,
    likeness,
    numbers,
)

#: Likeness from which two memories say the same, unless a number or a negation differs.
SAME = 0.9
#: Likeness from which they are about the same thing; with a word of change, less is enough.
RELATED, RELATED_BY_CHANGE = 0.55, 0.35
#: Likeness from which two memories that each say something of their own still are one statement.
JOINED = 0.7
#: Share of a text's features that another must have to contain it.
CONTAINED = 0.85
#: Closeness from which a memory joins a scene.
JOIN = 0.2
_DIMENSION_SHARE = 0.5

_CJK = re.compile(f"[{CJK}]")


@dataclass(frozen=True, slots=True)
class _Text:
    content: str
    features: frozenset[str]
    dimensions: frozenset[str]
    id: str = ""


def parse_objects(body: str) -> list[Mapping[str, Any]]:
    """The JSON objects of a block, one a line; other lines are passed over."""
    found: list[Mapping[str, Any]] = []
    for line in body.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _text(value: Mapping[str, Any]) -> _Text:
    content = str(value.get("content") or "")
    dimensions = value.get("dimensions")
    labels = frozenset(map(str, dimensions)) if isinstance(dimensions, list) else frozenset[str]()
    return _Text(content, features(content), labels, str(value.get("id", "")))


def resolve(new_memories: str, candidates: str) -> list[dict[str, Any]]:
    """A decision for each new memory, in the answer form of the conflict prompt."""
    news = [(value.get("index", place), _text(value)) for place, value in enumerate(parse_objects(new_memories))]
    stored = [_text(value) for value in parse_objects(candidates)]
    weights = feature_weights([text.features for _, text in news] + [text.features for text in stored])
    taken: set[str] = set()
    decisions = []
    for index, new in news:
        free = [text for text in stored if text.id not in taken]
        decision = _decide(new, free, weights)
        if decision["action"] in ("update", "merge"):
            taken.update(decision["target_ids"])
        decisions.append({"memory_index": index, **decision})
    return decisions


def _decide(new: _Text, stored: Sequence[_Text], weights: Mapping[str, float]) -> dict[str, Any]:
    best = max(stored, key=lambda old: _closeness(new, old, weights), default=None)
    if best is None:
        return _decision("store", reason="the store has no candidate")
    close = _closeness(new, best, weights)
    new_numbers, old_numbers = numbers(new.content), numbers(best.content)
    polarity = is_negated(new.content) != is_negated(best.content)
    changes = bool(CHANGE.search(new.content))
    known = close >= SAME or covered(new.features, best.features, weights) >= CONTAINED
    if known and not polarity and new_numbers <= old_numbers and not (changes and close < SAME):
        return _decision("skip", best, reason=f"known already (likeness {close:.2f})")
    if close < (RELATED_BY_CHANGE if changes or polarity else RELATED):
        return _decision("store", reason=f"no candidate says the like (nearest {close:.2f})")
    if polarity or changes or (old_numbers and new_numbers and not old_numbers <= new_numbers):
        return _decision("update", best, new.content, f"replaces what was stored (likeness {close:.2f})")
    if covered(best.features, new.features, weights) >= CONTAINED:
        return _decision("merge", best, new.content, f"says the same with more detail (likeness {close:.2f})")
    if close < JOINED:
        return _decision("store", reason=f"the nearest candidate says another thing (likeness {close:.2f})")
    joint = "；" if _CJK.search(best.content) else "; "
    merged = f"{best.content.rstrip('。.;；')}{joint}{new.content}"
    return _decision("merge", best, merged, f"adds to it (likeness {close:.2f})")


def _closeness(a: _Text, b: _Text, weights: Mapping[str, float]) -> float:
    """The mean of string likeness and shared features (of the shorter text), in [0, 1]."""
    shared = max(covered(a.features, b.features, weights), covered(b.features, a.features, weights))
    return (likeness(a.content, b.content) + shared) / 2


def _decision(action: str, target: _Text | None = None, merged: str | None = None, reason: str = "") -> dict[str, Any]:
    targets = [] if target is None else [target.id]
    return {"action": action, "target_ids": targets, "merged_content": merged, "reason": reason}


@dataclass(slots=True)
class _Group:
    members: list[tuple[int, _Text]] = field(default_factory=list)
    features: frozenset[str] = frozenset()
    scene_id: str = ""
    title: str = ""

    def add(self, index: int, text: _Text) -> None:
        self.members.append((index, text))
        self.features |= text.features


def group(new_memories: str, existing_scenes: str, *, limit: int | None = None) -> list[dict[str, Any]]:
    """Scenes for the new memories, in the answer form of the scene prompt; at most ``limit`` of them where given."""
    news = [(value.get("index", place), _text(value)) for place, value in enumerate(parse_objects(new_memories))]
    groups = [_scene(value) for value in parse_objects(existing_scenes)]
    weights = feature_weights([text.features for _, text in news] + [scene.features for scene in groups])
    for index, text in news:
        used = sum(bool(other.members) for other in groups)
        choices = [other for other in groups if limit is None or used < limit or other.members]
        best = max(choices, key=lambda other: _nearness(text, other, weights), default=None)
        full = limit is not None and used >= limit
        if best is None or (_nearness(text, best, weights) < JOIN and not full):
            best = _Group()
            groups.append(best)
        best.add(index, text)
    return [_scene_answer(entry, weights) for entry in groups if entry.members]


def _scene(value: Mapping[str, Any]) -> _Group:
    title = str(value.get("title") or "")
    memories = value.get("memories")
    texts = [title, *(map(str, memories) if isinstance(memories, list) else ())]
    return _Group([], frozenset().union(*map(features, texts)), str(value.get("id", "")), title)


def _nearness(text: _Text, entry: _Group, weights: Mapping[str, float]) -> float:
    """Shared features, and for groups with members the share of them that have a dimension in common."""
    near = covered(text.features, entry.features, weights)
    if entry.members:
        common = sum(bool(text.dimensions & other.dimensions) for _, other in entry.members)
        near += _DIMENSION_SHARE * common / len(entry.members)
    return near


def _scene_answer(entry: _Group, weights: Mapping[str, float]) -> dict[str, Any]:
    central = max(entry.members, key=lambda member: covered(entry.features, member[1].features, weights))
    return {
        "action": "update" if entry.scene_id else "create",
        "scene_ids": [entry.scene_id] if entry.scene_id else [],
        "title": entry.title or _title(central[1].content),
        "memory_indexes": [index for index, _ in entry.members],
    }


def _title(content: str) -> str:
    """The beginning of a content: up to 12 CJK characters or six words."""
    if _CJK.search(content):
        return re.split(r"[，,。；;]", content)[0][:12].strip()
    return " ".join(content.split()[:6]).rstrip(",.;:")
