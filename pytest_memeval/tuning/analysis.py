"""The result of a grid: the ``rrf`` section of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.tuning.conclusion import CONCLUSIVE, NO_QUERIES, Conclusion, conclude
from pytest_memeval.tuning.crossval import CrossValidation, cross_validate
from pytest_memeval.tuning.diagnosis import Diagnosis
from pytest_memeval.tuning.quality import Metric, Truths, quality
from pytest_memeval.tuning.selection import Measured
from pytest_memeval.tuning.sensitivity import Sensitivity, sensitivities
from pytest_memeval.tuning.space import Params, ParamSpace

if TYPE_CHECKING:
    from pytest_memeval.tuning.quality import Floats, Ranks

#: From this score on, hardly anything is left to gain.
CEILING = 0.95


@dataclass(frozen=True)
class TuningResult:
    """What a grid over search parameters showed.

    ``best_params`` is the best combination's tuned parameters, ``best_score`` its metric on the queries that made it
    the best (so it flatters), ``best_ndcg10`` its NDCG@10. ``conclusion`` is one of
    :data:`~pytest_memeval.tuning.conclusion.CONCLUSIONS`, ``None`` where nothing could be compared.
    ``recommended_params`` are given only if it is ``conclusive``: else the current values stand. ``all_results`` has
    every combination in the grid's order, with score ``None`` where it could not be measured. Figures are in [0, 1],
    ``None`` for what was not measured. ``notes`` are (key, details) of remarks.
    """

    metric: str
    current_params: Params
    conclusion: str | None
    reason: str
    reason_details: dict[str, Any] = field(default_factory=dict)
    p_value: float | None = None
    current_score: float | None = None
    current_ndcg10: float | None = None
    best_params: Params | None = None
    best_score: float | None = None
    best_ndcg10: float | None = None
    recommended_params: Params | None = None
    recommended_score: float | None = None
    cross_validation: CrossValidation | None = None
    diagnosis: Diagnosis | None = None
    param_sensitivity: Mapping[str, Sensitivity] = field(default_factory=dict)
    all_results: tuple[dict[str, Any], ...] = ()
    queries: int = 0
    groups: int = 0
    without_truth: int = 0
    partial: bool = False
    unmeasured: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[tuple[str, dict[str, Any]], ...] = ()
    warnings: tuple[str, ...] = ()

    def section(self) -> dict[str, Any]:
        """As strict JSON."""
        return {
            "metric": self.metric,
            "conclusion": self.conclusion,
            "reason": self.reason,
            "reason_details": self.reason_details,
            "p_value": self.p_value,
            "current_params": self.current_params,
            "current_score": self.current_score,
            "current_ndcg10": self.current_ndcg10,
            "best_params": self.best_params,
            "best_score": self.best_score,
            "best_ndcg10": self.best_ndcg10,
            "recommended_params": self.recommended_params,
            "recommended_score": self.recommended_score,
            "cross_validation": None if self.cross_validation is None else self.cross_validation.as_dict(),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.as_dict(),
            "param_sensitivity": {name: one.as_dict() for name, one in self.param_sensitivity.items()},
            "queries": {"measured": self.queries, "groups": self.groups, "without_truth": self.without_truth},
            "partial": self.partial,
            "unmeasured": dict(self.unmeasured),
            "failures": dict(self.failures),
            "notes": [{"note": key, **details} for key, details in self.notes],
            "warnings": list(self.warnings),
            "all_results": list(self.all_results),
        }


def empty_result(space: ParamSpace, metric: Metric, without_truth: int) -> TuningResult:
    """The result where no query has a relevant memory."""
    return TuningResult(str(metric), space.tuned(space.current), NO_QUERIES, "no_queries", without_truth=without_truth)


def analyse(
    space: ParamSpace,
    metric: Metric,
    params: Sequence[Params],
    values: Floats,
    ranks: Ranks,
    truths: Truths,
    *,
    folds: int,
    seed: int,
    diagnosis: Diagnosis | None = None,
    partial: bool = False,
    unmeasured: Mapping[str, int] | None = None,
    failures: Mapping[str, int] | None = None,
    warnings: Sequence[str] = (),
    without_truth: int = 0,
) -> TuningResult:
    """Everything that the measurements of a grid show.

    Row 0 of ``params``, ``values`` (a column a query, NaN in a row that was not measured in full) and ``ranks`` are the
    current values, which have to be measured.
    """
    import numpy as np

    scores = [None if np.isnan(row).any() else float(row.mean()) for row in values]
    known = np.array([row for row, score in enumerate(scores) if score is not None])
    measured = _measured(space, [params[row] for row in known], values[known], truths)
    best = int(known[measured.best(measured.sums.sum(axis=1))])
    validation = cross_validate(measured, folds=folds, seed=seed)
    conclusion = conclude(measured, validation, diagnosis, seed=seed)
    recommended = conclusion.recommended
    rows = {tuple(one[name] for name in space.names): row for row, one in enumerate(params)}
    # The current values are a point of the curves only if the grid has them.
    in_grid = tuple(params[0][name] for name in space.names)
    if any(value not in space.axes[name] for name, value in zip(space.names, in_grid, strict=True)):
        del rows[in_grid]
    grid_best = _best_of_grid(known, rows.values(), scores, params)
    curves = sensitivities(space, rows, values, truths.groups, grid_best, seed=seed)

    def ndcg10(row: int) -> float:
        return float(quality(ranks[[row]], truths, Metric("ndcg", 10)).mean())

    return TuningResult(
        metric=str(metric),
        current_params=space.tuned(params[0]),
        conclusion=conclusion.name,
        reason=conclusion.reason,
        reason_details=conclusion.details,
        p_value=conclusion.p_value,
        current_score=scores[0],
        current_ndcg10=ndcg10(0),
        best_params=space.tuned(params[best]),
        best_score=scores[best],
        best_ndcg10=ndcg10(best),
        recommended_params=None if recommended is None else space.tuned(measured.params[recommended]),
        recommended_score=None if recommended is None else scores[int(known[recommended])],
        cross_validation=validation,
        diagnosis=diagnosis,
        param_sensitivity=curves,
        all_results=_all_results(space, rows, params, scores),
        queries=len(truths),
        groups=len(measured.sizes),
        without_truth=without_truth,
        partial=partial,
        unmeasured=dict(unmeasured or {}),
        failures=dict(failures or {}),
        warnings=tuple(warnings),
        notes=_notes(space, metric, params[0], scores, conclusion, measured),
    )


def _best_of_grid(known: Any, in_grid: Any, scores: Sequence[float | None], params: Sequence[Params]) -> Params | None:
    candidates = sorted(set(in_grid).intersection(known.tolist()))
    return params[max(candidates, key=lambda row: scores[row] or 0.0)] if candidates else None


def _measured(space: ParamSpace, params: Sequence[Params], values: Floats, truths: Truths) -> Measured:
    import numpy as np

    groups = tuple(sorted(set(truths.groups)))
    column = {group: number for number, group in enumerate(groups)}
    membership = np.zeros((len(truths), len(groups)))
    membership[np.arange(len(truths)), [column[group] for group in truths.groups]] = 1.0
    return Measured(space, params, 0, values @ membership, membership.sum(axis=0), groups)


def _all_results(
    space: ParamSpace, rows: Mapping[Any, int], params: Sequence[Params], scores: Sequence[float | None]
) -> tuple[dict[str, Any], ...]:
    """Every combination of the grid in its order; the current values first where the grid does not have them."""
    ordered = [rows[tuple(one[name] for name in space.names)] for one in space.combinations()]
    if 0 not in ordered:
        ordered.insert(0, 0)
    return tuple(
        {"params": space.tuned(params[row]), "score": scores[row], **({"current": True} if row == 0 else {})}
        for row in ordered
    )


def _notes(
    space: ParamSpace,
    metric: Metric,
    current: Params,
    scores: Sequence[float | None],
    conclusion: Conclusion,
    measured: Measured,
) -> tuple[tuple[str, dict[str, Any]], ...]:
    notes: list[tuple[str, dict[str, Any]]] = []
    if scores[0] is not None and scores[0] >= CEILING:
        notes.append(("ceiling", {"score": scores[0]}))
    if "top_k" in space.axes:
        cut = metric.k
        if cut is None:
            notes.append(("top_k_open", {"metric": str(metric)}))
        elif any(isinstance(value, int) and value < cut for value in (*space.axes["top_k"], current["top_k"])):
            notes.append(("top_k_below", {"metric": str(metric), "k": cut}))
        else:
            notes.append(("top_k_beyond", {"metric": str(metric), "k": cut}))
    if conclusion.name == CONCLUSIVE and conclusion.chosen is not None:
        chosen = measured.params[conclusion.chosen]
        for name, values in space.axes.items():
            numbers = [value for value in values if not isinstance(value, str)]
            changed = chosen[name] != current[name]
            if changed and len(numbers) > 1 and chosen[name] in (min(numbers), max(numbers)):
                notes.append(("edge", {"name": name, "value": chosen[name]}))
    return tuple(notes)
