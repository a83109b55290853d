"""What a RAG evaluation is about: samples, results, data sets, summaries. Plain frozen data, no chat model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A number is averaged, a boolean is an assertion (its mean is the share that held), a text is a label (counted),
#: ``None`` was not measured.
Score = float | bool | str | None


@dataclass(frozen=True)
class EvalSample:
    """One question to a retrieval-augmented system and what it did.

    ``context`` holds the retrieved passages, best first. ``response`` is the system's answer, ``ground_truth`` the
    right one, ``reference_contexts`` the passages that should have been retrieved; each is ``None`` where it is not
    known. ``meta`` is the user's; ``meta["group"]`` names what samples share (a document), so that intervals are over
    such groups. ``id`` names the sample in messages.
    """

    query: str
    context: Sequence[str] = ()
    response: str | None = None
    ground_truth: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    reference_contexts: Sequence[str] | None = None
    id: str | None = None


@dataclass(frozen=True)
class EvalResult:
    """One evaluated sample.

    ``scores`` maps metric → :data:`Score`. ``feedback`` is for people; where the sample could not be evaluated it is
    the error's text and ``error`` a short stable word for its kind. ``unmeasured`` says of single metrics why they have
    no score while others do.
    """

    sample: EvalSample
    scores: Mapping[str, Score] = field(default_factory=dict)
    feedback: str | None = None
    error: str | None = None
    unmeasured: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EvalDataset:
    """Samples with a name for reports. Its length is the number of samples; iterating gives them in order."""

    samples: Sequence[EvalSample]
    name: str = "dataset"
    description: str = ""

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[EvalSample]:
        return iter(self.samples)


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
        from pytest_memeval.rag.summary import summarize

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
