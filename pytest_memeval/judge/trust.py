"""How far a judge's verdicts can be trusted, and what an accuracy by them is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.judge.controls import RIGHT, WRONG, Control, ControlQuestion, ControlSet, make_controls
from pytest_memeval.judge.verdict import RIGHT_FROM, JudgeError
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.metrics.distributions import wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_memeval.judge.protocol import NamedJudge

#: A judge whose sensitivity or specificity may be lower than this is not trustworthy.
LEAST_BOUND = 0.8
#: With fewer controls of a kind an accuracy is not corrected.
LEAST_CONTROLS = 50
#: Nor where sensitivity and specificity add up to no more than this: a coin has 1.
LEAST_SUM = 1.1
MIN_CLUSTERS = 5
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class ControlOutcome:
    """What the judge said of a control: ``accepted`` is whether it took it for right, ``None`` for no verdict."""

    control: Control
    accepted: bool | None
    error: str | None = None


async def ask_controls(judge: NamedJudge, controls: Sequence[Control], *, concurrency: int = 8) -> list[ControlOutcome]:
    """The judge's verdict on each control, in their order. A judge error is an outcome without a verdict."""
    slots = asyncio.Semaphore(concurrency)

    async def one(control: Control) -> ControlOutcome:
        async with slots:
            try:
                verdict = await judge.judge(
                    control.question,
                    control.truth,
                    control.prediction,
                    control.mode,
                    question_date=control.question_date,
                )
            except JudgeError as error:
                return ControlOutcome(control, None, f"{error.kind}: {error}")
        return ControlOutcome(control, verdict.right)

    return await asyncio.gather(*(one(control) for control in controls))


@dataclass(frozen=True, slots=True)
class Trust:
    """A judge's sensitivity (share of right controls taken for right) and specificity (share of wrong ones taken for
    wrong), each with Wilson's 95 % interval over distinct questions; ``None`` without controls of the kind.

    ``trustworthy`` is ``None`` where a kind has no verdict at all, false where a lower bound is below 0.8.
    """

    outcomes: tuple[ControlOutcome, ...]
    skipped: dict[str, int]
    wanted: int
    seed: int

    def table(self, kind: str) -> list[tuple[int, int]]:
        """(taken for what they are, judged) of a kind's controls, a pair a question, by question."""
        found: dict[tuple[str, str], list[int]] = {}
        for outcome in self.outcomes:
            control = outcome.control
            if control.kind == kind and outcome.accepted is not None:
                row = found.setdefault((control.question_id, control.question), [0, 0])
                row[0] += outcome.accepted is (kind == RIGHT)
                row[1] += 1
        return [(hits, count) for _, (hits, count) in sorted(found.items())]

    def _rate(self, kind: str) -> dict[str, Any]:
        table = self.table(kind)
        count = sum(row[1] for row in table)
        errors = sum(o.control.kind == kind and o.accepted is None for o in self.outcomes)
        if not count:
            return {"value": None, "interval": None, "n": 0, "questions": 0, "errors": errors}
        value = sum(row[0] for row in table) / count
        # Answers to one question are no independent draws: the interval is as wide as the questions make it.
        bounds = wilson(value * len(table), len(table))
        interval = None if bounds is None else list(bounds)
        return {"value": value, "interval": interval, "n": count, "questions": len(table), "errors": errors}

    @property
    def sensitivity(self) -> dict[str, Any]:
        return self._rate(RIGHT)

    @property
    def specificity(self) -> dict[str, Any]:
        return self._rate(WRONG)

    @property
    def trustworthy(self) -> bool | None:
        bounds = [rate["interval"] for rate in (self.sensitivity, self.specificity)]
        if any(bound is None for bound in bounds):
            return None
        return all(bound[0] >= LEAST_BOUND for bound in bounds)

    def to_json(self) -> dict[str, Any]:
        """The report's ``judge.controls``: numbers and names only, no text of any answer."""
        return {
            "wanted": self.wanted,
            "seed": self.seed,
            "sensitivity": self.sensitivity,
            "specificity": self.specificity,
            "least": LEAST_BOUND,
            "trustworthy": self.trustworthy,
            "by_type": self._counts("question_type"),
            "by_variant": self._counts("variant"),
            "skipped": dict(self.skipped),
        }

    def _counts(self, field: str) -> dict[str, dict[str, dict[str, int]]]:
        """Value of ``field`` → kind → ``{judged, as_expected, errors}``."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for outcome in self.outcomes:
            control = outcome.control
            row = found.setdefault(str(getattr(control, field)), {}).setdefault(
                control.kind, {"judged": 0, "as_expected": 0, "errors": 0}
            )
            row["errors"] += outcome.accepted is None
            row["judged"] += outcome.accepted is not None
            row["as_expected"] += outcome.accepted is (control.kind == RIGHT)
        return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def check_judge(
    judge: NamedJudge, questions: Sequence[ControlQuestion], wanted: int, *, seed: int = 0, concurrency: int = 8
) -> Trust:
    """Make ``wanted`` right and wrong controls of these questions and ask the judge about them; blocks. ``to_json`` of
    the result is what a report holds as ``judge.controls``. Without a question that gives any, nothing is asked."""
    controls = make_controls(questions, wanted, seed=seed)
    return trust_of(controls, run_sync(ask_controls(judge, controls.controls, concurrency=concurrency)))


def trust_of(controls: ControlSet, outcomes: Sequence[ControlOutcome]) -> Trust:
    """What the outcomes of a set of controls say of the judge."""
    return Trust(tuple(outcomes), dict(controls.skipped), controls.wanted, controls.seed)


@dataclass(frozen=True, slots=True)
class CorrectedAccuracy:
    """An accuracy by a judge's verdicts: ``raw``, the share of answers that it took for right, and ``value``, what is
    left when its own mistakes are taken out, (raw + sp − 1) / (se + sp − 1) clipped to [0, 1] (Rogan and Gladen's
    estimator), with a bootstrap interval. ``reason`` says why there is no value, or no interval."""

    raw: float | None
    value: float | None
    interval: tuple[float, float] | None
    n: int
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        interval = None if self.interval is None else list(self.interval)
        return {"raw": self.raw, "value": self.value, "interval": interval, "n": self.n, "reason": self.reason}


def corrected_accuracy(
    scores: Sequence[float | None],
    trust: Trust,
    *,
    clusters: Sequence[str] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> CorrectedAccuracy:
    """The judge-corrected accuracy of answers with these scores (right from 0.5 on; ``None``: not judged, left out).

    ``clusters`` names each answer's conversation (default: each answer is its own). Pass the scores of modes that can
    be controlled, no others (:func:`~pytest_memeval.judge.controls.can_be_controlled`). The interval is the percentile
    bootstrap over clusters of answers and, apart, over questions of right and of wrong controls; resamples in which the
    judge is no better than a coin are left out. ValueError for lists of unequal length.
    """
    names = [str(place) for place in range(len(scores))] if clusters is None else list(clusters)
    if len(names) != len(scores):
        raise ValueError(f"{len(scores)} scores and {len(names)} clusters")
    table: dict[str, list[float]] = {}
    for score, name in zip(scores, names, strict=True):
        if score is not None:
            row = table.setdefault(name, [0.0, 0.0])
            row[0] += score >= RIGHT_FROM
            row[1] += 1
    count = int(sum(row[1] for row in table.values()))
    if not count:
        return CorrectedAccuracy(None, None, None, 0, "nothing was judged")
    raw = sum(row[0] for row in table.values()) / count
    right, wrong = trust.sensitivity, trust.specificity
    few = [kind for kind, rate in ((RIGHT, right), (WRONG, wrong)) if rate["n"] < LEAST_CONTROLS]
    if few:
        return CorrectedAccuracy(raw, None, None, count, f"fewer than {LEAST_CONTROLS} {' and '.join(few)} controls")
    if right["value"] + wrong["value"] <= LEAST_SUM:
        return CorrectedAccuracy(raw, None, None, count, f"sensitivity and specificity add up to {LEAST_SUM} or less")
    value = _corrected(raw, right["value"], wrong["value"])
    if len(table) < MIN_CLUSTERS:
        return CorrectedAccuracy(raw, value, None, count, f"fewer than {MIN_CLUSTERS} clusters")
    answers = [(row[0], row[1]) for _, row in sorted(table.items())]
    interval = _interval(answers, trust.table(RIGHT), trust.table(WRONG), seed, resamples)
    return CorrectedAccuracy(raw, value, interval, count)


def _corrected(raw: float, sensitivity: float, specificity: float) -> float:
    return min(1.0, max(0.0, (raw + specificity - 1) / (sensitivity + specificity - 1)))


def _interval(
    answers: Sequence[tuple[float, float]],
    right: Sequence[tuple[float, float]],
    wrong: Sequence[tuple[float, float]],
    seed: int,
    resamples: int,
) -> tuple[float, float]:
    import numpy as np

    raw = _resampled(answers, seed, resamples)
    sensitivity = _resampled(right, seed + 1, resamples)
    specificity = _resampled(wrong, seed + 2, resamples)
    better = sensitivity + specificity > 1
    values = (raw + specificity - 1)[better] / (sensitivity + specificity - 1)[better]
    low, high = np.percentile(np.clip(values, 0, 1), [2.5, 97.5])
    return float(low), float(high)


def _resampled(table: Sequence[tuple[float, float]], seed: int, resamples: int) -> NDArray[np.float64]:
    import numpy as np

    from pytest_memeval.metrics.resampling import resampled_sums

    sums = resampled_sums(np.array(table, dtype=np.float64), seed, resamples)
    shares: NDArray[np.float64] = sums[:, 0] / sums[:, 1]
    return shares
