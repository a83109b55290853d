"""SGME as an engine: its public functions, unchanged, from a checkout that ``MEMEVAL_SGME_PATH`` names.

Each store of a case has SGME's own databases in its folder. Registry and templates are the run's, in SGME's form, so
that its outputs meet the labels. Its calls of a language model go through the run's chat model, by way of the HTTP
client that its functions take: nothing is sent anywhere but by that model.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace
from typing import Any

from pytest_memeval.engine.protocol import EngineSetupError, StageContext, StageError
from pytest_memeval.outputs import memory_to_json
from pytest_memeval.values import Block, Decision, Memory, Message, Scene, Section

#: Environment variable with the path of a checkout.
PATH = "MEMEVAL_SGME_PATH"
_MODULES = {
    "l1": "sgme.engine.l1",
    "l15": "sgme.engine.l15",
    "l2": "sgme.engine.l2",
    "normalize": "sgme.engine.normalize",
    "db": "sgme.data.db",
    "memories": "sgme.data.memory_dao",
    "scenes": "sgme.data.scene_dao",
    "inject": "sgme.profile.inject",
    "prompts": "sgme.prompts",
}
#: Stage → its prompt.
_PROMPTS = {"l1": "l1_extraction", "l15": "l1_conflict", "l2": "l2_scene"}
#: Tokens of context that SGME plans its batches for.
_CONTEXT = 32_000


class SgmeEngine:
    """The pipeline of SGME. Raises EngineSetupError where there is no checkout, or its packages are missing."""

    name = "sgme"
    concurrent = True
    needs = "a checkout of SGME"

    def __init__(self, path: Path | str | None = None, *, prompt_versions: Mapping[str, str] | None = None) -> None:
        problem = self.lacks(path)
        if problem is not None:
            raise EngineSetupError(problem)
        self._sgme = _imported(Path(path or os.environ[PATH]))
        self._versions = dict(prompt_versions or {})
        self.version: str = str(getattr(importlib.import_module("sgme"), "__version__", "unknown"))

    @classmethod
    def from_settings(cls, harness: Any) -> SgmeEngine:
        """With the run's prompt versions, which are taken for versions of SGME's own prompts."""
        versions: dict[str, str] = {}
        for part in filter(None, str(harness.settings.prompt_version or "").split(",")):
            stage, equals, version = part.strip().rpartition("=")
            for name, known in _PROMPTS.items():
                if not equals or stage in (name, known):
                    versions[known] = version
        return cls(prompt_versions=versions)

    @staticmethod
    def lacks(path: Path | str | None = None) -> str | None:
        """What is missing, in a sentence."""
        place = path or os.environ.get(PATH)
        if not place:
            return f"needs a checkout of SGME: name its folder with {PATH}"
        if not (Path(place) / "sgme" / "engine" / "l1.py").is_file():
            return f"{PATH}: {place} is no checkout of SGME (it has no sgme/engine/l1.py)"
        return None

    # -- the stages ------------------------------------------------------------------------------------------------

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        with self._opened(ctx) as (db, _):
            for memory in memories:
                self._sgme.memories.insert_memory(db, memory_id=memory.id, **_stored(memory, ctx))
            for scene in scenes:
                self._sgme.scenes.insert_scene(db, scene.id, scene.title, scene.title, _time(ctx), _time(ctx))
                for memory_id in scene.memory_ids:
                    self._sgme.scenes.add_memory_link(db, scene.id, memory_id)

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[dict[str, Any]]:
        text = "\n\n".join(_turn(message) for message in conversation)
        if not text.strip():
            return []
        with self._opened(ctx) as (db, _), self._client(ctx, "l1_extraction") as client:
            found, _, meta = self._sgme.l1.extract_l1(
                text, _dimensions(ctx), _llm(), client=client, bucket_ctx=self._bucket(ctx), mem_conn=db
            )
        ctx.record("note", text=f"sgme: prompt {meta.get('stage')} {meta.get('version')}")
        return [self._extracted(entry, ctx, f"{ctx.case_id}-sgme-{place}") for place, entry in enumerate(found)]

    def _extracted(self, entry: Mapping[str, Any], ctx: StageContext, identity: str) -> dict[str, Any]:
        labels = [str(label) for label in entry.get("dimensions") or ()]
        aliases = {alias: dimension.id for dimension in ctx.registry.dimensions for alias in dimension.aliases}
        names = {dimension.id: dimension.display_name for dimension in ctx.registry.dimensions}
        known, stats = self._sgme.normalize.normalize_batch(labels, aliases, names)
        for label in stats.dropped_names:
            ctx.record("dropped_label", label=label)
        return {
            "id": identity,
            "content": str(entry.get("content", "")),
            "dimensions": known,
            "memory_type": entry.get("memory_type"),
            "priority": entry.get("priority"),
            "time_velocity": entry.get("time_velocity"),
        }

    def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> list[Decision]:
        new = [{**_plain(memory, ctx)} for memory in memories]
        with self._opened(ctx) as (db, wiki), self._client(ctx, "l1_conflict") as client:
            result = self._call(self._sgme.l15.resolve_conflicts, new, db, wiki, ctx, client)
            if result.error:
                raise StageError(str(result.error), kind="sgme_error")
            archived: dict[str, list[str]] = {}
            texts = dict(db.execute("SELECT memory_id, content FROM memories").fetchall())
            rows = db.execute("SELECT superseded_by, memory_id FROM memory_archive WHERE superseded_by IS NOT NULL")
            for new_id, old_id in rows:
                archived.setdefault(new_id, []).append(old_id)
            self._note_failures(db, "l1_conflict", ctx)
        if result.skipped:
            ctx.record("note", text="sgme: a skipped memory does not say which stored one it repeats")
        return [_decision(index, entry, result, archived, texts) for index, entry in enumerate(new)]

    def aggregate(self, memories: Sequence[Memory], ctx: StageContext) -> list[Scene]:
        given = [{**_plain(memory, ctx), "memory_id": memory.id} for memory in memories]
        with self._opened(ctx) as (db, wiki), self._client(ctx, "l2_scene") as client:
            result = self._call(self._sgme.l2.aggregate, given, db, wiki, ctx, client)
            if result.error:
                raise StageError(str(result.error), kind="sgme_error")
            changes = {
                **dict.fromkeys(result.created, "created"),
                **dict.fromkeys(result.updated, "updated"),
                **dict.fromkeys(result.merged, "merged"),
            }
            return [
                Scene(
                    str(scene["scene_id"]),
                    str(scene["title"]),
                    tuple(sorted(self._sgme.scenes.list_memories_for_scene(db, scene["scene_id"]))),
                    changes.get(scene["scene_id"]),
                )
                for scene in self._sgme.scenes.list_active_scenes(db)
            ]

    def query_template(self, mode: str, ctx: StageContext) -> list[Section]:
        return [
            Section(spec.id, spec.title, _ids(block))
            for spec, block in zip(ctx.templates.modes[mode].sections, self._blocks(mode, ctx), strict=True)
        ]

    def inject(self, mode: str, conversation: Sequence[Message], ctx: StageContext) -> list[Block]:
        return [
            Block(
                block["title"],
                _ids(block),
                bool(block["present"]),
                "\n".join(str(item["content"]) for item in block["items"]),
            )
            for block in self._blocks(mode, ctx)
        ]

    def _blocks(self, mode: str, ctx: StageContext) -> list[dict[str, Any]]:
        with self._opened(ctx) as (db, _):
            found = self._sgme.inject.inject(db, _template(mode, ctx), _dimensions(ctx))
            blocks: list[dict[str, Any]] = found["blocks"]
            return blocks

    # -- SGME ------------------------------------------------------------------------------------------------------

    def _call(
        self, function: Any, memories: Any, db: Connection, wiki: Connection, ctx: StageContext, client: Any
    ) -> Any:
        """One of the two functions that write; versions differ in whether scenes are in a database of their own."""
        known = inspect.signature(function).parameters
        given: dict[str, Any] = {
            "mem_conn": db,
            "wiki_conn": wiki,
            # Vectors of scenes are not made: an address without a server's scheme is never connected to.
            "cfg": {"dimensions": _dimensions(ctx), "llm": _llm(), "search": {"vector": {"base_url": "none://none"}}},
            "client": client,
            "bucket_ctx": self._bucket(ctx),
        }
        return function(memories, **{name: value for name, value in given.items() if name in known})

    def _bucket(self, ctx: StageContext) -> Any:
        return self._sgme.prompts.BucketCtx(bucket_key=ctx.case_id, overrides=dict(self._versions))

    @contextmanager
    def _opened(self, ctx: StageContext) -> Iterator[tuple[Connection, Connection]]:
        """The store's databases: opened for each call, since a call may come in any thread."""
        opened = self._sgme.db.init_databases(ctx.folder)
        try:
            self._register(opened[0], ctx)
            yield opened[0], opened[-1]
        finally:
            for connection in opened:
                connection.close()

    def _register(self, db: Connection, ctx: StageContext) -> None:
        if db.execute("SELECT 1 FROM dimension_registry LIMIT 1").fetchone() is None:
            for dimension in _dimensions(ctx):
                self._sgme.memories.upsert_dimension(db, dimension)
            db.commit()

    @contextmanager
    def _client(self, ctx: StageContext, stage: str) -> Iterator[Any]:
        httpx: Any = importlib.import_module("httpx")

        def answer(request: Any) -> Any:
            asked = json.loads(request.content)
            reply = ctx.llm.complete_sync(  # type: ignore[attr-defined]  # the harness's model has it
                asked["messages"],
                stage=stage,
                temperature=float(asked.get("temperature") or 0.0),
                max_tokens=asked.get("max_tokens"),
                trial=ctx.trial,
            )
            message = {"role": "assistant", "content": reply.text}
            return httpx.Response(200, json={"choices": [{"message": message, "finish_reason": "stop"}]})

        # Nothing is sent: the run's own model answers in the transport's place.
        with httpx.Client(transport=httpx.MockTransport(answer), trust_env=False) as client:
            yield client

    @staticmethod
    def _note_failures(db: Connection, stage: str, ctx: StageContext) -> None:
        rows = db.execute("SELECT error FROM refine_runs WHERE stage = ? AND status = 'error'", (stage,))
        for (error,) in rows.fetchall():
            ctx.record("bad_decision", reason=f"sgme: {error}", item=None)


def _imported(path: Path) -> SimpleNamespace:
    """SGME's modules. Its home is a temporary folder: no data and no keys of an installation are read or written."""
    folder = str(path.resolve())
    if "sgme" not in sys.modules:
        os.environ["SGME_HOME"] = tempfile.mkdtemp(prefix="memeval-sgme-")
        sys.path.insert(0, folder)
    try:
        return SimpleNamespace(**{short: importlib.import_module(name) for short, name in _MODULES.items()})
    except ImportError as error:
        raise EngineSetupError(f"SGME in {path} cannot be imported: {error}") from None


def _llm() -> dict[str, Any]:
    """SGME's configuration of models: one server, which is the client that is handed over."""
    node = {
        "provider": "memeval",
        "provider_type": "openai_compat",
        "model": "memeval",
        "base_url": "http://memeval.invalid/v1",
        "context_window": _CONTEXT,
    }
    return {"chains": {"refinement": [node]}, "rules": {"max_retries": 1, "fallback_on": []}}


def _dimensions(ctx: StageContext) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "display_name": one.display_name or one.id,
            "category": one.category,
            "time_velocity": one.time_velocity,
            "ttl_days": one.ttl_days,
            "description": one.description,
            "boundaries": one.boundaries or None,
            "active": 1,
        }
        for one in ctx.registry.dimensions
    ]


def _template(mode: str, ctx: StageContext) -> dict[str, Any]:
    """The run's template in SGME's form."""
    template = ctx.templates.modes[mode]
    sections = []
    for spec in template.sections:
        query: dict[str, Any] = {
            "dimensions": list(spec.query.dimensions),
            "match": spec.query.match,
            "ttl_filter": spec.query.ttl_filter,
            "priority_min": spec.query.priority_min or 0,
            "limit": min(spec.query.limit or 50, 50),
            "sort": "updated_at DESC" if spec.query.sort == "recent" else "priority DESC",
        }
        if spec.query.time_window is not None:
            query["time_window"] = f"updated_at > {max(1, spec.query.time_window.days)}d"
        sections.append({"title": spec.title, "query": query})
    if any(spec.query.ttl_filter or spec.query.time_window for spec in template.sections):
        ctx.record("note", text="sgme: ages are counted from the real time, not from the case's clock")
    types = sorted({dimension for spec in template.sections for dimension in spec.query.dimensions})
    return {"name": mode, "memory_types": types, "token_budget": template.token_budget, "sections": sections}


def _ids(block: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(item["memory_id"]) for item in block["items"] if item.get("memory_id"))


def _turn(message: Message) -> str:
    time = f"{message.time:%Y-%m-%dT%H:%M:%SZ} " if message.time is not None else ""
    return f"[{message.id}] {time}{message.role}:\n{message.content}"


def _time(ctx: StageContext) -> str:
    return f"{ctx.clock:%Y-%m-%dT%H:%M:%SZ}"


def _plain(memory: Memory, ctx: StageContext) -> dict[str, Any]:
    data = memory_to_json(memory)
    time = f"{memory.created_at:%Y-%m-%dT%H:%M:%SZ}" if memory.created_at is not None else _time(ctx)
    return {
        "content": memory.content,
        "memory_type": data["memory_type"] or "persona",
        "priority": round(memory.priority) if memory.priority is not None else 50,
        "time_velocity": data["time_velocity"] or "static",
        "dimensions": list(memory.dimensions),
        "dimension_ids": list(memory.dimensions),
        "created_at": time,
        "updated_at": time,
    }


def _stored(memory: Memory, ctx: StageContext) -> dict[str, Any]:
    plain = _plain(memory, ctx)
    return {**{key: value for key, value in plain.items() if key != "dimensions"}, "ttl_days": None}


def _decision(
    index: int, entry: Mapping[str, Any], result: Any, archived: Mapping[str, list[str]], texts: Mapping[str, str]
) -> Decision:
    if index in result.skipped:
        return Decision(index, "skip")
    new_id = str(entry["memory_id"])
    targets = tuple(sorted(archived.get(new_id, ())))
    if new_id in result.merged:
        return Decision(index, "merge", targets, merged_content=texts.get(new_id), result_id=new_id)
    if new_id in result.updated:
        return Decision(index, "update", targets, merged_content=str(entry["content"]), result_id=new_id)
    return Decision(index, "store", result_id=new_id)
