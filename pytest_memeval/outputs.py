"""Stage outputs as plain JSON and back: what is stored in reports, saved as predictions and read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_memeval.output_fields import extra_to_json, number_to_json
from pytest_memeval.output_shapes import OutputError as OutputError  # what reading raises is had here, too
from pytest_memeval.output_shapes import (
    decisions_of,
    inject_of,
    memories_of,
    named,
    scenes_of,
    search_of,
    template_of,
)
from pytest_memeval.values import Block, Decision, Hit, Memory, Scene, Section

#: Keys under which a stage's output is stored; ``inject`` holds ``labelled`` and ``pipeline`` blocks, ``search`` the
#: hits by query.
OUTPUT_KEYS: tuple[str, ...] = ("l1", "l15", "l2", "template", "inject", "search")

T = TypeVar("T")


@dataclass(slots=True)
class Outputs:
    """What the stages of one case returned; ``None`` for a stage that gave nothing (not run, or errored)."""

    l1: list[Memory] | None = None
    l15: list[Decision] | None = None
    l2: list[Scene] | None = None
    template: dict[str, list[Section]] | None = None
    inject_labelled: list[Block] | None = None
    inject_pipeline: list[Block] | None = None
    search: dict[str, list[Hit]] | None = None
    facts: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        if self.l1 is not None:
            data["l1"] = [memory_to_json(memory) for memory in self.l1]
        if self.l15 is not None:
            data["l15"] = [decision_to_json(decision) for decision in self.l15]
        if self.l2 is not None:
            data["l2"] = [scene_to_json(scene) for scene in self.l2]
        if self.template is not None:
            data["template"] = {
                mode: [section_to_json(section) for section in sections] for mode, sections in self.template.items()
            }
        inject = {
            name: [block_to_json(block) for block in blocks]
            for name, blocks in (("labelled", self.inject_labelled), ("pipeline", self.inject_pipeline))
            if blocks is not None
        }
        if inject:
            data["inject"] = inject
        if self.search is not None:
            data["search"] = {query: [hit_to_json(hit) for hit in hits] for query, hits in self.search.items()}
        return data

    def of(self, stage: str) -> Any:
        """One stage's output; of ``inject`` what was injected from the labelled and from the pipeline's memories."""
        if stage != "inject":
            return getattr(self, stage)
        found = {"labelled": self.inject_labelled, "pipeline": self.inject_pipeline}
        return {name: blocks for name, blocks in found.items() if blocks is not None} or None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], facts: Sequence[Mapping[str, Any]] = ()) -> Outputs:
        """Read :meth:`to_json`'s form. Raises OutputError naming the stage and the element at fault.

        A bare list under ``inject`` is what was injected from the pipeline's own memories.
        """
        inject = data.get("inject")
        if inject is not None and not isinstance(inject, Mapping):
            inject = {"pipeline": inject}
        blocks = _part("inject", inject, inject_of) or {}
        return cls(
            l1=_part("l1", data.get("l1"), memories_of),
            l15=_part("l15", data.get("l15"), decisions_of),
            l2=_part("l2", data.get("l2"), scenes_of),
            template=_part("template", data.get("template"), template_of),
            inject_labelled=blocks.get("labelled"),
            inject_pipeline=blocks.get("pipeline"),
            search=_part("search", data.get("search"), search_of),
            facts=[dict(fact) for fact in facts],
        )


def _part(key: str, value: object, read: Callable[[object], T]) -> T | None:
    return None if value is None else named(key, value, read)


def memory_to_json(memory: Memory) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": memory.id,
        "content": memory.content,
        "dimensions": list(memory.dimensions),
        "memory_type": memory.memory_type,
        "priority": number_to_json(memory.priority),
        "time_velocity": memory.time_velocity,
        "source_message_ids": list(memory.source_message_ids),
        "created_at": None if memory.created_at is None else memory.created_at.isoformat(),
    }
    if memory.extra:
        data["extra"] = extra_to_json(memory.extra)
    return data


def decision_to_json(decision: Decision) -> dict[str, Any]:
    return {
        "memory_index": decision.memory_index,
        "action": decision.action,
        "target_ids": list(decision.target_ids),
        "merged_content": decision.merged_content,
        "result_id": decision.result_id,
        "reason": decision.reason,
    }


def scene_to_json(scene: Scene) -> dict[str, Any]:
    return {"id": scene.id, "title": scene.title, "memory_ids": list(scene.memory_ids), "change": scene.change}


def section_to_json(section: Section) -> dict[str, Any]:
    return {"id": section.id, "title": section.title, "memory_ids": list(section.memory_ids)}


def block_to_json(block: Block) -> dict[str, Any]:
    return {
        "title": block.title,
        "memory_ids": list(block.memory_ids),
        "present": block.present,
        "text": block.text,
    }


def hit_to_json(hit: Hit) -> dict[str, Any]:
    """What is empty is left out: there are many hits."""
    data: dict[str, Any] = {"id": hit.id, "score": hit.score}
    if hit.content:
        data["content"] = hit.content
    if hit.source_ids:
        data["source_ids"] = list(hit.source_ids)
    return data
