"""When a run may stop: as soon as the cases so far show what every P0 gate would say over all of them.

Each case set is judged by itself. Its clusters count in the seeded order that was drawn before anything ran, whatever
order they end in: which ones end first must have no say. A set without an open gate left is decided, and its other
cases need not be run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.case_counts import matches, metric_category
from pytest_memeval.compare.pairing import measured
from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.metrics.sequential import ThresholdTest, Unbounded
from pytest_memeval.metrics.thresholds import TOLERANCE, Gate, parse_gate
from pytest_memeval.report.messages import text
from pytest_memeval.results import CaseResult

#: How often a verdict may be wrong, over all orders: half of it for either verdict.
LEVEL = 0.05
PASS, FAIL, UNDECIDED = "PASS", "FAIL", "UNDECIDED"

Pairs = tuple[tuple[float, float], ...]


@dataclass
class GateWatch:
    """One P0 gate of one case set. ``why`` says why it has no test, or none any more: (key of a sentence, values)."""

    gate: Gate
    test: ThresholdTest | None = None
    why: tuple[str, Mapping[str, Any]] | None = None
    scored: int = 0
    errored: int = 0
    verdict: str = UNDECIDED
    #: What had counted when the verdict was given.
    cases: int | None = None
    clusters: int | None = None
    value: float | None = None

    def share(self, record: CaseResult) -> tuple[str, Pairs | None]:
        """What a case counts as at the gate, and its (numerator, denominator) for each ratio where it was scored."""
        path = self.gate.path
        if not matches(record, path.filters):
            return "no_truth", None
        return metric_category(record, path.section, path.metric), measured(record, path.section, path.name)

    def add(self, shares: Iterable[tuple[str, Pairs | None]], names: str) -> None:
        """The next cluster's cases. ``names`` are theirs, for messages."""
        if self.test is None:
            return
        sums = [[0.0, 0.0] for _ in self.test.ratios]
        for category, pairs in shares:
            self.errored += category == "errored"
            self.scored += category == "scored"
            if category != "scored":
                continue
            if pairs is None:
                self._give_up("not_finite", case=names)
                return
            for own, (numerator, denominator) in zip(sums, pairs, strict=True):
                own[0] += numerator
                own[1] += denominator
        try:
            self.test.add([(own[0], own[1]) for own in sums])
        except Unbounded as error:
            self._give_up("exceeded", case=names, error=str(error))

    def _give_up(self, reason: str, **values: Any) -> None:
        if self.verdict == UNDECIDED:
            self.test, self.why = None, (reason, values)

    def decide(self, cases: int, clusters: int, max_error_rate: float) -> None:
        """Take the test's verdict over, unless too many cases could not be measured."""
        if self.verdict != UNDECIDED or self.test is None or self.test.verdict is None:
            return
        if self.errored <= max_error_rate * (self.scored + self.errored) + TOLERANCE:
            self.verdict = PASS if self.test.verdict else FAIL
            self.cases, self.clusters, self.value = cases, clusters, self.test.value

    def to_json(self) -> dict[str, Any]:
        errors = self.verdict == UNDECIDED and self.errored > 0
        key, values = self.why or (("errored", {"errored": self.errored}) if errors else ("", {}))
        return {
            "gate": str(self.gate),
            "verdict": self.verdict,
            "testable": self.test is not None,
            "cases": self.cases,
            "clusters": self.clusters,
            "value": self.value,
            "reason_id": key,
            "reason_values": dict(values),
            "reason": text(f"stopping.{key}", "en", **values) if key else "",
        }


@dataclass
class ScopeWatch:
    """One case set: its clusters in their order, each as its cases' node ids, and its P0 gates."""

    units: list[tuple[str, ...]]
    gates: list[GateWatch]
    position: int = 0
    cases: int = 0
    decided: bool = False
    waiting: dict[str, list[tuple[str, Pairs | None]]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.known = frozenset(node_id for unit in self.units for node_id in unit)

    def add(self, record: CaseResult, max_error_rate: float, supported: Callable[[], Collection[str]]) -> bool:
        """Take a case's result; whether the set is decided by it."""
        if self.decided or record.node_id not in self.known:
            return False
        self.waiting[record.node_id] = [watch.share(record) for watch in self.gates]
        while self.position < len(self.units) and all(node in self.waiting for node in self.units[self.position]):
            unit = self.units[self.position]
            shares = [self.waiting.pop(node) for node in unit]
            self.position += 1
            self.cases += len(unit)
            for at, watch in enumerate(self.gates):
                watch.add((own[at] for own in shares), ", ".join(unit))
                watch.decide(self.cases, self.position, max_error_rate)
            if self._is_decided(supported):
                self.decided = True
                self.waiting.clear()
                return True
        return False

    def _is_decided(self, supported: Callable[[], Collection[str]]) -> bool:
        undecided = [watch for watch in self.gates if watch.verdict == UNDECIDED]
        if len(undecided) == len(self.gates):
            return False
        # A gate on a stage that the engine lacks has nothing to wait for.
        return all(_is_lacking(watch.gate, supported) for watch in undecided)

    def to_json(self, left_out: int) -> dict[str, Any]:
        return {
            "total": {"cases": len(self.known), "clusters": len(self.units)},
            "decided": self.decided,
            "used": {"cases": self.cases, "clusters": self.position},
            "left_out": left_out,
            "gates": [watch.to_json() for watch in self.gates],
        }


def _is_lacking(gate: Gate, supported: Callable[[], Collection[str]]) -> bool:
    stages = metric_stages(gate.path.section, gate.path.metric)
    return gate.origin == "default" and bool(stages) and not set(stages) <= set(supported())


class StopRule:
    """The run's case sets under way. ``supported`` gives the stages that the engine is known to have."""

    def __init__(
        self, *, seed: int, most_wrong: int, max_error_rate: float, supported: Callable[[], Collection[str]]
    ) -> None:
        self.seed, self.most_wrong, self._max_error_rate = seed, most_wrong, max_error_rate
        self._supported = supported
        self.scopes: dict[str, ScopeWatch] = {}
        self._news: list[str] = []

    def take_plan(self, plan: Mapping[str, Any]) -> None:
        """What a process has collected (:func:`pytest_memeval.hooks.stopping.make_plan`); that of the first one counts.

        Over all sets together a run that meets its gates fails wrongly no more often than one of them may: a verdict
        FAIL has its share of the level divided by the number of gates. One that does not is passed wrongly only if the
        gate that it misses is.
        """
        if self.scopes:
            return
        entries = [entry for scope in plan.values() for entry in scope["gates"]]
        tests = sum(entry["most"] is not None for entry in entries)
        for path, scope in plan.items():
            watches = [_watch(entry, tests) for entry in scope["gates"]]
            self.scopes[path] = ScopeWatch([tuple(unit) for unit in scope["units"]], watches)

    def add(self, record: CaseResult) -> None:
        """Take a case's result."""
        scope = self.scopes.get(record.set)
        if scope is not None and scope.add(record, self._max_error_rate, self._supported):
            self._news.append(record.set)

    def news(self) -> list[str]:
        """The case sets that were decided since the last call."""
        news, self._news = self._news, []
        return news

    def spares(self, path: str, node_id: str) -> bool:
        """Whether a case without a result is left out because its set is decided."""
        scope = self.scopes.get(path)
        return scope is not None and scope.decided and node_id in scope.known

    def to_json(self, left_out: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """What the report says. ``left_out`` are the (set, node id) that were not run because their set is decided."""
        nodes = sorted(left_out)
        each = {path: sum(own == path for own, _ in nodes) for path in self.scopes}
        return {
            "seed": self.seed,
            "level": LEVEL,
            "most_wrong": self.most_wrong,
            "left_out": [list(entry) for entry in nodes],
            "scopes": {path: scope.to_json(each[path]) for path, scope in sorted(self.scopes.items())},
        }


def _watch(entry: Mapping[str, Any], tests: int) -> GateWatch:
    gate = parse_gate(entry["gate"], entry["origin"])
    if entry["most"] is None:
        return GateWatch(gate, why=(entry["why"], {"metric": str(gate.path)}))
    threshold = gate.threshold
    # A value counts as at its threshold within the tolerance, on the side on which a gate is met.
    reach = -TOLERANCE if threshold.op in (">=", "<") else TOLERANCE
    test = ThresholdTest(
        min(1.0, max(0.0, threshold.number + reach)),
        [[(hits, misses) for hits, misses in column] for column in entry["most"]],
        upward=threshold.op in (">=", ">"),
        pass_level=LEVEL / 2,
        fail_level=LEVEL / 2 / tests,
    )
    return GateWatch(gate, test)
