"""What a comparison holds: plain data, from which every rendering is made. A is the first report, B the second; every
difference is signed B − A."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

#: "major.minor" of the comparison's JSON form.
COMPARISON_VERSION = "1.1"

#: How sure a difference is: ``clear`` (Holm-adjusted p < 0.05), ``likely`` (p < 0.05 before the adjustment),
#: ``unclear``, ``same`` (equal in every case), ``untested`` (a count, or too little to test), ``unmeasured`` (no
#: difference) or ``incomparable`` (something that it depends on differs).
Signal = Literal["clear", "likely", "unclear", "same", "untested", "unmeasured", "incomparable"]
#: Where a difference points. ``better`` never stands where B lost cases that A measured: then it is ``coverage_lost``.
Direction = Literal["better", "worse", "coverage_lost", "none"]
#: What a setting that differs does: it is the ``subject`` of the comparison, it ``limits`` what can be compared, or it
#: is worth a ``note``.
Effect = Literal["subject", "limits", "note"]

ALPHA = 0.05
#: What the names of differences in how questions were asked begin with.
PROTOCOL = "protocol"
#: A case file's name in A and in B.
FilePair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting in which the runs differ, with both values as text. ``files``: the case files whose setting it is,
    where it is not the run's."""

    name: str
    a: str
    b: str
    effect: Effect
    files: tuple[FilePair, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One metric. ``value_a`` and ``value_b`` are over the ``cases`` that both measured, ``whole_a`` and ``whole_b``
    what the reports say themselves. ``relative`` is the difference as a share of ``value_a``, ``None`` where that is 0.

    ``wins``: cases in which B is better (higher, where neither direction is better). ``lost`` and ``gained`` count the
    cases that only A, or only B, measured; ``absent`` those of the lost ones that B scored all the same, without this
    figure. ``holm`` is adjusted over the metrics of the same ``family``.
    """

    path: str
    family: str
    kind: Literal["ratio", "count"]
    better: str
    value_a: float | None
    value_b: float | None
    whole_a: float | None
    whole_b: float | None
    difference: float | None = None
    relative: float | None = None
    low: float | None = None
    high: float | None = None
    interval_reason: str | None = None
    p_value: float | None = None
    p_method: str | None = None
    holm: float | None = None
    cases: int = 0
    clusters: int = 0
    differing: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    lost: int = 0
    gained: int = 0
    absent: int = 0
    signal: Signal = "unmeasured"
    direction: Direction = "none"
    #: Why it cannot be compared, as a setting's name.
    blocked_by: str | None = None
    #: Cases left out of it because a setting of their file differs.
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One labelled memory (``truth``, ``None`` for a memory that nothing labelled asks for) and what A and B made of
    it: ``{content, dimensions, missed, extra}``, ``None`` where nothing matched."""

    truth: Mapping[str, Any] | None
    a: Mapping[str, Any] | None
    b: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case whose figures changed: ``figures`` as (path, A's, B's), the greatest change first; its memories where A
    and B differ in them."""

    case: str
    size: float
    figures: tuple[tuple[str, float | None, float | None], ...]
    memories: tuple[MemoryRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseNote:
    """A case that is not in the comparison, or not whole, and why."""

    case: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConfusionChange:
    """How often ``expected`` was taken for ``given`` in A and in B, the cases in which that changed, and the lines of
    the prompts' difference that name either."""

    stage: Literal["l1", "l15"]
    expected: str
    given: str
    a: float
    b: float
    cases: tuple[str, ...] = ()
    prompt_lines: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        if self.a == 0:
            return "appeared"
        if self.b == 0:
            return "vanished"
        return "more" if self.b > self.a else "less"


@dataclass(frozen=True, slots=True)
class PromptChange:
    """A prompt stage whose texts differ: the unified difference, or ``None`` where a text is not to be found."""

    stage: str
    version_a: str | None
    version_b: str | None
    hash_a: str | None
    hash_b: str | None
    diff: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Side:
    """What is said of one report: its label, run id, prompts, model, engine, outcome counts, and whether it is
    partial."""

    label: str
    run_id: str
    timestamp: str
    prompts: str
    model: str
    engine: str
    partial: str | None
    embedded: bool
    counts: Mapping[str, int]
    cost_usd: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Everything that can be said of two reports; see the parts for their meaning.

    ``compared`` counts the cases that both have with the same content. ``families`` says how many metrics were tested
    together. ``only_a`` and ``only_b`` are metrics that only one side has a value for.
    """

    a: Side
    b: Side
    settings: tuple[SettingDifference, ...]
    compared: int
    metrics: tuple[MetricDifference, ...]
    keyed: tuple[MetricDifference, ...]
    families: Mapping[str, int]
    changes: tuple[CaseChange, ...]
    unchanged: int
    newly_errored: tuple[CaseNote, ...]
    recovered: tuple[CaseNote, ...]
    newly_skipped: tuple[CaseNote, ...]
    vanished: tuple[CaseNote, ...]
    added: tuple[CaseNote, ...]
    content_changed: tuple[CaseNote, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    confusions: tuple[ConfusionChange, ...]
    prompts: tuple[PromptChange, ...]
    #: How many cases were recognised by their content in a file of another name.
    moved: int = 0
    #: How many cases without a change have figures that were kept from being compared, or none that both measured.
    uncompared: int = 0

    @property
    def subjects(self) -> tuple[SettingDifference, ...]:
        return tuple(setting for setting in self.settings if setting.effect == "subject")

    @property
    def heat_map(self) -> tuple[MetricDifference, ...]:
        """F1 per dimension, the greatest loss first."""
        own = [metric for metric in self.keyed if metric.family == "l1.per_dimension_f1"]
        return tuple(sorted(own, key=lambda one: (one.difference is None, one.difference or 0.0, one.path)))

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing differs at all in what was measured."""
        listed = (self.newly_errored, self.recovered, self.newly_skipped, self.vanished, self.added)
        moved = any(metric.differing or metric.difference for metric in (*self.metrics, *self.keyed))
        return bool(self.compared) and not (moved or self.changes or self.content_changed or any(listed))

    def metric(self, path: str) -> MetricDifference | None:
        return next((metric for metric in (*self.metrics, *self.keyed) if metric.path == path), None)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and finite numbers."""
        data = asdict(self)
        data["confusions"] = [{**asdict(one), "change": one.change} for one in self.confusions]
        return {"comparison_version": COMPARISON_VERSION, "unchanged_run": self.is_unchanged, **data}
