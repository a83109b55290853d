"""Which cases two reports share, and what each of them measured there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pytest_memeval.case_counts import BUILT_ON, PRODUCTS, is_cut_off, matches
from pytest_memeval.metrics.catalog import METRICS, metric_stages
from pytest_memeval.metrics.stats import LARGEST
from pytest_memeval.results import CaseResult

#: A metric's (numerator, denominator) in a case; two of them for a product.
Measurement = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class CasePair:
    """One case in both reports, with the same content."""

    name: str
    a: CaseResult
    b: CaseResult

    @property
    def files(self) -> tuple[str, str]:
        """The names of its case file in A and in B."""
        return self.a.set, self.b.set

    @property
    def cluster(self) -> str:
        """What varies independently: the conversation, or the case itself."""
        return f"{self.b.set}::{self.b.cluster or self.b.case_id}"


@dataclass(frozen=True)
class Pairing:
    """Cases by whether both reports have them. ``changed`` have another content in B; ``moved`` counts those that lie
    in a file of another name and were recognised by their content."""

    pairs: list[CasePair] = field(default_factory=list)
    changed: list[CasePair] = field(default_factory=list)
    only_a: list[CaseResult] = field(default_factory=list)
    only_b: list[CaseResult] = field(default_factory=list)
    moved: int = 0

    @property
    def files(self) -> set[tuple[str, str]]:
        """The names, in A and in B, of the case files that share cases."""
        return {pair.files for pair in (*self.pairs, *self.changed)}

    def filtered(self, filters: Iterable[tuple[str, str]]) -> Pairing:
        """The pairs whose case meets a metric path's filters."""
        wanted = tuple(filters)
        return Pairing([pair for pair in self.pairs if matches(pair.b, wanted)])


def case_name(record: CaseResult) -> str:
    """A case's name without the variant that it was run in."""
    suffix = f"[{record.variant}]"
    return record.node_id.removesuffix(suffix) if record.variant else record.node_id


def pair_cases(first: Iterable[CaseResult], second: Iterable[CaseResult]) -> Pairing:
    """Cases of the same name, and those that only share id and content (a renamed file), in order of their names."""
    ones = {case_name(record): record for record in first}
    twos = {case_name(record): record for record in second}
    result = Pairing(moved=0)
    left_a = [record for name, record in ones.items() if name not in twos]
    by_content: dict[tuple[str, str], list[CaseResult]] = {}
    for name, record in twos.items():
        if name not in ones and record.content_hash:
            by_content.setdefault((record.case_id, record.content_hash), []).append(record)
    found: set[str] = set()
    moved: list[CasePair] = []
    for record in left_a:
        others = by_content.get((record.case_id, record.content_hash), [])
        if len(others) == 1 and others[0].node_id not in found:
            found.add(others[0].node_id)
            moved.append(CasePair(case_name(others[0]), record, others[0]))
        else:
            result.only_a.append(record)
    for name in sorted(ones.keys() & twos.keys()):
        pair = CasePair(name, ones[name], twos[name])
        same = pair.a.content_hash == pair.b.content_hash
        (result.pairs if same else result.changed).append(pair)
    result.only_b.extend(record for name, record in twos.items() if name not in ones and record.node_id not in found)
    result.only_a.sort(key=case_name)
    result.only_b.sort(key=case_name)
    pairs = sorted([*result.pairs, *moved], key=lambda pair: pair.name)
    return Pairing(pairs, result.changed, result.only_a, result.only_b, len(moved))


def base_name(flat: str) -> str:
    """``ndcg@10`` → ``ndcg``, ``per_dimension_f1.family`` → ``per_dimension_f1``."""
    return flat.partition(".")[0].partition("@")[0]


def measured(record: CaseResult, section: str, flat: str) -> Measurement | None:
    """A metric's counts in a case; see :func:`measurer`."""
    return measurer(section, flat)(record)


@lru_cache(maxsize=4_096)
def measurer(section: str, flat: str) -> Callable[[CaseResult], Measurement | None]:
    """What gives a metric's counts in a case, ``None`` where it was not measured there: its stage not scored, no such
    figure, not a finite number. A dimension or action that does not occur in a measured case has nothing to count:
    (0, 0)."""
    conditions, pick = conditions_of(section, flat), picker(section, flat)

    def read(record: CaseResult) -> Measurement | None:
        return pick(conditions.counts(record))

    return read


@dataclass(frozen=True, slots=True)
class Conditions:
    """When a metric counts as measured in a case: many metrics of a section have the same."""

    section: str
    stages: tuple[str, ...]
    #: The metric itself where it builds on other stages, else empty.
    built_on: str

    def counts(self, record: CaseResult) -> Mapping[str, tuple[float, float]]:
        """The section's (numerator, denominator) by name; none where it was not measured."""
        figures = record.sections.get(self.section)
        if figures is None:
            return _NOTHING
        for stage in self.stages:
            if record.stages.get(stage, "scored") != "scored":
                return _NOTHING
        if self.built_on and is_cut_off(record, self.section, self.built_on):
            return _NOTHING
        return figures.ratios


_NOTHING: Mapping[str, tuple[float, float]] = {}


def conditions_of(section: str, flat: str) -> Conditions:
    base = base_name(flat)
    return Conditions(section, metric_stages(section, base), base if f"{section}.{base}" in BUILT_ON else "")


@lru_cache(maxsize=4_096)
def picker(section: str, flat: str) -> Callable[[Mapping[str, tuple[float, float]]], Measurement | None]:
    """What takes a metric's counts out of :meth:`Conditions.counts`."""
    product = PRODUCTS.get(f"{section}.{flat}")
    names = product[:2] if product is not None else (flat,)
    spec = METRICS.get(f"{section}.{base_name(flat)}")
    absent = (0.0, 0.0) if spec is not None and spec.keys is not None else None

    def pick(counts: Mapping[str, tuple[float, float]]) -> Measurement | None:
        if counts is _NOTHING:
            return None
        found = []
        for name in names:
            pair = counts.get(name, absent)
            # Not true of NaN either.
            if pair is None or not (-LARGEST <= pair[0] <= LARGEST and 0 <= pair[1] <= LARGEST):
                return None
            found.append(pair)
        return tuple(found)

    return pick


def counted(record: CaseResult, section: str, name: str) -> float | None:
    """A count in a case, ``None`` where it was not taken."""
    figures = record.sections.get(section)
    if figures is None or name not in figures.counts:
        return None
    if any(record.stages.get(stage, "scored") != "scored" for stage in metric_stages(section, name)):
        return None
    value = figures.counts[name]
    return value if _finite(value) else None


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and abs(value) <= LARGEST


def value_of(measurement: Measurement | None) -> float | None:
    """A case's own value; ``None`` with a denominator of 0, or one so small that there is no number for it."""
    if measurement is None:
        return None
    value = 1.0
    for numerator, denominator in measurement:
        if not denominator:
            return None
        value *= numerator / denominator
    return value if -LARGEST <= value <= LARGEST else None


def total(measurements: Sequence[Measurement]) -> float | None:
    """Σ numerators / Σ denominators over cases."""
    if not measurements:
        return None
    sums = [
        (math.fsum(one[at][0] for one in measurements), math.fsum(one[at][1] for one in measurements))
        for at in range(len(measurements[0]))
    ]
    return value_of(tuple(sums))


def metric_names(
    records: Iterable[CaseResult], pick: Callable[[CaseResult, str], Iterable[str]]
) -> set[tuple[str, str]]:
    """(section, name) of everything that ``pick`` finds in any record's sections."""
    return {(section, name) for record in records for section in record.sections for name in pick(record, section)}
