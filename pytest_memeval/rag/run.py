"""One RAG sample's work as a test item: answered where there is a pipeline, then evaluated."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_memeval.kinds import KindRun
from pytest_memeval.loop_time import hidden, is_cancelled
from pytest_memeval.loops import LoopPlaces
from pytest_memeval.metrics.sections import SECTION_KEYS, SectionRecord
from pytest_memeval.own_code import own_ends
from pytest_memeval.rag.base import BaseEvaluator, EvalResult
from pytest_memeval.rag.calls import calls_of_case
from pytest_memeval.rag.contexts import SavedContexts
from pytest_memeval.rag.declared import declared_metrics, undeclared, with_value
from pytest_memeval.rag.errors import describe, kind_of_error
from pytest_memeval.rag.loading import RagCase
from pytest_memeval.rag.pipeline import answered, can_overlap, name_of
from pytest_memeval.rag.prompts import prompt_of
from pytest_memeval.rag.summary import finite
from pytest_memeval.rag.types import EvalSample
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageResult

if TYPE_CHECKING:
    from pytest_memeval.plan import Plan

_METRIC_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass
class RagSetup:
    """What all samples of a process are evaluated with."""

    evaluators: Sequence[BaseEvaluator]
    pipeline: Any = None
    saved: SavedContexts | None = None
    #: Where the calls of a run are counted that only plans.
    plan: Plan | None = None
    max_tokens: int | None = None
    #: How often each sample is measured.
    trials: int = 1
    _places: dict[int, asyncio.Semaphore | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from pytest_memeval.rag.offline import PassageMatcher

        self.passages = PassageMatcher()

    def places_in(self, owner: object) -> asyncio.Semaphore | None:
        """The places that an evaluator or the pipeline has, shared by all samples; ``None`` for one without a limit of
        its own, which is in the run's cases in flight alone."""
        if id(owner) not in self._places:
            one_by_one = None if can_overlap(owner) else 1
            size = owner.own_concurrency if isinstance(owner, BaseEvaluator) else one_by_one
            self._places[id(owner)] = None if size is None else LoopPlaces(max(1, size))
        return self._places[id(owner)]

    @cached_property
    def identity(self) -> tuple[str, ...] | None:
        """The parts of every sample's resume key that are not the sample's own."""
        from pytest_memeval.rag.identity import key_parts

        return key_parts(self.evaluators, self.pipeline, self.max_tokens, self.trials)


class RagRun(KindRun):
    """The sample's answer and its scores. A failing evaluator is an error of its own metrics alone."""

    stage = "rag"
    case: RagCase

    def __init__(self, case: RagCase, setup: RagSetup, set_path: str, **rest: Any) -> None:
        super().__init__(case, kind="rag", **rest)
        self._setup = setup
        self._set_path = set_path

    def begin(self) -> None:
        super().begin()
        self._calls: list[CallRecord] = []
        self.sample: EvalSample = self.case.sample
        #: Metric → what is said of it where it is false, else ``None``.
        self._assertions: dict[str, str | None] = {}

    async def measure(self) -> None:
        try:
            contexts = self._saved_contexts()
        except LookupError as error:
            self.fail(CaseError("rag", "no_saved_contexts", str(error.args[0])))
            return
        if self._setup.plan is not None:
            from pytest_memeval.rag.planning import plan_sample

            await plan_sample(self._setup, self._setup.plan, self.sample, contexts, self.trial)
            return
        used, limit, results, calls = self.limit.used, self.limit, self.results, self._calls
        try:
            with calls_of_case(f"{self.label}/rag/", calls, self.trial):
                if await self._answer(contexts):
                    self._keep_sample()
                    await self._evaluate()
        finally:
            results["rag"] = StageResult(calls=tuple(calls), seconds=limit.used - used)

    async def _answer(self, contexts: Sequence[str] | None) -> bool:
        """Fill in the response and the contexts; whether there is something to evaluate then."""
        pipeline = self._setup.pipeline
        if pipeline is None and contexts is not None:
            self.sample = replace(self.sample, context=contexts)
        if pipeline is not None:
            try:
                async with self.limit.place(self._setup.places_in(pipeline)):
                    self.sample = await answered(pipeline, self.sample, contexts)
            except own_ends() as error:  # whatever a pipeline does
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
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

    def _saved_contexts(self) -> Sequence[str] | None:
        """What is played back for the sample; ``None`` where nothing is. LookupError where it is missing."""
        saved = self._setup.saved
        return None if saved is None else saved.find(self._set_path, self.case.case_id, self.sample.query)

    def _keep_sample(self) -> None:
        sample = self.sample
        kept: dict[str, Any] = {
            "query": sample.query,
            "contexts": list(sample.context),
        }
        if sample.response is not None:
            kept["response"] = sample.response
        if sample.ground_truth is not None:
            kept["reference"] = sample.ground_truth
        if sample.reference_contexts:
            kept["reference_contexts"] = list(sample.reference_contexts)
            kept["relevant"] = self._setup.passages.relevant(sample.context, sample.reference_contexts)
        self.outputs["rag"] = kept

    async def _evaluate(self) -> None:
        async def one(evaluator: BaseEvaluator) -> EvalResult:
            async with self.limit.place(self._setup.places_in(evaluator)):
                return await evaluator.evaluate_checked(self.sample)

        async with asyncio.TaskGroup() as group:
            tasks = [hidden(group.create_task(one(evaluator))) for evaluator in self._setup.evaluators]
        self._take([task.result() for task in tasks])

    def _take(self, results: Sequence[EvalResult]) -> None:
        """The evaluators' results as the case's record. The stage is scored if nothing failed."""
        ratios: dict[str, tuple[float, float]] = {}
        labels: dict[str, dict[str, float]] = {}
        details: dict[str, Any] = {}
        shares: list[str] = []
        for evaluator, result in zip(self._setup.evaluators, results, strict=True):
            given = details.setdefault("scores", {})
            if result.error is not None:
                given[evaluator.name] = None
                self._failed(evaluator, result)
                continue
            known = given.get(evaluator.name) or {}  # two of one class share a name
            given[evaluator.name] = {**known, **{name: _plain(score) for name, score in result.scores.items()}}
            if result.feedback:
                details.setdefault("feedback", {})[evaluator.name] = result.feedback
            for metric, score in result.scores.items():
                if self._refused(evaluator, metric, ratios, labels):
                    continue
                if isinstance(score, str):
                    labels[metric] = {score: 1}
                    continue
                if isinstance(score, bool):
                    shares.append(metric)
                    self._assertions[metric] = None if score else f"{metric} is false" + _because(result.feedback)
                number = finite(score)
                if number is not None:
                    ratios[metric] = (number, 1.0)
                    self.statuses[f"rag.{metric}"] = "scored"
            for metric, why in result.unmeasured.items():
                if result.scores.get(metric) is None:
                    self.errors.append(CaseError("rag", "unmeasured", f"{evaluator.name}: {metric}: {why}"))
                    self.statuses[f"rag.{metric}"] = "errored"
            self._note_undeclared(evaluator, result)
        if self._assertions:
            details["assertions"] = dict(self._assertions)
        self.sections["rag"] = SectionRecord(ratios=ratios, tables=labels, details=details, shares=tuple(shares))
        self.statuses["rag"] = "errored" if self.errors else "scored"

    def _note_undeclared(self, evaluator: BaseEvaluator, result: EvalResult) -> None:
        for metric, near in undeclared(declared_metrics(evaluator), with_value(result.scores)).items():
            fact = {"kind": "undeclared_metric", "stage": "rag", "evaluator": evaluator.name, "metric": metric}
            self.facts.append({**fact, "nearest": near})

    def _failed(self, evaluator: BaseEvaluator, result: EvalResult) -> None:
        self.errors.append(CaseError("rag", result.error or "error", f"{evaluator.name}: {result.feedback}"))
        for metric in declared_metrics(evaluator):
            self.statuses[f"rag.{metric}"] = "errored"

    def _refused(
        self, evaluator: BaseEvaluator, metric: str, ratios: Mapping[str, Any], labels: Mapping[str, Any]
    ) -> bool:
        if _METRIC_NAME.fullmatch(metric) is None:
            text = f"metric name {metric!r} has other characters than letters, digits and _"
        elif metric in SECTION_KEYS or metric.startswith("_"):
            text = f"metric name {metric!r} is taken: reports use it, or hide it, themselves; give it another"
        elif metric in ratios or metric in labels:
            text = f"two evaluators give the metric {metric!r}"
        else:
            return False
        self.errors.append(CaseError("rag", "bad_metric", f"{evaluator.name}: {text}"))
        return True

    def asserted(self) -> Sequence[str] | None:
        """The evaluators' assertions that are false."""
        return [text for text in self._assertions.values() if text is not None] if self._assertions else None

    def why_unmeasured(self) -> str:
        section = self.sections.get("rag")
        scores = {} if section is None else section.details.get("scores", {})
        told = [f"{name} gave {'None for ' + ', '.join(of) if of else 'no metric'}" for name, of in scores.items()]
        return f"nothing of this sample could be measured: {'; '.join(told) or 'no evaluator gave a metric'}"

    def resume_key(self) -> str:
        parts = self._setup.identity
        if parts is None:
            return ""
        from pytest_memeval.rag.identity import short

        try:
            contexts = self._saved_contexts()
        except LookupError:
            return ""
        return ".".join((short(json.dumps([self.case.content_hash, contexts])), *parts))

    def restore(self, record: CaseResult) -> bool:
        taken = super().restore(record)
        section = self.sections.get("rag")
        self._assertions = dict(section.details.get("assertions", {})) if section is not None else {}
        return taken

    def meta(self, set_path: str) -> Mapping[str, Any]:
        return run_meta(self._setup, set_path)


def _plain(score: Any) -> Any:
    """A score as strict JSON has it: a number that is none is nothing."""
    return score if isinstance(score, bool | str) else finite(score)


def _because(feedback: str | None) -> str:
    return f": {feedback}" if feedback else ""


def run_meta(setup: RagSetup, set_path: str) -> Mapping[str, Any]:
    """What the head of the report says: the pipeline, the model that judges, its prompts."""
    pipeline = setup.pipeline
    version = getattr(pipeline, "version", None)
    if pipeline is None:
        # No system was asked: a run of other files, too, is not headed by this.
        meta: dict[str, Any] = {"engine_if_alone": {"name": "recorded answers", "version": None}}
    else:
        meta = {"engine": {"name": name_of(pipeline), "version": version and str(version)}}
    prompts = {
        f"rag_{prompt.name}": prompt for evaluator in setup.evaluators if (prompt := prompt_of(evaluator)) is not None
    }
    models = [model for evaluator in setup.evaluators if (model := getattr(evaluator, "llm", None)) is not None]
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
