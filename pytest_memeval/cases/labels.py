"""Labels of memories against the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_memeval.cases.fieldtypes import Row
from pytest_memeval.cases.reporting import ProblemLog
from pytest_memeval.documents.problems import did_you_mean, shown

if TYPE_CHECKING:
    from pytest_memeval.assets.registry import Registry


class LabelReader:
    """Reads and checks what the registry decides about a memory; without a registry everything is taken as written."""

    def __init__(self, log: ProblemLog, registry: Registry | None) -> None:
        self.log = log
        self.registry = registry
        self._resolved: dict[str, str | None] = {}

    def dimensions(self, row: Row) -> tuple[str, ...]:
        """The registry ids of the row's ``dimensions``, each once; display names and aliases are resolved."""
        labels = row.get("dimensions")
        if labels is None:
            return ()
        found = []
        for at, label in labels:
            if label not in self._resolved:
                self._resolved[label] = self._resolve(label)
            dimension = self._resolved[label]
            if dimension is None:
                known = self.registry.ids if self.registry else ()
                self.log.value(at, f"unknown dimension {shown(label)}{did_you_mean(label, known)}")
            elif dimension not in found:
                found.append(dimension)
        if not labels:
            self.log.value(row.places["dimensions"], "a memory needs at least one dimension")
        elif self.registry and len(labels) > self.registry.max_dimensions:
            allowed = self.registry.max_dimensions
            self.log.value(row.places["dimensions"], f"{len(labels)} dimensions, the registry allows {allowed}")
        return tuple(found)

    def _resolve(self, label: str) -> str | None:
        if self.registry is None:
            return label
        resolution = self.registry.resolve(label)
        return resolution.dimension if resolution.how in ("exact", "alias") else None

    def check_values(self, row: Row) -> None:
        """Memory type, time velocity and priority against what the registry allows."""
        registry = self.registry
        if registry is None:
            return
        get = row.get
        kind, velocity, priority = get("memory_type"), get("time_velocity"), get("priority")
        if kind is not None and kind not in registry.memory_types:
            guess = did_you_mean(kind, registry.memory_types)
            self.log.value(row.places["memory_type"], f"unknown memory_type {shown(kind)}{guess}")
        if velocity is not None and velocity not in registry.time_velocities:
            guess = did_you_mean(velocity, registry.time_velocities)
            self.log.value(row.places["time_velocity"], f"unknown time_velocity {shown(velocity)}{guess}")
        if priority is not None and not registry.priority_min <= priority <= registry.priority_max:
            self.log.value(
                row.places["priority"],
                f"priority {priority:g} is outside {registry.priority_min:g} to {registry.priority_max:g}",
            )
