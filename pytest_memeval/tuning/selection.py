"""Which combination a set of queries speaks for: the best one, as little changed as that allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_memeval.tuning.space import Params, ParamSpace, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Means this close are equal but for rounding.
CLOSE = 1e-12


class Measured:
    """The combinations that every query could be asked with, and their values summed over each group of queries.

    ``sums`` has a row a combination and a column a group, ``sizes`` the number of queries of each group; a
    combination's score is Σ sums / Σ sizes. ``current`` is the row of the current values.
    """

    def __init__(
        self,
        space: ParamSpace,
        params: Sequence[Params],
        current: int,
        sums: Floats,
        sizes: Floats,
        groups: tuple[str, ...],
    ) -> None:
        self.space = space
        self.params = params
        self.current = current
        self.sums = sums
        self.sizes = sizes
        self.groups = groups

    def __len__(self) -> int:
        return len(self.params)

    @cached_property
    def differences(self) -> Floats:
        """What each combination gains over the current values, by group; rounding is taken for equality."""
        import numpy as np

        differences: Floats = self.sums - self.sums[self.current]
        return np.where(np.abs(differences) > CLOSE, differences, 0.0)

    @cached_property
    def nearness(self) -> NDArray[np.int64]:
        """The combinations' places when those that change least come first: fewest parameters, then shortest steps."""
        import numpy as np

        now = self.space.tuned(self.params[self.current])
        order = sorted(range(len(self)), key=lambda row: (*self._distance(self.params[row], now), row))
        places = np.empty(len(self), dtype=np.int64)
        places[order] = np.arange(len(self))
        return places

    def _distance(self, params: Params, now: Params) -> tuple[int, float]:
        changed = [name for name in now if params[name] != now[name]]
        return len(changed), math.fsum(_step(params[name], now[name], self.space.axes[name]) for name in changed)

    @cached_property
    def rows(self) -> dict[tuple[Value, ...], int]:
        return {tuple(one[name] for name in self.space.names): row for row, one in enumerate(self.params)}

    def best(self, sums: Floats) -> int:
        """The row with the largest sum, of equals the one that changes least."""
        import numpy as np

        top = np.flatnonzero(sums >= sums.max() - CLOSE * max(1.0, abs(float(sums.max()))))
        return int(top[np.argmin(self.nearness[top])])

    def choose(self, groups: NDArray[np.int64] | None = None) -> int:
        """The row that the groups given (``None``: all) speak for.

        That is the best one; a parameter goes back to its current value as long as the loss, against the best, stays
        within one standard error of that difference (Breiman et al. 1984): what it adds could as well be luck.
        """
        import numpy as np

        columns = np.arange(len(self.sizes)) if groups is None else groups
        asked = np.zeros(len(self.sizes))
        asked[columns] = 1.0
        sums = self.sums @ asked
        best = chosen = self.best(sums)
        if len(columns) < 2:
            return chosen
        sizes = self.sizes[columns]
        while True:
            simpler = [row for row in self._simpler(chosen) if self._within_error(best, row, columns, sizes)]
            if not simpler:
                return chosen
            chosen = max(simpler, key=lambda row: (sums[row], -self.nearness[row]))

    def _simpler(self, row: int) -> list[int]:
        """The measured combinations with one more parameter at its current value."""
        now, own = self.params[self.current], self.params[row]
        names = self.space.names
        found = []
        for name in names:
            if own[name] != now[name]:
                key = tuple(now[one] if one == name else own[one] for one in names)
                if key in self.rows:
                    found.append(self.rows[key])
        return found

    def _within_error(self, best: int, row: int, columns: NDArray[np.int64], sizes: Floats) -> bool:
        import numpy as np

        losses = self.sums[best, columns] - self.sums[row, columns]
        total = float(losses.sum())
        residuals = losses - total / sizes.sum() * sizes
        count = len(columns)
        error = math.sqrt(count / (count - 1) * float(np.square(residuals).sum()))
        return total <= error + CLOSE


def _step(value: Value, now: Value, values: Sequence[Value]) -> float:
    """How far two values of a parameter are apart, 1 for the whole axis; texts are 1 apart."""
    numbers = [one for one in (*values, value, now) if not isinstance(one, str)]
    if isinstance(value, str) or isinstance(now, str) or len(numbers) < len(values) + 2:
        return 1.0
    width = max(numbers) - min(numbers)
    return abs(value - now) / width if width else 0.0
