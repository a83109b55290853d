"""The model's side of the engine's tests: a chat model that answers from a list and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_memeval.assets.prompts import PromptSet, load_prompts
from pytest_memeval.assets.registry import Registry, load_registry
from pytest_memeval.assets.templates import Templates, load_templates
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.protocol import StageContext
from pytest_memeval.llm.protocol import ChatReply, Usage
from pytest_memeval.values import Memory, Message

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


@dataclass
class ScriptedModel:
    """Answers in order; an exception among the answers is raised, a value that is no text is written as JSON."""

    answers: list[Any]
    requests: list[dict[str, Any]] = field(default_factory=list)
    name: str = "scripted"

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
        await asyncio.sleep(0)
        self.requests.append(
            {
                "text": "\n".join(message["content"] for message in messages),
                "stage": stage,
                "response_format": response_format,
                "temperature": temperature,
                "trial": trial,
            }
        )
        answer = self.answers[len(self.requests) - 1]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ChatReply):
            return answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ChatReply(text, "stop", Usage(10, 5), "scripted-1", 0.25)


@dataclass
class Bench:
    """A context with its own databases, and what the engine recorded in it."""

    ctx: StageContext
    model: ScriptedModel
    databases: OpenDatabases
    records: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]

    def rows(self, statement: str, *, wiki: bool = False) -> list[tuple[Any, ...]]:
        connection = self.databases.wiki if wiki else self.databases.memory
        return connection.execute(statement).fetchall()


def bench(
    *answers: Any,
    case_id: str = "case-1",
    registry: Registry | None = None,
    templates: Templates | None = None,
    prompts: PromptSet | None = None,
    clock: datetime = NOW,
    model: Any = None,
    trial: int = 0,
) -> Bench:
    records: list[dict[str, Any]] = []
    databases = OpenDatabases()
    chat = model or ScriptedModel(list(answers))
    registry = registry or load_registry(None)

    def record(kind: str, **fields: Any) -> None:
        records.append({"kind": kind, **fields})

    def no_folder() -> Path:
        raise AssertionError("the reference engine needs no folder")

    ctx = StageContext(
        case_id=case_id,
        databases=databases,
        prompts=prompts or load_prompts(None).resolve(None),
        llm=chat,
        registry=registry,
        templates=templates or load_templates(None, registry),
        clock=clock,
        record=record,
        get_folder=no_folder,
        trial=trial,
    )
    return Bench(ctx, chat, databases, records)


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def memory(memory_id: str | None, content: str, *dimensions: str, **fields: Any) -> Memory:
    return Memory(memory_id, content, dimensions, **fields)


def message(number: int, content: str, *, time: datetime | None = None, role: str = "user") -> Message:
    return Message(f"msg_{number}", role, content, time=time)
