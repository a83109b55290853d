"""A case that is measured several times: its trials run side by side and are one case to everybody else."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from pytest_memeval.case_record import stage_statuses
from pytest_memeval.custom_metrics import SECTION
from pytest_memeval.engine.protocol import can_overlap
from pytest_memeval.loops import LoopBlocked, LoopThread
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.trials import average_records, pair_agreement
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.restoring import restore
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageResult, StageStatus
from pytest_memeval.runner import IDLE, LOOP_GRACE, CaseRun

#: Statuses of a stage, that first which one trial is enough for.
_WORST_FIRST: tuple[StageStatus, ...] = (
    "errored", "ran_errored", "void", "unsupported", "unselected", "skipped", "no_truth", "ran", "scored",
)  # fmt: skip
#: Between an item's label and the number of its trial in the ids of calls.
TRIAL_LABEL = "/trial-"


class TrialRuns(CaseRun):
    """K runs of one case as one.

    Asked for a stage, it runs all stages of all trials, as many at once as there are free ``slots`` (one at a time
    where the engine allows no two). A stage failed if it failed in any trial. Figures are averaged count by count;
    outputs and facts are the first trial's, and :meth:`trial_records` holds every trial's own.
    """

    def __init__(self, trials: Sequence[CaseRun], loop: LoopThread, slots: asyncio.Semaphore, limit: int) -> None:
        # Everything is in the trials: nothing of the base class's own is made.
        first = trials[0]
        self.trials = tuple(trials)
        for name in ("case", "engine", "llm", "prompts", "registry", "templates", "settings", "label", "supported"):
            setattr(self, name, getattr(first, name))
        self.outputs, self.scorer, self.plan = first.outputs, first.scorer, first.plan
        self.results: dict[str, StageResult] = {}
        self.waited = 0.0
        self._loop = loop
        self._slots = slots
        self._helpers = min(len(trials), limit) - 1
        self._lock: asyncio.Lock | None = None
        self._sections = None

    # -- running -----------------------------------------------------------------------------------------------

    def demand(self, stage: str) -> None:
        for run in self.trials:
            run.demand(stage)
        self.plan = self.trials[0].plan

    def result(self, stage: str) -> StageResult:
        known = self.results.get(stage)
        if known is not None or stage not in self.plan.run:
            return known or IDLE
        started = time.perf_counter()
        try:
            if can_overlap(self.engine):
                self._run_on_loop()
            else:
                for run in self.trials:
                    run.run_all()
        finally:
            self.waited += time.perf_counter() - started
        self._merge()
        return self.results.get(stage, IDLE)

    def _run_on_loop(self) -> None:
        limit = self.time_limit
        # Each trial has the case's time for itself; how many ran at once is not known beforehand.
        whole = None if limit is None else limit * len(self.trials) + LOOP_GRACE
        try:
            self._loop.run(self.work_ahead(), timeout=whole)
        except LoopBlocked:
            for run in self.trials:
                run.give_up()

    def go_ahead(self) -> None:
        for run in self.trials:
            run.go_ahead()

    async def advance(self, stage: str) -> StageResult:
        await self.work_ahead()
        return self.results.get(stage, IDLE)

    async def work_ahead(self) -> None:
        """Run every stage of every trial. The first one runs in the caller's slot; whoever gets another slot helps."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            waiting = deque(self.trials)
            begun: set[int] = set()

            async def drain() -> None:
                while waiting:
                    await waiting.popleft().work_ahead()

            async def help_out(number: int) -> None:
                async with self._slots:
                    begun.add(number)
                    await drain()

            helpers = [asyncio.create_task(help_out(number)) for number in range(self._helpers)]
            try:
                await drain()
                for number, helper in enumerate(helpers):
                    if number not in begun:
                        helper.cancel()
                ends = await asyncio.gather(*helpers, return_exceptions=True)
            finally:
                for helper in helpers:
                    helper.cancel()
            for end in ends:
                if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                    raise end
            self._merge()

    def complete(self) -> None:
        for run in self.trials:
            run.complete()
        self._sections = None

    @property
    def metric_statuses(self) -> Mapping[str, StageStatus]:
        own = [run.metric_statuses for run in self.trials]
        return {name: worst(statuses[name] for statuses in own) for name in own[0] if all(name in one for one in own)}

    def provide(self, stage: str, result: object) -> None:
        if result is IDLE or self.results.get(stage) is result:
            return
        for run in self.trials:
            run.provide(stage, result)
        self._merge()

    @property
    def provided(self) -> bool:
        return any(run.provided for run in self.trials)

    def give_up(self) -> None:
        for run in self.trials:
            run.give_up()
        self._merge()

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.trials)

    # -- what they gave ----------------------------------------------------------------------------------------

    def _merge(self) -> None:
        """Put together the stages that every trial has a result of."""
        self._sections = None
        for stage in dict.fromkeys(stage for run in self.trials for stage in run.results):
            found = [run.results[stage] for run in self.trials if stage in run.results]
            if len(found) == len(self.trials):
                self.results[stage] = self._together(stage, found)

    def _together(self, stage: str, found: Sequence[StageResult]) -> StageResult:
        errors = [one.error for one in found if one.error is not None]
        real = [error for error in errors if error.kind != "void"]
        metrics = [one.metrics for one in found if one.metrics is not None]
        averaged = None
        if not errors and len(metrics) == len(found):
            averaged = average_records(metrics)
        return StageResult(
            output=found[0].output,
            metrics=averaged,
            error=next(iter(real or errors), None),
            calls=tuple(call for one in found for call in one.calls),
            seconds=sum(one.seconds for one in found),
        )

    @property
    def errors(self) -> tuple[CaseError, ...]:
        """Every trial's failures, each once, with the trials that it happened in."""
        where: dict[CaseError, list[int]] = {}
        for number, run in enumerate(self.trials, 1):
            for error in run.errors:
                where.setdefault(error, []).append(number)
        return tuple(tagged(error, numbers, len(self.trials)) for error, numbers in where.items())

    def sections(self, stages: Sequence[str]) -> Mapping[str, SectionRecord]:
        asked = tuple(stages)
        if self._sections is None or self._sections[0] != asked:
            averaged = averaged_sections([run.sections(asked) for run in self.trials])
            if "l2" in asked and "l2" in averaged:
                averaged["l2"] = self._with_stability(averaged["l2"])
            self._sections = asked, averaged
        return self._sections[1]

    def _with_stability(self, section: SectionRecord) -> SectionRecord:
        agreement = pair_agreement([scene_pairs(run) for run in self.trials])
        return replace(section, ratios={**section.ratios, "scene_stability": agreement})

    def trial_records(self) -> tuple[dict[str, Any], ...]:
        """Each trial by itself, in the JSON form that reports and journals keep. The first one's outputs and facts are
        those of the case."""
        return tuple(self._record(number, run) for number, run in enumerate(self.trials))

    def _record(self, number: int, run: CaseRun) -> dict[str, Any]:
        sections = run.sections(run.measured)
        own = bool(run.expectations())
        return {
            "trial": number,
            "outcome": "errored" if run.errors else "scored",
            "passed": None if run.errors or not own else not run.missed(),
            "errors": [{"stage": e.stage, "kind": e.kind, "message": e.message} for e in run.errors],
            "stages": dict(stage_statuses(run, cut_short=bool(run.errors))),
            "ratios": {
                section: {name: list(pair) for name, pair in record.ratios.items()}
                for section, record in sections.items()
            },
            "outputs": None if number == 0 else run.outputs.to_json(),
            "facts": None if number == 0 else list(run.outputs.facts),
        }

    # -- stores and earlier runs -------------------------------------------------------------------------------

    def close(self) -> None:
        for run in self.trials:
            run.close()

    def restore_from(self, record: CaseResult) -> bool:
        """Put an earlier run's record in every trial's place; False, and nothing changed, where it is not whole."""
        if len(record.trials) != len(self.trials):
            return False
        parts = list(single_records(record))
        try:
            for part in parts:
                Outputs.from_json(part.outputs, part.facts)
        except OutputError:
            return False
        if any(part.stages.get(stage) not in ("scored", "ran") for part in parts for stage in self.plan.run):
            return False
        for run, part in zip(self.trials, parts, strict=True):
            restore(run, part)
        self._merge()
        return True


def scene_pairs(run: CaseRun) -> set[tuple[int, int]]:
    """The pairs of labelled memories (by their index) that a trial put into one scene."""
    scenes = run.outputs.l2 or []
    places: dict[int, set[int]] = {}
    ids = run.scorer.live_ids([name for scene in scenes for name in scene.memory_ids]).ids
    for index, identity in ids.items():
        places[index] = {place for place, scene in enumerate(scenes) if identity in scene.memory_ids}
    return {(one, two) for one, two in combinations(sorted(places), 2) if places[one] & places[two]}


def averaged_sections(trials: Sequence[Mapping[str, SectionRecord]]) -> dict[str, SectionRecord]:
    """Each section's average over the trials; one that a trial lacks is left out."""
    names = [name for name in trials[0] if all(name in trial for trial in trials)]
    return {name: average_records([trial[name] for trial in trials]) for name in names}


def worst(statuses: Iterable[StageStatus]) -> StageStatus:
    """What a stage is in a case, by what it is in the trials."""
    return min(statuses, key=_WORST_FIRST.index)


def tagged(error: CaseError, numbers: Sequence[int], trials: int) -> CaseError:
    """The error with the trials (from 1) that it happened in."""
    where = f"trial {numbers[0]}" if len(numbers) == 1 else f"trials {', '.join(map(str, numbers))}"
    return replace(error, message=f"{where} of {trials}: {error.message}")


def single_records(record: CaseResult) -> list[CaseResult]:
    """The record of each trial as that of a case by itself, with its own calls."""
    found = []
    for trial in record.trials:
        number = trial["trial"]
        calls = [call for call in record.calls if _trial_of(call) == number]
        first = number == 0
        found.append(
            replace(
                record,
                outcome=trial["outcome"],
                stages=dict(trial["stages"]),
                errors=tuple(CaseError(**error) for error in trial["errors"]),
                outputs=record.outputs if first else trial["outputs"] or {},
                facts=record.facts if first else tuple(trial["facts"] or ()),
                calls=tuple(calls),
                timings=record.timings if first else {},
                missed_expectations=(),
                trials=(),
            )
        )
    return found


def _trial_of(call: CallRecord) -> int:
    _, found, rest = call.id.rpartition(TRIAL_LABEL)
    number = rest.partition("/")[0]
    return int(number) if found and number.isdigit() else 0


def together(record: CaseResult, parts: Sequence[CaseResult]) -> CaseResult:
    """A case's record from those of its trials, scored anew: what a stage is in any trial worst, it is in the case."""
    where: dict[CaseError, list[int]] = {}
    for number, part in enumerate(parts, 1):
        for error in part.errors:
            where.setdefault(error, []).append(number)
    sections = averaged_sections([part.sections for part in parts])
    before = record.sections.get("l2")
    if before is not None and "l2" in sections and "scene_stability" in before.ratios:
        ratios = {**sections["l2"].ratios, "scene_stability": before.ratios["scene_stability"]}
        sections["l2"] = replace(sections["l2"], ratios=ratios)
    trials = tuple(
        {
            **trial,
            "outcome": part.outcome,
            "passed": None if part.errors or not part.has_expectations else not part.missed_expectations,
            "stages": dict(part.stages),
            "ratios": {
                # A project's own metrics are not computed anew: each trial keeps its own.
                name: trial["ratios"].get(name, {})
                if name == SECTION
                else {key: list(pair) for key, pair in section.ratios.items()}
                for name, section in part.sections.items()
            },
        }
        for trial, part in zip(record.trials, parts, strict=True)
    )
    return replace(
        parts[0],
        outcome="errored" if where else parts[0].outcome,
        stages={stage: worst(part.stages[stage] for part in parts) for stage in parts[0].stages},
        sections=sections,
        errors=tuple(tagged(error, numbers, len(parts)) for error, numbers in where.items()),
        calls=record.calls,
        timings=record.timings,
        trials=trials,
    )
