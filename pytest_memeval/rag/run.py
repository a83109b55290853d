"""One RAG sample's work as a test item: answered where there is a pipeline, then evaluated."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_memeval.kinds import KindRun
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.rag.base import BaseEvaluator, EvalResult
from pytest_memeval.rag.calls import calls_of_case
from pytest_memeval.rag.contexts import SavedContexts
from pytest_memeval.rag.errors import describe, kind_of_error
from pytest_memeval.rag.loading import RagCase
from pytest_memeval.rag.pipeline import answered, can_overlap, name_of
from pytest_memeval.rag.summary import finite
from pytest_memeval.rag.types import EvalSample
from pytest_memeval.results import CallRecord, CaseError, StageResult

_METRIC_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass
class RagSetup:
    """What all samples of a process are evaluated with."""

    evaluators: Sequence[BaseEvaluator]
    pipeline: Any = None
    saved: SavedContexts | None = None
    #: Evaluator or pipeline → its places, where it allows fewer at once than the run has cases in flight.
    places: dict[int, asyncio.Semaphore] = field(default_factory=dict)

    def place_in(self, owner: object, size: int | None) -> AbstractAsyncContextManager[Any]:
        """One of the places that an evaluator or pipeline has; ``size`` is ``None`` for one without a limit."""
        if size is None:
            return nullcontext()
        return self.places.setdefault(id(owner), asyncio.Semaphore(max(1, size)))


class RagRun(KindRun):
    """The sample's answer and its scores. A failing evaluator is an error of its own metrics alone."""

    stage = "rag"

    def __init__(self, case: RagCase, setup: RagSetup, set_path: str, **rest: Any) -> None:
        super().__init__(case, kind="rag", **rest)
        self._setup = setup
        self._set_path = set_path
        self._calls: list[CallRecord] = []
        self.sample: EvalSample = case.sample
        self._assertions: list[str] = []
        self._has_assertions = False

    async def measure(self) -> None:
        started = time.perf_counter()
        try:
            with calls_of_case(f"{self.label}/rag/", self._calls):
                if await self._answer():
                    self._keep_sample()
                    await self._evaluate()
        finally:
            self.results["rag"] = StageResult(calls=tuple(self._calls), seconds=time.perf_counter() - started)

    async def _answer(self) -> bool:
        """Fill in the response and the contexts; whether there is something to evaluate then."""
        pipeline, saved = self._setup.pipeline, self._setup.saved
        contexts: Sequence[str] | None = None
        if saved is not None:
            try:
                contexts = saved.find(self._set_path, self.case.case_id, self.sample.query)
            except LookupError as error:
                self.fail(CaseError("rag", "no_saved_contexts", str(error.args[0])))
                return False
            if pipeline is None:
                self.sample = replace(self.sample, context=contexts)
        if pipeline is not None:
            try:
                async with self._setup.place_in(pipeline, None if can_overlap(pipeline) else 1):
                    self.sample = await answered(pipeline, self.sample, contexts)
            except Exception as error:
                kind = kind_of_error(error)
                if kind in ("evaluator_exception", "timeout"):
                    kind = "generation_error"
                self.fail(CaseError("rag", kind, f"pipeline {name_of(pipeline)}: {describe(error)}"))
                return False
        if self.sample.response is None and not self.sample.context:
            text = "the sample has neither a response nor contexts: name a pipeline with --memeval-rag-pipeline"
            self.fail(CaseError("rag", "nothing_to_evaluate", text))
            return False
        return True

    def _keep_sample(self) -> None:
        self.outputs["rag"] = {
            "query": self.sample.query,
            "contexts": list(self.sample.context),
            "response": self.sample.response,
        }

    async def _evaluate(self) -> None:
        async def one(evaluator: BaseEvaluator) -> EvalResult:
            async with self._setup.place_in(evaluator, evaluator.own_concurrency):
                return await evaluator.evaluate_checked(self.sample)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(evaluator)) for evaluator in self._setup.evaluators]
        self._take([task.result() for task in tasks])

    def _take(self, results: Sequence[EvalResult]) -> None:
        """The evaluators' results as the case's record. The stage is scored if nothing failed."""
        ratios: dict[str, tuple[float, float]] = {}
        labels: dict[str, dict[str, float]] = {}
        details: dict[str, Any] = {}
        for evaluator, result in zip(self._setup.evaluators, results, strict=True):
            if result.error is not None:
                self._failed(evaluator, result)
                continue
            if result.feedback:
                details.setdefault("feedback", {})[evaluator.name] = result.feedback
            for metric, score in result.scores.items():
                if self._refused(metric, ratios, labels):
                    continue
                if isinstance(score, str):
                    labels[metric] = {score: 1}
                    continue
                if score is False:
                    self._assertions.append(f"{metric} is false" + _because(result.feedback))
                self._has_assertions = self._has_assertions or isinstance(score, bool)
                number = finite(score)
                if number is not None:
                    ratios[metric] = (number, 1.0)
                    self.statuses[f"rag.{metric}"] = "scored"
            for metric, why in result.unmeasured.items():
                if result.scores.get(metric) is None:
                    self.errors.append(CaseError("rag", "unmeasured", f"{evaluator.name}: {metric}: {why}"))
                    self.statuses[f"rag.{metric}"] = "errored"
        self.sections["rag"] = SectionRecord(ratios=ratios, tables=labels, details=details)
        self.statuses["rag"] = "errored" if self.errors else "scored"

    def _failed(self, evaluator: BaseEvaluator, result: EvalResult) -> None:
        self.errors.append(CaseError("rag", result.error or "error", f"{evaluator.name}: {result.feedback}"))
        for metric in evaluator.metrics:
            self.statuses[f"rag.{metric}"] = "errored"

    def _refused(self, metric: str, ratios: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
        if _METRIC_NAME.fullmatch(metric) is None:
            text = f"metric name {metric!r} has other characters than letters, digits and _"
        elif metric in ratios or metric in labels:
            text = f"two evaluators give the metric {metric!r}"
        else:
            return False
        self.errors.append(CaseError("rag", "bad_metric", text))
        return True

    def missed(self) -> list[str]:
        """The thresholds that do not hold, and the evaluators' assertions that are false."""
        return [] if self.errors else [*super().missed(), *self._assertions]

    @property
    def has_expectations(self) -> bool:
        return self._has_assertions or super().has_expectations

    def meta(self, set_path: str) -> Mapping[str, Any]:
        return run_meta(self._setup, set_path)


def _because(feedback: str | None) -> str:
    return f": {feedback}" if feedback else ""


def run_meta(setup: RagSetup, set_path: str) -> Mapping[str, Any]:
    """What the head of the report says: the pipeline, the model that judges, its prompts."""
    pipeline = setup.pipeline
    version = getattr(pipeline, "version", None)
    engine = {
        "name": "recorded answers" if pipeline is None else name_of(pipeline),
        "version": version and str(version),
    }
    prompts = {
        f"rag_{evaluator.metrics[0]}": prompt
        for evaluator in setup.evaluators
        if (prompt := getattr(evaluator, "prompt", None)) is not None
    }
    models = [model for evaluator in setup.evaluators if (model := getattr(evaluator, "llm", None)) is not None]
    meta: dict[str, Any] = {"engine": engine}
    versions = {stage: prompt.version for stage, prompt in sorted(prompts.items())}
    hashes = {stage: prompt.sha256 for stage, prompt in sorted(prompts.items())}
    if prompts:
        meta["prompts"] = {set_path: {"versions": versions, "hashes": hashes, "notes": []}}
    if models:
        meta["judge"] = {
            "model": getattr(models[0], "model", None) or getattr(models[0], "name", None),
            "endpoint": getattr(models[0], "endpoint", None),
            "prompt_versions": versions,
            "prompt_hashes": hashes,
        }
    return meta
