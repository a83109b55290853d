"""Trying every combination of a grid, and saying what that shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.tuning.analysis import TuningResult, analyse, empty_result
from pytest_memeval.tuning.crossval import DEFAULT_FOLDS
from pytest_memeval.tuning.quality import ABSENT, Metric, Truths, parse_metric, quality
from pytest_memeval.tuning.queries import LabelledQuery, QuerySet, TuningError
from pytest_memeval.tuning.rankers import CallableRanker, Ranker
from pytest_memeval.tuning.space import Params, ParamSpace, Value, make_space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_memeval.tuning.quality import Floats, Ranks

#: So many single measurements (combinations × queries) at most: their table then takes 400 MB.
MOST_MEASUREMENTS = 50_000_000

#: Called with the number of combinations done, of all, and the best score so far.
Progress = Callable[[int, int, float | None], None]


class MeasurementError(TuningError):
    """The current values could not be measured, so that nothing can be compared with them."""


class GridSearch:
    """A full grid over search parameters.

    ``param_space`` maps parameters to the values to try (``{"rrf_k": [10, 30, 60]}``), ``current`` to the values that
    stand now (default: those of the built-in search; of another parameter, its first value). ``metric`` is what is
    tuned for. After :meth:`search`, ``best_params`` are the best combination's tuned parameters (``None`` without one)
    and ``status`` is the conclusion; before it, ``not_run``. ``unmeasured`` is the status where nothing could be
    compared. SpaceError for a grid, TuningError for a metric or folds that cannot be used.
    """

    def __init__(
        self,
        param_space: Mapping[str, Sequence[Value]] | ParamSpace,
        current: Mapping[str, Value] | None = None,
        *,
        metric: str = "ndcg@10",
        folds: int = DEFAULT_FOLDS,
        seed: int = 0,
    ) -> None:
        if folds < 2:
            raise TuningError(f"cross-validation needs at least 2 folds, not {folds}")
        if seed < 0:
            raise TuningError(f"a seed is a whole number from 0, not {seed}")
        if not isinstance(param_space, ParamSpace):
            param_space = make_space(param_space, current, free=True)
        self.space: ParamSpace = param_space
        self.metric: Metric = parse_metric(metric)
        self.folds = folds
        self.seed = seed
        self.result: TuningResult | None = None

    @property
    def status(self) -> str:
        return "not_run" if self.result is None else self.result.conclusion or "unmeasured"

    @property
    def best_params(self) -> Params | None:
        return None if self.result is None else self.result.best_params

    def search(
        self,
        ranker: Ranker | Callable[[str, Params], Any],
        queries: QuerySet | Iterable[LabelledQuery],
        *,
        progress: Progress | None = None,
    ) -> TuningResult:
        """Measure every combination and conclude. ``ranker`` may be a function ``search(query, params)`` → ranked ids.

        The current values come first. An interrupt (Ctrl-C) ends the measuring; what was measured until then is
        analysed and marked partial. MeasurementError where a query fails under the current values; TuningError for a
        grid too large for the queries.
        """
        asked = _as_ranker(ranker)
        found = queries if isinstance(queries, QuerySet) else QuerySet(tuple(queries))
        asked.check(self.space.names)
        if not found.queries:
            self.result = empty_result(self.space, self.metric, found.without_truth)
            return self.result
        run = _Run(self.space, Truths(found.queries), self.metric, self.seed)
        run.measure_current(asked)
        try:
            run.measure(asked, progress)
        except KeyboardInterrupt:
            run.partial = True
        self.result = analyse(
            self.space,
            self.metric,
            run.params,
            run.values(),
            run.ranks,
            run.truths,
            folds=self.folds,
            seed=self.seed,
            diagnosis=asked.diagnosis(run.params[0], run.truths),
            partial=run.partial,
            unmeasured=run.unmeasured(),
            failures=dict(asked.failures.most_common()),
            warnings=tuple(asked.warnings),
            without_truth=found.without_truth,
        )
        return self.result


def _as_ranker(given: Any) -> Ranker:
    """A ranker as it is; anything else is a function to call."""
    if all(callable(getattr(given, name, None)) for name in ("check", "ranks", "diagnosis")):
        ranker: Ranker = given
        return ranker
    return CallableRanker(given)


class _Run:
    """The measurements of one search. Row 0 are the current values; a grid that has them keeps them only there."""

    def __init__(self, space: ParamSpace, truths: Truths, metric: Metric, seed: int) -> None:
        import numpy as np

        if len(space) * len(truths) > MOST_MEASUREMENTS:
            raise TuningError(
                f"{len(space):,} combinations of {len(truths):,} queries are more than"
                f" {MOST_MEASUREMENTS:,} measurements; try fewer values"
            )
        self.truths = truths
        self.metric = metric
        self.partial = False
        current = {**{name: space.current[name] for name in space.names}, **space.current}
        rest = [params for params in space.combinations() if params != current]
        # In a random order, so that what an interrupt leaves is spread over the grid.
        order = np.random.default_rng(seed).permutation(len(rest))
        self.params: list[Params] = [current, *(rest[place] for place in order)]
        self.ranks: Ranks = np.full((len(self.params), truths.columns), ABSENT, dtype=np.int32)
        self.done: NDArray[np.bool_] = np.zeros(len(self.params), dtype=bool)
        self.failed: NDArray[np.bool_] = np.zeros((len(self.params), 1), dtype=bool)

    def measure_current(self, ranker: Ranker) -> None:
        for batch in ranker.ranks(self.params[:1], self.truths):
            self._take(0, batch.rows, batch.ranks, batch.failed)
            failed = int(batch.failed.sum())
            if failed:
                kinds = "; ".join(f"{count} × {kind}" for kind, count in ranker.failures.most_common(3))
                raise MeasurementError(
                    f"the current values could not be measured: {failed} of {len(self.truths)} queries failed ({kinds})"
                )

    def measure(self, ranker: Ranker, progress: Progress | None) -> None:
        best: float | None = None
        for batch in ranker.ranks(self.params[1:], self.truths):
            self._take(1, batch.rows, batch.ranks, batch.failed)
            if progress is not None:
                scores = quality(batch.ranks, self.truths, self.metric).mean(axis=1)[~batch.failed.any(axis=1)]
                best = max(filter(None, (best, float(scores.max()) if len(scores) else None)), default=best)
                progress(int(self.done.sum()), len(self.params), best)

    def _take(self, offset: int, rows: Sequence[int], ranks: Ranks, failed: NDArray[np.bool_]) -> None:
        places = [row + offset for row in rows]
        self.ranks[places] = ranks
        self.failed[places, 0] = failed.any(axis=1)
        self.done[places] = True

    def values(self) -> Floats:
        """The metric of each query under each combination; NaN in the rows that were not measured in full."""
        import numpy as np

        values = quality(self.ranks, self.truths, self.metric)
        values[~self.done | self.failed[:, 0]] = np.nan
        return values

    def unmeasured(self) -> dict[str, int]:
        """How many combinations have no score, by why: a query failed, or the run was stopped before."""
        return {"failed": int((self.done & self.failed[:, 0]).sum()), "not_reached": int((~self.done).sum())}
