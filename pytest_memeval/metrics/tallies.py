"""Small arithmetic that the metrics share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def quotient(numerator: float, denominator: float) -> float | None:
    """``numerator / denominator``, ``None`` with denominator 0: there is nothing to take a share of."""
    return numerator / denominator if denominator else None


def add_tables(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums key by key, keys in sorted order."""
    total: dict[str, int] = {}
    for table in tables:
        for key, number in table.items():
            total[key] = total.get(key, 0) + number
    return dict(sorted(total.items()))
