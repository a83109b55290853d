"""Asks the model and takes its answer apart; every call leaves a row in ``refine_runs``."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from pytest_memeval.engine.protocol import StageContext, StageError, UnusableAnswer
from pytest_memeval.engine.reference.db import MemoryStore
from pytest_memeval.llm.payload import PayloadError, as_items, parse_payload
from pytest_memeval.llm.protocol import ChatModelError, ChatReply
from pytest_memeval.own_code import named
from pytest_memeval.values import ACTIONS

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry

_TEXTS = {"type": "array", "items": {"type": "string"}}


@asynccontextmanager
async def disowning_unusable(ctx: StageContext) -> AsyncIterator[None]:
    """Have an answer that could not be used forgotten by whatever recorded it, so that a later run asks again."""
    try:
        yield
    except UnusableAnswer:
        forget = getattr(ctx.llm, "forget_last", None)
        if forget is not None:
            await forget()
        raise


async def ask_for_items(
    ctx: StageContext, stage: str, prompt_stage: str, schema: Mapping[str, Any], *, key: str, **values: Any
) -> list[Any]:
    """Render ``prompt_stage`` with ``values``, ask, and return the items of the answer, whatever each of them is.

    ``key`` is the name under which a model may wrap the list. Raises StageError: the chat model's own kind where it
    failed, ``truncated`` for an answer that was cut off, ``empty_answer`` for none; UnusableAnswer where no list of
    objects can be read.
    """
    prompt = ctx.prompts.render(prompt_stage, **values)
    store = MemoryStore(ctx.memory_db)
    began = time.perf_counter()
    reply: ChatReply | None = None
    problem: str | None = None
    try:
        reply = await ctx.llm.complete(
            [{"role": "user", "content": prompt}],
            stage=prompt_stage,
            response_format=schema,
            temperature=0.0,
            trial=ctx.trial,
        )
        return _items(reply, stage, prompt_stage, key)
    except ChatModelError as error:
        problem = f"{error.kind}: {error}"
        raise StageError(str(error), kind=error.kind, stage=stage) from error
    except StageError as error:
        problem = f"{error.kind}: {error}"
        raise
    except BaseException as error:
        problem = named(error)
        raise
    finally:
        # A call that was cancelled may outlive the case, whose databases are closed then.
        with suppress(sqlite3.ProgrammingError):
            store.log_run(
                file_id=ctx.case_id,
                stage=prompt_stage,
                version=ctx.prompts.versions.get(prompt_stage),
                variant=ctx.prompts.label,
                provider=ctx.llm.name,
                model=reply.model if reply else None,
                trial=ctx.trial,
                input_tokens=reply.usage.input_tokens if reply else None,
                output_tokens=reply.usage.output_tokens if reply else None,
                latency=reply.latency if reply else time.perf_counter() - began,
                cached=int(reply.cached) if reply else 0,
                error=problem,
            )


def _items(reply: ChatReply, stage: str, prompt_stage: str, key: str) -> list[Any]:
    if reply.finish_reason in ("length", "max_tokens"):
        after = "" if reply.usage.output_tokens is None else f" of {reply.usage.output_tokens} tokens"
        raise StageError(
            f"the answer to {prompt_stage} was cut off at the token cap{after}", kind="truncated", stage=stage
        )
    if not (reply.text or "").strip():
        raise StageError(f"the answer to {prompt_stage} is empty", kind="empty_answer", stage=stage)
    try:
        return as_items(parse_payload(reply.text), key)
    except PayloadError as error:
        raise UnusableAnswer(f"cannot use the answer to {prompt_stage}: {error}", stage=stage) from error


def _list_of(properties: Mapping[str, Any], *, most: int | None = None) -> dict[str, Any]:
    item = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
    schema: dict[str, Any] = {"type": "array", "items": item}
    if most is not None:
        schema["maxItems"] = most
    return schema


def _one_of(values: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)} if values else {"type": "string"}


def extraction_schema(registry: Registry) -> dict[str, Any]:
    """JSON Schema of the answer to ``l1_extraction``. Dimensions are free text: naming them is what is measured."""
    return _list_of(
        {
            "content": {"type": "string"},
            "dimensions": _TEXTS,
            "memory_type": _one_of(registry.memory_types),
            "priority": {"type": "number"},
            "time_velocity": _one_of(registry.time_velocities),
            "source_message_ids": _TEXTS,
        }
    )


def conflict_schema() -> dict[str, Any]:
    """JSON Schema of the answer to ``l1_conflict``."""
    return _list_of(
        {
            "memory_index": {"type": "integer"},
            "action": _one_of(ACTIONS),
            "target_ids": _TEXTS,
            "merged_content": {"type": ["string", "null"]},
            "reason": {"type": ["string", "null"]},
        }
    )


def scene_schema(max_scenes: int) -> dict[str, Any]:
    """JSON Schema of the answer to ``l2_scene``."""
    return _list_of(
        {
            "action": _one_of(("create", "update", "merge")),
            "scene_ids": _TEXTS,
            "title": {"type": "string"},
            "memory_indexes": {"type": "array", "items": {"type": "integer"}},
        },
        most=max_scenes,
    )
