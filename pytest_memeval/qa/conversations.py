"""Conversations that were read once and are shared by their questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_memeval.datasets.models import Sample
from pytest_memeval.engine.protocol import StageError
from pytest_memeval.loop_time import hidden, is_cancelled
from pytest_memeval.own_code import own_ends, own_errors
from pytest_memeval.results import CallRecord
from pytest_memeval.values import Hit

#: Conversations of about so many turns in all are kept for questions to come.
KEPT_TURNS = 20_000


class Reader(Protocol):
    """One conversation's memory, however it is made. ``calls`` are the model calls of reading it."""

    calls: list[CallRecord]

    async def ingest(self, sample: Sample) -> None: ...
    async def retrieve(self, query: str, sample: Sample, question: Any) -> list[Hit]: ...
    async def close(self) -> None: ...


@dataclass
class Conversation:
    """A conversation in a memory. ``seconds`` is how long reading it took."""

    sample: Sample
    reader: Reader
    seconds: float = 0.0
    users: int = 0
    used: int = 0
    reading: asyncio.Task[None] | None = None
    #: Whether some question has taken the cost of reading upon itself.
    charged: bool = False
    turns: int = 0


class Conversations:
    """Every conversation of a process, by key. Each is read once, by the first question that asks for it.

    ``alone``: the memory holds one conversation at a time, so that reading another one ends the first. Else
    conversations that nobody uses are kept up to a number of turns. One that could not be read stays so: its questions
    all fail with the reason.
    """

    def __init__(self, make: Callable[[], Reader], *, alone: bool = False, kept_turns: int = KEPT_TURNS) -> None:
        self._make = make
        self.alone = alone
        self._kept_turns = kept_turns
        self._open: dict[str, Conversation] = {}
        self._failed: dict[str, BaseException] = {}
        self._clock = 0
        self._turn: asyncio.Condition | None = None
        #: What is open is on this loop. Conversations of one that was left behind may be stuck, and are read again.
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def use(self, key: str, load: Callable[[], Awaitable[Sample]]) -> AsyncIterator[Conversation]:
        """The conversation, read. Raises StageError of kind ``ingest_failed`` where it cannot be."""
        if key in self._failed:
            raise _told(self._failed[key])
        conversation = await self._enter(key, load)
        try:
            try:
                assert conversation.reading is not None
                # Shielded: others wait for it too, and one question's time limit must not end it for all.
                await asyncio.shield(conversation.reading)
            except asyncio.CancelledError:
                raise
            except own_errors() as error:  # whatever a memory does; each question that needs it is told
                self._failed.setdefault(key, error)
                raise _told(error) from error.__cause__ or error
            yield conversation
        finally:
            conversation.users -= 1
            await self._leave(key)

    async def _enter(self, key: str, load: Callable[[], Awaitable[Sample]]) -> Conversation:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._loop is not loop:
            self._turn, self._loop, self._open = asyncio.Condition(), loop, {}
        async with self._turn:
            if self.alone:
                await self._turn.wait_for(lambda: not any(self._open[other].users for other in self._others(key)))
                for other in self._others(key):
                    await self._drop(other)
            conversation = self._open.get(key)
            if conversation is None:
                sample = await load()
                conversation = Conversation(
                    sample, self._make(), turns=sum(len(one.messages) for one in sample.sessions)
                )
                conversation.reading = hidden(asyncio.create_task(self._read(conversation)))
                self._open[key] = conversation
            conversation.users += 1
            self._clock += 1
            conversation.used = self._clock
            return conversation

    def _others(self, key: str) -> list[str]:
        return [other for other in self._open if other != key]

    @staticmethod
    async def _read(conversation: Conversation) -> None:
        started = time.perf_counter()
        try:
            await conversation.reader.ingest(conversation.sample)
        except own_ends() as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            # Told here: of a failure that several questions wait for, asyncio gives the traceback to one alone.
            raise _told(error) from error
        finally:
            conversation.seconds = time.perf_counter() - started

    async def _leave(self, key: str) -> None:
        if self._turn is None or self._loop is not asyncio.get_running_loop():
            return
        async with self._turn:
            if key in self._failed and key in self._open and self._open[key].users == 0:
                await self._drop(key)
            idle = sorted((one.used, other) for other, one in self._open.items() if one.users == 0)
            turns = sum(one.turns for one in self._open.values())
            for _, other in idle[:-1]:  # the last used one stays, whatever its size
                if turns <= self._kept_turns:
                    break
                turns -= self._open[other].turns
                await self._drop(other)
            self._turn.notify_all()

    async def _drop(self, key: str) -> None:
        conversation = self._open.pop(key)
        if conversation.reading is not None and not conversation.reading.done():
            conversation.reading.cancel()
        await conversation.reader.close()

    async def close(self) -> None:
        """Forget every conversation."""
        for key in list(self._open):
            await self._drop(key)


def _told(error: BaseException) -> StageError:
    from pytest_memeval.failures import case_error

    if isinstance(error, StageError) and error.kind == "ingest_failed":
        return StageError(str(error), kind=error.kind)
    known = case_error("qa", error)
    return StageError(f"the conversation could not be read: {known.kind}: {known.message}", kind="ingest_failed")
