"""How much each parameter moves the metric: curves, spread, and the spread that luck alone would give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.tuning.selection import CLOSE
from pytest_memeval.tuning.space import Params, ParamSpace, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PERMUTATIONS = 1_000
#: Numbers that are put in random order in all; a parameter with very many values gets fewer permutations.
_MOST_PERMUTED = 50_000_000


@dataclass(frozen=True)
class Sensitivity:
    """One parameter's curves over its values.

    ``marginal`` is the mean over all measured combinations with that value, ``at_best`` the score with every other
    parameter at its best; ``None`` where nothing was measured. ``spread`` is the largest minus the smallest marginal.
    ``noise`` is the 95 % point of the spread when the values are swapped at random within each group of queries.
    ``changed_queries`` counts the queries whose value this parameter changes with all others held. ``effect`` is
    ``none`` (it changes no query), ``within_noise``, ``beyond_noise``, or ``None`` where it cannot be said.
    """

    values: tuple[Value, ...]
    marginal: tuple[float | None, ...]
    at_best: tuple[float | None, ...]
    measured: tuple[int, ...]
    spread: float | None
    noise: float | None
    changed_queries: int
    effect: str | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "values": list(self.values),
            "marginal": list(self.marginal),
            "at_best": list(self.at_best),
            "measured": list(self.measured),
            "spread": self.spread,
            "noise": self.noise,
            "changed_queries": self.changed_queries,
            "effect": self.effect,
        }


def sensitivities(
    space: ParamSpace,
    rows: Mapping[tuple[Value, ...], int],
    values: Floats,
    groups: Sequence[str],
    best: Params | None,
    *,
    seed: int = 0,
) -> dict[str, Sensitivity]:
    """The sensitivity to each parameter of the grid.

    ``rows`` maps a combination (values in the grid's order) to its row of ``values``, which has a column a query, NaN
    in a combination that could not be measured. ``groups`` has each query's group; ``best`` is the best combination.
    """
    import numpy as np

    scores = np.full(len(space), np.nan)
    table_rows = np.full(len(space), -1)
    for number, params in enumerate(space.combinations()):
        row = rows.get(tuple(params[name] for name in space.names), -1)
        if row >= 0 and not np.isnan(values[row]).any():
            scores[number] = values[row].mean()
            table_rows[number] = row
    members = [np.flatnonzero([group == one for group in groups]) for one in sorted(set(groups))]
    return {
        name: _sensitivity(space, axis, name, scores, table_rows, values, members, best, seed)
        for axis, name in enumerate(space.names)
    }


def _sensitivity(
    space: ParamSpace,
    axis: int,
    name: str,
    scores: Floats,
    table_rows: NDArray[np.int64],
    values: Floats,
    members: list[NDArray[np.int64]],
    best: Params | None,
    seed: int,
) -> Sensitivity:
    import numpy as np

    choices = space.axes[name]
    by_value = np.moveaxis(scores.reshape(space.shape), axis, 0).reshape(len(choices), -1)
    counts = np.isfinite(by_value).sum(axis=1)
    marginal = [float(np.nanmean(row)) if count else None for row, count in zip(by_value, counts, strict=True)]
    at_best: list[float | None] = [None] * len(choices)
    if best is not None:
        place = tuple(slice(None) if one == name else space.axes[one].index(best[one]) for one in space.names)
        at_best = [None if math.isnan(one) else float(one) for one in scores.reshape(space.shape)[place]]
    known = [one for one in marginal if one is not None]
    spread = max(known) - min(known) if len(known) > 1 else None
    rows = np.moveaxis(table_rows.reshape(space.shape), axis, 0).reshape(len(choices), -1)
    changed = _changed_queries(rows, values)
    noise = None
    effect = None
    if spread is not None and (counts == counts[0]).all():
        noise = _noise(rows, values, members, seed) if changed else 0.0
        effect = "none" if not changed else "beyond_noise" if spread > noise + CLOSE else "within_noise"
    return Sensitivity(
        choices, tuple(marginal), tuple(at_best), tuple(int(one) for one in counts), spread, noise, changed, effect
    )


def _changed_queries(rows: NDArray[np.int64], values: Floats) -> int:
    """How many queries take different values along an axis (first axis of ``rows``) with everything else held."""
    import numpy as np

    changed = np.zeros(values.shape[1], dtype=bool)
    for column in rows.T:
        own = column[column >= 0]
        if len(own) > 1:
            changed |= np.ptp(values[own], axis=0) > CLOSE
    return int(changed.sum())


def _noise(rows: NDArray[np.int64], values: Floats, members: list[NDArray[np.int64]], seed: int) -> float:
    """The 95 % point of the spread under random order of the values within each group."""
    import numpy as np

    by_query = np.array([values[own[own >= 0]].mean(axis=0) for own in rows])
    by_group = np.array([by_query[:, queries].sum(axis=1) for queries in members])  # group, value
    generator = np.random.default_rng([seed, *by_group.shape])
    spreads = np.empty(max(100, min(PERMUTATIONS, _MOST_PERMUTED // by_group.size)))
    for number in range(len(spreads)):
        total = generator.permuted(by_group, axis=1).sum(axis=0)
        spreads[number] = total.max() - total.min()
    noise: float = float(np.quantile(spreads, 0.95)) / int(values.shape[1])
    return noise
