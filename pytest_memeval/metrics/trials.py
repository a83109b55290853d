"""Figures of cases that were measured several times: averages, spread, pass rates, where the variance lies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pytest_memeval.metrics.open_values import shares_of
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.stats import LARGEST, MIN_CLUSTERS


def average_records(records: Sequence[SectionRecord]) -> SectionRecord:
    """One case's figures over its trials: numerators, denominators, counts and tables each averaged, so that a case
    weighs as much as one that was measured once. What a trial has no figure for counts as 0 there (a dimension that
    does not occur). Details are the first trial's. ValueError without any record."""
    if not records:
        raise ValueError("no trial to average")
    trials = len(records)
    names = dict.fromkeys(name for record in records for name in record.ratios)
    counts = dict.fromkeys(name for record in records for name in record.counts)
    tables = dict.fromkeys(name for record in records for name in record.tables)
    return SectionRecord(
        ratios={
            name: (
                math.fsum(record.ratios.get(name, (0, 0))[0] for record in records) / trials,
                math.fsum(record.ratios.get(name, (0, 0))[1] for record in records) / trials,
            )
            for name in names
        },
        counts={name: math.fsum(record.counts.get(name, 0) for record in records) / trials for name in counts},
        tables={name: _average_table([record.tables.get(name, {}) for record in records]) for name in tables},
        details=records[0].details,
        shares=tuple(sorted(shares_of(records))),
    )


def _average_table(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = sorted({key for table in tables for key in table})
    return {key: math.fsum(table.get(key, 0) for table in tables) / len(tables) for key in keys}


def pass_hat_k(passed: int, trials: int, k: int) -> float:
    """pass^k: the chance that ``k`` trials drawn from those made all passed, C(passed, k) / C(trials, k) (Yao et al.,
    *tau-bench*, 2024). In [0, 1]. ValueError unless 1 <= k <= trials and 0 <= passed <= trials."""
    _check_pass(passed, trials, k)
    return math.comb(passed, k) / math.comb(trials, k)


def pass_at_k(passed: int, trials: int, k: int) -> float:
    """pass@k: the chance that at least one of ``k`` trials drawn from those made passed,
    1 - C(trials - passed, k) / C(trials, k) (Chen et al., *Evaluating Large Language Models Trained on Code*, 2021)."""
    _check_pass(passed, trials, k)
    return 1.0 - math.comb(trials - passed, k) / math.comb(trials, k)


def _check_pass(passed: int, trials: int, k: int) -> None:
    if not (1 <= k <= trials and 0 <= passed <= trials):
        raise ValueError(f"no pass rate of {k} from {trials} trials of which {passed} passed")


def pair_agreement(trials: Sequence[Collection[tuple[Any, Any]]]) -> tuple[float, float]:
    """How alike groupings are, as (numerator, denominator) of a mean of F1: over every two trials,
    2 x pairs grouped in both / pairs grouped in either of them. Two trials that group nothing agree, but say nothing:
    they are left out. ``trials`` holds each trial's grouped pairs."""
    total, count = 0.0, 0
    for first, second in combinations((set(trial) for trial in trials), 2):
        if first or second:
            total += 2 * len(first & second) / (len(first) + len(second))
            count += 1
    return total, float(count)


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Where a ratio of sums over cases gets its variance from.

    ``between`` is the variance of a case's expected share, ``within`` that of one trial about it, both in the units of
    the squared metric; ``error`` is the standard error of the value, ``error_twice_cases`` and ``error_twice_trials``
    what it would be with twice the cases, or twice the trials of each.
    """

    value: float
    cases: int
    trials: int
    between: float
    within: float
    error: float
    error_twice_cases: float
    error_twice_trials: float

    @property
    def share_within(self) -> float | None:
        """The part of the value's variance that comes from trials, in [0, 1]; ``None`` where nothing varies."""
        noise = self.within / self.trials
        return noise / (self.between + noise) if self.between + noise else None

    @property
    def advice(self) -> str:
        """``cases`` or ``trials``: more of which narrows the interval more; ``none`` where nothing varies. New cases
        bring new trials with them, so trials are only named where they are as good to within a twentieth."""
        if not self.error:
            return "none"
        return "trials" if self.error_twice_trials <= 1.05 * self.error_twice_cases else "cases"


def split_variance(figures: Sequence[Sequence[tuple[float, float]]]) -> VarianceSplit | None:
    """One-way analysis of variance of a ratio of sums, by its linearised residuals (Cochran, *Sampling Techniques*,
    1977, ch. 6; Searle et al., *Variance Components*, 1992, ch. 3).

    ``figures`` holds for each case each trial's (numerator, denominator); all cases need the same number of trials. The
    residual of a trial is (numerator - R x denominator) / mean denominator. A negative estimate of ``between`` is 0.
    ``None`` with fewer than 5 cases that have a denominator, fewer than 2 trials, or numbers that are not finite.
    """
    used = [case for case in figures if any(denominator for _, denominator in case)]
    trials = len(used[0]) if used else 0
    numbers = [number for case in used for pair in case for number in pair]
    if len(used) < MIN_CLUSTERS or trials < 2 or not all(abs(number) <= LARGEST for number in numbers):
        return None
    if any(len(case) != trials for case in used):
        raise ValueError("cases with different numbers of trials")
    cases = len(used)
    bottom = math.fsum(denominator for case in used for _, denominator in case)
    value = math.fsum(numerator for case in used for numerator, _ in case) / bottom
    mean = bottom / (cases * trials)
    residuals = [[(numerator - value * denominator) / mean for numerator, denominator in case] for case in used]
    averages = [math.fsum(case) / trials for case in residuals]
    squares = math.fsum((one - average) ** 2 for case, average in zip(residuals, averages, strict=True) for one in case)
    within = squares / (cases * (trials - 1))
    of_averages = math.fsum(average**2 for average in averages) / (cases - 1)
    between = max(0.0, of_averages - within / trials)
    error = math.sqrt((between + within / trials) / cases)
    return VarianceSplit(
        value=value,
        cases=cases,
        trials=trials,
        between=between,
        within=within,
        error=error,
        error_twice_cases=error / math.sqrt(2),
        error_twice_trials=math.sqrt((between + within / (2 * trials)) / cases),
    )
