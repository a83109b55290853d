"""Which version was the first that regressed: a search whose every step is a paired test, and which says when the noise
does not allow an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any, Literal

from pytest_memeval.compare.differences import path_difference
from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.pairing import pair_cases
from pytest_memeval.compare.settings import setting_differences, shared_files
from pytest_memeval.metrics.paired import PairedDifference
from pytest_memeval.metrics.thresholds import MetricPath
from pytest_memeval.report.reader import records_of

#: ``found``; ``not_worse``: the bad version is not clearly worse than the good one; ``unclear``: the versions left
#: cannot be told apart; ``incomparable``: the reports do not allow a comparison.
Outcome = Literal["found", "not_worse", "unclear", "incomparable"]


@dataclass(frozen=True, slots=True)
class Step:
    """One paired test: ``version`` − ``against``. ``worse`` and ``better`` say what is more than noise."""

    version: str
    against: str
    result: PairedDifference
    cases: int
    lost: int
    worse: bool
    better: bool


@dataclass(frozen=True)
class BisectResult:
    """``first`` is the version that regressed; for ``unclear`` it is one of ``candidates``. Every test was held at
    ``alpha`` (the level asked for, divided by the most tests that the search can need)."""

    outcome: Outcome
    alpha: float
    steps: list[Step] = field(default_factory=list)
    first: str | None = None
    before: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""


class _Stopped(Exception):
    pass


def most_tests(versions: int) -> int:
    """The most paired tests that a search over so many versions needs if every step decides: one at the start, two at
    each halving."""
    return 1 + 2 * ceil(log2(max(versions - 1, 1)))


def bisect(
    versions: Sequence[str],
    report_of: Callable[[str], Mapping[str, Any]],
    path: MetricPath,
    *,
    lower_is_better: bool,
    alpha: float = 0.05,
    on_step: Callable[[Step], None] = lambda step: None,
) -> BisectResult:
    """Search ``versions`` (the good one first, the bad one last) for the first that is worse.

    ``report_of`` runs a version, or has its report. A version in the middle that is clearly worse than the good one
    has the regression at or before it; one that is clearly better than the worse end, and not worse than the good one,
    has it after it. One that is neither is passed over for its neighbours; where none decides, the answer is that it
    cannot be told. ValueError for fewer than two versions.
    """
    if len(versions) < 2:
        raise ValueError("a search needs a good and a bad version")
    search = _Search(report_of, path, lower_is_better, alpha / most_tests(len(versions)), on_step)
    good, last = versions[0], len(versions) - 1
    try:
        if not search.test(versions[last], good).worse:
            return search.end("not_worse")
        low, high = 0, last
        while high - low > 1:
            found = search.halve(versions, low, high)
            if found is None:
                return search.end("unclear", candidates=tuple(versions[low + 1 : high + 1]), before=versions[low])
            low, high = found
    except _Stopped as stop:
        return search.end("incomparable", reason=str(stop))
    return search.end("found", first=versions[high], before=versions[low])


class _Search:
    def __init__(
        self,
        report_of: Callable[[str], Mapping[str, Any]],
        path: MetricPath,
        lower_is_better: bool,
        alpha: float,
        on_step: Callable[[Step], None],
    ) -> None:
        self._report_of, self._path, self._lower, self._alpha = report_of, path, lower_is_better, alpha
        self._on_step = on_step
        self._reports: dict[str, Mapping[str, Any]] = {}
        self._steps: list[Step] = []

    def end(self, outcome: Outcome, **fields: Any) -> BisectResult:
        return BisectResult(outcome, self._alpha, self._steps, **fields)

    def halve(self, versions: Sequence[str], low: int, high: int) -> tuple[int, int] | None:
        """A shorter stretch that holds the first worse version, ``None`` where no version in it decides."""
        for middle in _from_the_middle(low, high):
            if self.test(versions[middle], versions[0]).worse:
                return low, middle
            if self.test(versions[middle], versions[high]).better:
                return middle, high
        return None

    def test(self, version: str, against: str) -> Step:
        for step in self._steps:
            if (step.version, step.against) == (version, against):
                return step
        one, two = self._report(against), self._report(version)
        base = f"{self._path.section}.{self._path.name}"
        pairing = pair_cases(records_of(one), records_of(two))
        limits = Limits(setting_differences(one, two, shared_files(one, two, pairing.files)))
        blocked = limits.everywhere(base, {pair.files for pair in pairing.pairs})
        if blocked is not None:
            raise _Stopped(f"{against} and {version} differ in {blocked}, on which {self._path} depends")
        result, cases, lost = path_difference(limits.kept(base, pairing), self._path)
        if result.difference is None or result.p_value is None:
            raise _Stopped(f"{against} and {version} share no case that gives {self._path} a value")
        sure = result.p_value <= self._alpha and result.difference != 0
        down = (result.difference > 0) == self._lower
        step = Step(version, against, result, cases, lost, worse=sure and down, better=sure and not down)
        self._steps.append(step)
        self._on_step(step)
        return step

    def _report(self, version: str) -> Mapping[str, Any]:
        if version not in self._reports:
            self._reports[version] = self._report_of(version)
        return self._reports[version]


def _from_the_middle(low: int, high: int) -> Iterator[int]:
    """The positions between two, the middle one first, then ever farther from it."""
    middle = (low + high) // 2
    return iter(sorted(range(low + 1, high), key=lambda at: (abs(at - middle), at)))
