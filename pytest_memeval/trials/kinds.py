"""A case of another kind than distillation that is measured several times: K runs that are one to everybody else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.kinds import KindRun
from pytest_memeval.results import CaseResult, StageResult
from pytest_memeval.trials.records import (
    averaged_sections,
    errors_of_trials,
    measured_alone,
    single_records,
    trial_record,
    worst_statuses,
)
from pytest_memeval.trials.work import side_by_side

if TYPE_CHECKING:
    import asyncio

    from pytest_memeval.loops import LoopThread
    from pytest_memeval.time_limit import TimeLimit


class KindTrials(KindRun):
    """The trials of a case as one run.

    The first is done before the others, which may use what it found (:attr:`KindRun.first`); those run side by side
    where there are free ``slots``, in turn where ``slots`` is ``None``. Each has the case's time limit for itself. The
    case's figures are averages, count by count; it is errored where any trial is. Outputs and facts are the first
    trial's, and every trial's own are in its record.
    """

    def __init__(self, trials: Sequence[KindRun], *, loop: LoopThread, slots: asyncio.Semaphore | None = None) -> None:
        first = trials[0]
        super().__init__(first.case, kind=first.kind, loop=loop, label=first.label)
        self.trials = tuple(trials)
        self.stage = first.stage
        self._slots = slots
        for number, run in enumerate(self.trials):
            run.trial, run.first = number, first if number else None

    async def measure(self) -> None:
        raise NotImplementedError("every trial measures by itself")

    # -- running -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            await self.trials[0].work_ahead()
            rest = [run.work_ahead for run in self.trials[1:]]
            await side_by_side(rest, self._slots, len(rest))
        finally:
            self.seconds = math.fsum(run.seconds for run in self.trials)
            self._merge()

    def give_up(self) -> None:
        self._done = True
        for run in self.trials:
            if not run.is_done:
                run.give_up()
        self._merge()

    def limits(self) -> Sequence[TimeLimit]:
        return [limit for run in self.trials for limit in run.limits()]

    def complete(self) -> None:
        for run in self.trials:
            run.complete()
        self._merge()

    def close(self) -> None:
        super().close()
        for run in self.trials:
            run.close()

    # -- what they gave ----------------------------------------------------------------------------------------

    def _merge(self) -> None:
        trials, first = self.trials, self.trials[0]
        self.statuses = worst_statuses([run.statuses for run in trials])
        self.sections = measured_alone(averaged_sections([run.sections for run in trials]), self.statuses)
        self.errors = list(errors_of_trials([run.errors for run in trials]))
        self.outputs, self.facts = first.outputs, first.facts
        self.why_skipped = next((run.why_skipped for run in trials if run.why_skipped is not None), None)
        self.results = {
            stage: StageResult(
                calls=tuple(call for run in trials if stage in run.results for call in run.results[stage].calls),
                seconds=math.fsum(run.results[stage].seconds for run in trials if stage in run.results),
            )
            for stage in dict.fromkeys(stage for run in trials for stage in run.results)
        }

    @property
    def step_seconds(self) -> Mapping[str, float]:
        """Each part's mean over the trials that did it."""
        found: dict[str, list[float]] = {}
        for run in self.trials:
            for name, seconds in run.step_seconds.items():
                found.setdefault(name, []).append(seconds)
        return {name: math.fsum(own) / len(own) for name, own in found.items()}

    def asserted(self) -> Sequence[str] | None:
        """What does not hold in any trial, each sentence with its trial."""
        own = [run.asserted() for run in self.trials]
        if all(one is None for one in own):
            return None
        count = len(own)
        return [f"trial {number} of {count}: {text}" for number, one in enumerate(own, 1) for text in one or ()]

    def why_unmeasured(self) -> str:
        return self.trials[0].why_unmeasured()

    def meta(self, set_path: str) -> Mapping[str, Any]:
        return self.trials[0].meta(set_path)

    def trial_records(self, *, node_id: str, set_path: str) -> tuple[Mapping[str, Any], ...]:
        for run in self.trials:
            run.default_expect = self.default_expect
        parts = [run.case_result(node_id=node_id, set_path=set_path) for run in self.trials]
        return tuple(trial_record(number, part) for number, part in enumerate(parts))

    # -- going on with an earlier run --------------------------------------------------------------------------

    def resume_key(self) -> str:
        return self.trials[0].resume_key()

    def restore(self, record: CaseResult) -> bool:
        """Take each trial's record. Where one cannot be taken, those before it count as done all the same: they are
        what the same questions gave."""
        if len(record.trials) != len(self.trials):
            return False
        parts = single_records(record)
        if not all(run.restore(part) for run, part in zip(self.trials, parts, strict=True)):
            return False
        self.seconds = record.duration_seconds
        self._done = True
        self._merge()
        return True
