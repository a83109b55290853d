"""What a grid's figures allow one to say, and whether a value can be recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_memeval.tuning.crossval import CrossValidation
from pytest_memeval.tuning.diagnosis import Diagnosis
from pytest_memeval.tuning.selection import Measured
from pytest_memeval.tuning.significance import gain_p_value, worst_alternative_p_value

CONCLUSIVE = "conclusive"
NO_EFFECT = "inconclusive_no_effect"
BELOW_NOISE = "inconclusive_below_noise"
BM25_ONLY = "inconclusive_bm25_only"
NO_QUERIES = "no_queries"
CONCLUSIONS: tuple[str, ...] = (CONCLUSIVE, NO_EFFECT, BELOW_NOISE, BM25_ONLY, NO_QUERIES)

#: Levels of the two one-sided tests, for another value and for keeping the current one. A set of queries that shows
#: nothing is called conclusive in at most 3.5 % of cases.
LEVEL = 0.025
KEEP_LEVEL = 0.01
#: Parameters that only weigh one route against the other.
FUSION = frozenset({"rrf_k", "bm25_weight"})


@dataclass(frozen=True)
class Conclusion:
    """``name`` is one of :data:`CONCLUSIONS`, ``None`` where nothing could be compared.

    ``reason`` is a key of the messages, with ``details`` for its text. ``chosen`` is the row that the queries speak
    for; it is recommended only if ``name`` is ``conclusive``. ``p_value`` is that of the test that decided.
    """

    name: str | None
    reason: str
    details: dict[str, Any]
    chosen: int | None = None
    p_value: float | None = None

    @property
    def recommended(self) -> int | None:
        return self.chosen if self.name == CONCLUSIVE else None


def conclude(
    measured: Measured, validation: CrossValidation, diagnosis: Diagnosis | None, *, seed: int = 0
) -> Conclusion:
    """The conclusion of a grid with at least one measured combination, the current one.

    - Fusion is tuned where there are no vectors: ``inconclusive_bm25_only``.
    - No combination changes any query: ``inconclusive_no_effect``.
    - The chosen combination is better than the current values both by a test adjusted for everything that was tried
      and by the cross-validated gain, whose interval lies above 0: ``conclusive``. So is it where the current values
      are better than every combination that measures differently.
    - Else ``inconclusive_below_noise``.
    """
    tuned = measured.space.names
    if diagnosis is not None and not diagnosis.vectors and FUSION.intersection(tuned):
        return Conclusion(BM25_ONLY, "bm25_only", {"parameters": ", ".join(one for one in tuned if one in FUSION)})
    if len(measured) < 2:
        return Conclusion(None, "nothing_to_compare", {})
    if not measured.differences.any():
        return Conclusion(NO_EFFECT, _why_no_effect(diagnosis, tuned), {"combinations": len(measured)})
    chosen = measured.choose()
    if not measured.differences[chosen].any():
        return _conclude_on_current(measured, chosen, seed)
    p_value = gain_p_value(measured, chosen, seed=seed)
    details: dict[str, Any] = {"chosen": measured.space.tuned(measured.params[chosen])}
    if p_value <= LEVEL and validation.beyond_zero:
        return Conclusion(CONCLUSIVE, "better", details, chosen, p_value)
    if len(measured.sizes) < _FEWEST_GROUPS:
        return Conclusion(BELOW_NOISE, "few_groups", {"groups": len(measured.sizes)}, chosen, p_value)
    reason = "not_beyond_luck" if p_value > LEVEL else "not_on_unseen"
    return Conclusion(BELOW_NOISE, reason, details, chosen, p_value)


def _conclude_on_current(measured: Measured, chosen: int, seed: int) -> Conclusion:
    best = measured.best(measured.sums.sum(axis=1))
    if measured.differences[best].any():
        return Conclusion(BELOW_NOISE, "within_error", {}, chosen, gain_p_value(measured, best, seed=seed))
    p_value = worst_alternative_p_value(measured, seed=seed)
    name, reason = (CONCLUSIVE, "current_is_best") if p_value <= KEEP_LEVEL else (BELOW_NOISE, "none_better")
    return Conclusion(name, reason, {}, chosen, p_value)


#: With fewer groups no sign-flip test reaches the level: 1 / 2^5 > 0.025.
_FEWEST_GROUPS = 6


def _why_no_effect(diagnosis: Diagnosis | None, tuned: Sequence[str]) -> str:
    """The first of the known causes that holds."""
    if diagnosis is None or not FUSION.issuperset(tuned):
        return "no_effect"
    if diagnosis.empty_text == diagnosis.queries:
        return "no_effect_text_empty"
    if diagnosis.empty_vector == diagnosis.queries:
        return "no_effect_vector_empty"
    if diagnosis.same_order == diagnosis.queries:
        return "no_effect_same_order"
    return "no_effect"
