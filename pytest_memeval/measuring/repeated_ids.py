"""Ids that two memories of one output share: what names such an id would count for both of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_memeval.live_memories import decisions_by_memory, labelled_memories, live_id
from pytest_memeval.output_shapes import OutputError
from pytest_memeval.results import CaseError, StageStatus
from pytest_memeval.stages import CHAIN
from pytest_memeval.values import Decision, Memory

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.outputs import Outputs


def refuse_repeated_ids(memories: Iterable[Memory]) -> None:
    """Raises OutputError where two memories have one id. Memories without an id are no fault."""
    first: dict[str, int] = {}
    for index, memory in enumerate(memories):
        if memory.id is not None and first.setdefault(memory.id, index) != index:
            raise OutputError(f"memories {first[memory.id]} and {index} have the same id {memory.id!r:.80}")


def refuse_repeated_stores(case: EvalCase, memories: Sequence[Memory], decisions: Iterable[Decision]) -> None:
    """Raises OutputError where two new memories, which are both in the store as their own, are there under one id.

    Several may well end in one by ``update``, ``merge`` and ``skip``.
    """
    deciding = decisions_by_memory(case, memories, decisions)
    first: dict[str, int] = {}
    for index, memory in enumerate(memories):
        decision = deciding.get(index)
        identity = live_id(memory, decision)
        if identity is None or (decision is not None and decision.action != "store"):
            continue
        if first.setdefault(identity, index) != index:
            raise OutputError(
                f"memories {first[identity]} and {index} are both stored under the same id {identity!r:.80}"
            )


def repeated_in(case: EvalCase, outputs: Outputs, *, chained: bool) -> CaseError | None:
    """The error of the first stage whose recorded output repeats an id: a version that took such outputs kept it."""
    stage = "l1"
    try:
        refuse_repeated_ids(outputs.l1 or ())
        stage = "l15"
        memories = list(outputs.l1 or ()) if chained else labelled_memories(case)
        refuse_repeated_stores(case, memories, outputs.l15 or ())
    except OutputError as error:
        return CaseError(stage, "bad_output", str(error))
    return None


def without_what_built_on(
    failed: str, status: Mapping[str, StageStatus], outputs: Outputs, *, chained: bool
) -> dict[str, StageStatus]:
    """The statuses of stages once ``failed`` turns out to be unusable; takes what was injected from it out of
    ``outputs``."""
    found: dict[str, StageStatus] = dict(status)
    found[failed] = "errored" if status[failed] == "scored" else "ran_errored"
    if chained:
        outputs.inject_pipeline = None
        for stage, needed in CHAIN.items():
            if failed in needed and stage != "inject" and found.get(stage) in ("scored", "ran"):
                found[stage] = "void"
    return found
