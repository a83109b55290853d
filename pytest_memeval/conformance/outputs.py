"""What the output of a stage must and should be, whatever the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_memeval.cases.models import EvalCase
from pytest_memeval.conformance.cases import known_ids
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import ACTIONS, Memory


def problems(stage: str, outputs: Outputs, case: EvalCase, given: Sequence[Memory]) -> Iterator[str]:
    """What cannot be: ids, sources, targets and indices of nothing. ``given``: the memories that later stages got."""
    if stage == "l1":
        ids = [memory.id for memory in outputs.l1 or () if memory.id is not None]
        if len(set(ids)) < len(ids):
            yield "two memories have the same id"
        messages = {message.id for message in case.conversation}
        unknown = {source for memory in outputs.l1 or () for source in memory.source_message_ids} - messages
        if unknown:
            yield f"source_message_ids name {sorted(unknown)[0]!r}, and there is no such message"
    if stage == "l15":
        yield from _decision_problems(outputs, case, given)
    known = known_ids(given, outputs, case.existing_memories)
    placed: dict[str, Any] = {
        "l2": [scene.memory_ids for scene in outputs.l2 or ()],
        "template": [s.memory_ids for sections in (outputs.template or {}).values() for s in sections],
        "inject": [block.memory_ids for block in outputs.inject_pipeline or ()],
    }
    strangers = sorted({name for ids in placed.get(stage, ()) for name in ids} - known)
    if strangers:
        yield f"it names the memory {strangers[0]!r}, and no memory of the case has this id or content"


def _decision_problems(outputs: Outputs, case: EvalCase, given: Sequence[Memory]) -> Iterator[str]:
    count, stored = len(given), {memory.id for memory in case.existing_memories}
    new = {memory.id for memory in given}
    seen: set[int] = set()
    for decision in outputs.l15 or ():
        if not 0 <= decision.memory_index < count:
            yield f"memory_index {decision.memory_index} of a decision is none of the {count} new memories"
        if decision.memory_index in seen:
            yield f"there are two decisions about memory {decision.memory_index}"
        seen.add(decision.memory_index)
        if decision.action not in ACTIONS:
            yield f"action {decision.action!r} is none of {', '.join(ACTIONS)}"
        for target in decision.target_ids:
            if target not in stored and target not in new:
                yield f"target {target!r} of a decision is no memory of the case"


def remarks(stage: str, outputs: Outputs) -> Iterator[str]:
    """What may be, and costs something."""
    if stage != "l1":
        return
    if not outputs.l1:
        yield "nothing was extracted from two plain sentences"
    elif any(memory.id is None for memory in outputs.l1):
        yield "memories have no ids: later stages have to find them by their contents"
    dropped = sorted({str(fact.get("label")) for fact in outputs.facts if fact.get("kind") == "dropped_label"})
    if dropped:
        yield f"labels that the registry does not know are dropped: {', '.join(dropped)}"


def told(stage: str, outputs: Outputs) -> str:
    """How much there is of it."""
    counts = {
        "l1": (len(outputs.l1 or ()), "memories"),
        "l15": (len(outputs.l15 or ()), "decisions"),
        "l2": (len(outputs.l2 or ()), "scenes"),
        "template": (sum(len(sections) for sections in (outputs.template or {}).values()), "sections"),
        "inject": (len(outputs.inject_labelled or ()), "blocks"),
        "search": (sum(len(hits) for hits in (outputs.search or {}).values()), "hits"),
    }
    count, word = counts[stage]
    return f"{count} {word}, of the right types"
