"""Under which id and with which words a new memory lives on after conflict resolution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_memeval.metrics.l15 import decisions_that_count
from pytest_memeval.values import Decision, Memory

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase


@dataclass(frozen=True, slots=True)
class LiveIds:
    """Under which id each labelled memory's information lives: labelled index → id, ``None`` for one that was not
    reached. ``by_content``: whether some id was unknown and content had to stand in for it."""

    ids: Mapping[int, str | None]
    by_content: bool = False


def labelled_memories(case: EvalCase) -> list[Memory]:
    """The case's labelled memories as stored ones, with ids ``case_id#index`` and the times of their last sources."""
    times = {message.id: message.time for message in case.conversation}
    truth = case.expected_l1.memories if case.expected_l1 is not None else ()
    memories = []
    for index, label in enumerate(truth):
        moments = [time for source in label.source_message_ids if (time := times.get(source)) is not None]
        memories.append(
            Memory(
                id=f"{case.case_id}#{index}",
                content=label.content,
                dimensions=label.dimensions,
                memory_type=label.memory_type,
                priority=label.priority,
                time_velocity=label.time_velocity,
                source_message_ids=label.source_message_ids,
                created_at=max(moments) if moments else None,
                extra=label.extra,
            )
        )
    return memories


def live_id(memory: Memory, decision: Decision | None) -> str | None:
    """The id under which a new memory's information lives on after conflict resolution; ``None`` where unknown."""
    if decision is None:
        return memory.id
    if decision.result_id is not None:
        return decision.result_id
    if decision.action == "store":
        return memory.id
    if decision.action in ("update", "skip") and len(decision.target_ids) == 1:
        return decision.target_ids[0]
    return None


def live_content(memory: Memory, decision: Decision | None) -> str:
    """What the memory says after conflict resolution."""
    if decision is None or not decision.merged_content or decision.action not in ("update", "merge"):
        return memory.content
    return decision.merged_content


def valid_targets(case: EvalCase, new_memories: Iterable[Memory]) -> set[str] | None:
    """What a decision may name: stored memories, by id or content, and the other new ones (by content, without an id).
    ``None`` where a stored memory's id is not known."""
    if any(memory.id is None for memory in case.existing_memories):
        return None
    stored = {name for memory in case.existing_memories for name in (memory.id, memory.content) if name is not None}
    return stored | {memory.content if memory.id is None else memory.id for memory in new_memories}


def decisions_by_memory(
    case: EvalCase, new_memories: Sequence[Memory], decisions: Iterable[Decision]
) -> dict[int, Decision]:
    """Memory index → the decision by which the memory lives on: the one that counts for the figures of ``l15`` too.

    Of a memory without one and without an id of its own, a decision that does not count still tells the id it got.
    """
    given = list(decisions)
    chosen, _ = decisions_that_count(
        given, valid_target_ids=valid_targets(case, new_memories), memory_count=len(new_memories)
    )
    for decision in given:
        index = decision.memory_index
        if index in chosen or decision.result_id is None or not 0 <= index < len(new_memories):
            continue
        if new_memories[index].id is None:
            chosen[index] = Decision(index, "store", result_id=decision.result_id)
    return chosen


def memories_after_resolution(
    case: EvalCase, new_memories: Sequence[Memory], decisions: Iterable[Decision]
) -> list[Memory]:
    """The new memories as they live in the store after conflict resolution, each id once."""
    stored = {memory.id: memory for memory in case.existing_memories}
    deciding = decisions_by_memory(case, new_memories, decisions)
    live: dict[str | int, Memory] = {}
    for index, memory in enumerate(new_memories):
        decision = deciding.get(index)
        identity = live_id(memory, decision)
        now = replace(memory, id=identity, content=live_content(memory, decision))
        if decision is not None and decision.action == "skip" and identity in stored:
            now = stored[identity]
        live.setdefault(identity if identity is not None else index, now)
    return list(live.values())
