"""PowerMem as an engine: its own ``Memory`` over an SQLite file in the case's folder.

PowerMem draws facts from a conversation and decides in the same call what becomes of them beside those it has: it adds,
updates or deletes. So it has the stages ``l1``, ``l15``, ``search`` and ``qa``. It has no dimensions, scenes or
templates. Its model and its embedder are the run's: every call is cached and counted.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_memeval.engine.protocol import EngineSetupError, StageContext, StageError, UnusableAnswer
from pytest_memeval.llm.protocol import Embedder
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.values import Hit, Memory, Message, Scene

#: The one user of a store: every case has stores of its own.
_USER = "memeval"
#: Memories that a question is answered from.
FOUND = 10
#: One store is opened at a time, while the environment says where PowerMem must not log.
_OPENING = Lock()


class PowerMemEngine:
    """PowerMem's ``Memory``. Raises EngineSetupError where the package is missing."""

    name = "powermem"
    concurrent = True
    needs = "the package powermem"

    def __init__(self, embedder: Embedder | None = None) -> None:
        problem = self.lacks()
        if problem is not None:
            raise EngineSetupError(problem)
        self.version = version("powermem")
        self._embedder = embedder
        self._open: dict[Path, _Store] = {}
        self._lock = Lock()

    @classmethod
    def from_settings(cls, harness: Any) -> PowerMemEngine:
        return cls(harness.search.embedder())

    @staticmethod
    def lacks() -> str | None:
        """What is missing, in a sentence."""
        try:
            version("powermem")
        except PackageNotFoundError:
            return "needs the package powermem: pip install 'pytest-memeval[powermem]'"
        return (
            None if find_spec("powermem") is not None else "the package powermem is installed, and has no such module"
        )

    # -- the stages ------------------------------------------------------------------------------------------------

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        store = self._store(ctx, "l1_extraction")
        for one in memories:
            if one.content.strip():
                added = store.memory.add(one.content, user_id=_USER, infer=False)["results"][0]
                store.names[added["id"]] = str(one.id)

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[dict[str, Any]]:
        store = self._store(ctx, "l1_extraction")
        found: dict[str, str] = {}
        for one in store.add(_said(conversation)):
            name = store.name(one["id"])
            if one["event"] == "DELETE":
                ctx.record("note", text=f"powermem: the memory {name} was deleted, as contradicted")
                found.pop(name, None)
            else:
                found[name] = str(one["memory"])
                store.events.setdefault(name, one["event"])
        ctx.record("note", text="powermem: memories have no dimensions, and do not say which message they come from")
        return [{"id": name, "content": content} for name, content in found.items()]

    def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> list[dict[str, Any]]:
        """What was decided when the memories were extracted; memories from elsewhere are added here, one by one."""
        store = self._store(ctx, "l1_conflict")
        decisions = []
        for index, memory in enumerate(memories):
            event = store.events.get(str(memory.id))
            made = [(event, str(memory.id))] if event is not None else self._decided(memory, store)
            decisions.append({"memory_index": index, **_decision(made)})
        if any(one["action"] == "skip" for one in decisions):
            ctx.record("note", text="powermem: it does not say which memory a skipped one repeats")
        return decisions

    def search(self, query: str, params: Mapping[str, Any], ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, int(params.get("top_k") or FOUND))

    def reset(self, ctx: StageContext) -> None:
        self.release(ctx)
        ctx.record(
            "note", text="powermem: memories do not say which message they are from; their sessions stand for it"
        )

    def ingest_session(self, messages: Sequence[Message], ctx: StageContext) -> None:
        store = self._store(ctx, "qa_ingest")
        # PowerMem does not say which message a memory is from; every session that it was made of is its source.
        for one in store.add(_said(messages)):
            store.sources.setdefault(one["id"], {}).update(dict.fromkeys(message.id for message in messages))

    def retrieve(self, query: str, ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, FOUND)

    def release(self, ctx: StageContext) -> None:
        with self._lock:
            store = self._open.pop(ctx.folder, None)
        if store is not None:
            store.memory.storage.vector_store.connection.close()

    # -- PowerMem --------------------------------------------------------------------------------------------------

    @staticmethod
    def _decided(memory: Memory, store: _Store) -> list[tuple[str, str]]:
        results = store.add([{"role": "user", "content": memory.content}])
        return [(str(one["event"]), store.name(one["id"])) for one in results]

    def _found(self, query: str, ctx: StageContext, limit: int) -> list[Hit]:
        store = self._store(ctx, "qa_retrieve")
        hits = []
        for one in store.memory.search(query, user_id=_USER, limit=limit)["results"]:
            name = store.name(one["id"])
            sources = (name,) if one["id"] in store.names else tuple(store.sources.get(one["id"], ()))
            hits.append(Hit(name, float(one.get("score") or 0.0), str(one["memory"]), sources))
        return hits

    def _store(self, ctx: StageContext, stage: str) -> _Store:
        """The case's store, opened when first used, asking the model of the stage at hand."""
        with self._lock:
            store = self._open.get(ctx.folder)
            if store is None:
                store = self._open[ctx.folder] = _opened(ctx.folder, ctx.embedder or self._embedder)
        store.asked.ctx, store.asked.stage = ctx, stage
        return store


class _Asked:
    """The model and the embedder that PowerMem asks in the place of its own clients. It goes on without an answer where
    one fails, so that failures are kept here."""

    def __init__(self, embedder: Embedder) -> None:
        self.ctx: Any = None
        self.stage = ""
        self.failure: Exception | None = None
        self.replies: list[str] = []
        self._embedder = embedder

    def generate_response(self, messages: Sequence[Mapping[str, str]], **rest: Any) -> str:
        try:
            reply = self.ctx.llm.complete_sync(list(messages), stage=self.stage, trial=self.ctx.trial)
        except Exception as error:  # kept: PowerMem goes on without an answer
            self.failure = self.failure or error
            raise
        self.replies.append(str(reply.text))
        return self.replies[-1]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        try:
            return list(map(float, run_sync(self._embedder.embed([text]))[0]))
        except Exception as error:  # kept: PowerMem goes on without an answer
            self.failure = self.failure or error
            raise


@dataclass
class _Store:
    """A ``Memory`` in use. ``names`` are the ids of memories that were loaded, ``events`` what became of extracted
    ones, ``sources`` the messages that a memory was made of."""

    memory: Any
    asked: _Asked
    names: dict[int, str] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    sources: dict[int, dict[str, None]] = field(default_factory=dict)

    def name(self, identity: int) -> str:
        return self.names.get(identity, str(identity))

    def add(self, said: list[dict[str, str]]) -> list[dict[str, Any]]:
        """Have facts drawn from messages and decided on; what failed on the way is raised."""
        if not said:
            return []
        self.asked.failure, self.asked.replies = None, []
        results: list[dict[str, Any]] = self.memory.add(said, user_id=_USER)["results"]
        if self.asked.failure is not None:
            raise self.asked.failure
        unread = next((reply for reply in self.asked.replies if "{" not in reply and "[" not in reply), None)
        if unread is not None and not results:
            raise UnusableAnswer(f"no JSON in the model's answer: {unread[:80]!r}")
        return results


def _said(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [
        {"role": one.role if one.role in ("user", "assistant") else "user", "content": one.content}
        for one in messages
        if one.content.strip()
    ]


def _decision(made: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """PowerMem's events about one memory as a decision. Of nothing that happened the memory was known already."""
    added = [name for event, name in made if event == "ADD"]
    changed = [name for event, name in made if event == "UPDATE"]
    deleted = [name for event, name in made if event == "DELETE"]
    if changed:
        return {"action": "update", "target_ids": changed[:1], "result_id": changed[0]}
    if added and deleted:
        return {"action": "update", "target_ids": deleted, "result_id": added[0]}
    if added:
        return {"action": "store", "result_id": added[0]}
    return {"action": "skip", "reason": f"deleted {', '.join(deleted)}" if deleted else None}


def _opened(folder: Path, embedder: Embedder | None) -> _Store:
    if embedder is None:
        raise StageError("powermem needs an embedder: name one with --memeval-embedder", kind="no_embedder")
    client = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9/v1", "model": "memeval"}
    with _OPENING, _no_log_files():
        powermem: Any = importlib.import_module("powermem")
        memory = powermem.Memory(
            {
                "vector_store": {"provider": "sqlite", "config": {"database_path": str(folder / "powermem.db")}},
                "llm": {"provider": "openai", "config": client},
                "embedder": {"provider": "openai", "config": client},
                "audit": {"enabled": False, "log_file": os.devnull},
                "telemetry": {"enable_telemetry": False},
            }
        )
    # Its clients are replaced before the first call: the run's own model and embedder answer.
    asked = _Asked(embedder)
    memory.llm = memory.embedding = memory.storage.embedding_service = asked
    return _Store(memory, asked)


@contextmanager
def _no_log_files() -> Iterator[None]:
    """PowerMem logs into ``./logs`` and to the console unless it is told otherwise."""
    before = os.environ.get("LOGGING_FILE")
    if before is None:
        os.environ["LOGGING_FILE"] = ""
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("LOGGING_FILE", None)
