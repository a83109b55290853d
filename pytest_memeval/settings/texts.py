"""Options whose text says more than a value: gates, default thresholds, and how memories are matched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_memeval.options import SettingsError

if TYPE_CHECKING:
    from pytest_memeval.metrics.matching import Matcher
    from pytest_memeval.metrics.thresholds import Gate, Threshold


def matcher_of(
    name: str, threshold: float | None, where: str, *, threshold_where: str = "--match-threshold"
) -> Matcher:
    """The matcher with that name and that (or the default) threshold, or the project's own that ``module:attribute``
    names. Raises SettingsError, also for a threshold that is given for one of the project's own."""
    from pytest_memeval.metrics.matching import DEFAULT_THRESHOLD, build_matcher

    if ":" in name:
        from pytest_memeval.own_parts import own_matcher

        if threshold is not None:
            raise SettingsError(f"{threshold_where}: matcher {name!r} decides itself from where on texts match")
        return own_matcher(name, where)
    try:
        return build_matcher(name, DEFAULT_THRESHOLD if threshold is None else threshold)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def parse_expectations(texts: Iterable[str]) -> tuple[Threshold, ...]:
    """Default thresholds as the ini writes them: ``l1.memory_recall >= 0.5``. Raises SettingsError."""
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_threshold

    result = []
    for text in texts:
        path, _, bound = text.strip().partition(" ")
        try:
            result.append(parse_threshold(path, bound))
        except ThresholdError as error:
            raise SettingsError(f"memeval_expect: {error}") from None
    return tuple(result)


def parse_gate_options(texts: Iterable[str], origin: str) -> tuple[Gate, ...]:
    """Gates as ``origin`` (``command line`` or ``ini``) writes them. Raises SettingsError, which names the option."""
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_gate

    gates = []
    for text in texts:
        try:
            gates.append(parse_gate(text, origin))
        except ThresholdError as error:
            where = "--memeval-gate" if origin == "command line" else "memeval_gate"
            raise SettingsError(f"{where}: {error}") from None
    return tuple(gates)
