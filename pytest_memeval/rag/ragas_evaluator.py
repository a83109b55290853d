"""RAGAS (https://docs.ragas.io) behind the evaluator base. Needs the extra ``pytest-memeval[ragas]``.

RAGAS is imported when an evaluator is made, never before.
"""

from __future__ import annotations

import asyncio
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_memeval.loop_time import hidden
from pytest_memeval.rag.base import BaseEvaluator, EvalDataset, EvalResult, EvalSample, Score, SummaryResult

INSTALL = "RAGAS is not installed: pip install 'pytest-memeval[ragas]'"
#: The metrics where none are named, in RAGAS's words.
DEFAULT_METRICS: tuple[str, ...] = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
#: RAGAS's name of a metric → its class in ``ragas.metrics.collections``.
_CLASSES: Mapping[str, str] = {
    "faithfulness": "Faithfulness",
    "answer_relevancy": "AnswerRelevancy",
    "context_precision": "ContextPrecision",
    "context_recall": "ContextRecall",
    "context_utilization": "ContextUtilization",
    "context_entity_recall": "ContextEntityRecall",
    "context_relevance": "ContextRelevance",
    "answer_accuracy": "AnswerAccuracy",
    "answer_correctness": "AnswerCorrectness",
    "factual_correctness": "FactualCorrectness",
    "noise_sensitivity": "NoiseSensitivity",
    "response_groundedness": "ResponseGroundedness",
    "semantic_similarity": "SemanticSimilarity",
    "summary_score": "SummaryScore",
}


def import_ragas() -> Any:
    """RAGAS's collection of metrics. ImportError, with the command to install it, where it is missing or too old."""
    # Its telemetry stays off: nothing leaves the machine that was not asked for.
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ragas
            from ragas.metrics import collections
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ragas":
            # RAGAS leaves the versions of what it needs open, and not all of them fit; the extra names those that do.
            raise ImportError(f"RAGAS cannot be imported ({error}): pip install 'pytest-memeval[ragas]'") from error
        found = f" (found {ragas.__version__})" if error.name != "ragas" else ""
        raise ImportError(INSTALL + (f" --upgrade{found}" if found else "")) from None
    return collections


class RagasEvaluator(BaseEvaluator):
    """Scores samples with RAGAS's metrics.

    ``llm`` is a chat model of this package (its cache, replay, retries and cost count then, as for any call), or an LLM
    made by RAGAS. ``metrics`` are names (:data:`DEFAULT_METRICS`, without ``answer_relevancy`` where there are no
    ``embeddings``) or metric objects of RAGAS, with ``ascore`` or ``single_turn_ascore``. ``embeddings`` are an
    :class:`~pytest_memeval.llm.protocol.Embedder`, or RAGAS's own. ``max_workers`` bounds the metrics under way at
    once, ``batch_size`` the samples that are taken up before the first of them is done.

    What RAGAS gives NaN for, or fails on, is unmeasured, with the reason: never dropped, never zero. A metric whose
    columns a sample lacks has the score ``None``.
    """

    retries = 0

    def __init__(
        self,
        llm: Any,
        *,
        metrics: Sequence[Any] | None = None,
        embeddings: Any = None,
        max_workers: int = 16,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        for name, number in (("max_workers", max_workers), ("batch_size", batch_size)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        super().__init__(max_concurrency=max_workers, **options)
        collections = import_ragas()
        self.version: str = _version()
        self.llm = llm
        self.max_workers = max_workers
        self.batch_size = batch_size
        given = metrics if metrics is not None else DEFAULT_METRICS if embeddings is not None else _WITHOUT_EMBEDDINGS
        models = _Models(llm, embeddings)
        self._metrics = [_build(collections, one, models) if isinstance(one, str) else one for one in given]
        self.metrics = tuple(metric_name(metric) for metric in self._metrics)
        self._places: tuple[Any, asyncio.Semaphore] | None = None

    async def results_of(self, samples: Any) -> list[EvalResult]:
        listed = list(samples)
        size = self.batch_size or max(1, len(listed))
        results: list[EvalResult] = []
        for start in range(0, len(listed), size):
            results += await super().results_of(listed[start : start + size])
        return results

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        async with asyncio.TaskGroup() as group:
            tasks = [hidden(group.create_task(self._metric(metric, sample))) for metric in self._metrics]
        scores: dict[str, Score] = {}
        unmeasured: dict[str, str] = {}
        for name, task in zip(self.metrics, tasks, strict=True):
            score, why = task.result()
            scores[name] = score
            if why is not None:
                unmeasured[name] = why
        said = "; ".join(f"{name}: {why}" for name, why in unmeasured.items())
        return EvalResult(sample, scores, said or None, unmeasured=unmeasured)

    async def _metric(self, metric: Any, sample: EvalSample) -> tuple[Score, str | None]:
        """The metric's score, or why there is none (no reason: the sample lacks a column)."""
        from pytest_memeval.rag.errors import describe

        async with self._place():
            try:
                score = await _score(metric, sample)
            except Exception as error:  # whatever RAGAS, or the model behind it, does
                return None, describe(error)
        if isinstance(score, float) and not math.isfinite(score):
            return None, f"RAGAS gave {score}"
        return score, None

    def _place(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            self._places = loop, asyncio.Semaphore(self.max_workers)
        return self._places[1]


def _version() -> str:
    import ragas

    return str(ragas.__version__)


_WITHOUT_EMBEDDINGS = tuple(name for name in DEFAULT_METRICS if name != "answer_relevancy")


def metric_name(metric: Any) -> str:
    """RAGAS's name, with ``_`` for what a metric path cannot hold."""
    return "".join(character if character.isalnum() else "_" for character in str(metric.name)).strip("_")


def columns_of(sample: EvalSample) -> dict[str, Any]:
    """The sample under RAGAS's column names, those that it has."""
    columns = {
        "user_input": sample.query,
        "retrieved_contexts": list(sample.context) or None,
        "response": sample.response,
        "reference": sample.ground_truth,
        "reference_contexts": None if sample.reference_contexts is None else list(sample.reference_contexts),
    }
    return {name: value for name, value in columns.items() if value is not None}


async def _score(metric: Any, sample: EvalSample) -> Score:
    import inspect

    columns = columns_of(sample)
    if hasattr(metric, "single_turn_ascore"):  # of RAGAS's older kind
        from ragas import SingleTurnSample

        needed = getattr(metric, "required_columns", {}).get("SINGLE_TURN", set())
        if any(name.partition(":")[0] not in columns for name in needed if not name.endswith(":optional")):
            return None
        return _plain(await metric.single_turn_ascore(SingleTurnSample(**columns)))
    parameters = inspect.signature(metric.ascore).parameters
    required = [
        name for name, one in parameters.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    if any(name not in columns for name in required):
        return None
    return _plain((await metric.ascore(**{name: columns[name] for name in parameters if name in columns})).value)


def _plain(value: Any) -> Score:
    if value is None or isinstance(value, bool | str):
        return value
    return float(value)


class _Models:
    """The model and the embeddings as RAGAS wants them, each made once."""

    def __init__(self, llm: Any, embeddings: Any) -> None:
        from ragas.embeddings.base import BaseRagasEmbedding
        from ragas.llms.base import InstructorBaseRagasLLM

        own_model = isinstance(llm, InstructorBaseRagasLLM)
        self.llm = llm if own_model else _bridge_model(llm)
        known = embeddings is None or isinstance(embeddings, BaseRagasEmbedding)
        self.embeddings = embeddings if known else _bridge_embedder(embeddings)


def _build(collections: Any, name: str, models: _Models) -> Any:
    import inspect

    from pytest_memeval.documents.problems import did_you_mean

    if name not in _CLASSES:
        raise ValueError(f"unknown RAGAS metric {name!r}{did_you_mean(name, _CLASSES)}")
    target = getattr(collections, _CLASSES[name])
    wanted = inspect.signature(target.__init__).parameters
    if "embeddings" in wanted and models.embeddings is None:
        raise ValueError(f"RAGAS metric {name!r} needs embeddings: RagasEvaluator(llm, embeddings=...)")
    given = {key: getattr(models, key) for key in ("llm", "embeddings") if key in wanted}
    return target(**given)


def _bridge_model(llm: Any) -> Any:
    from ragas.llms.base import InstructorBaseRagasLLM

    class ChatModelLLM(InstructorBaseRagasLLM):  # type: ignore[misc]  # RAGAS is not type-checked here
        """A chat model of this package as RAGAS asks one."""

        def generate(self, prompt: str, response_model: Any) -> Any:
            from pytest_memeval.llm.sync import run_sync

            return run_sync(self.agenerate(prompt, response_model))

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            from pytest_memeval.llm.payload import PayloadError, parse_payload

            asked: dict[str, Any] = {
                "messages": [{"role": "user", "content": prompt}],
                "stage": f"ragas_{response_model.__name__}",
                "response_format": response_model.model_json_schema(),
            }
            reply = await llm.complete(**asked)
            try:
                if reply.finish_reason in ("length", "max_tokens"):
                    raise UnusableRagasAnswer("the answer was cut off at the token cap")
                return response_model.model_validate(parse_payload(reply.text))
            except (PayloadError, ValueError) as error:
                forget = getattr(llm, "forget", None)
                if forget is not None:
                    await forget(**asked)
                raise UnusableRagasAnswer(f"the answer is no {response_model.__name__}: {error}") from None

    return ChatModelLLM()


class UnusableRagasAnswer(ValueError):
    """The model answered RAGAS with something of another shape."""

    kind = "unusable_answer"


def _bridge_embedder(embedder: Any) -> Any:
    from ragas.embeddings.base import BaseRagasEmbedding

    class EmbedderEmbedding(BaseRagasEmbedding):  # type: ignore[misc]  # RAGAS is not type-checked here
        """An embedder of this package as RAGAS asks one."""

        def embed_text(self, text: str, **options: Any) -> list[float]:
            from pytest_memeval.llm.sync import run_sync

            return run_sync(self.aembed_text(text))

        async def aembed_text(self, text: str, **options: Any) -> list[float]:
            return list((await embedder.embed([text]))[0])

    return EmbedderEmbedding()


def run_ragas_evaluation(
    dataset: EvalDataset | Sequence[EvalSample],
    llm: Any,
    *,
    metrics: Sequence[Any] | None = None,
    embeddings: Any = None,
    max_workers: int = 16,
    batch_size: int | None = None,
    name: str = "dataset",
) -> SummaryResult:
    """Score a data set, or a list of samples, with RAGAS: :class:`RagasEvaluator` in one call, for scripts.

    RuntimeError inside a running event loop, with what to write there; ImportError without RAGAS.
    """
    evaluator = RagasEvaluator(
        llm, metrics=metrics, embeddings=embeddings, max_workers=max_workers, batch_size=batch_size
    )
    whole = dataset if isinstance(dataset, EvalDataset) else EvalDataset(tuple(dataset), name)
    return evaluator.evaluate(whole)
