"""The metrics that an evaluator says it gives, held against what it gave."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from pytest_memeval.documents.problems import nearest


def declared_metrics(evaluator: object) -> tuple[str, ...]:
    """The names in the evaluator's ``metrics``, each once and those of a set in order, one text being one name; none
    where it declares nothing. TypeError for what holds no names, or holds them only once."""
    declared = getattr(evaluator, "metrics", None)
    if declared is None or isinstance(declared, str):
        return (declared,) if declared else ()
    if not isinstance(declared, Collection):
        raise TypeError(f"metrics must be a text or several, such as ('fluency',), not {type(declared).__name__}")
    names = dict.fromkeys(map(str, declared))
    return tuple(sorted(names)) if isinstance(declared, AbstractSet) else tuple(names)


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
