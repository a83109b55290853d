"""The tiny cases that an engine is checked with, what its outputs say without its ids, and a model that fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from pytest_memeval.cases.models import (
    EvalCase,
    GtConflictAction,
    GtMemory,
    GtScene,
    InjectGroundTruth,
    L1GroundTruth,
    L2GroundTruth,
    L15GroundTruth,
    SearchGroundTruth,
    SearchQuery,
)
from pytest_memeval.llm.protocol import CallOptions, ChatModel, ChatReply, ModelUnavailable
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.outputs import Outputs
from pytest_memeval.values import Memory, Message

_START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
#: Case id → words that only this case says, in lower case. What another case gives out must hold none of them.
MARKERS: Mapping[str, tuple[str, ...]] = {
    "doctor-alma": ("alma", "lisbon", "violin", "doctor-a-old"),
    "doctor-bruno": ("bruno", "oslo", "chess", "doctor-b-old"),
}


def messages(texts: Sequence[str]) -> tuple[Message, ...]:
    """What a user says, a minute between two messages."""
    return tuple(
        Message(id=f"msg_{number}", role="user", content=text, time=_START + timedelta(minutes=number))
        for number, text in enumerate(texts, 1)
    )


def tiny_case(case_id: str, name: str, town: str, hobby: str, old_id: str, mode: str, section: str) -> EvalCase:
    """A case with labels for every stage, so that every stage of an engine runs."""
    said = (f"My name is {name} and I live in {town} now.", f"Every evening I practise the {hobby} for an hour.")
    labels = tuple(GtMemory(content=text, dimensions=("identity",)) for text in said)
    return EvalCase(
        case_id,
        conversation=messages(said),
        existing_memories=(
            Memory(
                id=old_id,
                content=f"{name} lives near {town}.",
                dimensions=("identity",),
                memory_type="persona",
                priority=60,
                time_velocity="static",
                created_at=_START - timedelta(days=3),
            ),
        ),
        expected_l1=L1GroundTruth(labels),
        expected_l15=L15GroundTruth((GtConflictAction(0, "store"),)),
        expected_l2=L2GroundTruth(scenes=(GtScene("Life", (0, 1)),), template_section={mode: {0: section}}),
        expected_inject=InjectGroundTruth(mode, messages([f"What do you know of {name}?"]), (0,)),
        expected_search=SearchGroundTruth((SearchQuery(f"Where does {name} live?", (f"{case_id}#0",)),)),
    )


def the_two(mode: str, section: str) -> tuple[EvalCase, EvalCase]:
    """Two cases that share no word worth remembering."""
    return (
        tiny_case("doctor-alma", "Alma", "Lisbon", "violin", "doctor-a-old", mode, section),
        tiny_case("doctor-bruno", "Bruno", "Oslo", "chess openings", "doctor-b-old", mode, section),
    )


def odd_case() -> EvalCase:
    """A conversation of texts that real people send and code forgets."""
    texts = ["", "   ", "🙂👍🏽", "{{conversation}} </conversation> {0} %s", "我住在上海。", "a" * 3000]
    return EvalCase("doctor-odd", conversation=messages(texts), expected_l1=L1GroundTruth(()))


def empty_case() -> EvalCase:
    """A conversation in which nothing was said."""
    return EvalCase("doctor-empty", conversation=(), expected_l1=L1GroundTruth(()))


# -- what outputs say ----------------------------------------------------------------------------------------------


def shape_of(outputs: Outputs) -> dict[str, Any]:
    """Stage → what its output says, without ids and times: equal for two runs that did the same."""
    shape: dict[str, Any] = {}
    if outputs.l1 is not None:
        shape["l1"] = [
            (one.content, tuple(sorted(one.dimensions)), one.memory_type, one.priority, one.time_velocity)
            for one in outputs.l1
        ]
    if outputs.l15 is not None:
        shape["l15"] = [
            (one.memory_index, one.action, len(one.target_ids), one.merged_content)
            for one in sorted(outputs.l15, key=lambda decision: decision.memory_index)
        ]
    if outputs.l2 is not None:
        shape["l2"] = sorted((scene.title, len(scene.memory_ids)) for scene in outputs.l2)
    if outputs.template is not None:
        shape["template"] = {
            mode: [(section.title, len(section.memory_ids)) for section in sections]
            for mode, sections in outputs.template.items()
        }
    blocks = {"labelled": outputs.inject_labelled, "pipeline": outputs.inject_pipeline}
    if any(found is not None for found in blocks.values()):
        shape["inject"] = {
            name: [(block.title, block.present, len(block.memory_ids)) for block in found]
            for name, found in blocks.items()
            if found is not None
        }
    if outputs.search is not None:
        shape["search"] = {query: [hit.id for hit in hits] for query, hits in outputs.search.items()}
    return shape


def strangers_in(stage: str, outputs: Outputs, case_id: str) -> list[str]:
    """Words of the other case in a stage's output."""
    text = repr(outputs.of(stage)).casefold()
    return [word for other, words in MARKERS.items() if other != case_id for word in words if word in text]


def known_ids(given: Iterable[Memory], outputs: Outputs, existing: Iterable[Memory]) -> set[str]:
    """The ids and contents under which the case's memories may be named after conflict resolution."""
    found = {str(one.id) for one in existing} | {one.content for one in existing}
    for memory in given:
        found |= {str(memory.id), memory.content}
    for decision in outputs.l15 or ():
        found |= {*decision.target_ids, str(decision.result_id), str(decision.merged_content)}
    return found


class FailingModel(SyncCompletion):
    """A chat model that cannot be reached for one prompt stage, and is ``inner`` for all others.

    With no stage named it never fails. ``asked`` are the prompt stages that it was asked for.
    """

    def __init__(self, inner: ChatModel, stage: str | None = None) -> None:
        self._inner, self._stage = inner, stage
        self.name = inner.name
        self.asked: dict[str, None] = {}

    async def complete(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        self.asked[asked["stage"]] = None
        if asked["stage"] == self._stage:
            raise ModelUnavailable("the doctor's model is never there")
        return await self._inner.complete(messages, **asked)
