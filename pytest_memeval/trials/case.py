"""A case that is measured several times: its trials run side by side and are one case to everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from pytest_memeval.case_record import stage_statuses
from pytest_memeval.engine.protocol import can_overlap
from pytest_memeval.loops import LoopBlocked, LoopThread, refuse_on_left_loop
from pytest_memeval.measuring.repeated_ids import repeated_in
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.trials import average_records, pair_agreement
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.restoring import restore
from pytest_memeval.results import CaseError, CaseResult, StageResult, StageStatus
from pytest_memeval.runner import IDLE, CaseRun
from pytest_memeval.time_limit import TimeLimit
from pytest_memeval.trials.records import averaged_sections, errors_of_trials, single_records, worst
from pytest_memeval.trials.work import side_by_side


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
        self._begun_on: asyncio.AbstractEventLoop | None = None
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
        unknown = 0
        while True:
            try:
                return self._loop.run(self.work_ahead(), limits=self.limits)
            except LoopBlocked as blocked:
                unknown += blocked.holder is None
                if unknown > 1 or (blocked.holder in self.limits() and not blocked.is_stuck):
                    return self.give_up()

    def limits(self) -> Sequence[TimeLimit]:
        return [limit for run in self.trials for limit in run.limits()]

    @property
    def is_stuck(self) -> bool:
        return any(run.is_stuck for run in self.trials)

    def go_ahead(self) -> None:
        for run in self.trials:
            run.go_ahead()

    async def advance(self, stage: str) -> StageResult:
        await self.work_ahead()
        return self.results.get(stage, IDLE)

    async def work_ahead(self, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run every stage of every trial. The first one runs in the caller's slot; whoever gets another slot helps.
        There is no pause: trials that run side by side have no moment at which the case waits for nothing."""
        refuse_on_left_loop()
        loop = asyncio.get_running_loop()
        if self._lock is None or self._begun_on is not loop:
            self._lock, self._begun_on = asyncio.Lock(), loop
        async with self._lock:
            await side_by_side([run.work_ahead for run in self.trials], self._slots, self._helpers)
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
        if result is IDLE or (stage in self.results and self.results[stage] is result):
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
        return errors_of_trials([run.errors for run in self.trials])

    def keep_raised(self) -> None:
        for run in self.trials:
            run.keep_raised()

    @property
    def raised(self) -> BaseException | None:
        return next((run.raised for run in self.trials if run.raised is not None), None)

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
            for run, part in zip(self.trials, parts, strict=True):
                outputs = Outputs.from_json(part.outputs, part.facts)
                if repeated_in(run.case, outputs, chained=run.settings.chained) is not None:
                    return False
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
