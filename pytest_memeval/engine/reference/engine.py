"""The engine that comes with the package: the whole pipeline over SQLite, driven by prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_memeval import __version__
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.engine.protocol import StageContext
from pytest_memeval.engine.reference.aggregate import aggregate
from pytest_memeval.engine.reference.answers import disowning_unusable
from pytest_memeval.engine.reference.db import MemoryStore, fresh_ids
from pytest_memeval.engine.reference.extract import extract
from pytest_memeval.engine.reference.inject import inject
from pytest_memeval.engine.reference.resolve import resolve
from pytest_memeval.engine.reference.search import IndexKeeper, search
from pytest_memeval.engine.reference.template_query import query_template
from pytest_memeval.engine.reference.wiki import SceneStore
from pytest_memeval.values import Block, Decision, Hit, Memory, Message, Scene, Section


class ReferenceEngine:
    """Extraction, conflict resolution and scenes by prompts; templates, injection and search by SQL.

    It keeps nothing of a case but what lies in the context's databases (and an index of them, for as long as they
    live), so that one object serves any number of cases at once. ``chunk_characters`` is the greatest length of a
    conversation read in one call, ``resolve_batch`` and ``aggregate_batch`` are memories a call, ``max_scenes`` is what
    the scene prompt is told.
    """

    name = "reference"
    version = __version__
    concurrent = True

    def __init__(
        self,
        *,
        chunk_characters: int = 8_000,
        resolve_batch: int = 10,
        aggregate_batch: int = 20,
        max_scenes: int = 8,
    ) -> None:
        for name, value in (
            ("chunk_characters", chunk_characters),
            ("resolve_batch", resolve_batch),
            ("aggregate_batch", aggregate_batch),
            ("max_scenes", max_scenes),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self.chunk_characters = chunk_characters
        self.resolve_batch = resolve_batch
        self.aggregate_batch = aggregate_batch
        self.max_scenes = max_scenes
        self._indexes = IndexKeeper()

    async def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        """Put memories and scenes into the stores as they are; an id in use is a StageError and loads nothing.

        A memory without an id gets one. Labels that name a dimension by alias or in another spelling are stored as
        its id, so that they are found.
        """
        if memories:
            store = MemoryStore(ctx.memory_db)
            taken = store.ids() | {memory.id for memory in memories if memory.id is not None}
            ids = iter(fresh_ids("mem", taken, sum(memory.id is None for memory in memories)))
            with store.transaction:
                for memory in memories:
                    memory_id = memory.id if memory.id is not None else next(ids)
                    dimensions = tuple(_stored_label(label, ctx) for label in memory.dimensions)
                    store.add(replace(memory, id=memory_id, dimensions=dimensions), ctx.clock)
        if scenes:
            wiki = SceneStore(ctx.wiki_db)
            with wiki.transaction:
                for scene in scenes:
                    wiki.add(scene, ctx.clock)

    async def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[Memory]:
        """L1: the conversation's memories, labels as the model wrote them."""
        async with disowning_unusable(ctx):
            return await extract(conversation, ctx, chunk_characters=self.chunk_characters)

    async def normalize(self, memories: Sequence[Memory], ctx: StageContext) -> list[Memory]:
        """Labels in the registry's spelling; what was dropped or guessed is a row of ``anomaly_log`` and a record."""
        store = MemoryStore(ctx.memory_db)

        def record(kind: str, **fields: Any) -> None:
            details = dict(fields)
            store.log_anomaly(
                ctx.case_id,
                "l1",
                kind,
                memory_index=details.pop("memory_index", None),
                label=details.pop("label", None),
                **details,
            )
            ctx.record(kind, **fields)

        return normalize_memories(memories, ctx.registry, record)

    async def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> list[Decision]:
        """L1.5: decisions about the new memories, already applied to memory.db."""
        async with disowning_unusable(ctx):
            return await resolve(memories, ctx, batch_size=self.resolve_batch)

    async def aggregate(self, memories: Sequence[Memory], ctx: StageContext) -> list[Scene]:
        """L2: every scene that exists after the memories, which are live in the store, were put into scenes."""
        async with disowning_unusable(ctx):
            return await aggregate(memories, ctx, batch_size=self.aggregate_batch, max_scenes=self.max_scenes)

    async def query_template(self, mode: str, ctx: StageContext) -> list[Section]:
        """The sections of a mode with the ids of their memories."""
        return query_template(mode, ctx)

    async def inject(self, mode: str, conversation: Sequence[Message], ctx: StageContext) -> list[Block]:
        """The blocks that a mode puts before a conversation."""
        return inject(mode, conversation, ctx)

    async def search(self, query: str, params: Mapping[str, Any], ctx: StageContext) -> list[Hit]:
        """The stored memories that fit the query, best first: words and vectors, fused by their ranks."""
        return await search(query, params, ctx, self._indexes)

    def describe_search(self, ctx: StageContext) -> dict[str, Any]:
        """What searches in this store, for the report."""
        return self._indexes.index(ctx).describe()


def _stored_label(label: str, ctx: StageContext) -> str:
    resolution = ctx.registry.resolve(label)
    if resolution.dimension is None or resolution.how == "fuzzy":
        return label
    return resolution.dimension
