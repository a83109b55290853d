"""Search over the memories of a store: FTS5 and vectors, fused."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.engine.reference.db import MemoryStore
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.index import SearchIndex
from pytest_memeval.search.params import SearchParams
from pytest_memeval.values import Hit


class IndexKeeper:
    """One index a store, built when it is first searched and again when the store has changed since."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: WeakKeyDictionary[Any, tuple[tuple[int, int], SearchIndex]] = WeakKeyDictionary()

    def index(self, ctx: StageContext) -> SearchIndex:
        state = (ctx.memory_db.total_changes, id(ctx.embedder))
        with self._lock:
            known = self._known.get(ctx.databases)
            if known is None or known[0] != state:
                memories = MemoryStore(ctx.memory_db).live()
                index = SearchIndex([(str(memory.id), memory.content) for memory in memories], ctx.embedder)
                # Looking at a store for the first time makes its tables.
                state = (ctx.memory_db.total_changes, id(ctx.embedder))
                known = self._known[ctx.databases] = (state, index)
            return known[1]


async def search(query: str, params: Mapping[str, Any], ctx: StageContext, keeper: IndexKeeper) -> list[Hit]:
    """The store's best memories for the query. Parameters out of their ranges are a StageError."""
    try:
        return await keeper.index(ctx).search(query, SearchParams.of(params))
    except SearchError as error:
        raise StageError(str(error), kind="search", stage="search") from error
