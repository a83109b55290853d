"""Conditions on differences: ``l1.dimension_micro_f1 < -0.02``, as ``memeval compare --fail-on`` takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_memeval.compare.differences import path_difference
from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.model import Comparison
from pytest_memeval.compare.pairing import pair_cases
from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.metrics.paired import PairedDifference
from pytest_memeval.metrics.thresholds import TOLERANCE, MetricPath, ThresholdError, parse_bound, parse_path
from pytest_memeval.results import CaseResult

#: Numbers of cases that a condition can be on, besides metrics.
CASE_COUNTS: tuple[str, ...] = ("newly_errored", "newly_skipped", "vanished", "content_changed")
#: What may stand before a metric to say that its difference is meant; it always is.
_PREFIX = re.compile(r"\s*(?:diff:|Δ|∆)\s*")
_CONDITION = re.compile(r"\s*(?P<what>[^<>=\s{]+(?:\{[^{}]*\})?)\s*(?P<bound>[<>].*)")


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound on the difference B − A of a metric (``path``), or on a number of cases (``count``)."""

    text: str
    op: str
    number: float
    path: MetricPath | None = None
    count: str | None = None

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the bound; what is equal but for rounding is neither above nor below it."""
        if self.op == "<":
            return value < self.number - TOLERANCE
        if self.op == ">":
            return value > self.number + TOLERANCE
        return value <= self.number + TOLERANCE if self.op == "<=" else value >= self.number - TOLERANCE


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a condition. ``holds`` is ``None`` where there is no difference to hold it against."""

    condition: Condition
    value: float | None
    holds: bool | None
    low: float | None = None
    high: float | None = None

    @property
    def fails(self) -> bool:
        """A difference that should be there and is not fails too: lost coverage never passes."""
        return self.holds is not False


def parse_condition(text: str) -> Condition:
    """Read ``l1.dimension_micro_f1 < -0.02``, ``diff:l1.memory_recall{difficulty=hard} < 0`` or ``newly_errored > 0``.
    Raises ThresholdError naming the nearest valid metric."""
    match = _CONDITION.fullmatch(_PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text)
    if match is None:
        raise ThresholdError(
            f"{text!r}: a condition is '<metric path> <operator> <number>', such as 'l1.dimension_micro_f1 < -0.02'"
        )
    op, number = parse_bound(match["bound"])
    if match["what"] in CASE_COUNTS:
        return Condition(text.strip(), op, number, count=match["what"])
    if "." not in match["what"]:
        nearest = did_you_mean(match["what"], CASE_COUNTS)
        raise ThresholdError(f"{match['what']!r} is not a metric path, nor a number of cases{nearest}")
    return Condition(text.strip(), op, number, path=parse_path(match["what"]))


def report_difference(
    a: Iterable[CaseResult], b: Iterable[CaseResult], path: MetricPath, comparison: Comparison
) -> PairedDifference | None:
    """The difference of one metric between two runs' cases, its filters included; ``None`` where it cannot be
    compared."""
    base = f"{path.section}.{path.name}"
    limits, pairing = Limits(comparison.settings), pair_cases(a, b)
    if limits.everywhere(base, {pair.files for pair in pairing.pairs}):
        return None
    return path_difference(limits.kept(base, pairing), path)[0]


def judge(condition: Condition, a: Iterable[CaseResult], b: Iterable[CaseResult], comparison: Comparison) -> Verdict:
    """Whether the condition holds between the cases of two reports, of which ``comparison`` was made."""
    if condition.count is not None:
        count = len(getattr(comparison, condition.count))
        return Verdict(condition, count, condition.holds(count))
    assert condition.path is not None
    found = report_difference(a, b, condition.path, comparison)
    if found is None or found.difference is None:
        return Verdict(condition, None, None)
    return Verdict(condition, found.difference, condition.holds(found.difference), found.low, found.high)
