"""The metrics that an evaluator says it gives, held against what it gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from pytest_memeval.documents.problems import nearest


def declared_metrics(evaluator: object) -> tuple[str, ...]:
    """The names in the evaluator's ``metrics``, one text being one name; none where it declares nothing."""
    declared = getattr(evaluator, "metrics", None) or ()
    return (declared,) if isinstance(declared, str) else tuple(map(str, declared))


def undeclared(declared: tuple[str, ...], given: Iterable[str]) -> dict[str, str | None]:
    """Of the names ``given``, those that an evaluator with ``declared`` ones does not declare → the declared one that
    was perhaps meant. Where nothing is declared, any name is right."""
    return {name: _nearest(name, declared) for name in sorted(set(given).difference(declared))} if declared else {}


def missing(declared: tuple[str, ...], scores: Mapping[str, object], unmeasured: Iterable[str] = ()) -> dict[str, str]:
    """The declared metrics of which a result says nothing → what is the matter. A score of ``None`` says something, and
    so does an entry in ``unmeasured``."""
    told = {*scores, *unmeasured}
    lacking = [name for name in declared if name not in told]
    spare = tuple(name for name, score in scores.items() if score is not None and name not in declared)
    return {name: _lacking(name, spare) for name in lacking}


def with_value(scores: Mapping[str, object]) -> list[str]:
    """The metrics that have a score."""
    return [metric for metric, score in scores.items() if score is not None]


@cache
def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    return nearest(name, known) if known else None


def _lacking(name: str, spare: tuple[str, ...]) -> str:
    meant = _nearest(name, spare)
    if meant is not None:
        return f"the evaluator declares it, and the result lacks it, but has {meant!r}, which is not declared"
    return "the evaluator declares it, and the result lacks it: give None where there is nothing to measure"
