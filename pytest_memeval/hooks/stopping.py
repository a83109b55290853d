"""``--memeval-stop-when-decided`` in a pytest session: the cases' order, and leaving out those that need not be run."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.hooks.budget import FIRST_NEEDED, pass_over
from pytest_memeval.hooks.sharding import unit_of
from pytest_memeval.items import CaseItem, file_of, owner_of
from pytest_memeval.kind_items import KindItem
from pytest_memeval.kinds import sections_of
from pytest_memeval.metrics.thresholds import parse_gate
from pytest_memeval.nodes.keys import PREFETCHER
from pytest_memeval.results import SetInfo
from pytest_memeval.scratch import make_scratch, remove_scratch
from pytest_memeval.session import harness_of, settings_of
from pytest_memeval.stop_bounds import unit_bounds

if TYPE_CHECKING:
    from pytest_memeval.metrics.thresholds import Gate
    from pytest_memeval.runs.recorder import Recorder

#: Under this name each worker is told where the signs will be.
SIGNS_INPUT = "memeval_decided"


def put_in_order(items: list[pytest.Item], seed: int) -> None:
    """Put every case set's cases in a random order, those of a cluster together. Other tests keep their places, and so
    do the sets: what a project makes once a file is made once."""
    places: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        if isinstance(item, CaseItem | KindItem):
            places.setdefault(file_of(item), []).append(place)
    for path, own in places.items():
        ordered = [item for unit in units_in_order([items[place] for place in own], path, seed) for item in unit]
        for place, item in zip(own, ordered, strict=True):
            items[place] = item


def units_in_order(items: Sequence[pytest.Item], path: str, seed: int) -> list[list[pytest.Item]]:
    """A set's items by cluster, in the order that the seed gives: the same in every process and whatever else of the
    file is selected."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        cluster = getattr(item.case, "cluster", "") if isinstance(item, CaseItem | KindItem) else ""
        units.setdefault(f"cluster {cluster}" if cluster else unit_of(item), []).append(item)

    def drawn(unit: str) -> bytes:
        return hashlib.sha256(f"{seed}:{path}:{unit}".encode("utf-8", "surrogatepass")).digest()

    return [
        sorted(units[unit], key=lambda item: (getattr(item, "case").line, item.nodeid))  # noqa: B009  # of either kind
        if all(isinstance(item, CaseItem | KindItem) for item in units[unit])
        else units[unit]
        for unit in sorted(units, key=drawn)
    ]


def make_plan(config: pytest.Config, items: Sequence[pytest.Item], sets: Sequence[SetInfo]) -> dict[str, Any]:
    """For every case set ``{units, gates}``: its clusters' node ids in their order, and its P0 gates, each with what a
    cluster can count for at most (``most``), or with the reason why that is not known (``why``)."""
    settings = settings_of(config)
    over = settings.gates_from("command line")
    by_set: dict[str, list[pytest.Item]] = {}
    for item in items:
        owner = owner_of(item)
        if owner is not None:
            by_set.setdefault(owner, []).append(item)
    plan: dict[str, Any] = {}
    for scope in sets:
        own = by_set.get(scope.path, [])
        replaced = {str(gate.path) for gate in over}
        gates = [gate for gate in (parse_gate(*given) for given in scope.gates) if str(gate.path) not in replaced]
        wanted = [gate for gate in (*gates, *over) if gate.level == "P0" and _is_asked(gate, scope, settings.stage_set)]
        if own and wanted:
            units = units_in_order(own, scope.path, settings.seed)
            plan[scope.path] = {
                "units": [[item.nodeid for item in unit] for unit in units],
                "gates": [_gate_entry(gate, units, settings.stop_most_wrong) for gate in wanted],
            }
    return plan


def _is_asked(gate: Gate, scope: SetInfo, stages: frozenset[str] | None) -> bool:
    """Whether the gate can have a value here; one that cannot is judged at the end as in any run."""
    from pytest_memeval.metrics.catalog import metric_stages

    if gate.path.section not in sections_of(scope.kind) and gate.path.section != "metrics":
        return False
    for stage in metric_stages(gate.path.section, gate.path.metric):
        selected = stages is None or stage in stages or (stage == "template" and "l2" in stages)
        if not selected or not scope.truth_counts.get(stage, 0):
            return False
    return True


def _gate_entry(gate: Gate, units: Sequence[Sequence[pytest.Item]], most_wrong: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"gate": str(gate), "origin": gate.origin, "most": None, "why": ""}
    if gate.path.difference:
        return {**entry, "why": "difference"}
    cases = []
    for unit in units:
        row = [item.case for item in unit if isinstance(item, CaseItem | KindItem)]
        if len(row) < len(unit):
            return {**entry, "why": "by_hand"}
        cases.append(row)
    most = unit_bounds(gate.path, cases, most_wrong)
    if most is None:
        return {**entry, "why": "unbounded"}
    if not any(hits or misses for hits, misses in most[0]):
        return {**entry, "why": "no_labels"}
    return {**entry, "most": most}


class Stopper:
    """Where the verdicts are known: tells of decided sets, and leaves their cases out."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._decided: set[str] = set()
        self._folder: Path | None = None

    def pytest_sessionstart(self) -> None:
        # What the first record needs is at hand before it comes: workers go on meanwhile, with cases that nobody needs.
        for name in (*(f"pytest_memeval.{name}" for name in FIRST_NEEDED), "pytest_memeval.stopping", "numpy"):
            importlib.import_module(name)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._folder is None:
            self._folder = make_scratch("decided")
            self.config.add_cleanup(partial(remove_scratch, self._folder))
        node.workerinput[SIGNS_INPUT] = str(self._folder)

    def check(self, recorder: Recorder) -> None:
        """Called after each record."""
        for path in recorder.stopping.news() if recorder.stopping is not None else ():
            self._decided.add(path)
            if self._folder is not None:
                _sign(self._folder, path).touch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        return pass_over(item, nextitem) if self._decided and _is_left_out(item, self._decided) else None


class WorkerStopper:
    """A worker's side: passes over what is in its queue of sets of which there is a sign."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._decided: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        owner = owner_of(item)
        if owner is None:
            return None
        if owner not in self._decided and _sign(self._folder, owner).exists():
            self._decided.add(owner)
        return pass_over(item, nextitem) if _is_left_out(item, self._decided) else None


def _is_left_out(item: pytest.Item, decided: set[str]) -> bool:
    """Whether the item need not be run: its set is decided, and its case is not under way already."""
    owner = owner_of(item)
    if owner is None or owner not in decided:
        return False
    harness_of(item.config)
    prefetcher = item.config.stash.get(PREFETCHER, None)
    if prefetcher is None:
        return True
    prefetcher.leave_out(owner)
    return not prefetcher.has(item)


def _sign(folder: Path, path: str) -> Path:
    return folder / hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]
