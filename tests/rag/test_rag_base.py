"""The evaluator base: concurrency, time-outs, retries, order, errors, cancellation; what a summary says."""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.rag.base import BaseEvaluator, EvalDataset, EvalResult, EvalSample, SummaryResult
from pytest_memeval.rag.summary import quantile, summarize


def samples(count: int) -> list[EvalSample]:
    return [EvalSample(f"q{number}", id=str(number)) for number in range(count)]


class Flying(BaseEvaluator):
    """Counts how many of its samples are under way."""

    retry_wait = 0.0

    def __init__(self, seconds: float = 0.005, **options: Any) -> None:
        super().__init__(**options)
        self.seconds, self.now, self.most, self.begun, self.ended = seconds, 0, 0, 0, 0

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        self.begun += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            # Later samples are done sooner, so that order is no accident.
            await asyncio.sleep(self.seconds / (1 + int(sample.id or 0)))
        finally:
            self.now -= 1
            self.ended += 1
        return EvalResult(sample, {"number": int(sample.id or 0)})


@pytest.mark.parametrize("size", [1, 3, 8])
def test_as_many_as_allowed_are_under_way_and_order_is_kept(size: int) -> None:
    evaluator = Flying(max_concurrency=size)
    summary = evaluator.evaluate(EvalDataset(samples(20), "flight"))
    assert evaluator.most == size
    assert [result.scores["number"] for result in summary.results] == list(range(20))


def test_a_limit_of_the_evaluators_own_is_told_from_the_default() -> None:
    class Slow(Flying):
        max_concurrency = 8

    assert (Flying().own_concurrency, Flying(max_concurrency=3).own_concurrency, Slow().own_concurrency) == (None, 3, 8)


def test_eight_at_once_by_default() -> None:
    evaluator = Flying()
    evaluator.evaluate(EvalDataset(samples(30)))
    assert evaluator.most == 8


def test_one_sample_in_five_failing_leaves_the_right_n_and_means() -> None:
    class Fails(BaseEvaluator):
        metrics = ("score", "other")

        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            number = int(sample.id or 0)
            if number % 5 == 0:
                raise ValueError(f"cannot read {sample.query}")
            return EvalResult(sample, {"score": number, "other": 1.0 if number % 2 else None})

    summary = Fails().evaluate(EvalDataset(samples(20), "fifth"))
    measured = [number for number in range(20) if number % 5]
    score, other = summary.metrics["score"], summary.metrics["other"]
    assert (summary.sample_count, summary.errors) == (20, 4)
    assert (score.n, score.errors, score.unmeasured) == (16, 4, 0)
    assert summary.mean_scores["score"] == pytest.approx(statistics.mean(measured))
    assert (score.median, score.std) == (statistics.median(measured), pytest.approx(statistics.stdev(measured)))
    assert (other.n, other.errors, other.unmeasured) == (8, 4, 8)
    failed = summary.results[5]
    assert (failed.error, failed.scores) == ("evaluator_exception", {})
    assert re.fullmatch(r"ValueError: cannot read q5 \(\S+\.py:\d+ in evaluate_sample\)", failed.feedback or "")
    assert "4 of 20 samples failed" in summary.warnings[0]


def test_a_declared_metric_that_a_result_lacks_is_an_error_of_it() -> None:
    class Lacks(BaseEvaluator):
        metrics = ("words", "polite", "mood")

        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            number = int(sample.id or 0)
            if number == 3:
                return EvalResult(sample, error="refused", feedback="not today")
            scores = [{"words": 1, "polite": None, "mood": "calm"}, {"wordz": 2, "mood": "calm"}, {}][number]
            return EvalResult(sample, scores)

    summary = Lacks().evaluate(EvalDataset(samples(4), "set"))
    words, polite = summary.metrics["words"], summary.metrics["polite"]
    assert (words.n, words.errors, words.unmeasured, words.mean) == (1, 3, 0, 1)
    assert (polite.n, polite.errors, polite.unmeasured) == (0, 3, 1)
    assert sorted(summary.results[2].unmeasured) == ["mood", "polite", "words"]
    assert "but has 'wordz', which is not declared" in summary.results[1].unmeasured["words"]
    # A sample that failed as a whole has one reason, and that is its own.
    assert summary.results[3].unmeasured == {}
    assert (
        summary.warnings[-1] == "wordz: Lacks gives it, and does not declare it; the nearest that it declares is words"
    )


def test_a_failure_is_tried_again_where_that_may_help() -> None:
    attempts: dict[str, int] = {}

    class Flaky(BaseEvaluator):
        retries, retry_wait = 2, 0.0

        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            name = sample.id or ""
            attempts[name] = attempts.get(name, 0) + 1
            if name == "0" and attempts[name] < 3:
                raise ConnectionError("away")
            if name == "1":
                raise KeyError("a bug")
            if name == "2":
                error: Any = OSError("asked three times")
                error.attempts = 3
                raise error
            if name == "3":
                raise ConnectionError("away for good")
            return EvalResult(sample, {"ok": True})

    summary = Flaky().evaluate(EvalDataset(samples(4)))
    assert attempts == {"0": 3, "1": 1, "2": 1, "3": 3}
    assert [result.error for result in summary.results] == [None, *["evaluator_exception"] * 3]
    assert summary.metrics["ok"].is_assertion


def test_a_sample_that_hangs_ends_at_its_limit_and_the_others_count() -> None:
    class Hangs(BaseEvaluator):
        sample_timeout = 0.05

        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            if sample.id == "1":
                await asyncio.Event().wait()
            if sample.id == "2":
                raise TimeoutError("its own")
            if sample.id == "3":
                raise asyncio.CancelledError("from inside")
            return EvalResult(sample, {"ok": 1})

    summary = Hangs(retries=0).evaluate(EvalDataset(samples(4)))
    assert [result.error for result in summary.results] == [None, "timeout", "timeout", "cancelled"]
    assert "0.05 s" in str(summary.results[1].feedback)
    assert str(summary.results[2].feedback).startswith("TimeoutError: its own (")


def test_cancelling_leaves_nothing_behind() -> None:
    evaluator = Flying(seconds=30, max_concurrency=4)

    async def cancelled() -> set[str]:
        work = asyncio.create_task(evaluator.evaluate_dataset(EvalDataset(samples(50))))
        while evaluator.begun < 4:
            await asyncio.sleep(0.001)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(cancelled()) == set()
    assert (evaluator.begun, evaluator.ended, evaluator.now) == (4, 4, 0)


def test_an_interrupt_inside_a_sample_passes_and_stops_the_others() -> None:
    class Interrupted(Flying):
        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            if sample.id == "2":
                raise KeyboardInterrupt
            return await super().evaluate_sample(sample)

    evaluator = Interrupted(seconds=30)
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate(EvalDataset(samples(10)))
    assert evaluator.now == 0


def test_inside_a_loop_evaluate_says_what_to_write() -> None:
    async def inside() -> None:
        with pytest.raises(RuntimeError, match=r"await evaluator\.evaluate_dataset\(dataset\)"):
            Flying().evaluate(EvalDataset(samples(1)))
        assert (await Flying().evaluate_dataset(EvalDataset(samples(2)))).sample_count == 2

    asyncio.run(inside())


def test_a_plain_method_a_mapping_and_numpy_scores_are_taken() -> None:
    import numpy as np

    class Plain(BaseEvaluator):
        def evaluate_sample(self, sample: EvalSample) -> Any:
            return {
                "float": np.float32(0.5),
                "bool": np.bool_(True),
                "nan": float("nan"),
                "label": "good",
                "none": None,
            }

    summary = Plain().evaluate(EvalDataset(samples(3)))
    assert summary.mean_scores == {"float": 0.5, "bool": 1.0, "nan": None, "none": None}
    assert summary.labels == {"label": {"good": 3}}
    assert (summary.metrics["nan"].errors, summary.metrics["none"].unmeasured) == (3, 3)
    assert summary.results[0].scores["bool"] is True


def test_what_is_no_result_is_an_error() -> None:
    class Wrong(BaseEvaluator):
        async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
            return 0.7  # type: ignore[return-value]  # that is the fault

    result = Wrong().evaluate(EvalDataset(samples(1))).results[0]
    assert (result.error, "must return an EvalResult" in str(result.feedback)) == ("bad_result", True)


def test_progress_is_told_after_each_sample() -> None:
    told: list[tuple[int, int]] = []
    Flying(progress=lambda done, total: told.append((done, total))).evaluate(EvalDataset(samples(5)))
    assert told == [(number, 5) for number in range(1, 6)]


def test_an_empty_data_set_gives_nothing_and_a_warning() -> None:
    with pytest.warns(UserWarning, match="empty"):
        summary = Flying().evaluate(EvalDataset([], "void"))
    assert (summary.sample_count, summary.mean_scores, summary.results) == (0, {}, ())


def test_a_bad_concurrency_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Flying(max_concurrency=0).evaluate(EvalDataset(samples(1)))


def test_merging_batches_equals_the_whole() -> None:
    results = [
        EvalResult(sample, {"x": number / 7}) if number % 4 else EvalResult(sample, feedback="no", error="down")
        for number, sample in enumerate(samples(40))
    ]
    whole = summarize("set", results)
    merged = SummaryResult.merge([summarize("set", results[start : start + 9]) for start in range(0, 40, 9)])
    assert merged == whole
    assert SummaryResult.merge([summarize("a", results[:5]), summarize("b", results[5:])]).dataset_name == "a + b"
    with pytest.raises(ValueError, match="no summary"):
        SummaryResult.merge([])


def test_a_summary_of_ones_own() -> None:
    class Weighted(Flying):
        def _summarize(self, name: str, results: Any) -> SummaryResult:
            return super()._summarize(name.upper(), [result for result in results if result.scores["number"] > 2])

    summary = Weighted().evaluate(EvalDataset(samples(5), "few"))
    assert (summary.dataset_name, summary.sample_count) == ("FEW", 2)


def test_intervals_are_over_groups_and_assertions_get_wilsons() -> None:
    def results(groups: int, scores: list[Any]) -> list[EvalResult]:
        return [
            EvalResult(EvalSample("q", meta={"group": number % groups}), {"x": score})
            for number, score in enumerate(scores)
        ]

    assert summarize("s", results(2, [0.1, 0.9] * 10)).metrics["x"].interval_reason == "fewer than 5 clusters"
    low, high = summarize("s", results(20, [True] * 15 + [False] * 5)).metrics["x"].interval or (0, 0)
    assert (low, high) == pytest.approx((0.5313, 0.8881), abs=1e-3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_are_numpys(numbers: list[float], share: float) -> None:
    import numpy as np

    assert quantile(sorted(numbers), share) == pytest.approx(float(np.quantile(numbers, share)), abs=1e-6)


@given(st.lists(st.one_of(st.none(), st.floats(), st.booleans(), st.integers(-5, 5)), max_size=30))
def test_no_figure_is_ever_not_finite(scores: list[Any]) -> None:
    results = [EvalResult(sample, {"x": score}) for sample, score in zip(samples(len(scores)), scores, strict=True)]
    if not results:
        return
    metric = summarize("set", results).metrics["x"]
    numbers = [metric.mean, metric.median, metric.std, *metric.quantiles.values(), *(metric.interval or ())]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert metric.n + metric.errors + metric.unmeasured == len(scores)


def test_the_base_imports_no_chat_model() -> None:
    code = (
        "import sys, pytest_memeval.rag.base, pytest_memeval.rag.types;"
        "bad = [m for m in sys.modules if m == 'openai' or m.startswith('pytest_memeval.llm.') "
        "and m != 'pytest_memeval.llm.redaction'];"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
