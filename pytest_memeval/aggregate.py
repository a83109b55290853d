"""From case results to a set's figures: every section's values, intervals, sizes and counts.

A value is Σ numerators / Σ denominators over the cases in which the metric's stage was scored (a case that could not
be measured is counted, not scored as zero). Nothing here depends on the order of the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.case_counts import (
    BUILT_ON,
    PRODUCTS,
    alike,
    count_metric_errors,
    count_section_of,
    count_stage_of,
    is_cut_off,
    matches,
    metric_statuses,
    one_per_case,
)
from pytest_memeval.metrics.catalog import AT_K, SECTION_STAGES, SECTIONS, MetricSpec, metrics_of, spec_of
from pytest_memeval.metrics.open_values import mixed_values, shares_of
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.stats import ClusterBootstrap, Estimate, Ratio
from pytest_memeval.metrics.thresholds import OPEN_SECTIONS, MetricPath
from pytest_memeval.results import CaseResult

#: A figure beyond this is no measurement.
_LARGEST = 1e150


@dataclass(slots=True)
class _Column:
    """A ratio's numerators and denominators over a section's cases, 0 / 0 where a case has none."""

    numerators: list[float]
    denominators: list[float]


@dataclass(slots=True)
class _Gathered:
    """A section's figures, column by column."""

    clusters: list[str]
    ratios: dict[str, _Column] = field(default_factory=dict)
    counts: dict[str, list[float]] = field(default_factory=dict)
    tables: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    unmeasured: dict[str, int] = field(default_factory=dict)
    #: Of an open section: the metrics that are shares, and those that are not the same kind of value in all cases.
    shares: set[str] = field(default_factory=set)
    mixed: dict[str, dict[str, int]] = field(default_factory=dict)

    def put(self, name: str, position: int, pair: tuple[float, float]) -> None:
        column = self.ratios.get(name)
        if column is None:
            size = len(self.clusters)
            column = self.ratios[name] = _Column([0.0] * size, [0.0] * size)
        column.numerators[position], column.denominators[position] = pair

    def leave_out(self, name: str) -> None:
        self.unmeasured[name] = self.unmeasured.get(name, 0) + 1


def aggregate_sections(
    records: Sequence[CaseResult], *, resample: bool = True, protocol: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any] | None]:
    """Every section's figures over ``records``.

    The five distillation sections are always there; the open ones (``qa``, ``rag`` …) are ``None`` where no record has
    them. A section holds: metric name → number or ``None`` (``{key: number}`` for metrics with keys); the tables;
    ``intervals {flat name: [low, high] or None}`` with ``interval_reasons`` for the ``None`` ones;
    ``n {flat name: {units, cases, clusters}}``; ``counts`` of cases by what they were in the section, and
    ``stage_counts`` per stage; ``unmeasured {name: cases}`` left out because a figure was NaN or infinite.
    ``resample=False`` leaves out the intervals that take a bootstrap; ``protocol`` is that of questions.
    """
    ordered = one_per_case(records)
    groups = alike(ordered)
    present = {name for record, _ in groups for name in record.sections}
    sections: dict[str, dict[str, Any] | None] = {
        section: None
        if section in OPEN_SECTIONS and section not in present
        else _aggregate(section, ordered, groups, None, resample=resample)
        for section in SECTIONS
    }
    if "qa" in present:
        from pytest_memeval.qa_figures import adversarial_counts, derived_figures

        for section, body in sections.items():
            if body is not None:
                body.update(derived_figures(section, body, ordered, adversarial=adversarial_counts(protocol)))
    return sections


def aggregate_metric(records: Sequence[CaseResult], path: MetricPath, *, resample: bool = True) -> dict[str, Any]:
    """The section of ``path`` over the cases that meet its filters, with nothing computed but this metric."""
    ordered = [record for record in one_per_case(records) if matches(record, path.filters)]
    return _aggregate(path.section, ordered, alike(ordered), frozenset({path.name}), resample=resample)


def flat_value(section: Mapping[str, Any] | None, path: MetricPath) -> float | None:
    """A path's value in an aggregated section, ``None`` where it has none."""
    if section is None:
        return None
    value = section.get(path.metric if path.k is None else f"{path.metric}@{path.k}")
    if path.key is not None:
        value = value.get(path.key) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def whole(number: float) -> float:
    """Whole sums as integers, so that a count reads ``3`` and not ``3.0``."""
    return int(number) if float(number).is_integer() and abs(number) < 2**53 else number


def _aggregate(
    section: str,
    records: Sequence[CaseResult],
    groups: Sequence[tuple[CaseResult, int]],
    only: frozenset[str] | None,
    *,
    resample: bool,
) -> dict[str, Any]:
    gathered = _gather(section, records, only)
    body = _SectionBody(section, blank=only is None)
    bootstrap = ClusterBootstrap(gathered.clusters, resample=resample)
    shown = {
        name: _ratio(section, name, gathered.ratios[name], name in gathered.shares)
        for name in sorted(gathered.ratios, key=lambda name: _order(section, name))
        if not name.startswith("_")
    }
    for name, estimate in bootstrap.estimates(shown).items():
        body.estimate(name, estimate)
    for name, (first, second, _) in _products(section, only).items():
        if first in gathered.ratios and second in gathered.ratios:
            pair = _ratio(section, first, gathered.ratios[first]), _ratio(section, second, gathered.ratios[second])
            body.estimate(name, bootstrap.product(*pair))
    for name, numbers in gathered.counts.items():
        body.count(name, math.fsum(numbers), len(numbers))
    for name, table in sorted(gathered.tables.items()):
        body.table(name, {key: whole(math.fsum(numbers)) for key, numbers in sorted(table.items())})
    return body.finish(
        counts=count_section_of(groups, section),
        stage_counts={stage: count_stage_of(groups, (stage,)) for stage in SECTION_STAGES.get(section, ())},
        unmeasured=dict(sorted(gathered.unmeasured.items())),
        **({"mixed": gathered.mixed} if gathered.mixed else {}),
        **({"metric_errors": count_metric_errors(records, section)} if section in OPEN_SECTIONS else {}),
    )


def _gather(section: str, records: Sequence[CaseResult], only: frozenset[str] | None) -> _Gathered:
    own = [(record, record.sections[section]) for record in records if section in record.sections]
    # A distillation case is its own cluster.
    gathered = _Gathered([f"{record.set}::{record.cluster or record.case_id}" for record, _ in own])
    own_stages, stages = SECTION_STAGES.get(section, ()), _stages_of_metrics(section)
    products = _products(section, only)
    ingredients = {name for first, second, _ in products.values() for name in (first, second)}
    # Thousands of cases have the same few names: what they stand for is found once.
    bases: dict[str, str | None] = {}
    built_on = {name.partition(".")[2] for name in BUILT_ON if name.startswith(f"{section}.")}
    for position, (record, figures) in enumerate(own):
        # A stage that the record does not speak of counts as scored: its figures are there.
        unscored = {stage for stage in own_stages if record.stages.get(stage, "scored") != "scored"}
        told = metric_statuses(record, section)
        for name, pair in figures.ratios.items():
            if name not in bases:
                wanted = not name.startswith("_") and (only is None or name in only)
                bases[name] = _base_name(name) if wanted else None
            base = bases[name]
            if base is None:
                continue
            status = told.get(base) if told else None
            if status is not None and status != "scored":
                continue
            if unscored and status is None and stages.get(base) in unscored:
                continue
            if base in built_on and is_cut_off(record, section, base):
                continue
            finite = _finite(pair)
            if finite is None:
                gathered.leave_out(name)
            else:
                gathered.put(name, position, finite)
        if ingredients and not ingredients.isdisjoint(figures.ratios):
            _gather_products(gathered, position, figures, products, unscored)
        for name, number in figures.counts.items():
            if (only is not None and name not in only) or (unscored and stages.get(name) in unscored):
                continue
            if _is_finite(number):
                gathered.counts.setdefault(name, []).append(number)
            else:
                gathered.leave_out(name)
        if only is None:
            _gather_tables(gathered, figures)
    if section in OPEN_SECTIONS:
        _leave_out_mixed(gathered, [figures for _, figures in own])
    return gathered


def _leave_out_mixed(gathered: _Gathered, figures: Sequence[SectionRecord]) -> None:
    """No mean is made of what is a number in one case, and a text or a mapping in another."""
    gathered.shares = shares_of(figures)
    gathered.mixed = mixed_values(figures)
    for name in [name for name in gathered.ratios if name.partition(".")[0] in gathered.mixed]:
        del gathered.ratios[name]


def _gather_products(
    gathered: _Gathered,
    position: int,
    figures: SectionRecord,
    products: Mapping[str, tuple[str, str, tuple[str, ...]]],
    unscored: set[str],
) -> None:
    for name, (first, second, stages) in products.items():
        if first not in figures.ratios or second not in figures.ratios or stages[-1] in unscored:
            continue
        pairs = _finite(figures.ratios[first]), _finite(figures.ratios[second])
        if pairs[0] is None or pairs[1] is None:
            gathered.leave_out(name)
        else:
            gathered.put(first, position, pairs[0])
            gathered.put(second, position, pairs[1])


def _gather_tables(gathered: _Gathered, figures: SectionRecord) -> None:
    for name, table in figures.tables.items():
        sums = gathered.tables.setdefault(name, {})
        for key, number in table.items():
            if _is_finite(number):
                sums.setdefault(key, []).append(number)
            else:
                gathered.leave_out(f"{name}.{key}")


def _is_finite(number: float | None) -> bool:
    # A record that travelled as JSON has None where it had NaN. The bound keeps every sum finite too.
    return number is not None and abs(number) <= _LARGEST


def _finite(pair: Sequence[float | None]) -> tuple[float, float] | None:
    numerator, denominator = pair
    if numerator is None or denominator is None or not (abs(numerator) <= _LARGEST and 0 <= denominator <= _LARGEST):
        return None
    return numerator, denominator


def _products(section: str, only: frozenset[str] | None) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    named = {path.partition(".")[2]: parts for path, parts in PRODUCTS.items() if path.startswith(f"{section}.")}
    return {name: parts for name, parts in named.items() if only is None or name in only}


def _stages_of_metrics(section: str) -> dict[str, str]:
    """Metric → its stage. One whose stage was not scored in a case does not count there, even if it has a figure.

    ``unreached`` belongs to both stages of its section, so it is in no single one."""
    stages = {spec.name: spec.stage for spec in metrics_of(section)}
    if len(SECTION_STAGES.get(section, ())) > 1:
        stages.pop("unreached", None)
    return stages


def _base_name(flat: str) -> str:
    """``ndcg@10`` → ``ndcg``, ``per_dimension_f1.family`` → ``per_dimension_f1``."""
    return flat.partition(".")[0].partition("@")[0]


def _spec(section: str, flat: str) -> MetricSpec | None:
    return spec_of(f"{section}.{_base_name(flat)}")


def _order(section: str, flat: str) -> tuple[int, str]:
    """Report order: the catalogue's, then by name."""
    names = [spec.name for spec in metrics_of(section)]
    base = _base_name(flat)
    return (names.index(base) if base in names else len(names), flat)


def _ratio(section: str, name: str, column: _Column, share: bool = False) -> Ratio:
    spec = _spec(section, name)
    if spec is not None:
        proportion = spec.kind == "proportion"
        return Ratio(column.numerators, column.denominators, spec.low, spec.high, proportion=proportion)
    # An ingredient of a derived metric and a share lie in [0, 1]; of any other of an open section nothing is known.
    bounds: tuple[float, float | None] = (0.0, 1.0) if share or name.startswith("_") else (-math.inf, None)
    return Ratio(column.numerators, column.denominators, *bounds, proportion=share)


class _SectionBody:
    """Puts figures where the report has them: plain metrics at the top, keyed ones in a table of their own."""

    def __init__(self, section: str, *, blank: bool) -> None:
        self._intervals: dict[str, list[float] | None] = {}
        self._reasons: dict[str, str] = {}
        self._sizes: dict[str, dict[str, float]] = {}
        self._body: dict[str, Any] = {}
        if not blank:
            return
        # Every metric of the catalogue has its key, measured or not. (What takes a cut-off has a name per cut-off.)
        for spec in metrics_of(section):
            if spec.keys is not None:
                self._body[spec.name] = {}
            elif spec.path not in AT_K:
                self.estimate(spec.name, Estimate(None, reason="nothing to measure"))

    def estimate(self, flat: str, estimate: Estimate) -> None:
        name, dot, key = flat.partition(".")
        if dot:
            self._body.setdefault(name, {})[key] = estimate.value
        else:
            self._body[name] = estimate.value
        low, high = estimate.low, estimate.high
        known = low is not None and high is not None
        self._intervals[flat] = None if low is None or high is None else [low, high]
        self._reasons.pop(flat, None)
        if not known:
            self._reasons[flat] = estimate.reason or "no interval"
        self._sizes[flat] = {"units": whole(estimate.units), "cases": estimate.cases, "clusters": estimate.clusters}

    def count(self, name: str, total: float, cases: int) -> None:
        self.estimate(name, Estimate(whole(total), reason="a count", units=total, cases=cases, clusters=cases))

    def table(self, name: str, sums: Mapping[str, float]) -> None:
        self._body[name] = sums

    def finish(self, **rest: Any) -> dict[str, Any]:
        return {
            **self._body,
            "intervals": self._intervals,
            "interval_reasons": self._reasons,
            "n": self._sizes,
            **rest,
        }
