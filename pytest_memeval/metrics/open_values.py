"""What a project's own figures are, seen over all cases: nobody has said beforehand what a function gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_memeval.metrics.sections import SectionRecord


def shares_of(figures: Iterable[SectionRecord]) -> set[str]:
    """The flat names whose value was a boolean in every case that has one: their means lie in [0, 1]."""
    some: set[str] = set()
    others: set[str] = set()
    for one in figures:
        some.update(one.shares)
        others.update(one.ratios.keys() - set(one.shares))
    return some - others


def mixed_values(figures: Sequence[SectionRecord]) -> dict[str, dict[str, int]]:
    """Metric → in how many cases it was a number, a text or a mapping (``numbers``, ``texts``, ``mappings``), where it
    was not the same in all of them. No mean is made of such values; texts are counted."""
    found: dict[str, dict[str, int]] = {}
    for one in figures:
        plain = {name for name, pair in one.ratios.items() if "." not in name and pair[1]}
        parts = {name.partition(".")[0] for name, pair in one.ratios.items() if "." in name and pair[1]}
        for kind, names in (("numbers", plain), ("texts", one.tables.keys()), ("mappings", parts)):
            for name in names:
                kinds = found.setdefault(name, {"numbers": 0, "texts": 0, "mappings": 0})
                kinds[kind] += 1
    told = {name: {kind: cases for kind, cases in kinds.items() if cases} for name, kinds in sorted(found.items())}
    return {name: kinds for name, kinds in told.items() if len(kinds) > 1}
