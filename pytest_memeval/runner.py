"""One case's stages, run in order or ahead of their item. Knows nothing of pytest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.custom_metrics import SECTION, CaseMetrics, CustomMetric, registered
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.engine.protocol import CaseDatabases, StageError, supported_stages
from pytest_memeval.expectations import default_expectations, expectations_of, missed_expectations
from pytest_memeval.failures import case_error
from pytest_memeval.llm.protocol import ChatModel, Embedder
from pytest_memeval.loops import LoopBlocked, LoopThread, refuse_on_left_loop, run_here
from pytest_memeval.measuring.calls import EngineCalls
from pytest_memeval.measuring.deadline import Deadline, time_is_over
from pytest_memeval.measuring.execution import StageExecutor
from pytest_memeval.measuring.results import StageResults
from pytest_memeval.measuring.stores import CaseStores
from pytest_memeval.measuring.trace import Notes
from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.outputs import Outputs
from pytest_memeval.own_code import own_errors
from pytest_memeval.results import CallRecord, CaseError, StageResult, StageStatus
from pytest_memeval.scoring import CaseScorer
from pytest_memeval.settings.case import RunSettings
from pytest_memeval.stages import CHAIN, StagePlan, misspelt_method, needed_stages, plan_stages, why_idle, why_null
from pytest_memeval.values import DISTILL_STAGES

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.corpus import CorpusStore
    from pytest_memeval.measuring.releases import Releases
    from pytest_memeval.metrics.sections import SectionRecord
    from pytest_memeval.metrics.thresholds import Threshold
    from pytest_memeval.time_limit import TimeLimit

#: The result of a stage that the case does not need.
IDLE = StageResult()


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
        corpus: Callable[[], CorpusStore] | None = None,
        cutoffs: tuple[int, ...] | None = None,
        releases: Releases | None = None,
    ) -> None:
        self.case = case
        self.engine = engine
        self.llm = llm
        self.prompts = prompts
        self.registry = registry
        self.templates = templates
        self.settings = settings
        self.label = label or case.case_id
        self._loop = loop
        #: Seconds for which somebody waited for a result.
        self.waited = 0.0
        #: Whether the stages run without a loop; None while that is open.
        self._here: bool | None = None
        self.supported = supported_stages(engine)
        self.plan: StagePlan = plan_stages(
            case,
            selected=settings.stages,
            supported=self.supported,
            can_load=callable(getattr(engine, "load", None)),
            chained=settings.chained,
        )
        self._calls = EngineCalls(engine, releases, limit=self.time_limit)
        self._scoring = settings.scoring if cutoffs is None else replace(settings.scoring, cutoffs=cutoffs)
        self._make_stores = partial(
            CaseStores,
            case,
            self._calls,
            llm=llm,
            prompts=prompts,
            registry=registry,
            templates=templates,
            embedder=embedder,
            databases=databases,
            label=self.label,
            trial=trial,
            corpus=corpus,
        )
        self._get_folder = get_folder
        self._attempts = 0
        #: Whether the case can be begun anew: not in databases that it was given.
        self._has_own_stores = databases is None
        self._begin()

    def _begin(self) -> None:
        """Nothing has been run: whatever an attempt before this one still does goes nowhere."""
        self._provided: dict[str, object] = {}
        deadline = self._deadline = Deadline(self.time_limit)
        self._lock: asyncio.Lock | None = None
        #: The loop that the attempt at hand was begun on.
        self._begun_on: asyncio.AbstractEventLoop | None = None
        self.outputs = Outputs()
        self.results: dict[str, StageResult] = {}
        self._sections: tuple[tuple[str, ...], Mapping[str, SectionRecord]] | None = None
        #: The project's own metrics.
        self.custom = CaseMetrics(self.case, guard=deadline.keep)
        tolerance = self.registry.priority_tolerance
        self.scorer = CaseScorer(self.case, self.outputs, self._scoring, priority_tolerance=tolerance)
        folder = None if self._get_folder is None else partial(self._folder, self._get_folder, self._attempts)
        self._stores = self._make_stores(get_folder=folder)
        self._attempts += 1
        self._executor = StageExecutor(
            self.case,
            self._calls,
            self._stores,
            templates=self.templates,
            chained=self.settings.chained,
            supported=self.supported,
            plan=self.plan,
            outputs=self.outputs,
            results=self.results,
            search_params=self.settings.search,
        )
        self._stages = StageResults(
            self._executor,
            outputs=self.outputs,
            results=self.results,
            scorer=self.scorer,
            deadline=deadline,
        )

    def _begin_anew(self) -> None:
        """The attempt at hand went down with a loop that another case held: it says nothing of this one."""
        self._stages.given_up = self._deadline.is_dropped = True
        self._stores.close()
        self._begin()

    @property
    def _can_begin_anew(self) -> bool:
        return self._has_own_stores and not self._provided

    @staticmethod
    def _folder(get_folder: Callable[[], Path], attempt: int) -> Path:
        """An attempt's own folder: it must not meet what another one left."""
        if not attempt:
            return get_folder()
        folder = get_folder() / f"attempt-{attempt + 1}"
        folder.mkdir(exist_ok=True)
        return folder

    # -- waiting and preparing ---------------------------------------------------------------------------------

    @property
    def time_limit(self) -> float | None:
        """Seconds for the whole case."""
        return self.case.timeout if self.case.timeout is not None else self.settings.timeout

    def demand(self, stage: str) -> None:
        """Have the stage run, unscored, even if the case has no labels for it; StageError where the engine lacks it."""
        if stage not in self.supported:
            name = getattr(self.engine, "name", type(self.engine).__name__)
            raise StageError(f"engine {name} does not support stage {stage}", kind="unsupported")
        if stage == "inject" and self.case.expected_inject is None:
            raise StageError("the case names no mode to inject: it has no expected_inject", kind="unsupported")
        if stage == "search" and self.case.expected_search is None:
            raise StageError("the case names no queries: it has no expected_search_results", kind="unsupported")
        needed = needed_stages(stage, self.supported) if self.settings.chained else ()
        self.plan = self._executor.plan = self.plan.with_stages((*needed, stage))

    def result(self, stage: str) -> StageResult:
        """The stage's result, run now if it has not been; blocks. An idle stage gives an empty result."""
        known = self.results.get(stage)
        if known is not None:
            return known
        started = time.perf_counter()
        try:
            if self.time_limit is None and self._runs_here():
                return run_here(self._advance(stage))
            return self._loop_result(stage)
        finally:
            self.waited += _since(started)

    def _loop_result(self, stage: str) -> StageResult:
        unknown = 0
        while not self.is_stuck:
            try:
                return self._loop.run(self.advance(stage), limits=self.limits)
            except LoopBlocked as blocked:
                # Where nobody knows what held the loop, that is told by the case running again, without the others.
                unknown += blocked.holder is None
                if blocked.holder in self.limits() or unknown > 1 or not self._can_begin_anew:
                    break
                self._begin_anew()
        self.give_up()
        return self.results.get(stage, IDLE)

    def limits(self) -> Sequence[TimeLimit]:
        """The time limits of what is at work."""
        return (self._deadline,)

    @property
    def is_stuck(self) -> bool:
        """Whether the case held a loop until that was left behind."""
        return self._deadline.is_stuck

    def _runs_here(self) -> bool:
        """Whether nothing ever has to wait on the loop: then crossing to its thread and back would only cost time."""
        if self._here is None:
            self._here = self._calls.is_plain
            self._calls.wait_for = self._loop.run if self._here else None
        return self._here

    def give_up(self) -> None:
        """The stage that does not end, and all that were to come, are over; what it still does goes nowhere."""
        self._stages.given_up = self._deadline.is_dropped = True
        limit, used = self.time_limit or 0.0, self.seconds
        over = time_is_over(limit, held=self.is_stuck)
        for late in self.plan.run:
            if late not in self.results:
                void = self._stages.void(late)
                self.results[late] = void or StageResult(error=case_error(late, over), seconds=max(0.0, limit - used))
                used = limit

    def go_ahead(self) -> None:
        """From now on every stage runs on the loop: two threads must not both take the case up."""
        self._here, self._calls.wait_for = False, None

    async def advance(self, stage: str) -> StageResult:
        """Run the stage and what it builds on, unless done. An empty result for a stage that the case does not need."""
        self.go_ahead()
        refuse_on_left_loop()
        loop = asyncio.get_running_loop()
        if self._begun_on is not loop:
            if self.is_stuck:
                self.give_up()
                self._lock = None  # who holds it may never give it back
            elif self._lock is not None and self._lock.locked() and self._can_begin_anew:
                self._begin_anew()
            self._begun_on = loop
        return await self._advance(stage)

    async def _advance(self, stage: str) -> StageResult:
        if self._lock is None:
            self._lock = asyncio.Lock()
        stages, results = self._stages, self.results
        async with self._lock:
            for needed in (*CHAIN.get(stage, ()), stage):
                if needed in self.plan.run and needed not in results:
                    result = await stages.attempt(needed)
                    if not stages.given_up:
                        results[needed], self._sections = result, None
        return results.get(stage, IDLE)

    async def work_ahead(self, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run every stage of the plan, for whoever prepares the case before its turn. Between two of them ``pause`` is
        awaited; meanwhile the case goes on for nobody."""
        for number, stage in enumerate(self.plan.run):
            if pause is not None and number and self._lock is not None:
                async with self._lock:
                    await pause()
            await self.advance(stage)
        if registered("distill"):
            await self._begin_metrics()

    def complete(self) -> None:
        """Compute the project's own metrics, as soon as no stage is to come."""
        if self.custom.done or not self.results or not registered("distill"):
            return
        if self.custom.awaits(self._status_of_metric):
            self._await_metrics()
        self.custom.finish(self.outputs, self._status_of_metric, self._loop.run)
        self._sections = None

    def _await_metrics(self) -> None:
        """Compute the project's own metrics that can be awaited, in what is left of the case's time."""
        unknown = 0
        while True:
            try:
                return self._loop.run(self._begin_metrics(), limits=self.limits)
            except LoopBlocked as blocked:
                unknown += blocked.holder is None
                if unknown > 1 or blocked.holder is self._deadline:
                    over = time_is_over(self.time_limit or 0.0, held=self.is_stuck)
                    self._deadline.is_dropped = True
                    return self.custom.give_up(over, self._status_of_metric)
                # What was begun went down with a loop that another case held.
                self._deadline.is_dropped = True
                self._deadline = Deadline(self.time_limit, used=self._deadline.used)
                self.custom.guard = self._deadline.keep

    async def _begin_metrics(self) -> None:
        await self.custom.begin(self.outputs, self._status_of_metric)

    @property
    def metric_statuses(self) -> Mapping[str, StageStatus]:
        """What became of each of the project's own metrics, under ``metrics.<name>``."""
        return self.custom.statuses

    def _status_of_metric(self, metric: CustomMetric) -> StageStatus | None:
        """Why the metric is not computed in this case; ``None`` where it is."""
        if self._stages.given_up or self._stage_errors(metric.stages):
            return "void"
        lacking = any(self.outputs.of(stage) is None for stage in metric.stages)
        return "no_truth" if lacking or not self.results else None

    def _stage_errors(self, stages: Sequence[str] = ()) -> tuple[CaseError, ...]:
        found = [self.results[stage].error for stage in stages or DISTILL_STAGES if stage in self.results]
        return tuple(error for error in found if error is not None)

    @property
    def seconds(self) -> float:
        """The case's own work so far."""
        return sum(result.seconds for result in self.results.values())

    def run_all(self) -> None:
        """Run every stage of the plan."""
        for stage in self.plan.run:
            self.result(stage)

    def provide(self, stage: str, result: object) -> None:
        """Put ``result`` in the stage's place: its output feeds later stages and is scored as the engine's would be.

        Anything but a :class:`StageResult` is taken as the stage's output.
        """
        known = (held[stage] for held in (self.results, self._provided) if stage in held)
        if result is IDLE or any(one is result for one in known):
            return
        given = result if isinstance(result, StageResult) else StageResult(output=result)
        self._provided[stage] = result
        if given.error is None:
            try:
                output = self._executor.checked(stage, given.output)
                if stage == "l1":
                    output = normalize_memories(output, self.registry, Notes(stage, self.outputs.facts))
                elif stage == "template":
                    self._executor.note_unknown_sections(output, Notes(stage, self.outputs.facts))
                given = replace(given, output=output, metrics=self._stages.measure(stage, output, given.metrics))
            except own_errors() as error:  # an output that cannot be measured is an error of its stage
                given = replace(given, error=case_error(stage, error))
            self._sections = None
        self.results[stage] = given

    @property
    def provided(self) -> bool:
        """Whether anything was put in the place of a stage's own result."""
        return bool(self._provided)

    def restore(self, stage: str, output: Any, calls: Sequence[CallRecord], seconds: float) -> None:
        """Put what an earlier run of the same stage gave in its place, scored by this run's options."""
        metrics = self._stages.measure(stage, output) if output is not None else None
        self._sections = None
        self.results[stage] = StageResult(output, metrics, None, tuple(calls), seconds)

    # -- the end -----------------------------------------------------------------------------------------------

    @property
    def errors(self) -> tuple[CaseError, ...]:
        """The failures of stages in order, without those only voided by one, then those of the project's metrics."""
        return (*(error for error in self._stage_errors() if error.kind != "void"), *self.custom.errors)

    def keep_raised(self) -> None:
        """Have :attr:`raised` tell what a stage fails with."""
        self._stages.keep_raised = True

    @property
    def raised(self) -> BaseException | None:
        """What a stage failed with last, as it was raised; ``None`` unless it was to be kept."""
        return self._stages.raised

    @property
    def why_idle(self) -> str | None:
        """Why nothing of the case can be scored, in a sentence; ``None`` where something can."""
        name = str(getattr(self.engine, "name", type(self.engine).__name__))
        return why_idle(self.plan, self.supported, engine=name, chained=self.settings.chained)

    @property
    def misspelt(self) -> str | None:
        """Which method that the case needs its engine seems to have under a misspelt name, in a sentence."""
        case = self.case
        return misspelt_method(
            self.engine,
            self.plan,
            self.supported,
            can_load=callable(getattr(self.engine, "load", None)),
            chained=self.settings.chained,
            has_store=bool(case.existing_memories or case.existing_scenes),
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """The scored stages that have a result."""
        found = ((stage, self.results.get(stage)) for stage in self.plan.scored)
        return tuple(stage for stage, result in found if result is not None and result.error is None)

    def sections(self, stages: Sequence[str]) -> Mapping[str, SectionRecord]:
        """The figures of these stages by report section. They are asked for several times a case, and kept."""
        asked = tuple(stages)
        if self._sections is None or self._sections[0] != asked:
            found: Mapping[str, SectionRecord] = self.scorer.sections(asked)
            if self.custom.section is not None:
                found = {**found, SECTION: self.custom.section}
            self._sections = asked, found
        return self._sections[1]

    def expectations(self) -> tuple[Threshold, ...]:
        """The thresholds that this case has to meet."""
        return expectations_of(self.case, self.settings.stages, self.settings.expect)

    def missed(self) -> list[str]:
        """A sentence for each expectation that does not hold; empty while the case has errors."""
        if self.errors:
            return []
        thresholds = self.expectations()
        if not thresholds:
            return []
        optional = default_expectations(self.case, self.settings.expect)
        own = [threshold for threshold in optional if threshold not in self.case.expect]
        return missed_expectations(self.sections(self.measured), thresholds, own, self._why_null)

    def _why_null(self, threshold: Threshold) -> str:
        """Whether it is the engine or the case that lacks what the threshold's metric is measured by."""
        path = threshold.path
        stages = metric_stages(path.section, path.metric)
        name = str(getattr(self.engine, "name", type(self.engine).__name__))
        return why_null(stages, self.plan.idle, self.supported, engine=name, chained=self.settings.chained)

    def trial_records(self) -> tuple[dict[str, Any], ...]:
        """Each trial by itself, for a case that is measured several times."""
        return ()

    def keep_databases(self, folder: Path) -> None:
        """Write the case's main databases to ``folder``."""
        if isinstance(self._stores.databases, OpenDatabases):
            self._stores.databases.keep(folder)

    def close(self) -> None:
        """Close the databases that the run opened itself."""
        self._stores.close()


def _since(started: float) -> float:
    return time.perf_counter() - started
