"""How a stage of a case is carried out: its store, its input, the engine's method, the check of what comes back."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval import outputs as shapes
from pytest_memeval.case_clock import case_clock
from pytest_memeval.corpus import CorpusStore, corpus_of_case, store_memories
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.engine.protocol import CaseDatabases, StageContext, StageError
from pytest_memeval.failures import signature_problem
from pytest_memeval.live_memories import decisions_by_memory, labelled_memories, live_content, live_id
from pytest_memeval.llm.protocol import ChatModel, Embedder
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.loops import call_blocking, in_daemon_thread
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.recording import StageChatModel
from pytest_memeval.results import CallRecord, StageResult
from pytest_memeval.search.params import SearchParams
from pytest_memeval.stages import StagePlan, needed_stages
from pytest_memeval.values import Hit, Memory, Scene

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase

#: Seconds that an engine may take to let go of a store.
RELEASE_SECONDS = 30.0
#: What is called of an engine.
_METHODS = (
    "extract",
    "normalize",
    "resolve",
    "aggregate",
    "query_template",
    "inject",
    "search",
    "load",
    "await_indexed",
)


@dataclass(frozen=True, slots=True)
class Trace:
    """What one stage leaves behind while it runs."""

    calls: list[CallRecord]
    notes: Notes


class Notes:
    """A stage's ``ctx.record``. Closed with the stage: what an engine says after its time is over counts nowhere."""

    def __init__(self, stage: str, facts: list[dict[str, Any]]) -> None:
        self.stage = stage
        self._facts: list[dict[str, Any]] | None = facts

    def __call__(self, kind: str, **fields: Any) -> None:
        facts = self._facts
        if facts is not None:
            facts.append({"kind": kind, "stage": self.stage, **fields})

    def close(self) -> None:
        self._facts = None


class StageExecutor:
    """Carries out one case's stages, each when asked. It keeps the stores that they share, and no results: those are in
    ``outputs`` and ``results``, which belong to whoever made it.

    A case can need several stores, which share nothing: ``main`` (the chain), ``inject`` (filled with the labels), and
    with labelled input one a stage.
    """

    def __init__(
        self,
        case: EvalCase,
        engine: object,
        *,
        llm: ChatModel,
        prompts: PromptSet,
        registry: Registry,
        templates: Templates,
        embedder: Embedder | None,
        chained: bool,
        supported: Sequence[str],
        plan: StagePlan,
        outputs: Outputs,
        results: Mapping[str, StageResult],
        databases: CaseDatabases | None,
        get_folder: Callable[[], Path] | None,
        label: str,
        trial: int,
        corpus: Callable[[], CorpusStore] | None = None,
        search_params: SearchParams | None = None,
    ) -> None:
        self.plan = plan
        self._case = case
        self._engine = engine
        self._llm = llm
        self._prompts = prompts
        self._registry = registry
        self._templates = templates
        self._embedder = embedder
        self.chained = chained
        self._supported = supported
        self._outputs = outputs
        self._results = results
        self._label = label
        self._trial = trial
        self._get_folder = get_folder or _no_folder
        self._corpus = corpus
        self._search_params = search_params or SearchParams()
        #: Set where nothing here runs on a loop: what waits for an awaitable.
        self.wait_for: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
        self._own: list[OpenDatabases | CorpusStore] = []
        self.databases: CaseDatabases = databases if databases is not None else self._open()
        self._contexts: dict[str, StageContext] = {}
        #: Store → what filling it raised, ``None`` where it went well.
        self._loaded: dict[str, Exception | None] = {}

    def _open(self) -> OpenDatabases:
        databases = OpenDatabases()
        self._own.append(databases)
        return databases

    def close(self) -> None:
        """Let the engine let go of the case's stores, and close the databases that were opened here."""
        contexts, self._contexts = self._contexts, {}
        for ctx in contexts.values():
            _let_go(self._engine, ctx)
        for databases in self._own:
            databases.close()

    async def perform(self, stage: str, trace: Trace) -> Any:
        if stage == "l1":
            ctx = await self._context("main", trace)
            memories = self.checked("l1", await self._call("extract", list(self._case.conversation), ctx))
            if callable(getattr(self._engine, "normalize", None)):
                memories = self.checked("l1", await self._call("normalize", memories, ctx))
            return normalize_memories(memories, ctx.registry, ctx.record)
        if stage == "l15":
            ctx = await self._context("main" if self.chained else "l15", trace)
            decisions = self.checked("l15", await self._call("resolve", self._new_memories(), ctx))
            await self._indexed(ctx)
            return decisions
        if stage == "l2":
            ctx = await self._stored_context(stage, trace)
            return self.checked("l2", await self._call("aggregate", self._live_memories(), ctx))
        if stage == "template":
            ctx = await self._stored_context(stage, trace)
            return self.checked(
                "template", {mode: await self._call("query_template", mode, ctx) for mode in self._modes()}
            )
        if stage == "inject":
            return await self._inject(trace)
        if stage == "search":
            return await self._search(trace)
        raise StageError(f"stage {stage} has no runner", kind="unsupported")

    def _modes(self) -> list[str]:
        """The labelled modes; without any (a stage that a test asked for) all of them."""
        truth = self._case.expected_l2
        labelled = [mode for mode, sections in truth.template_section.items() if sections] if truth is not None else []
        return labelled or list(self._templates.modes)

    async def _inject(self, trace: Trace) -> dict[str, Any]:
        truth = self._case.expected_inject
        assert truth is not None
        template = self._templates.modes.get(truth.mode)
        if template is not None and template.token_budget is not None:
            trace.notes("inject_setup", mode=truth.mode, token_budget=template.token_budget)
        recorded = getattr(self._engine, "inject_recorded", None)
        if callable(recorded):
            ctx = await self._context("main", trace)
            found: dict[str, Any] = self.checked("inject", recorded(ctx))
            return found
        conversation = list(truth.subsequent_conversation)

        async def blocks(ctx: StageContext) -> Any:
            return shapes.blocks_of(await self._call("inject", truth.mode, conversation, ctx))

        ctx = await self._context("inject", trace, memories=labelled_memories(self._case), existing=False)
        result = {"labelled": await blocks(ctx)}
        ahead = [needed for needed in needed_stages("inject", self._supported) if needed in self.plan.run]
        if self.chained and ahead:
            undone = [stage for stage in ahead if (done := self._results.get(stage)) is None or done.error is not None]
            if undone:
                trace.notes("note", text=f"inject: not measured on the pipeline's memories, stage {undone[0]} failed")
            else:
                result["pipeline"] = await blocks(await self._stored_context("inject", trace))
        return result

    async def _search(self, trace: Trace) -> dict[str, list[Hit]]:
        """The hits of every labelled query, under the ids of the corpus."""
        truth = self._case.expected_search
        queries = list(dict.fromkeys(entry.query for entry in truth.queries)) if truth is not None else []
        store = self._corpus_store()
        params = self._search_params
        setup: Mapping[str, Any] = {}
        recorded = getattr(self._engine, "search_recorded", None)
        if callable(recorded):
            found = self.checked("search", recorded(queries, await self._context("main", trace)))
        else:
            if not store.corpus.memories:
                raise StageError(
                    "there is nothing to search in: no case of the set has a labelled memory", kind="search"
                )
            await store.ensure(partial(self._load_corpus, store, trace), on_loop=self.wait_for is None)
            ctx = self._corpus_context(store, trace)
            found = {
                query: shapes.hits_of(await self._call("search", query, params.to_dict(), ctx)) for query in queries
            }
            describe = getattr(self._engine, "describe_search", None)
            told = describe(ctx) if callable(describe) else {}
            setup = {**{str(key): _plain(value) for key, value in told.items()}, **params.to_dict()}
        known = {query: store.corpus.own_ids(hits) for query, hits in found.items()}
        if any(by_content for _, by_content in known.values()):
            trace.notes("note", text="search: hits without a known id were found by content")
        result = {query: hits for query, (hits, _) in known.items()}
        foreign = sum(store.corpus.unknown(hits) for hits in result.values())
        told = {**setup, "documents": len(store.corpus.memories), **({"unknown_hits": foreign} if foreign else {})}
        trace.notes("search_setup", **told)
        return result

    def _corpus_store(self) -> CorpusStore:
        """The set's, shared by its cases; a case that belongs to no set has one of its own."""
        if self._corpus is None:
            store = CorpusStore(corpus_of_case(self._case), lambda: self._store_folder("search"))
            self._own.append(store)
            self._corpus = lambda: store
        return self._corpus()

    async def _load_corpus(self, store: CorpusStore, trace: Trace) -> None:
        # What is noted here would be one case's by chance.
        ctx = replace(self._corpus_context(store, trace), record=_no_record)
        store.release = partial(_let_go, self._engine, ctx)
        await self._call("load", store_memories(store.corpus), [], ctx)
        await self._indexed(ctx)

    def _corpus_context(self, store: CorpusStore, trace: Trace) -> StageContext:
        chat = StageChatModel(self._llm, self._prompts.versions, f"{self._label}/{trace.notes.stage}/", trace.calls)
        return StageContext(
            case_id=store.name,
            case_set=str(self._case.path) if self._case.path is not None else "",
            databases=store.databases,
            prompts=self._prompts,
            llm=chat,
            registry=self._registry,
            templates=self._templates,
            clock=store.corpus.clock,
            record=trace.notes,
            get_folder=store.folder,
            embedder=self._embedder,
            trial=self._trial,
        )

    # -- inputs ------------------------------------------------------------------------------------------------

    def _new_memories(self) -> list[Memory]:
        """What conflict resolution is given."""
        if not self.chained:
            return labelled_memories(self._case)
        return list(self._outputs.l1 or ())

    def _live_memories(self) -> list[Memory]:
        """This case's memories as they live in the store after conflict resolution, each id once."""
        memories = self._new_memories()
        if not self.chained:
            return memories
        stored = {memory.id: memory for memory in self._case.existing_memories}
        decisions = decisions_by_memory(self._case, memories, self._outputs.l15 or ())
        live: dict[str | int, Memory] = {}
        for index, memory in enumerate(memories):
            decision = decisions.get(index)
            identity = live_id(memory, decision)
            now = replace(memory, id=identity, content=live_content(memory, decision))
            if decision is not None and decision.action == "skip" and identity in stored:
                now = stored[identity]
            live.setdefault(identity if identity is not None else index, now)
        return list(live.values())

    async def _stored_context(self, stage: str, trace: Trace) -> StageContext:
        """The context of a stage that reads the store after conflict resolution."""
        if not self.chained:
            return await self._context(f"truth-{stage}", trace, memories=labelled_memories(self._case))
        ctx = await self._context("main", trace)
        if "l15" not in self._results and self._outputs.l1:
            # Without conflict resolution nobody has stored the new memories yet.
            await self._load("stored", self._outputs.l1, (), ctx)
        return ctx

    async def _context(
        self, name: str, trace: Trace, *, memories: Sequence[Memory] = (), existing: bool = True
    ) -> StageContext:
        """The named store's context with this stage's recording model; the store is filled when first used."""
        base = self._contexts.get(name)
        if base is None:
            base = self._contexts[name] = StageContext(
                case_id=self._case.case_id,
                case_set=str(self._case.path) if self._case.path is not None else "",
                databases=self.databases if name == "main" else self._open(),
                prompts=self._prompts,
                llm=self._llm,
                registry=self._registry,
                templates=self._templates,
                clock=case_clock(self._case),
                record=trace.notes,
                get_folder=partial(self._store_folder, name),
                embedder=self._embedder,
                trial=self._trial,
            )
        chat = StageChatModel(self._llm, self._prompts.versions, f"{self._label}/{trace.notes.stage}/", trace.calls)
        ctx = replace(base, llm=chat, record=trace.notes)
        given = [*(self._case.existing_memories if existing else ()), *memories]
        await self._load(name, given, self._case.existing_scenes if existing else (), ctx)
        return ctx

    async def _load(self, name: str, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        """Fill a store, once. A store that could not be filled fails every stage that reads it."""
        if name not in self._loaded:
            self._loaded[name] = None
            if (memories or scenes) and callable(getattr(self._engine, "load", None)):
                try:
                    await self._call("load", list(memories), list(scenes), ctx)
                    await self._indexed(ctx)
                except BaseException as error:
                    text = "loading the store was cut short"
                    self._loaded[name] = error if isinstance(error, Exception) else StageError(text)
                    raise
        failure = self._loaded[name]
        if failure is not None:
            raise failure

    async def _indexed(self, ctx: StageContext) -> None:
        """Wait until an engine that indexes behind the call's back is done; the time is the stage's."""
        if callable(getattr(self._engine, "await_indexed", None)):
            await self._call("await_indexed", ctx)

    def _store_folder(self, name: str) -> Path:
        # A case may fill more than one store (injection starts from the labels): an engine's files must not mix either.
        folder = self._get_folder() / name
        folder.mkdir(exist_ok=True)
        return folder

    async def _call(self, method: str, *args: Any) -> Any:
        function = getattr(self._engine, method)
        try:
            return await self._result(function, *args)
        except TypeError as error:
            # Raised by the call itself it would name no file but ours.
            problem = signature_problem(function, method, args)
            if problem is None:
                raise
            raise StageError(problem, kind="engine_exception") from error

    async def _result(self, function: Any, *args: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        if self.wait_for is not None:
            result = call_blocking(function, *args)
            return self.wait_for(_value(result)) if inspect.isawaitable(result) else result
        result = await in_daemon_thread(function, *args)
        return await result if inspect.isawaitable(result) else result

    @property
    def is_plain(self) -> bool:
        """Whether no method of the engine is a coroutine function."""
        methods = (getattr(self._engine, name, None) for name in _METHODS)
        return not any(method is not None and inspect.iscoroutinefunction(method) for method in methods)

    # -- outputs -----------------------------------------------------------------------------------------------

    def checked(self, stage: str, output: Any) -> Any:
        """The output in the value classes; OutputError says what is wrong with it."""
        if stage == "l1":
            return shapes.memories_of(output)
        if stage == "l15":
            return shapes.decisions_of(output)
        if stage == "l2":
            return shapes.scenes_of(output)
        if stage == "template":
            return {mode: self._known_sections(mode, found) for mode, found in shapes.template_of(output).items()}
        if stage == "inject":
            return shapes.inject_of(output)
        if stage == "search":
            return shapes.search_of(output)
        raise OutputError(f"stage {stage} has no output of a known shape")

    def _known_sections(self, mode: str, sections: list[Any]) -> list[Any]:
        """Sections under the templates' ids, where the engine names them by title."""
        known = []
        for section in sections:
            spec = self._templates.find_section(mode, section.id) or self._templates.find_section(mode, section.title)
            known.append(section if spec is None else replace(section, id=spec.id))
        return known


async def _value(work: Awaitable[Any]) -> Any:
    return await work


def _plain(value: object) -> object:
    """What an engine tells of itself, as a report can hold it."""
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _no_record(kind: str, **fields: Any) -> None:
    pass


def _no_folder() -> Path:
    raise StageError("this run gives the case no folder of its own", kind="unsupported")


def _let_go(engine: object, ctx: StageContext) -> None:
    """Tell the engine that the store of ``ctx`` is not used again."""
    release = getattr(engine, "release", None)
    if callable(release):
        # What goes wrong here is no part of any case.
        with contextlib.suppress(Exception):
            waits = release(replace(ctx, record=_no_record))
            if inspect.isawaitable(waits):
                run_sync(_awaited(waits), timeout=RELEASE_SECONDS)


async def _awaited(waits: Awaitable[Any]) -> None:
    await waits
