"""Cohen's kappa: agreement of two labellings beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_memeval.metrics.stats import MIN_CLUSTERS, NO_VARIATION, RESAMPLES, TOO_FEW, Interval

NO_UNITS = "no matched memories"
SAME_ANSWER = "no variation: both labellings always give the same answer"


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa with its 95 % interval; ``reason`` says why there is no kappa, or no interval.

    ``agreement`` is the plain share of units with the same label, ``units`` their number, ``cases`` how many cases they
    come from.
    """

    value: float | None
    agreement: float | None
    units: int
    cases: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "kappa": self.value,
            "interval": None if self.low is None else [self.low, self.high],
            "agreement": self.agreement,
            "units": self.units,
            "cases": self.cases,
            "reason": self.reason,
        }


def kappa_of_tables(
    tables: Sequence[Sequence[float]], size: int, *, resamples: int = RESAMPLES, seed: int = 0
) -> Kappa:
    """Cohen's kappa of contingency tables, one a case, each ``size`` × ``size`` counts row by row (row: the first
    labelling's answer, column: the second's).

    The interval is that of resampled cases; resamples without variation are left out. Fewer than 5 cases with units, or
    no variation between resamples: no interval, with the reason. ValueError for a table of another size.
    """
    if any(len(table) != size * size for table in tables):
        raise ValueError(f"each table needs {size * size} counts")
    measured = [table for table in tables if any(table)]
    total = [sum(column) for column in zip(*measured, strict=True)] if measured else [0.0] * (size * size)
    units = int(sum(total))
    if not units:
        return Kappa(None, None, 0, 0, reason=NO_UNITS)
    agreement = sum(total[place] for place in range(0, size * size, size + 1)) / units
    value = _kappa(total, size)
    if value is None:
        return Kappa(None, agreement, units, len(measured), reason=SAME_ANSWER)
    if len(measured) < MIN_CLUSTERS:
        return Kappa(value, agreement, units, len(measured), reason=TOO_FEW)
    interval = _kappa_interval(measured, size, resamples, seed)
    if interval is None:
        return Kappa(value, agreement, units, len(measured), reason=NO_VARIATION)
    return Kappa(value, agreement, units, len(measured), *interval)


def _kappa(table: Sequence[float], size: int) -> float | None:
    units = sum(table)
    rows = [sum(table[row * size : (row + 1) * size]) for row in range(size)]
    columns = [sum(table[column::size]) for column in range(size)]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    if expected == units * units:
        return None
    agreed = sum(table[:: size + 1]) * units
    return (agreed - expected) / (units * units - expected)


def _kappa_interval(tables: Sequence[Sequence[float]], size: int, resamples: int, seed: int) -> Interval | None:
    import numpy as np

    from pytest_memeval.metrics.resampling import resampled_sums

    sums = resampled_sums(np.array(tables, dtype=np.float64), seed, resamples).reshape(-1, size, size)
    units = sums.sum(axis=(1, 2))
    agreed = np.trace(sums, axis1=1, axis2=2) * units
    expected = (sums.sum(axis=2) * sums.sum(axis=1)).sum(axis=1)
    defined = (units > 0) & (expected < units * units)
    if not defined.any():
        return None
    values = (agreed[defined] - expected[defined]) / (units[defined] ** 2 - expected[defined])
    low, high = np.percentile(values, [2.5, 97.5])
    if low == high:
        return None
    return float(low), float(high)
