"""The stores that one case's stages work on: opened, filled once, seen through a stage's context, let go of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.case_clock import case_clock
from pytest_memeval.corpus import CorpusStore, corpus_of_case, store_memories
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.protocol import CaseDatabases, StageContext, StageError
from pytest_memeval.measuring.trace import no_record
from pytest_memeval.recording import StageChatModel

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.llm.protocol import ChatModel, Embedder
    from pytest_memeval.measuring.calls import EngineCalls
    from pytest_memeval.measuring.trace import Trace
    from pytest_memeval.values import Memory, Scene


class CaseStores:
    """One case's stores by name. They share nothing; the databases of ``main`` may be given."""

    def __init__(
        self,
        case: EvalCase,
        calls: EngineCalls,
        *,
        llm: ChatModel,
        prompts: PromptSet,
        registry: Registry,
        templates: Templates,
        embedder: Embedder | None,
        databases: CaseDatabases | None,
        get_folder: Callable[[], Path] | None,
        label: str,
        trial: int,
        corpus: Callable[[], CorpusStore] | None,
    ) -> None:
        self._case = case
        self._calls = calls
        self._llm = llm
        self._prompts = prompts
        self._registry = registry
        self._templates = templates
        self._embedder = embedder
        self._get_folder = get_folder or _no_folder
        self._label = label
        self._trial = trial
        self._corpus = corpus
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
            self._calls.let_go(ctx)
        for databases in self._own:
            databases.close()

    async def context(
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
        ctx = replace(base, llm=self._recording_model(trace), record=trace.notes)
        given = [*(self._case.existing_memories if existing else ()), *memories]
        await self.load(name, given, self._case.existing_scenes if existing else (), ctx)
        return ctx

    def _recording_model(self, trace: Trace) -> StageChatModel:
        return StageChatModel(self._llm, self._prompts.versions, f"{self._label}/{trace.notes.stage}/", trace.calls)

    async def load(self, name: str, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        """Fill a store, once. A store that could not be filled fails every stage that reads it."""
        if name not in self._loaded:
            self._loaded[name] = None
            if (memories or scenes) and self._calls.has("load"):
                try:
                    await self._calls.call("load", list(memories), list(scenes), ctx)
                    await self._calls.indexed(ctx)
                except BaseException as error:
                    text = "loading the store was cut short"
                    self._loaded[name] = error if isinstance(error, Exception) else StageError(text)
                    raise
        failure = self._loaded[name]
        if failure is not None:
            raise failure

    def _store_folder(self, name: str) -> Path:
        # A case may fill more than one store (injection starts from the labels): an engine's files must not mix either.
        folder = self._get_folder() / name
        folder.mkdir(exist_ok=True)
        return folder

    # -- the corpus of a search --------------------------------------------------------------------------------

    def corpus_store(self) -> CorpusStore:
        """The set's, shared by its cases; a case that belongs to no set has one of its own."""
        if self._corpus is None:
            store = CorpusStore(corpus_of_case(self._case), lambda: self._store_folder("search"))
            self._own.append(store)
            self._corpus = lambda: store
        return self._corpus()

    async def corpus_context(self, trace: Trace) -> StageContext:
        """The context of a search in the corpus, which is filled when first used."""
        store = self.corpus_store()
        await store.ensure(partial(self._load_corpus, store, trace), on_loop=self._calls.wait_for is None)
        return self._context_of_corpus(store, trace)

    async def _load_corpus(self, store: CorpusStore, trace: Trace) -> None:
        # What is noted here would be one case's by chance.
        ctx = replace(self._context_of_corpus(store, trace), record=no_record)
        store.release = partial(self._calls.let_go, ctx)
        await self._calls.call("load", store_memories(store.corpus), [], ctx)
        await self._calls.indexed(ctx)

    def _context_of_corpus(self, store: CorpusStore, trace: Trace) -> StageContext:
        return StageContext(
            case_id=store.name,
            case_set=str(self._case.path) if self._case.path is not None else "",
            databases=store.databases,
            prompts=self._prompts,
            llm=self._recording_model(trace),
            registry=self._registry,
            templates=self._templates,
            clock=store.corpus.clock,
            record=trace.notes,
            get_folder=store.folder,
            embedder=self._embedder,
            trial=self._trial,
        )


def _no_folder() -> Path:
    raise StageError("this run gives the case no folder of its own", kind="unsupported")
