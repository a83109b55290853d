"""One case's stages, run in order or ahead of their item. Knows nothing of pytest."""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_memeval import outputs as shapes
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.engine.protocol import CaseDatabases, StageContext, StageError, supported_stages
from pytest_memeval.llm.protocol import ChatModel, ChatModelError, ChatReply, Embedder
from pytest_memeval.loops import LoopThread, in_daemon_thread
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageResult, StageStatus
from pytest_memeval.scoring import (
    CaseScorer,
    ScoringOptions,
    expectations_of,
    labelled_memories,
    live_id,
    missed_expectations,
)
from pytest_memeval.stages import CHAIN, StagePlan, plan_stages, truth_stages
from pytest_memeval.values import DISTILL_STAGES, Decision, Memory

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.metrics.thresholds import Threshold

#: The result of a stage that the case does not need.
IDLE = StageResult()

#: The clock of a case whose messages carry no time.
DEFAULT_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What all cases of a run share besides engine, model and assets.

    ``stages`` is ``None`` for all. ``timeout`` (seconds a case) holds where the case names none. ``expect`` are
    default thresholds, applied where a case has the labels for them.
    """

    stages: frozenset[str] | None = None
    chained: bool = True
    timeout: float | None = None
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    expect: tuple[Threshold, ...] = ()


def case_clock(case: EvalCase) -> datetime:
    """The case's fixed "now": as written, else one minute after its last message, else 2026-01-01T00:00Z."""
    if case.now is not None:
        return case.now
    times = [message.time for message in case.conversation if message.time is not None]
    return max(times) + timedelta(minutes=1) if times else DEFAULT_CLOCK


class StageChatModel:
    """The run's chat model as one stage of one case sees it: every call is recorded, failures included."""

    def __init__(self, inner: ChatModel, versions: Mapping[str, str], prefix: str, calls: list[CallRecord]) -> None:
        self._inner = inner
        self._versions = versions
        self._prefix = prefix
        self.calls = calls

    @property
    def name(self) -> str:
        return self._inner.name

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        started = time.perf_counter()
        record = CallRecord(
            id=f"{self._prefix}{len(self.calls)}",
            stage=stage,
            version=self._versions.get(stage),
            provider=self._inner.name,
            request=tuple(dict(message) for message in messages),
        )
        # The place in the list is taken before the call, so that overlapping calls keep the order of their start.
        place = len(self.calls)
        self.calls.append(record)
        try:
            reply = await self._inner.complete(
                messages,
                stage=stage,
                response_format=response_format,
                temperature=temperature,
                max_tokens=max_tokens,
                trial=trial,
            )
        except BaseException as error:
            kind = error.kind if isinstance(error, ChatModelError) else type(error).__name__
            self.calls[place] = replace(record, error=f"{kind}: {error}", latency=time.perf_counter() - started)
            raise
        self.calls[place] = replace(
            record,
            answer=reply.text,
            finish_reason=reply.finish_reason,
            model=reply.model,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            latency=reply.latency or time.perf_counter() - started,
            cached=reply.cached,
            attempts=reply.attempts,
        )
        return reply


def describe_exception(error: BaseException) -> str:
    """``TypeName: text (file.py:12 in function)`` of the innermost frame: enough to find it, no stack trace."""
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    if not frames:
        return text
    last = frames[-1]
    return f"{text} ({Path(last.filename).name}:{last.lineno} in {last.name})"


class CaseRun:
    """Runs the stages of one case, each once, and keeps what they gave.

    :meth:`result` runs what is needed up to a stage and waits; :meth:`advance` is the same for asynchronous callers,
    so that a case can be prepared before anybody waits for it. :meth:`provide` puts a result in the place of a
    stage that somebody else computed. A stage's failure is kept in its result, never raised.
    """

    def __init__(
        self,
        case: EvalCase,
        *,
        engine: object,
        llm: ChatModel,
        prompts: PromptSet,
        registry: Registry,
        templates: Templates,
        settings: RunSettings,
        loop: LoopThread,
        databases: CaseDatabases | None = None,
        get_folder: Callable[[], Path] | None = None,
        embedder: Embedder | None = None,
        label: str = "",
        trial: int = 0,
    ) -> None:
        self.case = case
        self.engine = engine
        self.llm = llm
        self.prompts = prompts
        self.registry = registry
        self.settings = settings
        self.label = label or case.case_id
        self._loop = loop
        self._assets = (prompts, llm, registry, templates, embedder)
        self._own: list[OpenDatabases] = []
        self._databases: CaseDatabases = databases if databases is not None else self._open()
        self._get_folder = get_folder or _no_folder
        self._trial = trial
        self._contexts: dict[str, StageContext] = {}
        self._loaded: set[str] = set()
        self._deadline: float | None = None
        self._lock: asyncio.Lock | None = None
        self.outputs = Outputs()
        self.results: dict[str, StageResult] = {}
        self.scorer = CaseScorer(case, self.outputs, settings.scoring)
        self.supported = supported_stages(engine)
        self.plan: StagePlan = plan_stages(
            case,
            selected=settings.stages,
            supported=self.supported,
            can_load=callable(getattr(engine, "load", None)),
            chained=settings.chained,
        )

    def _open(self) -> OpenDatabases:
        databases = OpenDatabases()
        self._own.append(databases)
        return databases

    # -- waiting and preparing ---------------------------------------------------------------------------------

    def result(self, stage: str) -> StageResult:
        """The stage's result, run now if it has not been; blocks. An idle stage gives an empty result."""
        known = self.results.get(stage)
        if known is not None:
            return known
        return self._loop.run(self.advance(stage))

    async def advance(self, stage: str) -> StageResult:
        """Run the stage and what it builds on, unless done. An empty result for a stage that the case does not need."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            for needed in (*CHAIN.get(stage, ()), stage):
                if needed in self.plan.run and needed not in self.results:
                    self.results[needed] = await self._run(needed)
        return self.results.get(stage, IDLE)

    def run_all(self) -> None:
        """Run every stage of the plan."""
        for stage in self.plan.run:
            self.result(stage)

    def provide(self, stage: str, result: StageResult) -> None:
        """Put ``result`` in the stage's place: its output feeds later stages and is scored as the engine's would be."""
        if result is IDLE or self.results.get(stage) is result:
            return
        try:
            if result.error is None and result.output is not None:
                self._keep(stage, self._checked(stage, result.output))
        except OutputError as error:
            result = replace(result, error=CaseError(stage, "bad_output", str(error)))
        if result.error is None and result.metrics is None and stage in self.plan.scored:
            result = replace(result, metrics=self.scorer.stage_metrics(stage))
        self.results[stage] = result

    # -- one stage ---------------------------------------------------------------------------------------------

    async def _run(self, stage: str) -> StageResult:
        started = time.perf_counter()
        calls: list[CallRecord] = []
        broken = self._broken_before(stage)
        if broken is not None:
            return StageResult(error=CaseError(stage, "void", f"not measured: stage {broken} failed"))
        try:
            output = await self._within_deadline(self._perform(stage, calls))
            self._keep(stage, output)
            metrics = self.scorer.stage_metrics(stage) if stage in self.plan.scored else None
        except asyncio.CancelledError:
            raise
        except Exception as error:
            return StageResult(
                error=_case_error(stage, error), calls=tuple(calls), seconds=time.perf_counter() - started
            )
        return StageResult(output, metrics, None, tuple(calls), time.perf_counter() - started)

    def _broken_before(self, stage: str) -> str | None:
        """The failed stage that voids this one. Injection of labelled memories builds on none."""
        if not self.settings.chained or stage == "inject":
            return None
        for needed in CHAIN[stage]:
            result = self.results.get(needed)
            if result is not None and result.error is not None:
                return needed
        return None

    async def _within_deadline(self, work: Awaitable[Any]) -> Any:
        limit = self.case.timeout if self.case.timeout is not None else self.settings.timeout
        if limit is None:
            return await work
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + limit
        try:
            async with asyncio.timeout_at(self._deadline) as scope:
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            raise StageError(f"the case's time limit of {limit:g} s is over", kind="timeout") from None

    async def _perform(self, stage: str, calls: list[CallRecord]) -> Any:
        if stage == "l1":
            ctx = await self._context("main", stage, calls)
            memories = self._checked("l1", await self._call("extract", list(self.case.conversation), ctx))
            own = getattr(self.engine, "normalize", None)
            if callable(own):
                memories = self._checked("l1", await self._call("normalize", memories, ctx))
            return normalize_memories(memories, ctx.registry, ctx.record)
        if stage == "l15":
            ctx = await self._context("main" if self.settings.chained else "l15", stage, calls)
            return self._checked("l15", await self._call("resolve", self._new_memories(), ctx))
        if stage == "l2":
            ctx = await self._stored_context(stage, calls)
            return self._checked("l2", await self._call("aggregate", self._live_memories(), ctx))
        if stage == "template":
            ctx = await self._stored_context(stage, calls)
            modes = self.case.expected_l2.template_section if self.case.expected_l2 is not None else {}
            sections = {mode: await self._call("query_template", mode, ctx) for mode in modes}
            return self._checked("template", sections)
        if stage == "inject":
            return await self._inject(stage, calls)
        raise StageError(f"stage {stage} has no runner", kind="unsupported")

    async def _inject(self, stage: str, calls: list[CallRecord]) -> dict[str, Any]:
        truth = self.case.expected_inject
        if truth is None:
            return {}
        recorded = getattr(self.engine, "inject_recorded", None)
        if callable(recorded):
            ctx = await self._context("main", stage, calls)
            return cast("dict[str, Any]", self._checked("inject", recorded(ctx)))
        conversation = list(truth.subsequent_conversation)
        ctx = await self._context("inject", stage, calls, memories=labelled_memories(self.case), existing=False)
        result = {"labelled": await self._call("inject", truth.mode, conversation, ctx)}
        ahead = [self.results.get(needed) for needed in CHAIN["inject"] if needed in self.plan.run]
        if self.settings.chained and ahead and all(done is not None and done.error is None for done in ahead):
            ctx = await self._stored_context(stage, calls)
            result["pipeline"] = await self._call("inject", truth.mode, conversation, ctx)
        return cast("dict[str, Any]", self._checked("inject", result))

    # -- inputs ------------------------------------------------------------------------------------------------

    def _new_memories(self) -> list[Memory]:
        """What conflict resolution is given."""
        if not self.settings.chained:
            return labelled_memories(self.case)
        return list(self.outputs.l1 or ())

    def _live_memories(self) -> list[Memory]:
        """This case's memories as they live in the store after conflict resolution, each id once."""
        memories = self._new_memories()
        if not self.settings.chained:
            return memories
        decisions: dict[int, Decision] = {}
        for decision in self.outputs.l15 or ():
            decisions.setdefault(decision.memory_index, decision)
        live: dict[str | int, Memory] = {}
        for index, memory in enumerate(memories):
            decision = decisions.get(index)
            identity = live_id(memory, decision)
            content = decision.merged_content if decision is not None and decision.merged_content else memory.content
            live.setdefault(identity if identity is not None else index, replace(memory, id=identity, content=content))
        return list(live.values())

    async def _stored_context(self, stage: str, calls: list[CallRecord]) -> StageContext:
        """The context of a stage that reads the store after conflict resolution."""
        if not self.settings.chained:
            return await self._context("truth", stage, calls, memories=labelled_memories(self.case))
        ctx = await self._context("main", stage, calls)
        can_load = callable(getattr(self.engine, "load", None))
        if "l15" not in self.results and can_load and "stored" not in self._loaded:
            # Without conflict resolution nobody has stored the new memories yet.
            self._loaded.add("stored")
            await self._call("load", list(self.outputs.l1 or ()), [], ctx)
        return ctx

    async def _context(
        self,
        name: str,
        stage: str,
        calls: list[CallRecord],
        *,
        memories: Sequence[Memory] = (),
        existing: bool = True,
    ) -> StageContext:
        """The named store's context with this stage's recording model; the store is filled when first used."""
        base = self._contexts.get(name)
        prompts, llm, registry, templates, embedder = self._assets
        if base is None:
            base = StageContext(
                case_id=self.case.case_id,
                case_set=str(self.case.path) if self.case.path is not None else "",
                databases=self._databases if name == "main" else self._open(),
                prompts=prompts,
                llm=llm,
                registry=registry,
                templates=templates,
                clock=case_clock(self.case),
                record=lambda kind, **fields: None,
                get_folder=partial(self._store_folder, name),
                embedder=embedder,
                trial=self._trial,
            )
            self._contexts[name] = base
        chat = StageChatModel(llm, prompts.versions, f"{self.label}/{stage}/", calls)
        ctx = replace(base, llm=chat, record=self._recorder(stage))
        if name not in self._loaded:
            self._loaded.add(name)
            given = [*(self.case.existing_memories if existing else ()), *memories]
            scenes = list(self.case.existing_scenes) if existing else []
            if (given or scenes) and callable(getattr(self.engine, "load", None)):
                await self._call("load", given, scenes, ctx)
        return ctx

    def _store_folder(self, name: str) -> Path:
        # A case may fill more than one store (injection starts from the labels): an engine's files must not mix either.
        folder = self._get_folder() / name
        folder.mkdir(exist_ok=True)
        return folder

    def _recorder(self, stage: str) -> Callable[..., None]:
        def record(kind: str, **fields: Any) -> None:
            self.outputs.facts.append({"kind": kind, "stage": stage, **fields})

        return record

    async def _call(self, method: str, *args: Any) -> Any:
        function = getattr(self.engine, method)
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        limited = self.case.timeout is not None or self.settings.timeout is not None
        # A plain method can only be left when its time is over if it runs in a thread of its own.
        result = await in_daemon_thread(function, *args) if limited else function(*args)
        return await result if inspect.isawaitable(result) else result

    # -- outputs -----------------------------------------------------------------------------------------------

    def _checked(self, stage: str, output: Any) -> Any:
        """The output in the value classes; OutputError says what is wrong with it."""
        if stage == "l1":
            return shapes.memories_of(output)
        if stage == "l15":
            return shapes.decisions_of(output)
        if stage == "l2":
            return shapes.scenes_of(output)
        if stage == "template":
            return {mode: self._known_sections(mode, shapes.sections_of(value)) for mode, value in output.items()}
        if stage == "inject":
            return {name: shapes.blocks_of(value) for name, value in output.items()}
        return output

    def _known_sections(self, mode: str, sections: list[Any]) -> list[Any]:
        """Sections under the templates' ids, where the engine names them by title."""
        templates = self._assets[3]
        known = []
        for section in sections:
            spec = templates.find_section(mode, section.id) or templates.find_section(mode, section.title)
            known.append(section if spec is None else replace(section, id=spec.id))
        return known

    def _keep(self, stage: str, output: Any) -> None:
        if stage == "inject":
            self.outputs.inject_labelled = output.get("labelled")
            self.outputs.inject_pipeline = output.get("pipeline")
        elif stage in ("l1", "l15", "l2", "template"):
            setattr(self.outputs, stage, output)

    # -- the end -----------------------------------------------------------------------------------------------

    @property
    def errors(self) -> tuple[CaseError, ...]:
        """The stages' failures in order; stages that were only voided by one are left out."""
        found = [self.results[stage].error for stage in DISTILL_STAGES if stage in self.results]
        return tuple(error for error in found if error is not None and error.kind != "void")

    def statuses(self) -> dict[str, StageStatus]:
        """What became of every stage."""
        status: dict[str, StageStatus] = dict(self.plan.idle)
        for stage in self.plan.run:
            result, scored = self.results.get(stage), stage in self.plan.scored
            if result is None or (result.error is not None and result.error.kind == "void"):
                status[stage] = "void" if scored else "ran_errored"
            elif result.error is not None:
                status[stage] = "errored" if scored else "ran_errored"
            else:
                status[stage] = "scored" if scored else "ran"
        return {stage: status[stage] for stage in DISTILL_STAGES if stage in status}

    def expectations(self) -> tuple[Threshold, ...]:
        """The thresholds that this case has to meet."""
        return expectations_of(self.case, self.settings.stages, self.settings.expect)

    def missed(self) -> list[str]:
        """A sentence for each expectation that does not hold; empty while the case has errors."""
        if self.errors:
            return []
        return missed_expectations(self.scorer.sections(self.plan.scored), self.expectations())

    def case_result(
        self,
        *,
        node_id: str,
        set_path: str,
        variant: str | None = None,
        extra_errors: Sequence[CaseError] = (),
        skipped: bool = False,
    ) -> CaseResult:
        """Everything recorded of the case, as far as it got."""
        status = self.statuses()
        measured = [stage for stage in self.plan.scored if status[stage] == "scored"]
        errors = (*self.errors, *extra_errors)
        if skipped:
            status = {stage: "skipped" if stage in self.plan.scored else why for stage, why in status.items()}
        return CaseResult(
            node_id=node_id,
            set=set_path,
            case_id=self.case.case_id,
            outcome="skipped" if skipped else "errored" if errors else "scored",
            variant=variant,
            kind=self.case.kind,
            source=self.case.source,
            difficulty=self.case.difficulty,
            tags=self.case.tags,
            line=self.case.line,
            content_hash=self.case.content_hash,
            stages=status,
            sections={} if skipped else self.scorer.sections(measured),
            errors=errors,
            missed_expectations=tuple(self.missed()),
            has_expectations=bool(self.expectations()),
            outputs=self.outputs.to_json(),
            facts=tuple(self.outputs.facts),
            calls=tuple(call for stage in DISTILL_STAGES for call in self._calls(stage)),
            duration_seconds=sum(result.seconds for result in self.results.values()),
            timings={stage: self.results[stage].seconds for stage in DISTILL_STAGES if stage in self.results},
        )

    def _calls(self, stage: str) -> tuple[CallRecord, ...]:
        return self.results[stage].calls if stage in self.results else ()

    def keep_databases(self, folder: Path) -> None:
        """Write the case's main databases to ``folder``."""
        if isinstance(self._databases, OpenDatabases):
            self._databases.keep(folder)

    def close(self) -> None:
        """Close the databases that the run opened itself."""
        for databases in self._own:
            databases.close()


def _no_folder() -> Path:
    raise StageError("this run gives the case no folder of its own", kind="unsupported")


def _case_error(stage: str, error: Exception) -> CaseError:
    if isinstance(error, StageError):
        return CaseError(error.stage or stage, error.kind, str(error))
    if isinstance(error, ChatModelError):
        return CaseError(stage, error.kind, str(error))
    if isinstance(error, OutputError):
        return CaseError(stage, "bad_output", str(error))
    return CaseError(stage, "engine_exception", describe_exception(error))


def untouched_result(
    case: EvalCase,
    *,
    node_id: str,
    set_path: str,
    settings: RunSettings,
    errors: Sequence[CaseError] = (),
    skipped: bool = False,
    variant: str | None = None,
) -> CaseResult:
    """The record of a case of which no stage ran: skipped, invalid, or stopped in a fixture before the first."""
    status: dict[str, StageStatus] = {}
    truths = truth_stages(case)
    for stage in DISTILL_STAGES:
        if stage not in truths:
            status[stage] = "no_truth"
        elif settings.stages is not None and stage not in settings.stages:
            status[stage] = "unselected"
        else:
            status[stage] = "skipped" if skipped else "void"
    return CaseResult(
        node_id=node_id,
        set=set_path,
        case_id=case.case_id,
        outcome="skipped" if skipped else "errored",
        variant=variant,
        kind=case.kind,
        source=case.source,
        difficulty=case.difficulty,
        tags=case.tags,
        line=case.line,
        content_hash=case.content_hash,
        stages=status,
        errors=tuple(errors),
        has_expectations=bool(case.expect),
    )
