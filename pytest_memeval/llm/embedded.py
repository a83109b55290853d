"""The offline chat model: a deterministic lexical reader of the rendered prompt, no language model.

It lets everything run without a key and at no cost: prompts are rendered, answered, parsed and validated as with a real
model. What it answers depends on the data blocks of the prompt alone (``<dimensions>``, ``<conversation>`` and the
others of :mod:`pytest_memeval.assets.rendering`) and on the wanted answer's schema, never on the instructions around
them. It knows of dimensions what the block says; a prompt that says more is answered better. Its figures check the
pipeline; they say nothing of a memory system's quality.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_memeval.llm.embedded_dimensions import scorer_for
from pytest_memeval.llm.embedded_extract import extract
from pytest_memeval.llm.embedded_resolve import group, resolve
from pytest_memeval.llm.protocol import ChatModelError, ChatReply
from pytest_memeval.llm.sync import SyncCompletion


class EmbeddedUnsupported(ChatModelError):
    """A prompt that the embedded model cannot answer: another stage, or one without the blocks that it reads."""

    kind = "unsupported_stage"


class EmbeddedChatModel(SyncCompletion):
    """Answers the prompts of extraction, conflict resolution and scenes; any other is :class:`EmbeddedUnsupported`.

    Equal messages give equal answers whatever the ``trial`` and the ``temperature``. ``usage`` is unknown, since
    nothing is tokenised.
    """

    name = "embedded"

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        answer = _ANSWERS.get(stage)
        if answer is None:
            known = ", ".join(_ANSWERS)
            raise EmbeddedUnsupported(
                f"the embedded model answers no {stage!r} prompts, only {known}; use another model"
            )
        asked = (message for message in messages if message.get("role") != "assistant")
        prompt = "\n\n".join(str(message.get("content") or "") for message in asked)
        text = json.dumps(answer(prompt, stage, response_format), ensure_ascii=False)
        return ChatReply(text=text, finish_reason="stop", model=self.name)


def data_block(prompt: str, name: str, stage: str) -> str:
    """What stands between the tags of a block, ``<name>`` at a line's end and ``</name>`` at a line's beginning.

    The block ends at its last closing tag, so that one quoted in the data does not cut it short.
    """
    found = _block_span(prompt, name)
    if found is None:
        raise EmbeddedUnsupported(f"the embedded model finds no <{name}> block in the {stage} prompt")
    return prompt[found[0] : found[1]]


def _block_span(prompt: str, name: str) -> tuple[int, int] | None:
    opening = re.search(rf"<{name}>\n", prompt)
    if opening is None:
        return None
    end = prompt.rfind(f"\n</{name}>", opening.end() - 1)
    return None if end < 0 else (opening.end(), max(opening.end(), end))


def _without_block(prompt: str, name: str) -> str:
    found = _block_span(prompt, name)
    return prompt if found is None else prompt[: found[0]] + prompt[found[1] :]


def _extraction(prompt: str, stage: str, schema: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    conversation = data_block(prompt, "conversation", stage)
    # Dimensions are looked for outside the conversation, which may quote a block of that name.
    dimensions = data_block(_without_block(prompt, "conversation"), "dimensions", stage)
    return extract(scorer_for(dimensions), conversation, schema)


def _conflict(prompt: str, stage: str, schema: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return resolve(data_block(prompt, "new_memories", stage), data_block(prompt, "candidates", stage))


def _scenes(prompt: str, stage: str, schema: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    limit = _most_items(schema or {})
    return group(data_block(prompt, "new_memories", stage), data_block(prompt, "existing_scenes", stage), limit=limit)


def _most_items(schema: Mapping[str, Any]) -> int | None:
    """``maxItems`` of the list asked for, which may be the only property of an object."""
    properties = schema.get("properties")
    lists = [schema, *(properties.values() if isinstance(properties, Mapping) else ())]
    limits = (entry.get("maxItems") for entry in lists if isinstance(entry, Mapping))
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


_Answer = Callable[[str, str, "Mapping[str, Any] | None"], list[dict[str, Any]]]
_ANSWERS: Mapping[str, _Answer] = {"l1_extraction": _extraction, "l1_conflict": _conflict, "l2_scene": _scenes}
