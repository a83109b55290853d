"""Injection: a mode's sections as text blocks that fit a token budget."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_memeval.engine.protocol import StageContext
from pytest_memeval.engine.reference.db import MemoryStore
from pytest_memeval.engine.reference.template_query import find_template, query_template
from pytest_memeval.estimates import text_tokens
from pytest_memeval.values import Block, Memory, Message


def inject(mode: str, conversation: Sequence[Message], ctx: StageContext) -> list[Block]:
    """One block a section of the mode, in the template's order; no model is asked.

    A block's text is the section's title and one line a memory. It is present where the section holds a memory and
    fits into what the blocks before it left of the template's ``token_budget`` (none: no limit). A section that does
    not fit as a whole keeps its memories of highest priority, as many as fit; if not even one does, the block is left
    out. This is a plain baseline: what is said in ``conversation`` plays no part in the choice.
    """
    template = find_template(mode, ctx, stage="inject")
    sections = query_template(mode, ctx, stage="inject")
    wanted = {memory_id for section in sections for memory_id in section.memory_ids}
    memories = {str(memory.id): memory for memory in MemoryStore(ctx.memory_db).live(wanted)}
    left = template.token_budget
    blocks: list[Block] = []
    for section in sections:
        kept = _fitting(section.title, [memories[memory_id] for memory_id in section.memory_ids], left)
        if not kept:
            blocks.append(Block(section.title, (), False, ""))
            continue
        text = block_text(section.title, kept)
        if left is not None:
            left -= text_tokens(text)
        blocks.append(Block(section.title, tuple(str(memory.id) for memory in kept), True, text))
    return blocks


def block_text(title: str, memories: Sequence[Memory]) -> str:
    """The title and a line ``- content`` a memory; line breaks inside a content become blanks."""
    return "\n".join([title, *(f"- {' '.join(memory.content.splitlines())}" for memory in memories)])


def _fitting(title: str, memories: Sequence[Memory], budget: int | None) -> list[Memory]:
    """The memories that fit, in their order: all, or those of highest priority up to the first that does not fit."""
    if budget is None or not memories or text_tokens(block_text(title, memories)) <= budget:
        return list(memories)
    ranked = sorted(
        range(len(memories)), key=lambda place: (-_priority(memories[place]), place)
    )  # equal priorities in the section's order
    chosen: list[int] = []
    for place in ranked:
        trial = sorted([*chosen, place])
        if text_tokens(block_text(title, [memories[kept] for kept in trial])) > budget:
            break
        chosen = trial
    return [memories[place] for place in chosen]


def _priority(memory: Memory) -> float:
    return float("-inf") if memory.priority is None else memory.priority
