"""Memories of every make behind one face: those of this package, and any engine with the stage ``qa``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pytest_memeval.copies import copied
from pytest_memeval.datasets.models import QAPair, Sample
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.loop_time import apart
from pytest_memeval.loops import in_daemon_thread
from pytest_memeval.outputs import OutputError
from pytest_memeval.own_code import own_errors
from pytest_memeval.qa.memory import BaseMemory, as_hits
from pytest_memeval.recording import StageChatModel
from pytest_memeval.results import CallRecord
from pytest_memeval.values import Hit

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.llm.protocol import ChatModel, Embedder

#: Seconds that an engine may take to let go of a conversation.
RELEASE_SECONDS = 5.0

#: What an engine has that can be asked questions.
ENGINE_METHODS: tuple[str, ...] = ("ingest_session", "ingest", "flush", "await_indexed", "retrieve", "reset")


def can_answer(engine: object) -> bool:
    """Whether the engine has the stage ``qa``: something that reads, and ``retrieve``."""
    reads = callable(getattr(engine, "ingest_session", None)) or callable(getattr(engine, "ingest", None))
    return reads and callable(getattr(engine, "retrieve", None))


def shares_nothing(engine: object) -> bool:
    """Whether several conversations may be in the engine at once: it says ``concurrent``, else all its methods for
    questions are ``async``."""
    said = getattr(engine, "concurrent", None)
    if said is not None:
        return bool(said)
    methods = [getattr(engine, name, None) for name in ENGINE_METHODS]
    return all(inspect.iscoroutinefunction(method) for method in methods if callable(method))


async def _call(function: Callable[..., Any], *args: Any, quick: bool = False) -> Any:
    """The function's result. A plain one runs in a thread of its own, unless it is known to be ``quick``."""
    if inspect.iscoroutinefunction(function):
        return await apart(partial(function, *args))
    result = function(*args) if quick else await in_daemon_thread(function, *args)
    return await apart(lambda: result) if inspect.isawaitable(result) else result


def _hits(found: object) -> list[Hit]:
    try:
        return as_hits(found)
    except TypeError as error:
        raise OutputError(str(error)) from None


class MemoryReader:
    """A :class:`~pytest_memeval.qa.memory.BaseMemory`, or an object with its methods, for one conversation."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self.calls: list[CallRecord] = []
        # Those of this package never wait for anything.
        self._quick = isinstance(memory, BaseMemory) and type(memory).__module__.startswith("pytest_memeval.")

    async def ingest(self, sample: Sample) -> None:
        await _call(self._memory.reset, quick=self._quick)
        by_session = getattr(self._memory, "ingest_session", None)
        # Another memory, variant or trial reads the same sessions.
        for session in sample.sessions if self._quick else copied(sample.sessions):
            if callable(by_session):
                await _call(by_session, session, quick=self._quick)
            else:
                for message in session.messages:
                    await _call(self._memory.ingest, message, quick=self._quick)
        flush = getattr(self._memory, "flush", None)
        if callable(flush):
            await _call(flush, quick=self._quick)

    async def retrieve(self, query: str, sample: Sample, question: QAPair) -> list[Hit]:
        return _hits(await _call(self._memory.retrieve, query, quick=self._quick))

    async def close(self) -> None:
        await _call(self._memory.reset, quick=self._quick)


@dataclass
class EngineReader:
    """An engine for one conversation, with databases and a folder of its own. ``get_folder`` gives a new one each
    time."""

    engine: Any
    llm: ChatModel
    prompts: PromptSet
    registry: Registry
    templates: Templates
    get_folder: Callable[[str], Path]
    case_set: str = ""
    embedder: Embedder | None = None
    calls: list[CallRecord] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    _databases: OpenDatabases | None = None
    _context: StageContext | None = None
    _folder: Path | None = None
    _lock: Lock = field(default_factory=Lock)

    async def ingest(self, sample: Sample) -> None:
        ctx = self._opened(sample)
        if callable(getattr(self.engine, "reset", None)):
            await _call(self.engine.reset, ctx)
        by_session = getattr(self.engine, "ingest_session", None)
        for session in copied(sample.sessions):
            if callable(by_session):
                await _call(by_session, list(session.messages), ctx)
            else:
                for message in session.messages:
                    await _call(self.engine.ingest, message, ctx)
        for name in ("flush", "await_indexed"):
            if callable(getattr(self.engine, name, None)):
                await _call(getattr(self.engine, name), ctx)

    async def retrieve(self, query: str, sample: Sample, question: QAPair) -> list[Hit]:
        if self._context is None:
            raise StageError("nothing was read into the engine", kind="ingest_failed")
        clock = question.question_time or self._context.clock
        return _hits(await _call(self.engine.retrieve, query, replace(self._context, clock=clock)))

    async def close(self) -> None:
        ctx = self._context
        if ctx is not None and callable(getattr(self.engine, "release", None)):
            # What goes wrong here is no part of any question.
            with contextlib.suppress(*own_errors()):
                await asyncio.wait_for(_call(self.engine.release, ctx), RELEASE_SECONDS)
        if self._databases is not None:
            self._databases.close()
            self._databases = self._context = None

    def _opened(self, sample: Sample) -> StageContext:
        self._databases = OpenDatabases()
        self._context = StageContext(
            case_id=sample.sample_id,
            databases=self._databases,
            prompts=self.prompts,
            llm=StageChatModel(self.llm, self.prompts.versions, f"{sample.sample_id}/ingest/", self.calls),
            registry=self.registry,
            templates=self.templates,
            clock=_after(sample),
            record=self._record,
            get_folder=partial(self._own_folder, sample.sample_id),
            embedder=self.embedder,
            case_set=self.case_set,
        )
        return self._context

    def _own_folder(self, sample_id: str) -> Path:
        """One folder for the conversation, however often it is asked for: an engine finds its store by it."""
        with self._lock:
            if self._folder is None:
                self._folder = self.get_folder(sample_id)
            return self._folder

    def _record(self, kind: str, **fields: Any) -> None:
        self.facts.append({"kind": kind, "stage": "qa", **copied(fields)})


def _after(sample: Sample) -> datetime:
    """A minute after the last message; the time that a case without times has, where there are none."""
    times: Sequence[datetime] = [message.time for message in sample.messages if message.time is not None]
    return max(times) + timedelta(minutes=1) if times else datetime(2026, 1, 1, tzinfo=UTC)
