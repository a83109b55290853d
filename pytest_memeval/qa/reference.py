"""The reference engine as a memory that is asked questions: what it distilled is searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.qa.memories import DEFAULT_K
from pytest_memeval.values import Hit, Message

if TYPE_CHECKING:
    from pytest_memeval.engine.protocol import StageContext


class ReferenceMemory:
    """Extraction and conflict resolution session by session; a question gets the ``k`` live memories that BM25 ranks
    highest. ``Hit.source_ids`` are the messages that a memory comes from, where the extraction says so."""

    concurrent = True

    def __init__(self, engine: Any, k: int = DEFAULT_K) -> None:
        self._engine = engine
        self.k = k
        self.name: str = engine.name
        self.version: str = engine.version

    async def ingest_session(self, messages: Sequence[Message], ctx: StageContext) -> None:
        """Distil one session into the context's databases."""
        found = await self._engine.extract(list(messages), ctx)
        if found:
            await self._engine.resolve(await self._engine.normalize(found, ctx), ctx)

    async def retrieve(self, query: str, ctx: StageContext) -> list[Hit]:
        """The live memories that bear on the query, best first."""
        from pytest_memeval.engine.reference.db import MemoryStore
        from pytest_memeval.search.fts import FtsIndex

        memories = {str(memory.id): memory for memory in MemoryStore(ctx.memory_db).live()}
        index = FtsIndex((name, memory.content) for name, memory in memories.items())
        try:
            ranked = index.search(query, self.k)
        finally:
            index.close()
        return [Hit(name, score, _line(memories[name]), memories[name].source_message_ids) for name, score in ranked]


def _line(memory: Any) -> str:
    """A memory as a line of context: when it was said, then what."""
    return f"[{memory.created_at:%Y-%m-%d %H:%M}] {memory.content}" if memory.created_at else str(memory.content)
