"""One case's work, whatever its kind: done once, under its time limit, and kept for the case's record."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.custom_metrics import SECTION, CaseMetrics, CustomMetric, registered
from pytest_memeval.kinds.protocol import KindCase
from pytest_memeval.kinds.records import described
from pytest_memeval.kinds.registry import sections_of
from pytest_memeval.loop_time import is_cancelled
from pytest_memeval.loops import refuse_on_left_loop
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageResult, StageStatus
from pytest_memeval.time_limit import TimeIsOver, TimeLimit, why_over

if TYPE_CHECKING:
    from pytest_memeval.loops import LoopThread
    from pytest_memeval.metrics.sections import SectionRecord
    from pytest_memeval.metrics.thresholds import Threshold
    from pytest_memeval.resume.items import Resumption


class KindRun(ABC):
    """One case's work and what it leaves behind.

    A subclass implements :meth:`measure` and fills in ``sections``, ``statuses``, ``errors``, ``results`` (stage →
    :class:`~pytest_memeval.results.StageResult`: its calls and seconds), ``outputs`` (JSON), ``facts``. What
    :meth:`measure` raises becomes an error of :attr:`stage`. ``why_skipped`` makes the item a skip.
    """

    #: The stage that is charged with what :meth:`measure` raises.
    stage = "setup"

    def __init__(
        self,
        case: KindCase,
        *,
        kind: str,
        loop: LoopThread,
        label: str = "",
        timeout: float | None = None,
    ) -> None:
        self.case = case
        self.kind = kind
        self.label = label or case.case_id
        #: The values that the run was made with: a prepared one serves only an item that got the same.
        self.values: Mapping[str, Any] = {}
        #: Seconds for which somebody waited for the run.
        self.waited = 0.0
        #: Whether the case is taken from an earlier run; ``None`` until somebody has looked.
        self.resumption: Resumption | None = None
        #: Thresholds that every case has by default; they hold only where the case has the metric.
        self.default_expect: tuple[Threshold, ...] = ()
        #: Which trial of the case this is, from 0: what is asked is told apart by it.
        self.trial = 0
        #: For a later trial: the first one, which is over, and whose findings serve for all of them.
        self.first: KindRun | None = None
        self.time_limit = case.timeout if case.timeout is not None else timeout
        self._loop = loop
        self._done = False
        self.begin()

    def begin(self) -> None:
        """Nothing has been done: whatever an attempt before this one still does goes nowhere. A subclass that keeps
        more of an attempt extends this."""
        self.sections: dict[str, SectionRecord] = {}
        self.statuses: dict[str, StageStatus] = {}
        self.errors: list[CaseError] = []
        self.results: dict[str, StageResult] = {}
        self.outputs: dict[str, Any] = {}
        self.facts: list[dict[str, Any]] = []
        self.why_skipped: str | None = None
        self.seconds = 0.0
        #: The project's own metrics.
        self.custom = CaseMetrics(self.case, self.kind)
        self.limit = TimeLimit(self.time_limit)
        self._lock: asyncio.Lock | None = None
        #: The loop that the attempt at hand was begun on.
        self._begun_on: asyncio.AbstractEventLoop | None = None

    @abstractmethod
    async def measure(self) -> None:
        """Do the case's work, within its time limit."""

    def meta(self, set_path: str) -> Mapping[str, Any]:
        """What the head of the report says of this run: any of ``engine {name, version}``, ``supported_stages``,
        ``model {provider, name, endpoint}``, ``judge``, ``matcher``, ``prompts {set: {versions, hashes, notes}}``; in
        place of ``engine``, ``engine_if_alone`` for what stands for one only where nothing else was run."""
        return {}

    def over_time(self, *, held: bool = False) -> None:
        """The time limit is over: an error of :attr:`stage`; ``held``: the case let nothing else run meanwhile."""
        self.fail(CaseError(self.stage, "timeout", why_over(self.time_limit or 0.0, held=held)))

    def fail(self, error: CaseError) -> None:
        """Add an error and mark its stage as errored."""
        self.errors.append(error)
        self.statuses[error.stage] = "errored"

    def close(self) -> None:
        """Release what the run has opened; a subclass that opens something extends this."""
        self.values = {}

    # -- how it is run ---------------------------------------------------------------------------------------------

    async def work_ahead(self) -> None:
        """Do the work, unless it is done; whoever comes second waits for the first."""
        refuse_on_left_loop()
        loop = asyncio.get_running_loop()
        if self._begun_on is not loop:
            if self.is_stuck:
                if not self._done:
                    self.give_up()
                self._lock = None  # who holds it may never give it back
            elif self._lock is not None and self._lock.locked():
                self.begin_anew()
            self._begun_on = loop
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._done:
                limit = self.limit
                await self._work()
                # What an attempt does that nobody waits for any more says nothing.
                self._done = self._done or limit is self.limit

    def begin_anew(self) -> None:
        """The attempt at hand went down with a loop that another case held: it says nothing of this one."""
        self.limit.is_dropped = True
        self.begin()

    async def _work(self) -> None:
        limit = self.limit
        try:
            await limit.keep(self._measure_all)
        except BaseException as error:
            if limit is not self.limit or limit.is_dropped:
                raise asyncio.CancelledError from None
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise  # else nobody cancelled the case: something inside of what it calls was
            if isinstance(error, TimeIsOver):
                self.over_time(held=error.held)
            else:
                self._broken(error)
        finally:
            if limit is self.limit:
                self.seconds = limit.used

    async def _measure_all(self) -> None:
        """The case's work, then the project's own metrics on what came of it."""
        await self.measure()
        if registered(self.kind):
            await self.custom.begin(self.outputs, self._status_of_metric)

    def _status_of_metric(self, metric: CustomMetric) -> StageStatus | None:
        return "void" if self.errors else "no_truth" if self.why_skipped is not None or metric.stages else None

    def complete(self) -> None:
        """Compute the project's own metrics that cannot be awaited."""
        if self.custom.done or not registered(self.kind):
            return
        self.custom.finish(self.outputs, self._status_of_metric, self._loop.run)
        self.errors += self.custom.errors
        self.statuses.update(self.custom.statuses)
        if self.custom.section is not None:
            self.sections = {**self.sections, SECTION: self.custom.section}

    def _broken(self, error: BaseException) -> None:
        from pytest_memeval.failures import case_error

        self.fail(case_error(self.stage, error))

    @property
    def is_done(self) -> bool:
        """Whether the work has come to its end, whatever that was."""
        return self._done

    def give_up(self) -> None:
        """Leave the work as it is: its time limit is over, and it does not end."""
        self._done = self.limit.is_dropped = True
        self.seconds = self.time_limit or 0.0
        self.over_time(held=self.is_stuck)

    def limits(self) -> Sequence[TimeLimit]:
        """The time limits of what is at work."""
        return (self.limit,)

    @property
    def is_stuck(self) -> bool:
        """Whether the case held a loop until that was left behind."""
        return self.limit.is_stuck

    def finish(self) -> None:
        """Wait until the work is done; blocks."""
        from pytest_memeval.loops import LoopBlocked

        started, unknown = time.perf_counter(), 0
        try:
            while not self._done:
                try:
                    self._loop.run(self.work_ahead(), limits=self.limits)
                except LoopBlocked as blocked:
                    # Where nobody knows what held the loop, that is told by the case running again, without the others.
                    unknown += blocked.holder is None
                    if unknown > 1 or (blocked.holder in self.limits() and not blocked.is_stuck):
                        self.give_up()
        finally:
            self.waited += time.perf_counter() - started
        self.complete()

    # -- going on with an earlier run ----------------------------------------------------------------------------

    def resume_key(self) -> str:
        """What the case's outputs depend on, in the form of :mod:`pytest_memeval.resume.key`; empty where nobody can
        tell, and the case is never taken from an earlier run."""
        return ""

    def restore(self, record: CaseResult) -> bool:
        """Take the record of an earlier run in the place of the work. False, and nothing changed, where it cannot."""
        # The project's own metrics are computed anew.
        self.sections = {name: section for name, section in record.sections.items() if name != SECTION}
        self.statuses = {name: was for name, was in record.stages.items() if not name.startswith(f"{SECTION}.")}
        self.outputs, self.facts = dict(record.outputs), [dict(fact) for fact in record.facts]
        self.results = {self.stage: StageResult(calls=record.calls, seconds=record.timings.get(self.stage, 0.0))}
        self.seconds = record.duration_seconds
        self._done = True
        return True

    # -- what it leaves --------------------------------------------------------------------------------------------

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        return tuple(call for result in self.results.values() for call in result.calls)

    @property
    def step_seconds(self) -> Mapping[str, float]:
        """Seconds by parts of the work, as a kind's reports want them."""
        return {}

    @property
    def skip_reason(self) -> str | None:
        """Why the item is a skip, in a sentence, so that it does not pass unmeasured: :attr:`why_skipped`, or no metric
        gave a value, and no threshold asks for one. ``None`` where it is none, and for a run that measures nothing
        since it only plans."""
        if self.why_skipped is not None or self.errors or not self.sections:
            return self.why_skipped
        records = self.sections.values()
        if any(record.tables or set(record.values().values()) - {None} for record in records) or self.missed():
            return None
        return self.why_unmeasured()

    def why_unmeasured(self) -> str:
        """What is said of a case of which no metric gave a value."""
        return "nothing of this case could be measured: no metric gave a value"

    def asserted(self) -> Sequence[str] | None:
        """What is asserted of the case besides thresholds and does not hold, in sentences; ``None``: nothing is
        asserted."""
        return None

    def missed(self) -> list[str]:
        """A sentence for each of the case's own thresholds and assertions that does not hold; empty while it has
        errors."""
        if self.errors:
            return []
        said = list(self.asserted() or ())
        added = self._defaults()
        if not added and not self.case.expect:
            return said
        from pytest_memeval.expectations import missed_expectations

        return [*missed_expectations(self.sections, (*self.case.expect, *added), added), *said]

    def trial_records(self, *, node_id: str, set_path: str) -> tuple[Mapping[str, Any], ...]:
        """Each trial by itself, where the case is measured several times."""
        return ()

    def _defaults(self) -> tuple[Threshold, ...]:
        """The default thresholds that are about this case: on a metric that it has no threshold of its own on."""
        if not self.default_expect:
            return ()
        from pytest_memeval.expectations import kind_defaults

        return kind_defaults(self.case, (*sections_of(self.kind), SECTION), self.default_expect)

    @property
    def has_expectations(self) -> bool:
        """Whether the case can fail by itself."""
        return self.asserted() is not None or bool(self.case.expect or self._defaults())

    def case_result(
        self, *, node_id: str, set_path: str, extra_errors: Sequence[CaseError] = (), skipped: bool = False
    ) -> CaseResult:
        """Everything recorded of the case, as far as it got."""
        errors = (*self.errors, *extra_errors)
        statuses = dict(self.statuses)
        for stage in self.case.stages:
            statuses.setdefault(stage, "skipped" if skipped else "void" if errors else "unselected")
            if skipped and statuses[stage] == "scored":
                statuses[stage] = "skipped"
        return CaseResult(
            **described(self.case, self.kind, node_id, set_path),
            outcome="skipped" if skipped else "errored" if errors else "scored",
            stages=statuses,
            sections={} if skipped else dict(self.sections),
            errors=errors,
            missed_expectations=() if errors or skipped else tuple(self.missed()),
            has_expectations=self.has_expectations,
            outputs=dict(self.outputs),
            facts=tuple(self.facts),
            calls=self.calls,
            duration_seconds=self.seconds,
            timings={
                **{stage: result.seconds for stage, result in self.results.items()},
                "waited": self.waited,
                **self.step_seconds,
            },
            trials=() if skipped else self.trial_records(node_id=node_id, set_path=set_path),
        )
