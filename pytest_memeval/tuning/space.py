"""The parameters of a search and the values that a grid tries, read from words such as ``rrf_k=10,30,60``."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.search.errors import SearchError
from pytest_memeval.search.params import RANGES, SearchParams

Value = int | float | str
Params = dict[str, Value]

#: So many combinations at most: beyond it a grid takes hours and its best is luck.
MOST_COMBINATIONS = 100_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class SpaceError(ValueError):
    """A grid that cannot be searched; the text names parameter and value."""


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


#: The values that stand where nothing else is said, of the built-in search, in the order in which reports show them.
DEFAULTS: Mapping[str, int | float] = {
    name: _plain(SearchParams().to_dict()[name]) for name in ("rrf_k", "bm25_weight", "top_k", "bm25_k1", "bm25_b")
}


def _in_range(name: str, value: Value) -> int | float:
    """A value of the built-in search's parameter. SpaceError outside its range, with the nearest valid value."""
    try:
        return _plain(RANGES[name].check(name, value))
    except SearchError as error:
        raise SpaceError(str(error)) from None


@dataclass(frozen=True)
class ParamSpace:
    """The values to try of each parameter, and all their combinations in order (the last parameter changes fastest).

    ``current`` has the value that each parameter has now: of the grid's parameters, and of those that are not tuned.
    """

    axes: Mapping[str, tuple[Value, ...]]
    current: Mapping[str, Value]

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.axes.values())

    def combinations(self) -> Iterator[Params]:
        """Each combination with the current values of what is not tuned."""
        fixed = {name: value for name, value in self.current.items() if name not in self.axes}
        for values in itertools.product(*self.axes.values()):
            yield {**dict(zip(self.axes, values, strict=True)), **fixed}

    def tuned(self, params: Mapping[str, Value]) -> Params:
        """Of a combination, the parameters that the grid varies."""
        return {name: params[name] for name in self.axes}


def make_space(
    param_space: Mapping[str, Sequence[Value]], current: Mapping[str, Value] | None = None, *, free: bool = False
) -> ParamSpace:
    """A checked grid. ``free`` allows parameters that the built-in search does not know, with values of any kind.

    Such a parameter's current value is the one in ``current``, else the first of its values. SpaceError for an unknown
    parameter, a value out of range or given twice, an empty list, or more than 100,000 combinations.
    """
    if not param_space:
        raise SpaceError("the grid names no parameter, such as rrf_k=10,30,60")
    axes: dict[str, tuple[Value, ...]] = {}
    for name, values in param_space.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SpaceError(f"{name}: a list of values is needed, not {values!r}")
        checked = tuple(_checked(name, value, free) for value in values)
        if not checked:
            raise SpaceError(f"{name} has no value to try")
        if len(set(checked)) < len(checked):
            twice = Counter(checked).most_common(1)[0][0]
            raise SpaceError(f"{name}: {_text(twice)} is given twice")
        axes[name] = checked
    now: dict[str, Value] = {} if free else dict(DEFAULTS)
    for name, values in axes.items():
        now.setdefault(name, DEFAULTS.get(name, values[0]))
    for name, value in (current or {}).items():
        if name not in now and not free:
            raise SpaceError(f"unknown parameter {name!r}{did_you_mean(name, DEFAULTS)}")
        now[name] = _checked(name, value, free)
    known_first = [*(name for name in DEFAULTS if name in axes), *(name for name in axes if name not in DEFAULTS)]
    space = ParamSpace({name: axes[name] for name in known_first}, now)
    if len(space) > MOST_COMBINATIONS:
        raise SpaceError(f"the grid has {len(space):,} combinations; {MOST_COMBINATIONS:,} at most can be tried")
    return space


def parse_space(words: Iterable[str], current: Iterable[str] = (), *, free: bool = False) -> ParamSpace:
    """The grid of words ``NAME=VALUES`` (see :func:`parse_values`) and of ``NAME=VALUE`` for the current values."""
    grid: dict[str, list[Value]] = {}
    for word in words:
        name, text = _split(word, "rrf_k=10,30,60", free)
        if name in grid:
            raise SpaceError(f"{name} is given twice in the grid")
        grid[name] = parse_values(name, text, free=free)
    now: dict[str, Value] = {}
    for word in current:
        name, text = _split(word, "rrf_k=60", free)
        if name in now:
            raise SpaceError(f"the current value of {name} is given twice")
        values = parse_values(name, text, free=free)
        if len(values) != 1:
            raise SpaceError(f"{word!r}: {name} has one current value")
        now[name] = values[0]
    return make_space(grid, now, free=free)


def parse_values(name: str, text: str, *, free: bool = False) -> list[Value]:
    """``10,30,60`` (each as it stands), ``0.3:0.7:0.1`` (from : to : step, the end included), or both mixed.

    With ``free`` a value that is no number stays text. SpaceError for anything else.
    """
    values: list[Value] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            raise SpaceError(f"{name}={text}: a value is missing")
        bounds = part.split(":")
        numbers = [_decimal(bound) for bound in bounds]
        if len(bounds) == 3 and None not in numbers:
            values += _range(name, part, *(number for number in numbers if number is not None))
        elif len(bounds) == 1 and numbers[0] is not None:
            values.append(_number(numbers[0]))
        elif free and not (len(bounds) in (2, 3) and None not in numbers):
            values.append(part)
        else:
            raise SpaceError(f"{name}={text}: {part!r} is neither a number nor from:to:step")
    return values


def _range(name: str, part: str, start: Decimal, stop: Decimal, step: Decimal) -> list[Value]:
    if step <= 0 or stop < start:
        raise SpaceError(f"{name}: the range {part!r} needs from ≤ to and a step above 0")
    number = (stop - start) / step
    if number >= MOST_COMBINATIONS:
        raise SpaceError(f"{name}: the range {part!r} has {number:,.0f} values; {MOST_COMBINATIONS:,} at most")
    return [_number(start + step * index) for index in range(int(number) + 1)]


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < Decimal("1e15") else None


def _number(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


def _split(word: str, example: str, free: bool) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        raise SpaceError(f"{word!r} is not of the form {example}")
    if not free and name not in DEFAULTS:
        raise SpaceError(f"unknown parameter {name!r}{did_you_mean(name, DEFAULTS)}")
    return name, text


def _checked(name: str, value: Value, free: bool) -> Value:
    if name in DEFAULTS:
        return _in_range(name, value)
    if not free:
        raise SpaceError(f"unknown parameter {name!r}{did_you_mean(name, DEFAULTS)}")
    if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise SpaceError(f"{name}: {value!r} is neither a finite number nor text")
    return value


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
