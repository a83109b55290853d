"""A store of langgraph as an engine: what an application keeps in a ``BaseStore`` and how it finds it again.

The interface stores what it is given and searches it, so it has the stages ``search`` and ``qa``. What is worth
keeping, what contradicts what, and what is shown where is left to the application above it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_memeval.engine.adapters.http import store_of
from pytest_memeval.engine.protocol import EngineSetupError, StageContext, StageError
from pytest_memeval.llm.protocol import Embedder
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.values import Hit, Memory, Message, Scene, kind_of_value

#: Items that a question is answered from.
FOUND = 10
#: Items that are deleted with one call.
_BATCH = 500


@dataclass(frozen=True)
class _Open:
    """A store of langgraph in use, and what closes it."""

    store: Any
    closing: ExitStack


class LanggraphEngine:
    """A store behind ``langgraph.store.base.BaseStore``.

    ``make_store(folder, index)`` gives the store, or a context manager around it, for each store of a case: ``folder``
    is the case's own and ``index`` is langgraph's index configuration with the run's embedder. It may give the same
    store each time: every case has a namespace of its own, emptied at its end. Without it each is an ``InMemoryStore``.
    Raises EngineSetupError where the package is missing.
    """

    concurrent = True

    def __init__(
        self,
        make_store: Callable[[Path, dict[str, Any]], Any] | None = None,
        *,
        name: str = "langgraph",
        version: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        problem = self.lacks()
        if problem is not None:
            raise EngineSetupError(problem)
        self.name = name
        self.version = version if version is not None else _version(make_store)
        self._make_store = make_store or _in_memory
        self._embedder = embedder
        self._open: dict[Path, _Open] = {}
        self._lock = Lock()

    @classmethod
    def from_settings(cls, harness: Any) -> LanggraphEngine:
        return cls(embedder=harness.search.embedder())

    @staticmethod
    def lacks() -> str | None:
        """What is missing, in a sentence."""
        try:
            version("langgraph-checkpoint")
        except PackageNotFoundError:
            return "needs the package langgraph-checkpoint: pip install 'pytest-memeval[langgraph]'"
        if find_spec("langgraph") is not None:
            return None
        return "the package langgraph-checkpoint is installed, and has no module langgraph"

    # -- the stages ------------------------------------------------------------------------------------------------

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        self._put([(str(one.id), one.content, str(one.id)) for one in memories], ctx)

    def search(self, query: str, params: Mapping[str, Any], ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, int(params.get("top_k") or FOUND))

    def describe_search(self, ctx: StageContext) -> dict[str, Any]:
        store = self._store(ctx)
        return {"store": type(store).__name__, "vectors": "none" if _without_index(store) else self._embed(ctx).name}

    def reset(self, ctx: StageContext) -> None:
        self.release(ctx)
        if _without_index(self._store(ctx)):
            ctx.record("note", text="langgraph: the store has no index, so what it finds is in no order of relevance")

    def ingest_session(self, messages: Sequence[Message], ctx: StageContext) -> None:
        self._put([(one.id, _turn(one), one.id) for one in messages if one.content.strip()], ctx)

    def retrieve(self, query: str, ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, FOUND)

    def release(self, ctx: StageContext) -> None:
        with self._lock:
            known = self._open.pop(ctx.folder, None)
        if known is not None:
            with known.closing:
                self._empty(known.store, _namespace(ctx))

    # -- langgraph -------------------------------------------------------------------------------------------------

    def _put(self, items: Sequence[tuple[str, str, str]], ctx: StageContext) -> None:
        """Keep items ``(key, text, id of its source)`` with one call, so that their texts are embedded together."""
        if items:
            base: Any = importlib.import_module("langgraph.store.base")
            namespace = _namespace(ctx)
            puts = [base.PutOp(namespace, key, {"text": text, "source": source}) for key, text, source in items]
            self._store(ctx).batch(puts)

    def _found(self, query: str, ctx: StageContext, limit: int) -> list[Hit]:
        items = self._store(ctx).search(_namespace(ctx), query=query, limit=limit)
        return [Hit(one.key, float(one.score or 0.0), one.value["text"], (one.value["source"],)) for one in items]

    @staticmethod
    def _empty(store: Any, namespace: tuple[str, ...]) -> None:
        while items := store.search(namespace, limit=_BATCH):
            for item in items:
                store.delete(item.namespace, item.key)

    def _store(self, ctx: StageContext) -> Any:
        """The store for ``ctx.folder``, made when first used."""
        with self._lock:
            known = self._open.get(ctx.folder)
            if known is None:
                known = self._open[ctx.folder] = self._opened(ctx)
            return known.store

    def _opened(self, ctx: StageContext) -> _Open:
        base: Any = importlib.import_module("langgraph.store.base")
        embedder = self._embed(ctx)

        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [list(map(float, vector)) for vector in run_sync(embedder.embed(list(texts)))]

        index = {"dims": len(embed(["dimensions"])[0]), "embed": embed, "fields": ["text"]}
        made, closing = self._make_store(ctx.folder, index), ExitStack()
        if not isinstance(made, base.BaseStore) and hasattr(made, "__enter__"):
            made = closing.enter_context(made)
        if not isinstance(made, base.BaseStore):
            closing.close()
            text = f"{kind_of_value(made)} was made where a store is expected, a BaseStore of langgraph"
            raise StageError(text, kind="no_store")
        return _Open(made, closing)

    def _embed(self, ctx: StageContext) -> Embedder:
        embedder = ctx.embedder or self._embedder
        if embedder is None:
            raise StageError("langgraph needs an embedder: name one with --memeval-embedder", kind="no_embedder")
        return embedder


def _namespace(ctx: StageContext) -> tuple[str, ...]:
    return ("memeval", store_of(ctx))


def _in_memory(folder: Path, index: dict[str, Any]) -> Any:
    memory: Any = importlib.import_module("langgraph.store.memory")
    return memory.InMemoryStore(index=index)


def _version(make_store: Callable[..., Any] | None) -> str:
    installed = version("langgraph-checkpoint")
    if make_store is None:
        return installed
    return f"{installed} {getattr(make_store, '__module__', '')}:{getattr(make_store, '__qualname__', 'store')}"


def _without_index(store: Any) -> bool:
    """Whether the store says that it has no index for meanings; one that says nothing is believed to have one."""
    return getattr(store, "index_config", store) is None


def _turn(message: Message) -> str:
    """A message with its time and its speaker, as those who answer from it need it."""
    time = f"[{message.time:%Y-%m-%d %H:%M}] " if message.time is not None else ""
    return f"{time}{message.name or message.role}: {message.content}"
