"""From the attempt at a stage to its result: within the case's time, a failure told, an output kept and scored."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_memeval.failures import case_error
from pytest_memeval.loop_time import is_cancelled
from pytest_memeval.loops import in_daemon_thread
from pytest_memeval.measuring.trace import Notes, Trace
from pytest_memeval.results import CallRecord, CaseError, StageResult
from pytest_memeval.stages import CHAIN

if TYPE_CHECKING:
    from pytest_memeval.measuring.deadline import Deadline
    from pytest_memeval.measuring.execution import StageExecutor
    from pytest_memeval.metrics.sections import SectionRecord
    from pytest_memeval.outputs import Outputs
    from pytest_memeval.scoring import CaseScorer

_scoring = threading.Lock()

#: Kind of the error of a stage that a predictions file does not hold.
NO_PREDICTION = "no_prediction"


class StageResults:
    """Makes the results of one case's stages, each when asked. It puts outputs into ``outputs``; ``results``, which it
    only reads, belong to whoever made it.
    """

    def __init__(
        self,
        executor: StageExecutor,
        *,
        outputs: Outputs,
        results: Mapping[str, StageResult],
        scorer: CaseScorer,
        deadline: Deadline,
    ) -> None:
        self._executor = executor
        self._outputs = outputs
        self._results = results
        self._scorer = scorer
        self._deadline = deadline
        #: Set when nobody waits any longer: what a stage still gives is kept nowhere.
        self.given_up = False
        #: Whether what was raised last is kept, for a debugger: it keeps the frames it went through alive.
        self.keep_raised = False
        self.raised: BaseException | None = None

    async def attempt(self, stage: str) -> StageResult:
        """Carry the stage out. What goes wrong is in the result, never raised."""
        used = self._deadline.used
        calls: list[CallRecord] = []
        void = self.void(stage)
        if void is not None:
            return void
        notes = Notes(stage, self._outputs.facts)
        try:
            output = await self._deadline.keep(partial(self._executor.perform, stage, Trace(calls, notes)))
            seconds = self._deadline.used - used
            metrics = None if self.given_up else await self._scored(stage, output)
        except asyncio.CancelledError as error:
            if self._executor.calls.wait_for is None and is_cancelled():
                raise
            # Nobody cancelled the case: something inside the engine was, and the engine let it out.
            return StageResult(error=case_error(stage, error), calls=tuple(calls), seconds=self._deadline.used - used)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            scored = stage in self._executor.plan.scored
            if not scored and stage == "l15" and getattr(error, "kind", None) == NO_PREDICTION:
                # Only needed on the way to recorded outputs, which stand as they are without it.
                return StageResult(seconds=self._deadline.used - used)
            if self.keep_raised:
                self.raised = error
            return StageResult(error=case_error(stage, error), calls=tuple(calls), seconds=self._deadline.used - used)
        finally:
            notes.close()
        return StageResult(output, metrics, None, tuple(calls), seconds)

    async def _scored(self, stage: str, output: Any) -> SectionRecord | None:
        """:meth:`measure`, in a time that is not the engine's: where cases have limits the loop goes on meanwhile."""
        if self._deadline.seconds is None or self._executor.calls.wait_for is not None:
            return self.measure(stage, output)
        return await in_daemon_thread(self._measure_alone, stage, output)

    def _measure_alone(self, stage: str, output: Any) -> SectionRecord | None:
        # A matcher of the project's own need not bear several threads.
        with _scoring:
            return None if self.given_up else self.measure(stage, output)

    def measure(self, stage: str, output: Any, metrics: SectionRecord | None = None) -> SectionRecord | None:
        """Keep the output; the figures of a scored stage (``metrics`` where they are given)."""
        self._keep(stage, output)
        if stage not in self._executor.plan.scored:
            return metrics
        found = metrics if metrics is not None else self._scorer.stage_metrics(stage)
        if self._scorer.matched_by_content(stage):
            note = {
                "kind": "note",
                "stage": stage,
                "text": f"{stage}: memories without a known id were found by content",
            }
            if note not in self._outputs.facts:
                self._outputs.facts.append(note)
        return found

    def _keep(self, stage: str, output: Any) -> None:
        if stage == "inject":
            self._outputs.inject_labelled = output.get("labelled")
            self._outputs.inject_pipeline = output.get("pipeline")
        elif stage in ("l1", "l15", "l2", "template", "search"):
            setattr(self._outputs, stage, output)
        if stage == "l1":
            self._scorer.forget_match()

    def void(self, stage: str) -> StageResult | None:
        """The result of a stage that a failed one before it voids; ``None`` where none does. Injection of labelled
        memories builds on none."""
        if not self._executor.chained or stage == "inject":
            return None
        for needed in CHAIN[stage]:
            result = self._results.get(needed)
            if result is not None and result.error is not None:
                return StageResult(error=CaseError(stage, "void", f"not measured: stage {needed} failed"))
        return None
