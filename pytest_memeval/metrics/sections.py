"""The one form in which a case's figures of any section travel and are added up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

#: What a section of a report holds beside its metrics, so that no metric can have the name.
SECTION_KEYS = frozenset(
    {"intervals", "interval_reasons", "n", "counts", "stage_counts", "unmeasured", "metric_errors", "mixed", "warnings"}
)


@dataclass(frozen=True, slots=True)
class SectionRecord:
    """A case's share of a section (``l1``, ``l15``, ``l2``, ``inject`` …).

    - ``ratios``: flat metric name (``dimension_micro_f1``, ``per_dimension_f1.family``, ``ndcg@10``) → (numerator,
      denominator). A set's value is Σ numerators / Σ denominators; a case's is its own quotient, null with
      denominator 0. Names that start with ``_`` are ingredients of derived metrics and are not shown.
    - ``counts``: name → number, added over cases.
    - ``tables``: name → key → number, added over cases key by key (confusions, per-action counts).
    - ``details``: this case only (matched pairs, near misses); never aggregated.
    - ``shares``: the ratios of an open section whose value was a boolean, so that a set's value is a share.
    """

    ratios: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    shares: tuple[str, ...] = ()

    def values(self) -> dict[str, float | None]:
        """Each ratio's value for this case alone, ``None`` where the denominator is 0 or the value is not finite;
        counts as they are."""
        shown = {
            name: _quotient(numerator, denominator)
            for name, (numerator, denominator) in self.ratios.items()
            if not name.startswith("_")
        }
        return {**shown, **self.counts}

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with dicts of its own as far as figures go."""
        return {
            "values": self.values(),
            "ratios": {name: _written(pair) for name, pair in self.ratios.items()},
            "counts": dict(self.counts),
            "tables": {name: dict(table) for name, table in self.tables.items()},
            "details": dict(self.details),
            **({"shares": list(self.shares)} if self.shares else {}),
        }

    def shown(self) -> dict[str, Any]:
        """The same for a reader that changes nothing: counts, tables and details are the record's own."""
        return {
            "values": self.values(),
            "ratios": {name: _written(pair) for name, pair in self.ratios.items()},
            "counts": self.counts,
            "tables": self.tables,
            "details": self.details,
            **({"shares": list(self.shares)} if self.shares else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SectionRecord:
        # Thousands of cases have the same names: each is kept once.
        return cls(
            ratios={intern(name): (_number(pair[0]), _number(pair[1])) for name, pair in data["ratios"].items()},
            counts={intern(name): _number(count) for name, count in data["counts"].items()},
            tables={
                intern(name): {intern(key): _number(count) for key, count in table.items()}
                for name, table in data["tables"].items()
            },
            details=dict(data["details"]),
            shares=tuple(intern(name) for name in data.get("shares", ())),
        )


def _quotient(numerator: float, denominator: float) -> float | None:
    if not denominator:
        return None
    if type(numerator) is int and type(denominator) is int:
        # Most are one or nothing; thousands of cases need no number of their own for that.
        if numerator == denominator:
            return 1.0
        if numerator == 0 < denominator:
            return 0.0
    value = numerator / denominator
    return value if math.isfinite(value) else None


def _written(pair: tuple[float, float]) -> list[float | None]:
    """JSON has no NaN: what is not finite is written as null."""
    if math.isfinite(pair[0]) and math.isfinite(pair[1]):
        return list(pair)
    return [number if math.isfinite(number) else None for number in pair]


def _number(value: float | None) -> float:
    """JSON has no NaN: what was not finite travels as null and comes back as NaN, so that it stays unmeasured."""
    return math.nan if value is None else value
