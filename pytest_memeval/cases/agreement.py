"""How far two labellings of the same conversations agree.

**Units.** A case counts if both labellings have it, with memories or with none. In each case the memories of one are
matched one to one with those of the other by their texts, as predictions are matched with labels. A matched pair of
memories is the unit of memory type, velocity and priority; a matched pair and a dimension of the registry together are
the unit of dimension agreement: does the one labelling give the memory this dimension, does the other? Memories
without a partner have no labels to compare: they count in the share of matched memories only.

**Kappa** is Cohen's (1960): (p − e) / (1 − e), p the share of units on which both agree, e the share on which they
would if each labelled at random with its own frequencies. Where e is 1 (both always say the same) it is undefined:
``None``, with the reason. The overall kappa pools the units of all dimensions. Intervals are percentile bootstraps
over cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_memeval.cases.models import CaseSet, GtMemory, L1GroundTruth
from pytest_memeval.documents.problems import Problem, did_you_mean
from pytest_memeval.metrics.kappa import Kappa, kappa_of_tables
from pytest_memeval.metrics.matching import Matcher, MatchResult, SimilarityMatcher, describe_matcher, match_with
from pytest_memeval.metrics.stats import RESAMPLES, Estimate, ratio_estimate

#: From this kappa on labels are commonly held to be reliable; shown, not enforced.
TARGET = 0.85
#: Priorities further apart than this are a disagreement to settle.
PRIORITY_SLACK = 10.0


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case under two labellings, with the files that they stand in."""

    case_id: str
    one: L1GroundTruth
    two: L1GroundTruth
    path_one: Path
    path_two: Path


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two labellings compared. Shares are of the memories of all compared cases; ``priority_mae`` is on the registry's
    scale, ``priority_correlation`` Pearson's (``None``: fewer than two pairs, or no variation)."""

    cases: int
    only_one: tuple[str, ...]
    only_two: tuple[str, ...]
    memories: tuple[int, int]
    matched: int
    matched_of_one: Estimate
    matched_of_two: Estimate
    same_dimensions: Estimate
    overall: Kappa
    dimensions: Mapping[str, Kappa]
    memory_type: Kappa
    time_velocity: Kappa
    priority_mae: Estimate
    priority_within: Estimate
    priority_correlation: float | None
    disagreements: tuple[Problem, ...]
    matcher: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "cases": self.cases,
            "only_in_first": list(self.only_one),
            "only_in_second": list(self.only_two),
            "matcher": dict(self.matcher),
            "memories": {
                "first": self.memories[0],
                "second": self.memories[1],
                "matched": self.matched,
                "matched_of_first": _estimate_dict(self.matched_of_one),
                "matched_of_second": _estimate_dict(self.matched_of_two),
            },
            "target": TARGET,
            "dimension_kappa": self.overall.as_dict(),
            "same_dimension_sets": _estimate_dict(self.same_dimensions),
            "per_dimension": {name: kappa.as_dict() for name, kappa in self.dimensions.items()},
            "memory_type": self.memory_type.as_dict(),
            "time_velocity": self.time_velocity.as_dict(),
            "priority": {
                "mae": _estimate_dict(self.priority_mae),
                "within_10": _estimate_dict(self.priority_within),
                "correlation": self.priority_correlation,
            },
            "disagreements": [
                {"file": str(one.path), "line": one.line, "case": one.case_id, "message": one.message}
                for one in self.disagreements
            ],
        }


def _estimate_dict(estimate: Estimate) -> dict[str, Any]:
    interval = None if estimate.low is None else [estimate.low, estimate.high]
    return {"value": estimate.value, "interval": interval, "reason": estimate.reason, "n": int(estimate.units)}


# -- labellings


class AgreementError(ValueError):
    """Two labellings that cannot be compared; the text says why."""


def annotator_of(case_set: CaseSet, name: str | None) -> str:
    """The annotator whose labels are compared: the one named, else the file's only one. Raises AgreementError."""
    names = sorted({one for case in case_set.cases for one in case.annotations})
    if not names:
        raise AgreementError(f"{case_set.path}: no case has 'annotations'; name a second file to compare with")
    if name is None:
        if len(names) > 1:
            raise AgreementError(f"{case_set.path}: several annotators ({', '.join(names)}); choose with --annotator")
        return names[0]
    if name not in names:
        raise AgreementError(f"{case_set.path}: no annotator {name!r}{did_you_mean(name, names)}")
    return name


def labelled_twice(
    one: CaseSet, two: CaseSet | None, annotator: str | None
) -> tuple[list[LabelledCase], tuple[str, ...], tuple[str, ...]]:
    """The cases that both labellings have, and the ids that only the first or only the second has.

    With one set its labels are compared with those of an annotator in it; with two, the first's labels with the
    second's, or with the second's annotator where one is named. Raises AgreementError without a common case.
    """
    first = {case.case_id: case.expected_l1 for case in one.cases if case.expected_l1 is not None}
    other = one if two is None else two
    if two is None or annotator is not None:
        name = annotator_of(other, annotator)
        second = {
            case.case_id: found
            for case in other.cases
            if isinstance(found := case.annotations.get(name), L1GroundTruth)
        }
    else:
        second = {case.case_id: case.expected_l1 for case in two.cases if case.expected_l1 is not None}
    common = [
        LabelledCase(case_id, truth, second[case_id], one.path, other.path)
        for case_id, truth in first.items()
        if case_id in second
    ]
    if not common:
        raise AgreementError(f"no case is labelled in both {one.path} and {other.path}" if two else "no case has both")
    only_two = tuple(case_id for case_id in second if case_id not in first)
    # in one file the cases that nobody labelled a second time are not missing
    only_one = tuple(case_id for case_id in first if case_id not in second) if two is not None else ()
    return common, only_one, only_two


def compare(
    cases: Sequence[LabelledCase],
    dimensions: Iterable[str],
    *,
    only_one: tuple[str, ...] = (),
    only_two: tuple[str, ...] = (),
    matcher: Matcher | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """Compare two labellings (see the module for units). ``dimensions`` are the registry's, in its order.

    The order of the cases does not matter. Without a ``matcher`` texts are matched as predictions are by default.
    """
    matcher = matcher or SimilarityMatcher()
    cases = sorted(cases, key=lambda case: case.case_id)
    names = list(dict.fromkeys([*dimensions, *_labels(cases)]))
    matches = [
        match_with(
            matcher,
            [memory.content for memory in case.two.memories],
            [memory.content for memory in case.one.memories],
        )
        for case in cases
    ]
    pairs = [
        [(case.one.memories[pair.truth_index], case.two.memories[pair.pred_index]) for pair in match.pairs]
        for case, match in zip(cases, matches, strict=True)
    ]
    tables = {name: [_binary(own, name) for own in pairs] for name in names}
    pooled = [[sum(column) for column in zip(*own, strict=True)] for own in zip(*tables.values(), strict=True)]

    def kappa(found: Sequence[Sequence[float]], size: int) -> Kappa:
        return kappa_of_tables(found, size, resamples=resamples, seed=seed)

    clusters = [case.case_id for case in cases]

    def share(numerators: Sequence[float], denominators: Sequence[float], high: float | None = 1.0) -> Estimate:
        return ratio_estimate(numerators, denominators, clusters, high=high, seed=seed, resamples=resamples)

    apart = [
        [abs(a.priority - b.priority) for a, b in own if a.priority is not None and b.priority is not None]
        for own in pairs
    ]
    matched = [len(own) for own in pairs]
    return Agreement(
        cases=len(cases),
        only_one=only_one,
        only_two=only_two,
        memories=(sum(len(case.one.memories) for case in cases), sum(len(case.two.memories) for case in cases)),
        matched=sum(matched),
        matched_of_one=share(matched, [len(case.one.memories) for case in cases]),
        matched_of_two=share(matched, [len(case.two.memories) for case in cases]),
        same_dimensions=share([sum(set(a.dimensions) == set(b.dimensions) for a, b in own) for own in pairs], matched),
        overall=kappa(pooled, 2),
        dimensions={name: kappa(found, 2) for name, found in tables.items()},
        memory_type=kappa(*_nominal(pairs, "memory_type")),
        time_velocity=kappa(*_nominal(pairs, "time_velocity")),
        priority_mae=share([sum(own) for own in apart], [len(own) for own in apart], None),
        priority_within=share(
            [sum(one <= PRIORITY_SLACK for one in own) for own in apart], [len(own) for own in apart]
        ),
        priority_correlation=_correlation(pairs),
        disagreements=tuple(
            problem for case, match in zip(cases, matches, strict=True) for problem in _disagreements(case, match)
        ),
        matcher=describe_matcher(matcher),
    )


def _labels(cases: Sequence[LabelledCase]) -> list[str]:
    return sorted(
        {
            label
            for case in cases
            for truth in (case.one, case.two)
            for memory in truth.memories
            for label in memory.dimensions
        }
    )


Pairs = Sequence[tuple[GtMemory, GtMemory]]


def _binary(pairs: Pairs, dimension: str) -> list[float]:
    """(neither, second only, first only, both) of a case's matched memories."""
    table = [0.0] * 4
    for a, b in pairs:
        table[2 * (dimension in a.dimensions) + (dimension in b.dimensions)] += 1
    return table


def _nominal(cases: Sequence[Pairs], name: str) -> tuple[list[list[float]], int]:
    """The contingency tables of a label with one value, over pairs in which both give it, and their size."""
    both = [
        [(getattr(a, name), getattr(b, name)) for a, b in pairs if None not in (getattr(a, name), getattr(b, name))]
        for pairs in cases
    ]
    values = sorted({value for own in both for pair in own for value in pair})
    place = {value: position for position, value in enumerate(values)}
    size = max(1, len(values))
    tables = []
    for own in both:
        table = [0.0] * (size * size)
        for a, b in own:
            table[place[a] * size + place[b]] += 1
        tables.append(table)
    return tables, size


def _correlation(cases: Sequence[Pairs]) -> float | None:
    """Pearson's correlation of the priorities of matched memories."""
    from statistics import StatisticsError, correlation

    both = [
        (a.priority, b.priority)
        for pairs in cases
        for a, b in pairs
        if a.priority is not None and b.priority is not None
    ]
    try:
        return correlation([one for one, _ in both], [other for _, other in both])
    except StatisticsError:  # fewer than two, or all the same
        return None


# -- what is to be settled


def _disagreements(case: LabelledCase, match: MatchResult) -> list[Problem]:
    """What the two labellings of a case say differently, at the place of the first where it has one."""
    found: list[Problem] = []
    ones, twos = case.one.memories, case.two.memories
    near_one = {pair.truth_index: pair.pred_index for pair in match.near_misses}
    near_two = {pair.pred_index: pair.truth_index for pair in match.near_misses}

    def note(path: Path, line: int, message: str) -> None:
        found.append(Problem(path, line, 0, message, case.case_id))

    for pair in match.pairs:
        a, b = ones[pair.truth_index], twos[pair.pred_index]
        where = f"{_quoted(a)} (second: {case.path_two.name}:{b.line})"
        if set(a.dimensions) != set(b.dimensions):
            note(case.path_one, a.line, f"dimensions {_set(a)} against {_set(b)}: {where}")
        for name in ("memory_type", "time_velocity"):
            one, two = getattr(a, name), getattr(b, name)
            if one is not None and two is not None and one != two:
                note(case.path_one, a.line, f"{name} {one} against {two}: {where}")
        if a.priority is not None and b.priority is not None and abs(a.priority - b.priority) > PRIORITY_SLACK:
            note(case.path_one, a.line, f"priority {a.priority:g} against {b.priority:g}: {where}")
    for index in match.unmatched_truth:
        near = f"; nearest there: {_quoted(twos[near_one[index]])}" if index in near_one else ""
        note(case.path_one, ones[index].line, f"only the first labelling has {_quoted(ones[index])}{near}")
    for index in match.unmatched_pred:
        near = f"; nearest there: {_quoted(ones[near_two[index]])}" if index in near_two else ""
        note(case.path_two, twos[index].line, f"only the second labelling has {_quoted(twos[index])}{near}")
    return found


def _quoted(memory: GtMemory) -> str:
    text = " ".join(memory.content.split())
    return f"“{text if len(text) <= 60 else text[:59] + '…'}”"


def _set(memory: GtMemory) -> str:
    return "{" + ", ".join(sorted(memory.dimensions)) + "}"
