"""Metric paths, thresholds and gates as people write them.

Grammar::

    gate      = level path op number            P0 l1.dimension_micro_f1 >= 0.75
                level diff:path op number       P1 diff:l1.dimension_micro_f1 >= -0.02
    threshold = op number                       >= 0.6
    path      = section.metric[@k][.key][{difficulty=hard}]
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.metrics.catalog import AT_K, METRICS, SECTIONS, MetricSpec, spec_of
from pytest_memeval.values import ACTIONS

Level = Literal["P0", "P1", "P2"]
LEVELS: tuple[Level, ...] = ("P0", "P1", "P2")
OPERATORS: tuple[str, ...] = (">=", "<=", ">", "<")
#: A value passes a threshold that it misses by no more than this, so that 0.1 + 0.7 meets 0.8.
TOLERANCE = 1e-9

#: Fields of a case that a path can be filtered by.
FILTER_FIELDS: tuple[str, ...] = ("difficulty", "source", "tag")
#: What a case's difficulty can be.
DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard", "unspecified")
#: Sections whose metric names are not known beforehand.
OPEN_SECTIONS: frozenset[str] = frozenset({"qa", "rag", "locomo", "longmemeval", "metrics"})

_PATH = re.compile(
    r"(?P<section>[A-Za-z0-9_]+)\.(?P<metric>[A-Za-z0-9_]+)(?:@(?P<k>[0-9]+))?(?:\.(?P<key>[^\s{}]+))?(?P<filter>\{[^{}]*\})?"
)
#: The largest ``k`` of ``@k``.
MAX_CUTOFF = 999_999
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
#: Before a gate's metric: the difference from the baseline is meant. The Greek letter says the same.
DIFFERENCE = "diff:"
_DIFFERENCE = re.compile(r"\s*(?:diff:|Δ|∆)\s*")
_THRESHOLD = re.compile(r"\s*(?P<op>[<>]=?)\s*(?P<number>[^\s<>=]\S*)\s*")


class ThresholdError(ValueError):
    """A path, threshold or gate that cannot be read; the text names the nearest valid one."""


@dataclass(frozen=True, slots=True)
class MetricPath:
    """Where a value stands in a report. ``filters`` are (field, value) pairs that a case must have. ``difference``: not
    the value is meant but how far it is from a baseline's."""

    section: str
    metric: str
    k: int | None = None
    key: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    difference: bool = False

    @property
    def base(self) -> str:
        """``section.metric`` without cut-off, key and filter."""
        return f"{self.section}.{self.metric}"

    @property
    def name(self) -> str:
        """The name in a section's flat tables: ``metric[@k][.key]``."""
        at = f"@{self.k}" if self.k is not None else ""
        key = f".{self.key}" if self.key is not None else ""
        return f"{self.metric}{at}{key}"

    @property
    def spec(self) -> MetricSpec | None:
        return spec_of(self.base)

    def __str__(self) -> str:
        inside = ", ".join(f"{field}={value}" for field, value in self.filters)
        prefix = DIFFERENCE if self.difference else ""
        return f"{prefix}{self.section}.{self.name}" + (f"{{{inside}}}" if inside else "")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound on a metric."""

    path: MetricPath
    op: str
    number: float

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the bound, within :data:`TOLERANCE`."""
        if self.op == ">=":
            return value >= self.number - TOLERANCE
        if self.op == "<=":
            return value <= self.number + TOLERANCE
        if self.op == ">":
            return value > self.number + TOLERANCE
        return value < self.number - TOLERANCE

    def __str__(self) -> str:
        # As many digits as tell the number apart from all others, so that the text reads back as the same bound.
        return f"{self.path} {self.op} {repr(self.number).removesuffix('.0')}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A threshold on an aggregated metric with its level.

    ``origin`` is ``default``, ``ini``, ``file`` or ``command line``.
    """

    level: str
    threshold: Threshold
    origin: str = "file"

    @property
    def path(self) -> MetricPath:
        return self.threshold.path

    def __str__(self) -> str:
        return f"{self.level} {self.threshold}"


def parse_path(text: str) -> MetricPath:
    """Read a metric path. An unknown section, metric, filter field or a misplaced ``@k`` raises ThresholdError."""
    match = _PATH.fullmatch(text.strip())
    if match is None:
        raise ThresholdError(
            f"{text!r} is not a metric path (section.metric, such as l1.dimension_micro_f1)"
            + did_you_mean(text, METRICS)
        )
    section, metric = match["section"], match["metric"]
    if section not in SECTIONS:
        raise ThresholdError(f"unknown section {section!r} in {text!r}" + did_you_mean(f"{section}.{metric}", METRICS))
    base = f"{section}.{metric}"
    if section not in OPEN_SECTIONS:
        if base not in METRICS:
            raise ThresholdError(
                f"unknown metric {base!r}" + did_you_mean(base, [m for m in METRICS if m.startswith(f"{section}.")])
            )
        if match["k"] is not None and base not in AT_K:
            raise ThresholdError(f"{base!r} takes no cut-off @{match['k']}")
        if match["k"] is None and base in AT_K:
            raise ThresholdError(f"{base!r} has one value per cut-off: write {base}@10")
        spec = METRICS[base]
        if match["key"] is not None and spec.keys is None:
            raise ThresholdError(f"{base!r} has no values by key, so {match['key']!r} names nothing")
        if match["key"] is None and spec.keys is not None:
            raise ThresholdError(f"{base!r} has one value per {spec.keys}: write {base}.<{spec.keys}>")
        if spec.keys == "action" and match["key"] not in ACTIONS:
            raise ThresholdError(f"unknown action {match['key']!r} in {text!r}" + did_you_mean(match["key"], ACTIONS))
    digits = match["k"]
    if digits is not None and len(digits.lstrip("0")) > len(str(MAX_CUTOFF)):
        raise ThresholdError(f"the cut-off of {base}@k is too large: it is at most {MAX_CUTOFF}")
    k = int(digits) if digits is not None else None
    if k == 0:
        raise ThresholdError(f"{text!r}: a cut-off is at least 1")
    return MetricPath(section, metric, k, match["key"], _parse_filters(match["filter"], text))


def check_key(path: MetricPath, dimensions: Collection[str]) -> None:
    """Raise ThresholdError where a metric by dimension is asked for one that is none of ``dimensions``."""
    spec, key = path.spec, path.key
    if spec is not None and spec.keys == "dimension" and key is not None and key not in dimensions:
        raise ThresholdError(f"unknown dimension {key!r} in {str(path)!r}" + did_you_mean(key, dimensions))


def _parse_filters(block: str | None, text: str) -> tuple[tuple[str, str], ...]:
    if block is None:
        return ()
    filters = []
    for part in block[1:-1].split(","):
        field, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise ThresholdError(f"{text!r}: a filter is {{field=value}}")
        if field not in FILTER_FIELDS:
            raise ThresholdError(f"{text!r}: unknown filter field {field!r}" + did_you_mean(field, FILTER_FIELDS))
        if field == "difficulty" and value not in DIFFICULTIES:
            raise ThresholdError(f"{text!r}: unknown difficulty {value!r}" + did_you_mean(value, DIFFICULTIES))
        filters.append((field, value))
    return tuple(filters)


def parse_bound(text: str) -> tuple[str, float]:
    """Read ``>= 0.6`` into its operator and number. The number is finite decimal text (``0.6``, ``1e-1``)."""
    match = _THRESHOLD.fullmatch(text)
    if match is None:
        raise ThresholdError(
            f"{text!r} is not a threshold: write an operator ({', '.join(OPERATORS)}) and a number, such as '>= 0.6'"
        )
    number = match["number"]
    if _NUMBER.fullmatch(number) is None or not math.isfinite(float(number)):
        raise ThresholdError(f"{number!r} in {text!r} is not a number")
    return match["op"], float(number)


def parse_threshold(path: str, bound: str) -> Threshold:
    """A case's own threshold: a metric path and its bound."""
    op, number = parse_bound(bound)
    found = parse_path(path)
    spec = found.spec
    if spec is not None and not spec.low <= number <= (math.inf if spec.high is None else spec.high):
        high = "" if spec.high is None else f" to {spec.high:g}"
        raise ThresholdError(f"{number:g} is out of range: {found} lies in {spec.low:g}{high or ' and above'}")
    return Threshold(found, op, number)


def parse_difference(path: str, bound: str) -> Threshold:
    """A bound on how far a metric is from a baseline's, at most the width of its range."""
    op, number = parse_bound(bound)
    found = replace(parse_path(path), difference=True)
    spec = found.spec
    if spec is not None and spec.high is not None and abs(number) > spec.high - spec.low:
        reach = spec.high - spec.low
        raise ThresholdError(f"{number:g} is out of range: {found} lies in {-reach:g} to {reach:g}")
    return Threshold(found, op, number)


def parse_gate(text: str, origin: str = "file") -> Gate:
    """Read ``P0 l1.dimension_micro_f1 >= 0.75``, or ``P1 diff:l1.memory_recall >= -0.02`` (also written with Δ)."""
    level, *words = text.split(maxsplit=1) or [""]
    rest = words[0] if words else ""
    if level not in LEVELS:
        raise ThresholdError(f"{text!r}: a gate starts with its level ({', '.join(LEVELS)}), not with {level!r}")
    sign = _DIFFERENCE.match(rest)
    rest = rest[sign.end() :] if sign is not None else rest
    split = re.match(r"\s*(?P<path>[^<>=\s{]+(?:\{[^{}]*\})?)\s*(?P<bound>[<>=].*)?$", rest)
    if split is None or split["bound"] is None:
        raise ThresholdError(
            f"{text!r}: a gate is '<level> <metric path> <operator> <number>', "
            "such as 'P0 l1.dimension_micro_f1 >= 0.75'"
        )
    parse = parse_threshold if sign is None else parse_difference
    return Gate(level, parse(split["path"], split["bound"]), origin)
