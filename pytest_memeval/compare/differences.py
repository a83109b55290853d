"""Every metric of two reports over the cases that both measured: difference, interval, p value, wins and losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_memeval.aggregate import flat_value, whole
from pytest_memeval.case_counts import PRODUCTS
from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.model import ALPHA, Direction, FilePair, MetricDifference, Signal
from pytest_memeval.compare.pairing import (
    CasePair,
    Conditions,
    Measurement,
    Pairing,
    base_name,
    conditions_of,
    counted,
    metric_names,
    picker,
    total,
    value_of,
)
from pytest_memeval.metrics.catalog import METRICS, SECTIONS, metrics_of, spec_of
from pytest_memeval.metrics.paired import PairedComparison, PairedDifference, Statistic, holm
from pytest_memeval.metrics.stats import Ratio
from pytest_memeval.metrics.thresholds import MetricPath, ThresholdError, parse_path
from pytest_memeval.results import CaseResult

#: Figures of a case closer than this are equal.
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class _Found:
    """A metric's measurements in the pairs: those of both sides, and how many only one side has."""

    pairs: list[CasePair]
    a: list[Measurement]
    b: list[Measurement]
    lost: int
    gained: int
    #: Of the lost ones those that B scored all the same.
    absent: int = 0
    #: Cases that both measured and a setting of their file keeps out.
    held_back: int = 0
    #: What keeps all of them out.
    blocked: str | None = None


def metric_differences(
    pairing: Pairing, reports: tuple[Mapping[str, Any], Mapping[str, Any]], limits: Limits
) -> tuple[list[MetricDifference], list[MetricDifference], dict[str, int]]:
    """The plain metrics (with the counts), those with keys (per dimension, per action), and how many of each family
    were tested together. ``limits`` says which cases a metric must not be compared in."""
    records = [record for pair in pairing.pairs for record in (pair.a, pair.b)]
    everything = [*records, *pairing.only_a, *pairing.only_b]
    names = metric_names(everything, lambda record, section: record.sections[section].ratios)
    names = {(section, name) for section, name in names if not name.startswith("_")}
    for path, (one, two, _) in PRODUCTS.items():
        section, _, name = path.partition(".")
        if any(
            {one, two} <= record.sections[section].ratios.keys() for record in records if section in record.sections
        ):
            names.add((section, name))
    tested: dict[str, MetricDifference] = {}
    measured = _Measured(pairing, limits)
    found = {name: measured.find(*name) for name in sorted(names, key=_order)}
    results = _compare(pairing, found)
    for (section, name), own in found.items():
        path = f"{section}.{name}"
        tested[path] = _difference(section, name, own, results.get((section, name)), reports)
    adjusted, families = _adjust(list(tested.values()))
    plain = [one for one in adjusted if one.family == "metrics"]
    keyed = [one for one in adjusted if one.family != "metrics"]
    return [*plain, *_counts(pairing, everything, reports, limits)], keyed, families


def path_difference(pairing: Pairing, path: MetricPath) -> tuple[PairedDifference, int, int]:
    """One metric, over the cases that meet the path's filters; with how many cases both measured, and how many only
    A did. What must not be compared has been taken out of the pairing (:meth:`Limits.kept`)."""
    chosen = pairing.filtered(path.filters) if path.filters else pairing
    found = _Measured(chosen, Limits()).find(path.section, path.name)
    key = (path.section, path.name)
    result = _compare(chosen, {key: found}).get(key) or PairedDifference(None, reason="nothing to measure")
    low, high = _clipped(result, *_bounds(path.section, path.name))
    return replace(result, low=low, high=high), len(found.pairs), found.lost


class _Measured:
    """What the cases of a pairing measured. Metrics that count under the same conditions share the look at them."""

    def __init__(self, pairing: Pairing, limits: Limits) -> None:
        self._pairing, self._limits = pairing, limits
        self._files = sorted({pair.files for pair in pairing.pairs})
        self._counts: dict[Conditions, list[list[Mapping[str, tuple[float, float]]]]] = {}

    def find(self, section: str, name: str) -> _Found:
        """What the metric has to go by. Where it can be compared in no case, these are all that were measured."""
        path = f"{section}.{name}"
        held = {files: self._limits.setting_of(path, files) for files in self._files} if self._limits.of(path) else {}
        blocked = self._limits.everywhere(path, self._files)
        found = self._find(section, name, {} if blocked else held)
        if blocked is None and not found.pairs and found.held_back:
            blocked = next(filter(None, held.values()))
            found = self._find(section, name, {})
        return replace(found, blocked=blocked)

    def _find(self, section: str, name: str, held: Mapping[FilePair, str | None]) -> _Found:
        pick = picker(section, name)
        a, b, only_a, only_b = ([pick(counts) for counts in side] for side in self._sides(section, name))
        lost = sum(one is not None for one in only_a)
        gained = sum(one is not None for one in only_b)
        absent = held_back = 0
        found = _Found([], [], [], 0, 0)
        for pair, one, two in zip(self._pairing.pairs, a, b, strict=True):
            if held and held[pair.files] is not None:
                held_back += one is not None and two is not None
            elif one is not None and two is not None:
                found.pairs.append(pair)
                found.a.append(one)
                found.b.append(two)
            elif one is not None:
                lost += 1
                absent += pair.b.outcome == "scored"
            elif two is not None:
                gained += 1
        return replace(found, lost=lost, gained=gained, absent=absent, held_back=held_back)

    def _sides(self, section: str, name: str) -> list[list[Mapping[str, tuple[float, float]]]]:
        """The counts of A's and B's cases in the pairs, and of those that only A and only B has."""
        conditions = conditions_of(section, name)
        known = self._counts.get(conditions)
        if known is None:
            pairing, counts = self._pairing, conditions.counts
            known = self._counts[conditions] = [
                [counts(pair.a) for pair in pairing.pairs],
                [counts(pair.b) for pair in pairing.pairs],
                list(map(counts, pairing.only_a)),
                list(map(counts, pairing.only_b)),
            ]
        return known


def _compare(pairing: Pairing, found: Mapping[tuple[str, str], _Found]) -> dict[tuple[str, str], PairedDifference]:
    """All metrics over the same clusters in one go; a case that a metric was not measured in counts nothing there."""
    position = {pair.name: number for number, pair in enumerate(pairing.pairs)}
    comparison = PairedComparison([pair.cluster for pair in pairing.pairs])

    def statistic(own: _Found, side: Sequence[Measurement]) -> Statistic:
        ratios = []
        for at in range(len(side[0])):
            if len(side) == len(position):  # measured in all of them, in their order
                ratios.append(Ratio([one[at][0] for one in side], [one[at][1] for one in side]))
                continue
            numerators, denominators = [0.0] * len(position), [0.0] * len(position)
            for pair, measurement in zip(own.pairs, side, strict=True):
                numerators[position[pair.name]], denominators[position[pair.name]] = measurement[at]
            ratios.append(Ratio(numerators, denominators))
        return tuple(ratios)

    metrics = {
        f"{section}.{name}": (statistic(own, own.a), statistic(own, own.b))
        for (section, name), own in found.items()
        if own.pairs
    }
    results = comparison.differences(metrics)
    return {key: results[f"{key[0]}.{key[1]}"] for key in found if f"{key[0]}.{key[1]}" in results}


def _difference(
    section: str,
    name: str,
    found: _Found,
    result: PairedDifference | None,
    reports: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> MetricDifference:
    path = f"{section}.{name}"
    spec = spec_of(f"{section}.{base_name(name)}")
    better = spec.better if spec is not None else "higher"
    plain = MetricDifference(
        path=path,
        family=f"{section}.{base_name(name)}" if "." in name else "metrics",
        kind="ratio",
        better=better,
        value_a=total(found.a),
        value_b=total(found.b),
        whole_a=_reported(reports[0], path),
        whole_b=_reported(reports[1], path),
        cases=len(found.pairs),
        lost=found.lost,
        gained=found.gained,
        absent=found.absent,
        held_back=found.held_back,
    )
    if found.blocked is not None:
        return replace(plain, signal="incomparable", blocked_by=found.blocked)
    if result is None or result.difference is None:
        return plain
    low, high = _clipped(result, *_bounds(section, name))
    wins, ties, losses = _wins(found, better)
    return replace(
        plain,
        difference=result.difference,
        relative=_share(result.difference, plain.value_a),
        low=low,
        high=high,
        interval_reason=result.reason,
        p_value=result.p_value,
        p_method=result.method,
        clusters=result.clusters,
        differing=result.differing,
        wins=wins,
        ties=ties,
        losses=losses,
    )


def _share(difference: float | None, value: float | None) -> float | None:
    """The difference as a share of A's value; ``None`` where that is 0, or too small for the share to be a number."""
    if difference is None or not value:
        return None
    share = difference / abs(value)
    return share if math.isfinite(share) else None


def _bounds(section: str, name: str) -> tuple[float, float | None]:
    spec = METRICS.get(f"{section}.{base_name(name)}")
    return (-math.inf, None) if spec is None else (spec.low, spec.high)


def _clipped(result: PairedDifference, lowest: float, highest: float | None) -> tuple[float | None, float | None]:
    """A difference of two values within bounds lies within their distance."""
    if result.low is None or result.high is None or highest is None or not math.isfinite(lowest):
        return result.low, result.high
    reach = highest - lowest
    return max(-reach, result.low), min(reach, result.high)


def _wins(found: _Found, better: str) -> tuple[int, int, int]:
    """Cases in which B is better, equal, worse; those without a value on either side are none of them."""
    wins = ties = losses = 0
    for one, two in zip(map(value_of, found.a), map(value_of, found.b), strict=True):
        if one is None or two is None:
            continue
        apart = one - two if better == "lower" else two - one
        wins += apart > TIE
        losses += apart < -TIE
        ties += abs(apart) <= TIE
    return wins, ties, losses


def _adjust(metrics: Sequence[MetricDifference]) -> tuple[list[MetricDifference], dict[str, int]]:
    """Holm's adjustment within each family, and how many metrics each one has."""
    families: dict[str, list[int]] = {}
    for position, metric in enumerate(metrics):
        if metric.p_value is not None:
            families.setdefault(metric.family, []).append(position)
    result = [replace(metric, signal=metric.signal) for metric in metrics]
    for positions in families.values():
        for position, adjusted in zip(positions, holm([metrics[at].p_value for at in positions]), strict=True):
            metric = replace(metrics[position], holm=adjusted)
            signal = _signal(metric)
            result[position] = replace(metric, signal=signal, direction=direction_of(metric, signal))
    return result, {family: len(positions) for family, positions in families.items()}


def _signal(metric: MetricDifference) -> Signal:
    if metric.p_value is None or metric.holm is None:
        return metric.signal
    if not metric.differing:
        return "same"
    # No case is better or worse by itself: the ratio moved because some cases weigh more or less in it than before.
    if not metric.wins and not metric.losses:
        return "unclear"
    if metric.holm < ALPHA:
        return "clear"
    return "likely" if metric.p_value < ALPHA else "unclear"


def direction_of(metric: MetricDifference, signal: Signal) -> Direction:
    """Better or worse, for a difference that is more than noise. Where B lost cases it is never better."""
    if signal not in ("clear", "likely") or metric.better == "neither" or not metric.difference:
        return "none"
    good = (metric.difference > 0) == (metric.better == "higher")
    if not good:
        return "worse"
    return "coverage_lost" if metric.lost else "better"


def _counts(
    pairing: Pairing,
    records: Iterable[CaseResult],
    reports: tuple[Mapping[str, Any], Mapping[str, Any]],
    limits: Limits,
) -> list[MetricDifference]:
    """Sums over the cases that both counted; a count has no test."""
    files = sorted({pair.files for pair in pairing.pairs})
    names = metric_names(records, lambda record, section: record.sections[section].counts)
    result = []
    for section, name in sorted(names, key=_order):
        path = f"{section}.{name}"
        spec = METRICS.get(path)
        reason = limits.everywhere(path, files)
        pairs = pairing.pairs if reason else limits.kept(path, pairing).pairs
        both = [(counted(pair.a, section, name), counted(pair.b, section, name)) for pair in pairs]
        sums = [(one, two) for one, two in both if one is not None and two is not None]
        first, second = (whole(math.fsum(pair[side] for pair in sums)) if sums else None for side in (0, 1))
        apart = None if reason is not None or first is None or second is None else whole(second - first)
        signal: Signal = "incomparable" if reason else "unmeasured" if apart is None else "untested"
        result.append(
            MetricDifference(
                path=path,
                family="counts",
                kind="count",
                better=spec.better if spec is not None else "neither",
                value_a=first,
                value_b=second,
                whole_a=_reported(reports[0], path),
                whole_b=_reported(reports[1], path),
                difference=apart,
                relative=_share(apart, first),
                cases=len(sums),
                differing=sum(one != two for one, two in sums),
                lost=sum(one is not None and two is None for one, two in both),
                gained=sum(one is None and two is not None for one, two in both),
                signal="same" if signal == "untested" and all(one == two for one, two in sums) else signal,
                blocked_by=reason,
            )
        )
    return result


def _reported(report: Mapping[str, Any], path: str) -> float | None:
    section, _, name = path.partition(".")
    try:
        parsed = parse_path(path)
    except ThresholdError:
        figures = report.get(section)
        value = figures.get(name) if isinstance(figures, Mapping) else None
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return flat_value(report.get(section), parsed)


def _order(key: tuple[str, str]) -> tuple[int, int, str]:
    section, name = key
    names = [spec.name for spec in metrics_of(section)]
    base = base_name(name)
    place = SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)
    return place, names.index(base) if base in names else len(names), name
