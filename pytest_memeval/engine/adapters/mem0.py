"""mem0 as an engine: its own ``Memory`` over stores embedded in the case's folder.

mem0 keeps facts of a conversation and finds them again, so it has the stages ``l1``, ``search`` and ``qa``. It has no
labels, decisions, scenes or templates. Its model and its embedder are the run's: every call is cached and counted.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from pytest_memeval.engine.protocol import EngineSetupError, StageContext, StageError
from pytest_memeval.llm.protocol import ChatModelError, Embedder
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.values import Hit, Memory, Message, Scene

#: The one user of a store: every case has stores of its own.
_USER = "memeval"
_SCOPE = {"user_id": _USER}


class Mem0Engine:
    """mem0's open-source ``Memory``. Raises EngineSetupError where the package is missing."""

    name = "mem0"
    concurrent = True
    needs = "the package mem0ai"

    def __init__(self, embedder: Embedder | None = None) -> None:
        problem = self.lacks()
        if problem is not None:
            raise EngineSetupError(problem)
        # Read when mem0 is imported: it would send usage data, and keep files in the user's home.
        os.environ.setdefault("MEM0_TELEMETRY", "False")
        self.version = version("mem0ai")
        self._embedder = embedder
        self._open: dict[Path, tuple[Any, _Model]] = {}
        self._lock = Lock()

    @classmethod
    def from_settings(cls, harness: Any) -> Mem0Engine:
        return cls(harness.search.embedder())

    @staticmethod
    def lacks() -> str | None:
        """What is missing, in a sentence."""
        try:
            version("mem0ai")
        except PackageNotFoundError:
            return "needs the package mem0ai: pip install 'pytest-memeval[mem0]'"
        return None if find_spec("mem0") is not None else "the package mem0ai is installed, and has no module mem0"

    # -- the stages ------------------------------------------------------------------------------------------------

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        memory = self._memory(ctx, "l1_extraction")
        for one in memories:
            memory.add(one.content, user_id=_USER, infer=False, metadata={"memeval_id": str(one.id)})

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[dict[str, Any]]:
        found = self._add(conversation, ctx, "l1_extraction", {})
        ctx.record("note", text="mem0: facts have no dimensions, and do not say which message they come from")
        return [{"id": str(one["id"]), "content": str(one["memory"])} for one in found]

    def search(self, query: str, params: Mapping[str, Any], ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, int(params.get("top_k") or 10))

    def reset(self, ctx: StageContext) -> None:
        self.release(ctx)
        ctx.record("note", text="mem0: facts do not say which message they come from; their session stands for it")

    def ingest_session(self, messages: Sequence[Message], ctx: StageContext) -> None:
        # mem0 does not say which message a fact is from; the whole session is its source.
        self._add(messages, ctx, "qa_ingest", {"memeval_sources": [message.id for message in messages]})

    def retrieve(self, query: str, ctx: StageContext) -> list[Hit]:
        return self._found(query, ctx, 10)

    def release(self, ctx: StageContext) -> None:
        with self._lock:
            memory, _ = self._open.pop(ctx.folder, (None, None))
        if memory is not None:
            memory.close()
            memory.vector_store.client.close()

    def _add(
        self, messages: Sequence[Message], ctx: StageContext, stage: str, metadata: dict[str, Any]
    ) -> list[dict[str, Any]]:
        said = [
            {"role": one.role if one.role in ("user", "assistant") else "user", "content": one.content}
            for one in messages
            if one.content.strip()
        ]
        if not said:
            return []
        memory = self._memory(ctx, stage)
        try:
            found: list[dict[str, Any]] = memory.add(said, user_id=_USER, metadata=metadata or None)["results"]
        except Exception as error:  # Mem0 wraps what our model raises
            raise _cause(error) from None
        return [one for one in found if one.get("event", "ADD") != "DELETE"]

    def _found(self, query: str, ctx: StageContext, top_k: int) -> list[Hit]:
        results = self._memory(ctx, "qa_retrieve").search(query, filters=_SCOPE, top_k=top_k, threshold=0.0)["results"]
        hits = []
        for one in results:
            metadata = one.get("metadata") or {}
            own = metadata.get("memeval_id")
            sources = [own] if own else metadata.get("memeval_sources") or ()
            identity = str(own or one["id"])
            hits.append(Hit(identity, float(one.get("score") or 0.0), str(one["memory"]), tuple(map(str, sources))))
        return hits

    # -- mem0 ------------------------------------------------------------------------------------------------------

    def _memory(self, ctx: StageContext, stage: str) -> Any:
        """The store's memory, opened when first used, asking the model of the stage at hand."""
        with self._lock:
            known = self._open.get(ctx.folder)
            if known is None:
                embedder = _Embedding(ctx.embedder or self._embedder)
                model = _Model()
                known = self._open[ctx.folder] = (_opened(ctx.folder, model, embedder), model)
        known[1].ctx, known[1].stage = ctx, stage
        return known[0]


class _Model:
    """What mem0 asks in the place of its own client."""

    def __init__(self) -> None:
        self.ctx: Any = None
        self.stage = ""

    def generate_response(self, messages: Sequence[Mapping[str, str]], **rest: Any) -> str:
        reply = self.ctx.llm.complete_sync(list(messages), stage=self.stage, trial=self.ctx.trial)
        return str(reply.text)


class _Embedding:
    """The same for embeddings."""

    def __init__(self, embedder: Embedder | None) -> None:
        if embedder is None:
            raise StageError("mem0 needs an embedder: name one with --memeval-embedder", kind="no_embedder")
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [list(map(float, vector)) for vector in run_sync(self._embedder.embed(list(texts)))]


def _opened(folder: Path, model: _Model, embedder: _Embedding) -> Any:
    mem0: Any = importlib.import_module("mem0")
    server = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9/v1"}
    memory = mem0.Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(folder / "qdrant"),
                    "on_disk": True,
                    "collection_name": "memeval",
                    "embedding_model_dims": len(embedder.embed("dimensions")),
                },
            },
            "llm": {"provider": "openai", "config": {**server, "model": "memeval"}},
            "embedder": {"provider": "openai", "config": {**server, "model": "memeval"}},
            "history_db_path": str(folder / "history.db"),
        }
    )
    # Its clients are replaced before the first call: the run's own model and embedder answer.
    memory.llm, memory.embedding_model = model, embedder
    return memory


def _cause(error: BaseException) -> BaseException:
    """The failure of the run's model behind mem0's own exception."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None or isinstance(seen, ChatModelError):
            break
        seen = seen.__cause__ or seen.__context__
    return seen if isinstance(seen, ChatModelError) else error
