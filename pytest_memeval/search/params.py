"""The parameters of a search, with their ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.fts import FTS_B, FTS_K1


@dataclass(frozen=True, slots=True)
class Range:
    """What a parameter may be: a number from ``low`` to ``high``, both included; ``whole`` for whole numbers."""

    low: float
    high: float = math.inf
    whole: bool = False

    def check(self, name: str, value: object) -> float:
        """``value`` as a number. Raises :class:`SearchError` naming the parameter, the value and the range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SearchError(f"{name} must be a number, not {value!r}")
        open_ended = self.high == math.inf
        bounds = f"{_text(self.low)} or more" if open_ended else f"between {_text(self.low)} and {_text(self.high)}"
        if not math.isfinite(value):
            raise SearchError(f"{name} must be {bounds}, not {value:g}")
        nearest = min(max(value, self.low), self.high)
        if nearest != value:
            raise SearchError(
                f"{name} must be {bounds}, not {_text(value)}; the nearest valid value is {_text(nearest)}"
            )
        if self.whole and value != int(value):
            nearest = max(round(value), int(self.low))
            raise SearchError(f"{name} must be a whole number, not {value:g}; the nearest valid value is {nearest}")
        return int(value) if self.whole else float(value)


def _text(number: float) -> str:
    """As people write it: 1000000 and not 1e+06."""
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else f"{number:g}"


#: Parameter → its range.
RANGES: Mapping[str, Range] = {
    "top_k": Range(1, 1_000_000, whole=True),
    "rrf_k": Range(0),
    "bm25_weight": Range(0, 1),
    "bm25_k1": Range(0),
    "bm25_b": Range(0, 1),
}


@dataclass(frozen=True, slots=True)
class SearchParams:
    """``top_k`` hits are given; ``rrf_k`` is the constant of the fusion; the word route has the weight ``bm25_weight``
    and the vector route the rest to 1; ``bm25_k1`` and ``bm25_b`` are BM25's own. Raises :class:`SearchError` for a
    value out of its range."""

    top_k: int = 20
    rrf_k: float = 60.0
    bm25_weight: float = 0.5
    bm25_k1: float = FTS_K1
    bm25_b: float = FTS_B

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            object.__setattr__(self, name, allowed.check(name, getattr(self, name)))

    def to_dict(self) -> dict[str, float]:
        """The parameters as an engine's ``search`` gets them."""
        return asdict(self)

    @property
    def is_fts5(self) -> bool:
        """Whether FTS5's own BM25, whose constants are fixed, is the one asked for."""
        return self.bm25_k1 == FTS_K1 and self.bm25_b == FTS_B

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> SearchParams:
        """From a mapping; what it leaves out has its default. An unknown name is a :class:`SearchError`."""
        for name in values or ():
            if name not in RANGES:
                raise SearchError(f"unknown search parameter {name!r}{did_you_mean(str(name), RANGES)}")
        return cls(**(values or {}))

    @classmethod
    def parse(cls, text: str) -> SearchParams:
        """From text such as ``top_k=20, bm25_weight=0.4``; empty text gives the defaults."""
        values: dict[str, float] = {}
        for part in text.replace(",", " ").split():
            name, equals, number = part.partition("=")
            if not equals:
                raise SearchError(f"{part!r} is not of the form name=number, such as top_k=20")
            if name in values:
                raise SearchError(f"{name} is given twice")
            try:
                values[name] = float(number)
            except ValueError:
                raise SearchError(f"{name} must be a number, not {number!r}") from None
        return cls.of(values)
