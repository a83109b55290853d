"""What the case sets of a stored run can tell apart, metric by metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_memeval.case_counts import matches
from pytest_memeval.compare.pairing import Measurement, case_name, measured
from pytest_memeval.metrics.paired import Statistic
from pytest_memeval.metrics.power import (
    Spread,
    clusters_needed,
    detectable_difference,
    difference_spread,
    gate_margin,
    value_spread,
)
from pytest_memeval.metrics.stats import MIN_CLUSTERS, Ratio
from pytest_memeval.metrics.thresholds import MetricPath, parse_path
from pytest_memeval.report.reader import records_of
from pytest_memeval.results import CaseResult

#: Differences for which the cases needed are told, unless others are asked for.
DIFFERENCES = (0.02, 0.05, 0.1)


@dataclass(frozen=True, slots=True)
class MetricPower:
    """One metric of one case set.

    ``unpaired`` is the difference that is found if two runs' answers had nothing in common but the cases' number: an
    upper bound, known from one run. ``paired`` is the one for two runs of the same cases, from a second run's answers.
    ``margin`` is how far beyond its threshold the true value has to be for a gate to hold. All in the metric's unit,
    ``None`` where ``reason`` says why. ``needed`` maps a wanted difference to the cases that find it (by ``paired``
    where it is known), ``None`` where no number does.
    """

    scope: str
    metric: str
    levels: tuple[str, ...]
    value: float | None
    clusters: int
    unpaired: float | None = None
    paired: float | None = None
    margin: float | None = None
    needed: Mapping[str, int | None] = field(default_factory=dict)
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "levels": list(self.levels), "needed": dict(self.needed)}


@dataclass(frozen=True, slots=True)
class Question:
    """How sure to be: a true difference is found with probability ``power`` by a two-sided test at level ``alpha``."""

    power: float = 0.8
    alpha: float = 0.05
    differences: tuple[float, ...] = DIFFERENCES


def gated_metrics(report: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Case set → metric → levels of the gates on it, in the report's order, without those that do not apply."""
    found: dict[str, dict[str, list[str]]] = {}
    for gate in report.get("gates") or ():
        if gate["status"] != "not_applicable" and not str(gate["metric"]).startswith("diff:"):
            levels = found.setdefault(gate["scope"], {}).setdefault(gate["metric"], [])
            if gate["level"] not in levels:
                levels.append(gate["level"])
    return found


def set_power(
    report: Mapping[str, Any],
    other: Mapping[str, Any] | None = None,
    *,
    metrics: Sequence[str] = (),
    question: Question | None = None,
) -> list[MetricPower]:
    """The power of every case set of ``report`` for its gated metrics, or for ``metrics``.

    ``other`` is a run of the same cases whose answers differ (another prompt version): from both follows how much of
    the spread pairing takes away. ThresholdError for a metric that cannot be read.
    """
    asked = question or Question()
    gated = gated_metrics(report)
    mine = _by_set(records_of(report))
    theirs = {case_name(record): record for record in records_of(other)} if other is not None else {}
    found = []
    for scope, records in mine.items():
        named = gated.get(scope, {})
        for metric in metrics or named:
            path = parse_path(metric)
            found.append(_metric_power(scope, path, tuple(named.get(metric, ())), records, theirs, asked))
    return found


def _by_set(records: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    found: dict[str, list[CaseResult]] = {}
    for record in records:
        found.setdefault(record.set, []).append(record)
    return dict(sorted(found.items()))


def _metric_power(
    scope: str,
    path: MetricPath,
    levels: tuple[str, ...],
    records: Sequence[CaseResult],
    others: Mapping[str, CaseResult],
    asked: Question,
) -> MetricPower:
    chosen = [record for record in records if matches(record, path.filters)]
    own = [(record, counts) for record in chosen if (counts := measured(record, path.section, path.name)) is not None]
    spread = _value_spread(own)
    plain = MetricPower(scope, str(path), levels, spread.value, spread.clusters)
    if spread.deviation is None:
        return _without(plain, spread)
    paired = _paired_spread(own, path, others)
    both = None if paired is None else paired.deviation
    unpaired = math.sqrt(2) * spread.deviation
    certainty = {"power": asked.power, "alpha": asked.alpha}
    best = unpaired if both is None else both
    return MetricPower(
        scope,
        str(path),
        levels,
        spread.value,
        spread.clusters,
        unpaired=detectable_difference(unpaired, spread.clusters, **certainty),
        paired=None if paired is None or both is None else detectable_difference(both, paired.clusters, **certainty),
        margin=gate_margin(spread.deviation, spread.clusters, power=asked.power),
        needed={f"{wanted:g}": clusters_needed(best, wanted, **certainty) for wanted in asked.differences},
        reason=None if both is not None or not others else _why_not_paired(paired),
    )


def _without(plain: MetricPower, spread: Spread) -> MetricPower:
    if spread.value is None:
        reason = "nothing to measure"
    elif spread.clusters < MIN_CLUSTERS:
        reason = f"fewer than {MIN_CLUSTERS} cases measured"
    else:
        reason = "all cases agree: their spread says nothing"
    return MetricPower(plain.scope, plain.metric, plain.levels, plain.value, plain.clusters, reason=reason)


def _why_not_paired(paired: Spread | None) -> str:
    if paired is None:
        return "the second run measured none of these cases"
    return "too few cases in both runs" if paired.clusters < MIN_CLUSTERS else "both runs gave the same in every case"


def _value_spread(own: Sequence[tuple[CaseResult, Measurement]]) -> Spread:
    if not own:
        return Spread(None, None, 0)
    return value_spread(_statistic([counts for _, counts in own]), [_cluster(record) for record, _ in own])


def _paired_spread(
    own: Sequence[tuple[CaseResult, Measurement]], path: MetricPath, others: Mapping[str, CaseResult]
) -> Spread | None:
    pairs = []
    for record, counts in own:
        other = others.get(case_name(record))
        if other is not None and other.content_hash == record.content_hash:
            second = measured(other, path.section, path.name)
            if second is not None:
                pairs.append((record, counts, second))
    if not pairs:
        return None
    return difference_spread(
        _statistic([first for _, first, _ in pairs]),
        _statistic([second for _, _, second in pairs]),
        [_cluster(record) for record, _, _ in pairs],
    )


def _statistic(measurements: Sequence[Measurement]) -> Statistic:
    return tuple(
        Ratio([one[at][0] for one in measurements], [one[at][1] for one in measurements], -math.inf, None)
        for at in range(len(measurements[0]))
    )


def _cluster(record: CaseResult) -> str:
    return f"{record.set}::{record.cluster or record.case_id}"
