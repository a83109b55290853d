"""The dimensions that memories are labelled with, and how a model's label finds its dimension."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pytest_memeval.assets.nodes import Fields, parse_asset, raise_problems
from pytest_memeval.documents.bounds import MAX_DAYS

SHIPPED_REGISTRY = Path(__file__).parent.parent / "data" / "registry.yaml"
#: Similarity (rapidfuzz ratio, 0–1) from which an unknown label counts as a misspelt known one.
FUZZY_THRESHOLD = 0.85

DIMENSION_KEYS = (
    "id",
    "display_name",
    "category",
    "time_velocity",
    "ttl_days",
    "description",
    "boundaries",
    "cues",
    "aliases",
)
REGISTRY_KEYS = ("dimensions", "memory_types", "time_velocities", "priority", "max_dimensions")


@dataclass(frozen=True, slots=True)
class Dimension:
    """One label. ``ttl_days`` is the age after which its memories are stale, ``None`` for never."""

    id: str
    display_name: str = ""
    category: str = ""
    time_velocity: str = "static"
    ttl_days: float | None = None
    description: str = ""
    boundaries: str = ""
    cues: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a label means: the dimension's id (``None``: unknown), how that was found, and a score in [0, 1]."""

    dimension: str | None
    how: Literal["exact", "alias", "fuzzy", "unknown"]
    score: float


def fold_label(label: str) -> str:
    """NFKC, case folded, runs of white space as one blank, ends trimmed."""
    return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


@dataclass(frozen=True)
class Registry:
    """The labels that cases, engines and prompts share. ``content_hash`` changes with the file's text."""

    dimensions: tuple[Dimension, ...]
    memory_types: tuple[str, ...] = ("persona", "episodic", "instruction")
    time_velocities: tuple[str, ...] = ("static", "dynamic")
    priority_min: float = 0.0
    priority_max: float = 100.0
    max_dimensions: int = 3
    path: Path | None = None
    content_hash: str = ""
    _by_id: Mapping[str, Dimension] = field(init=False, repr=False, compare=False)
    _ids: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _labels: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _resolved: dict[str, Resolution] = field(init=False, repr=False, compare=False, default_factory=dict)
    #: Rendered forms by the fields wanted; equal for as long as the registry lives.
    rendered: dict[tuple[str, ...], str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        labels: dict[str, str] = {}
        for dimension in self.dimensions:
            for label in (dimension.display_name, *dimension.aliases):
                labels.setdefault(fold_label(label), dimension.id)
        object.__setattr__(self, "_by_id", {dimension.id: dimension for dimension in self.dimensions})
        object.__setattr__(self, "_ids", {fold_label(dimension.id): dimension.id for dimension in self.dimensions})
        object.__setattr__(self, "_labels", {label: owner for label, owner in labels.items() if label})

    @property
    def priority_tolerance(self) -> float:
        """How far apart two priorities count as near: a tenth of the scale."""
        return (self.priority_max - self.priority_min) / 10

    @property
    def ids(self) -> tuple[str, ...]:
        """The dimensions' ids in the file's order."""
        return tuple(dimension.id for dimension in self.dimensions)

    def get(self, dimension_id: str) -> Dimension | None:
        """The dimension with exactly this id."""
        return self._by_id.get(dimension_id)

    def resolve(self, label: str) -> Resolution:
        """The dimension that ``label`` names.

        Folded, the label is looked up among the ids, then the display names and aliases; then the most similar of
        all of these counts from a ratio of 0.85 (of equally similar ones, the first in the file). An empty label is
        unknown.
        """
        known = self._resolved.get(label)
        if known is None:
            known = self._resolve(label)
            if len(self._resolved) < 10_000:
                self._resolved[label] = known
        return known

    def _resolve(self, label: str) -> Resolution:
        folded = fold_label(label)
        if not folded:
            return Resolution(None, "unknown", 0.0)
        if folded in self._ids:
            return Resolution(self._ids[folded], "exact", 1.0)
        if folded in self._labels:
            return Resolution(self._labels[folded], "alias", 1.0)
        from rapidfuzz import fuzz, process

        choices = {**self._labels, **self._ids}
        best = process.extractOne(folded, list(choices), scorer=fuzz.ratio)
        if best is None:
            return Resolution(None, "unknown", 0.0)
        score = best[1] / 100.0
        if score >= FUZZY_THRESHOLD:
            return Resolution(choices[best[0]], "fuzzy", score)
        return Resolution(None, "unknown", score)


def load_registry(path: Path | None = None) -> Registry:
    """The registry in ``path`` (``None``: the shipped one).

    Only ``dimensions`` and their ``id`` are required; the other keys default to the shipped file's values, a
    dimension's ``time_velocity`` to the first of ``time_velocities``. Raises :class:`DocumentError` with every fault.
    """
    return _load_shipped() if path is None else _load(path)


@lru_cache(maxsize=1)
def _load_shipped() -> Registry:
    return _load(SHIPPED_REGISTRY)


def _load(path: Path) -> Registry:
    root, digest = parse_asset(path, "registry")
    problems = root.problems
    root.known_keys(REGISTRY_KEYS)
    types = tuple(text for text, _ in root.texts("memory_types")) or Registry.memory_types
    velocities = tuple(text for text, _ in root.texts("time_velocities")) or Registry.time_velocities
    low, high = _priority(root)
    dimensions = _dimensions(root, velocities)
    registry = Registry(
        dimensions=dimensions,
        memory_types=types,
        time_velocities=velocities,
        priority_min=low,
        priority_max=high,
        max_dimensions=root.integer("max_dimensions", 3) or 3,
        path=path,
        content_hash=digest,
    )
    raise_problems(problems)
    return registry


def _priority(root: Fields) -> tuple[float, float]:
    if "priority" not in root.values:
        return Registry.priority_min, Registry.priority_max
    bounds = root.numbers("priority")
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        root.note("registry: 'priority' must be [smallest, largest]", root.values["priority"])
        return Registry.priority_min, Registry.priority_max
    return bounds[0], bounds[1]


def _dimensions(root: Fields, velocities: tuple[str, ...]) -> tuple[Dimension, ...]:
    found: list[Dimension] = []
    owners: dict[str, tuple[str, int]] = {}
    entries = root.mappings("dimensions", "dimension")
    if not entries and not root.problems:
        root.note("registry: 'dimensions' must list at least one dimension", root.values.get("dimensions"))
    for entry in entries:
        entry.known_keys(DIMENSION_KEYS)
        if not entry.require("id"):
            continue
        dimension = _dimension(entry, velocities)
        if any(dimension.id == other.id for other in found):
            first = owners[fold_label(dimension.id)][1]
            entry.note(f"dimension id {dimension.id!r} stands twice, first on line {first}", entry.values["id"])
            continue
        found.append(dimension)
        _claim_labels(entry, dimension, owners)
    return tuple(found)


def _dimension(entry: Fields, velocities: tuple[str, ...]) -> Dimension:
    identifier = entry.text("id")
    entry.what = f"dimension {identifier!r}"
    if any(character in identifier for character in "|,=\n\t"):
        entry.note(
            f"dimension id {identifier!r} must not contain '|', ',', '=' or control characters", entry.values["id"]
        )
    ttl = entry.number("ttl_days")
    if ttl is not None and not 0 < ttl <= MAX_DAYS:
        wanted = "above 0 or null" if ttl <= 0 else f"at most {MAX_DAYS}"
        entry.note(f"{entry.what}: 'ttl_days' must be {wanted}, not {ttl:g}", entry.values["ttl_days"])
    return Dimension(
        id=identifier,
        display_name=entry.text("display_name", identifier),
        category=entry.text("category"),
        time_velocity=entry.choice("time_velocity", velocities, velocities[0]),
        ttl_days=ttl,
        description=" ".join(entry.text("description").split()),
        boundaries=" ".join(entry.text("boundaries").split()),
        cues=tuple(dict.fromkeys(text for text, _ in entry.texts("cues"))),
        aliases=tuple(dict.fromkeys(text for text, _ in entry.texts("aliases"))),
    )


def _claim_labels(entry: Fields, dimension: Dimension, owners: dict[str, tuple[str, int]]) -> None:
    """Notes a label (folded id, display name or alias) that another dimension has already."""
    labels = [(dimension.id, entry.values["id"]), *entry.texts("aliases")]
    if "display_name" in entry.values:
        labels.append((dimension.display_name, entry.values["display_name"]))
    for label, node in labels:
        line = node.line
        owner, first = owners.setdefault(fold_label(label), (dimension.id, line))
        if owner != dimension.id:
            entry.note(f"label {label!r} of dimension {dimension.id!r} already names {owner!r} (line {first})", node)
