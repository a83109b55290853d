"""The base of every RAG evaluator: one method to write, and a whole data set evaluated well.

::

    class Polite(BaseEvaluator):
        async def evaluate_sample(self, sample):
            return EvalResult(sample, {"polite": "please" in (sample.response or "")})

    summary = Polite().evaluate(EvalDataset(samples, "support"))

A subclass has its samples evaluated several at a time (``max_concurrency``), each within ``sample_timeout``, again
after a failure (``retries``), in order, and with every failure kept as an error of its sample. It knows no chat model.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_memeval.copies import copied
from pytest_memeval.loop_time import apart, is_cancelled
from pytest_memeval.own_code import own_errors
from pytest_memeval.rag.concurrency import Progress, in_order
from pytest_memeval.rag.declared import declared_metrics, missing, undeclared, with_value
from pytest_memeval.rag.errors import describe, is_worth_another_try, kind_of_error
from pytest_memeval.rag.summary import MetricSummary, SummaryResult, finite, summarize
from pytest_memeval.rag.types import EvalDataset, EvalResult, EvalSample, Score

__all__ = [
    "BaseEvaluator",
    "EvalDataset",
    "EvalResult",
    "EvalSample",
    "MetricSummary",
    "Score",
    "SummaryResult",
]

#: What :meth:`BaseEvaluator.evaluate` says inside a running loop.
IN_A_LOOP = (
    "evaluate() blocks, and an event loop is running here (a notebook, or code inside async def): "
    "write `await evaluator.evaluate_dataset(dataset)` instead"
)


class BaseEvaluator(ABC):
    """Evaluates samples of a data set; subclasses implement :meth:`evaluate_sample` alone.

    Everything here can be set on the class, on the object, or given to ``BaseEvaluator.__init__``, which a subclass
    need not call:

    - ``max_concurrency``: samples under way at once; 1 is one after the other.
    - ``sample_timeout``: seconds that one sample may take, all attempts together; ``None`` for no limit.
    - ``retries``: further attempts after a failure. What cannot succeed a second time (a bug, a chat model's error
      that its client has retried already) is not tried again. ``retry_wait``: seconds before the first, doubled each.
    - ``progress``: called as ``progress(done, total)`` after each sample.
    - ``metrics``: the names that the evaluator gives, where they are known. A failed sample is an error of each, and a
      result without one of them an error of that one; ``None`` is its score where there is nothing to measure.
    - ``plannable``: whether all that it asks of models goes through its attribute ``llm`` (or it asks none), so that
      ``--memeval-plan`` can run it on a model that asks nobody. ``version``: part of what it is for
      ``--memeval-resume``, in the place of its source files.
    """

    max_concurrency: int = 8
    sample_timeout: float | None = 300.0
    retries: int = 1
    retry_wait: float = 0.5
    progress: Progress | None = None
    metrics: tuple[str, ...] = ()
    plannable: bool = False

    def __init__(
        self,
        *,
        max_concurrency: int | None = None,
        sample_timeout: float | None = None,
        retries: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if max_concurrency is not None:
            self.max_concurrency = max_concurrency
        if sample_timeout is not None:
            self.sample_timeout = sample_timeout
        if retries is not None:
            self.retries = retries
        if progress is not None:
            self.progress = progress

    @property
    def name(self) -> str:
        """The evaluator's name in reports: its class's."""
        return type(self).__name__

    @property
    def own_concurrency(self) -> int | None:
        """The limit that the evaluator itself sets; ``None`` where it has the default, which a test run's
        ``--memeval-concurrency`` takes the place of."""
        classes = (cls for cls in type(self).__mro__ if cls is not BaseEvaluator)
        given = any("max_concurrency" in vars(one) for one in (self, *classes) if hasattr(one, "__dict__"))
        return self.max_concurrency if given else None

    @abstractmethod
    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        """Evaluate one sample. A mapping of metric → score is taken as the result's scores, too. What is raised becomes
        the sample's error. A plain ``def`` works as well, and is called in a thread."""

    async def evaluate_dataset(self, dataset: EvalDataset) -> SummaryResult:
        """Evaluate every sample, :attr:`max_concurrency` at a time; results are in the samples' order.

        Cancelling it cancels every sample under way and waits for them: nothing goes on behind it.
        """
        results = await self.results_of(dataset.samples)
        return self._summarize(dataset.name, results)

    async def results_of(self, samples: Iterable[EvalSample]) -> list[EvalResult]:
        """The samples' results in their order."""
        return await in_order(
            list(samples), self.evaluate_checked, max_concurrency=self.max_concurrency, progress=self.progress
        )

    def evaluate(self, dataset: EvalDataset) -> SummaryResult:
        """:meth:`evaluate_dataset` for scripts: blocks until it is done. RuntimeError inside a running event loop,
        which it would block; the message says what to write there."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.evaluate_dataset(dataset))
        raise RuntimeError(IN_A_LOOP)

    def _summarize(self, name: str, results: Sequence[EvalResult]) -> SummaryResult:
        """What is made of the results; a subclass may override it to add or weigh figures."""
        summary = summarize(name, results, declared_metrics(self))
        extra = undeclared(declared_metrics(self), (metric for one in results for metric in with_value(one.scores)))
        said = [
            f"{metric}: {self.name} gives it, and does not declare it"
            + (f"; the nearest that it declares is {near}" if near else "")
            for metric, near in extra.items()
        ]
        return replace(summary, warnings=(*summary.warnings, *said)) if said else summary

    # -- one sample ------------------------------------------------------------------------------------------------

    async def evaluate_checked(self, sample: EvalSample) -> EvalResult:
        """:meth:`evaluate_sample` within its time limit, tried again where that may help, with scores checked; what it
        raises is kept in the result. Never raises but when it is cancelled, or interrupted."""
        try:
            if self.sample_timeout is None:
                return self._checked(sample, await self._tried(sample))
            async with asyncio.timeout(self.sample_timeout) as scope:
                return self._checked(sample, await self._tried(sample))
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            # Nobody cancelled the sample: something inside of the evaluator was.
            return EvalResult(sample, feedback=describe(error), error="cancelled")
        except TimeoutError as error:
            if self.sample_timeout is not None and scope.expired():
                text = f"the sample's time limit of {self.sample_timeout:g} s is over"
                return EvalResult(sample, feedback=text, error="timeout")
            return EvalResult(sample, feedback=describe(error), error=kind_of_error(error))
        except own_errors() as error:  # whatever an evaluator raises is the sample's error, and no other's
            return EvalResult(sample, feedback=describe(error), error=kind_of_error(error))

    async def _tried(self, sample: EvalSample) -> Any:
        wait = self.retry_wait
        for left in range(max(0, self.retries), -1, -1):
            try:
                return await self._called(sample)
            except own_errors() as error:  # it goes on, unless another try is worth it
                if not left or not is_worth_another_try(error):
                    raise
            await asyncio.sleep(wait)
            wait *= 2
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _called(self, sample: EvalSample) -> Any:
        method: Callable[[EvalSample], Any] = self.evaluate_sample
        # The other evaluators, and another try, get the sample as it was.
        own = copied(sample)
        if inspect.iscoroutinefunction(method):
            result = await apart(partial(method, own))
        else:
            from pytest_memeval.loops import in_daemon_thread

            result = await in_daemon_thread(method, own)
            result = await apart(lambda: result) if isinstance(result, Awaitable) else result
        return replace(result, sample=sample) if isinstance(result, EvalResult) and result.sample is own else result

    def _checked(self, sample: EvalSample, given: Any) -> EvalResult:
        """What an evaluator gave, as a result whose scores are finite numbers, booleans, texts or ``None``."""
        if isinstance(given, Mapping):
            given = EvalResult(sample, given)
        if not isinstance(given, EvalResult) or not isinstance(given.scores, Mapping):
            wanted = "an EvalResult (or a mapping of metric to score)"
            found = "one without a mapping of scores" if isinstance(given, EvalResult) else type(given).__name__
            text = f"{self.name}.evaluate_sample must return {wanted}, not {found}"
            return EvalResult(sample, feedback=text, error="bad_result")
        scores: dict[str, Score] = {}
        unmeasured = dict(given.unmeasured)
        for metric, score in given.scores.items():
            checked = _score(score)
            if checked is None and score is not None:
                unmeasured.setdefault(str(metric), f"{str(score)[:80]!r} is no finite number")
            scores[str(metric)] = checked
        if given.error is None:
            unmeasured.update(missing(declared_metrics(self), scores, unmeasured))
        return EvalResult(given.sample, scores, given.feedback, given.error, unmeasured)


def _score(score: object) -> Score:
    if isinstance(score, bool | str):
        return score
    if type(score).__name__ in ("bool_", "bool"):  # numpy's
        return bool(score)
    return finite(score)
