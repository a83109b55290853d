"""From evaluated samples to a data set's figures."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_memeval.rag.types import EvalResult

#: Name of a quantile → its share.
QUANTILES = {"p05": 0.05, "p25": 0.25, "p75": 0.75, "p95": 0.95}
#: A figure beyond this is no measurement: sums of it would not stay finite.
LARGEST = 1e100


@dataclass(frozen=True)
class MetricSummary:
    """One metric over a data set.

    ``n`` counts the samples with a score, ``errors`` those in which it failed with an error, ``unmeasured`` those in
    which it had nothing to measure or gave no finite number. ``mean``, ``median``, ``std`` (n − 1 in the denominator)
    and ``quantiles`` (5 %, 25 %, 75 %, 95 %, linear between neighbours) are over the n, ``None`` without any (``std``
    below two). ``interval`` is the mean's 95 % interval, ``None`` with the reason in ``interval_reason``.
    ``is_assertion``: every score was a boolean.
    """

    n: int
    errors: int
    unmeasured: int
    mean: float | None
    median: float | None = None
    std: float | None = None
    quantiles: Mapping[str, float] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    interval_reason: str | None = None
    is_assertion: bool = False


@dataclass(frozen=True)
class SummaryResult:
    """A data set's evaluation. ``results`` are in the samples' order, failed ones included.

    ``mean_scores`` are over measured samples alone: metric → mean, ``None`` where no sample was measured. ``metrics``
    has the rest of each; ``labels`` counts the values of text scores. ``errors`` counts the samples that failed as a
    whole. ``warnings`` are sentences.
    """

    dataset_name: str
    sample_count: int
    mean_scores: Mapping[str, float | None]
    results: Sequence[EvalResult]
    metrics: Mapping[str, MetricSummary] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    errors: int = 0
    warnings: Sequence[str] = ()

    @classmethod
    def merge(cls, parts: Sequence[SummaryResult]) -> SummaryResult:
        """The summary of all parts' results, computed from the results and not from the parts' means.

        The name is the parts' own if they share it, else all of theirs. ValueError without a part.
        """
        if not parts:
            raise ValueError("there is no summary to merge")
        names = list(dict.fromkeys(part.dataset_name for part in parts))
        declared = list(dict.fromkeys(name for part in parts for name in (*part.metrics, *part.labels)))
        return summarize(" + ".join(names), [result for part in parts for result in part.results], declared)

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {'-' if metric.mean is None else f'{metric.mean:.3f}'} (n {metric.n}"
            + (f", {metric.errors} errors)" if metric.errors else ")")
            for name, metric in self.metrics.items()
        )
        return f"{self.dataset_name}: {self.sample_count} samples" + (f", {shown}" if shown else "")


def finite(score: object) -> float | None:
    """A score as a number: ``None`` for NaN, an infinity, an absurdly large number and everything that is none.

    Booleans are 0 and 1. Numbers of other libraries (numpy, Decimal) are taken as what ``float`` makes of them.
    """
    if score is None or isinstance(score, str | bytes):
        return None
    try:
        number = float(score)  # type: ignore[arg-type]  # what float refuses is caught
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= LARGEST else None  # false for NaN


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between neighbours (type 7 of Hyndman and Fan, 1996); ``ordered`` has at least one number."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def summarize(name: str, results: Sequence[EvalResult], declared: Iterable[str] = ()) -> SummaryResult:
    """The figures of ``results``: each metric over the samples in which it was measured.

    ``declared`` are metrics known beforehand: a sample that failed as a whole is an error of each of them, and of each
    that another sample has. No result at all: ``sample_count`` 0, empty means, and a warning.
    """
    names = list(dict.fromkeys([*declared, *(metric for result in results for metric in result.scores)]))
    names += [
        metric for metric in dict.fromkeys(m for result in results for m in result.unmeasured) if metric not in names
    ]
    failed = sum(result.error is not None for result in results)
    said: list[str] = []
    if not results:
        said.append(f"{name}: the data set is empty, so nothing was measured")
        warnings.warn(said[0], stacklevel=3)
        names = []
    labels = {metric: counts for metric in names if (counts := _label_counts(results, metric))}
    metrics = {metric: _metric(results, metric, failed) for metric in names if metric not in labels}
    said += [
        f"{metric}: {summary.errors} of {len(results)} samples failed, so its mean is over {summary.n}"
        for metric, summary in metrics.items()
        if summary.errors
    ]
    said += [
        f"{metric}: {numbers} of its scores are numbers and {sum(counts.values())} are labels; the labels are counted"
        for metric, counts in labels.items()
        if (numbers := sum(finite(result.scores.get(metric)) is not None for result in results))
    ]
    return SummaryResult(
        dataset_name=name,
        sample_count=len(results),
        mean_scores={metric: summary.mean for metric, summary in metrics.items()},
        results=tuple(results),
        metrics=metrics,
        labels=labels,
        errors=failed,
        warnings=tuple(said),
    )


def _label_counts(results: Sequence[EvalResult], metric: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for result in results:
        score = result.scores.get(metric)
        if isinstance(score, str):
            counts[score] = counts.get(score, 0) + 1
    return dict(sorted(counts.items()))


def _metric(results: Sequence[EvalResult], metric: str, failed: int) -> MetricSummary:
    measured: list[tuple[int, float]] = []
    errors, asserted = failed, True
    for position, result in enumerate(results):
        if result.error is not None:
            continue
        if metric in result.unmeasured and result.scores.get(metric) is None:
            errors += 1
            continue
        number = finite(result.scores.get(metric))
        if number is not None:
            measured.append((position, number))
            asserted = asserted and isinstance(result.scores[metric], bool)
    numbers = [number for _, number in measured]
    n = len(numbers)
    unmeasured = len(results) - n - errors
    if not n:
        return MetricSummary(0, errors, unmeasured, None, interval_reason="nothing to measure")
    ordered = sorted(numbers)
    interval, reason = _interval(results, measured, asserted)
    return MetricSummary(
        n=n,
        errors=errors,
        unmeasured=unmeasured,
        mean=math.fsum(numbers) / n,
        median=statistics.median(ordered),
        std=statistics.stdev(numbers) if n > 1 else None,
        quantiles={name: quantile(ordered, share) for name, share in QUANTILES.items()},
        interval=interval,
        interval_reason=reason,
        is_assertion=asserted,
    )


def _interval(
    results: Sequence[EvalResult], measured: Sequence[tuple[int, float]], asserted: bool
) -> tuple[tuple[float, float] | None, str | None]:
    from pytest_memeval.metrics.stats import ClusterBootstrap, Ratio

    clusters = []
    for position, result in enumerate(results):
        group = result.sample.meta.get("group")
        clusters.append(f"#{position:09}" if group is None else f"group {group}")
    numerators, denominators = [0.0] * len(results), [0.0] * len(results)
    for position, number in measured:
        numerators[position], denominators[position] = number, 1.0
    inside = all(0 <= number <= 1 for _, number in measured)
    low, high = (0.0, 1.0) if inside else (-math.inf, None)
    ratio = Ratio(numerators, denominators, low, high, proportion=asserted)
    estimate = ClusterBootstrap(clusters).estimates({"mean": ratio})["mean"]
    if estimate.low is None or estimate.high is None:
        return None, estimate.reason or "no interval"
    return (estimate.low, estimate.high), None
