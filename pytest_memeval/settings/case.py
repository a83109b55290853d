"""The settings of a case's run, made once from the options of the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_memeval.scoring import ScoringOptions
from pytest_memeval.search.params import SearchParams

if TYPE_CHECKING:
    from pytest_memeval.metrics.thresholds import Threshold


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What all cases of a run share besides engine, model and assets.

    ``stages`` is ``None`` for all. ``timeout`` (seconds a case) holds where the case names none. ``expect`` are
    default thresholds, applied where a case has the labels for them.
    """

    stages: frozenset[str] | None = None
    chained: bool = True
    timeout: float | None = None
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    expect: tuple[Threshold, ...] = ()
    search: SearchParams = field(default_factory=SearchParams)
