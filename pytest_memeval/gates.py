"""Gates: thresholds on aggregated metrics, each case file a scope of its own.

A gate is ``passed``, ``missed``, ``unmeasured`` (there should be a value, but none that can be relied on) or
``not_applicable`` (nobody asked for it here). A P0 gate that is missed or unmeasured fails the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_memeval.aggregate import aggregate_metric, aggregate_sections, flat_value
from pytest_memeval.case_counts import (
    LABELLED,
    count_metric,
    matches,
    one_per_case,
)
from pytest_memeval.documents.problems import nearest
from pytest_memeval.judge.run_controls import goes_by_judge, is_untrusted
from pytest_memeval.kinds import sections_of
from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.metrics.thresholds import OPEN_SECTIONS, Gate, MetricPath, parse_gate
from pytest_memeval.report.messages import sentence
from pytest_memeval.report.numbers import number_text, value_text
from pytest_memeval.results import CaseResult, RunInfo, SetInfo

PASSED, MISSED, UNMEASURED, NOT_APPLICABLE = "passed", "missed", "unmeasured", "not_applicable"
#: Sections whose figures named ``judge…`` are a judge's verdicts.
JUDGED_SECTIONS = ("qa", "locomo", "longmemeval")
#: A gate's status over several scopes is the first of these that any scope has.
WORST_FIRST: tuple[str, ...] = (MISSED, UNMEASURED, PASSED, NOT_APPLICABLE)

#: Why a gate does not apply here though another scope, or a run with a baseline, may decide it.
_ELSEWHERE = ("other_kind", "other_registry", "no_baseline", "file_not_in_baseline")

#: Why cases of a file that has labels for a gate's stage were not measured there.
_NOT_TRIED = ("stage_not_selected", "stage_unsupported")

#: As many measured metrics are named where none is near the one that was asked for.
_MOST_NAMED = 8

#: Metrics of an optional label of memories → that label.
_LABEL_OF: Mapping[str, str] = {
    "l1.memory_type_accuracy": "memory_type",
    "l1.time_velocity_accuracy": "time_velocity",
    "l1.priority_mae": "priority",
    "l1.priority_within_10": "priority",
}
#: Metrics of which memories are in a scene together. Files may well label what scenes are about, and no more.
_OF_GROUPS = frozenset(f"l2.scene_grouping_{name}" for name in ("f1", "precision", "recall"))


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a metric is from the baseline's in one scope, over the cases that both measured (``n``). Without a
    ``value``, ``reason_id`` and ``reason_values`` say why; ``applies`` is false for a scope that the baseline does not
    know though it knows others of the run."""

    value: float | None
    interval: tuple[float, float] | None = None
    n: Mapping[str, float] | None = None
    reason_id: str = "no_difference"
    reason_values: Mapping[str, Any] | None = None
    applies: bool = True


#: Scope and metric → its difference from the baseline.
Differences = Callable[[str, MetricPath], Difference]


@dataclass(frozen=True, slots=True)
class GateResult:
    """What became of one gate in one scope (the path of a case file).

    ``reason`` is a sentence in English; ``reason_id`` and ``reason_values`` let a report say it in another language.
    ``n`` is {units, cases, clusters} of the value.
    """

    scope: str
    level: str
    metric: str
    op: str
    threshold: float
    value: float | None
    interval: tuple[float, float] | None
    n: Mapping[str, float] | None
    status: str
    reason: str
    origin: str = "file"
    reason_id: str = ""
    reason_values: Mapping[str, Any] | None = None

    @property
    def gate(self) -> str:
        """The gate as it is written: ``P0 l1.dimension_micro_f1 >= 0.75``."""
        return f"{self.level} {self.metric} {self.op} {number_text(self.threshold)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "level": self.level,
            "metric": self.metric,
            "op": self.op,
            "threshold": self.threshold,
            "value": self.value,
            "interval": list(self.interval) if self.interval is not None else None,
            "n": dict(self.n) if self.n is not None else None,
            "status": self.status,
            "reason": self.reason,
            "origin": self.origin,
            "reason_id": self.reason_id,
            "reason_values": dict(self.reason_values or {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GateResult:
        """Read :meth:`to_json`'s form back; keys that are unknown here are left."""
        interval = data["interval"]
        known = {key: data[key] for key in ("scope", "level", "metric", "op", "threshold", "value", "n", "status")}
        return cls(
            **known,
            reason=data["reason"],
            interval=(interval[0], interval[1]) if interval is not None else None,
            origin=data.get("origin", "file"),
            reason_id=data.get("reason_id", ""),
            reason_values=data.get("reason_values"),
        )


def scope_gates(run: RunInfo, scope: SetInfo) -> tuple[Gate, ...]:
    """A scope's gates: its own, with those on a metric that the command line names replaced by the latter.

    Raises ThresholdError for a gate that cannot be read.
    """
    over = [parse_gate(text, origin) for text, origin in run.gates]
    replaced = {str(gate.path) for gate in over}
    own = [parse_gate(text, origin) for text, origin in scope.gates]
    return (*(gate for gate in own if str(gate.path) not in replaced), *over)


def evaluate_gates(
    run: RunInfo,
    sets: Sequence[SetInfo],
    records: Iterable[CaseResult],
    *,
    aggregates: Mapping[str, Mapping[str, Any]] | None = None,
    differences: Differences | None = None,
    resample: bool = True,
) -> list[GateResult]:
    """Every gate of every scope, in the scopes' order and P0 first; none when gates are switched off.

    ``aggregates`` (scope path → what :func:`aggregate_sections` gives over its cases) saves computing them again.
    ``differences`` is where gates on a difference take theirs from; without it (no baseline) they do not apply.
    ``resample=False`` leaves out the intervals that take a bootstrap.
    """
    if not run.gates_enabled:
        return []
    by_set: dict[str, list[CaseResult]] = {}
    for record in one_per_case(records):
        by_set.setdefault(record.set, []).append(record)
    nothing = bool(by_set) and not any(record.outcome == "scored" for own in by_set.values() for record in own)
    results: list[GateResult] = []
    elsewhere = {section for scope in sets for section in sections_of(scope.kind)}
    dimensions = {name for scope in sets for name in scope.dimensions or ()}
    for scope in sets:
        gates = scope_gates(run, scope)
        if not gates:
            continue
        own = by_set.get(scope.path, [])
        sections = aggregates.get(scope.path) if aggregates is not None else None
        if sections is None:
            sections = aggregate_sections(own, resample=resample, protocol=run.protocol)
        evaluator = _Scope(
            run,
            scope,
            own,
            sections,
            elsewhere - set(sections_of(scope.kind)),
            differences,
            dimensions=dimensions,
            resample=resample,
        )
        found = sorted((evaluator.evaluate(gate) for gate in gates), key=lambda result: result.level)
        results += [_asked_in_vain(result, scope) for result in found] if nothing else found
    return results


def _asked_in_vain(result: GateResult, scope: SetInfo) -> GateResult:
    """A gate of a run that scored no case at all: one that somebody wrote down was to decide something, and must not
    pass for one that nobody asked for. So must none of the default ones, where the file has labels for it."""
    if result.status != NOT_APPLICABLE or result.reason_id in _ELSEWHERE:
        return result
    if result.origin == "default":
        stage = (result.reason_values or {}).get("stage")
        if result.reason_id not in _NOT_TRIED or not scope.truth_counts.get(str(stage), 0):
            return result
    values = {"why": result.reason, "why_id": result.reason_id, "why_values": dict(result.reason_values or {})}
    return replace(
        result,
        status=UNMEASURED,
        reason=sentence("nothing_measured", "en", values),
        reason_id="nothing_measured",
        reason_values=values,
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    status: str
    reason_id: str
    values: Mapping[str, Any]


class _Scope:
    """One case file's gates."""

    def __init__(
        self,
        run: RunInfo,
        scope: SetInfo,
        records: Sequence[CaseResult],
        sections: Mapping[str, Any],
        elsewhere: Collection[str] = (),
        differences: Differences | None = None,
        *,
        dimensions: Collection[str] = (),
        resample: bool = True,
    ) -> None:
        #: Those of all registries of the run.
        self._dimensions = dimensions
        self._resample = resample
        self._run, self._scope, self._records, self._sections = run, scope, records, sections
        self._differences = differences
        #: Sections that only files of other kinds in this run can have figures in.
        self._elsewhere = elsewhere

    def evaluate(self, gate: Gate) -> GateResult:
        path = gate.path
        if path.difference:
            return self._evaluate_difference(gate)
        records = [record for record in self._records if matches(record, path.filters)]
        section = (
            aggregate_metric(self._records, path, resample=self._resample)
            if path.filters
            else self._sections.get(path.section)
        )
        value = flat_value(section, path)
        interval = ((section or {}).get("intervals") or {}).get(path.name)
        size = ((section or {}).get("n") or {}).get(path.name)
        finding = (
            self._asked_for(gate, records)
            or self._complete(gate)
            or self._trusted(path)
            or self._measured(path, records, section or {}, value)
            or self._decided(gate)
            or _compared(gate, value, self._selection(len(records)))
        )
        return self._result(gate, finding, value, (interval[0], interval[1]) if interval else None, size)

    def _trusted(self, path: MetricPath) -> _Finding | None:
        """A judge that controls have not shown to be trustworthy decides nothing."""
        if goes_by_judge(path.section, path.metric) and is_untrusted(self._run.judge):
            return _Finding(UNMEASURED, "judge_untrusted", {})
        return None

    def _evaluate_difference(self, gate: Gate) -> GateResult:
        """A gate on how far this run is from the baseline, which no run without one is asked for."""
        path = gate.path
        if self._differences is None:
            return self._result(gate, _Finding(NOT_APPLICABLE, "no_baseline", {}), None, None, None)
        records = [record for record in self._records if matches(record, path.filters)]
        found = self._differences(self._scope.path, path)
        if not found.applies:
            return self._result(gate, _Finding(NOT_APPLICABLE, found.reason_id, {}), None, None, None)
        missing = _Finding(UNMEASURED, found.reason_id, {"metric": str(path), **(found.reason_values or {})})
        finding = (
            self._asked_for(gate, records)
            or self._complete(gate)
            or self._measured(path, records, self._sections.get(path.section) or {}, found.value, missing)
            or _compared(gate, found.value, self._selection(len(records)))
        )
        return self._result(gate, finding, found.value, found.interval, found.n)

    def _result(
        self,
        gate: Gate,
        finding: _Finding,
        value: float | None,
        interval: tuple[float, float] | None,
        size: Mapping[str, float] | None,
    ) -> GateResult:
        return GateResult(
            scope=self._scope.path,
            level=gate.level,
            metric=str(gate.path),
            op=gate.threshold.op,
            threshold=gate.threshold.number,
            value=value,
            interval=interval,
            n=size,
            status=finding.status,
            reason=sentence(finding.reason_id, "en", finding.values),
            origin=gate.origin,
            reason_id=finding.reason_id,
            reason_values=finding.values,
        )

    def _asked_for(self, gate: Gate, records: Sequence[CaseResult]) -> _Finding | None:
        """Whether anybody asked for this metric in this run and file."""
        if gate.origin in ("ini", "command line") and gate.path.section in self._elsewhere:
            return _Finding(NOT_APPLICABLE, "other_kind", {"kind": self._scope.kind, "section": gate.path.section})
        stages = metric_stages(gate.path.section, gate.path.metric)
        if (unknown := self._unknown_dimension(gate)) is not None:
            return unknown
        for stage in stages:
            if not self._selected(stage):
                return _Finding(NOT_APPLICABLE, "stage_not_selected", {"stage": stage})
        absent = NOT_APPLICABLE if gate.origin == "default" else UNMEASURED
        for stage in stages:
            if not self._scope.truth_counts.get(stage, 0):
                return _Finding(absent, "no_truth_in_file", {"stage": stage})
            if stage not in self._run.supported_stages:
                return _Finding(absent, "stage_unsupported", {"stage": stage})
        label = _LABEL_OF.get(gate.path.base)
        if label is not None and not self._scope.truth_counts.get(f"l1.{label}", 1):
            return _Finding(absent, "no_label_in_file", {"label": label})
        if gate.path.base in _OF_GROUPS and not self._scope.truth_counts.get("l2.scene_groups", 1):
            return _Finding(absent, "no_groups_in_file", {})
        if not stages or self._run.partial == "aborted":
            return None
        counts = count_metric(records, gate.path.section, gate.path.metric)
        labelled = sum(counts[name] for name in LABELLED)
        if labelled == 0 and not self._missing_here():
            chosen = self._run.partial in ("selected", "decided")
            if gate.path.filters and not records:
                wanted = str(gate.path)[str(gate.path).index("{") :]
                return _Finding(NOT_APPLICABLE if chosen else UNMEASURED, "no_case_matches", {"filter": wanted})
            reason = "selection_left_no_truth" if chosen else "no_truth_in_cases"
            return _Finding(NOT_APPLICABLE if chosen else UNMEASURED, reason, {"stage": stages[-1]})
        if labelled and counts["unsupported"] == labelled:
            return _Finding(absent, "stage_unsupported", {"stage": stages[-1]})
        return None

    def _unknown_dimension(self, gate: Gate) -> _Finding | None:
        """A gate of the whole run on a dimension that this file's registry lacks."""
        spec, key, known = gate.path.spec, gate.path.key, self._scope.dimensions
        if gate.origin not in ("ini", "command line") or spec is None or spec.keys != "dimension" or key is None:
            return None
        if known is None or key in known:
            return None
        if key in self._dimensions:
            return _Finding(NOT_APPLICABLE, "other_registry", {"dimension": key})
        close = nearest(key, known)
        if close is None:
            return _Finding(UNMEASURED, "unknown_dimension", {"dimension": key})
        return _Finding(UNMEASURED, "unknown_dimension_nearest", {"dimension": key, "nearest": close})

    def _complete(self, gate: Gate) -> _Finding | None:
        """Whether the run got to its end, over all of its files; only P0 gates mind."""
        if gate.level != "P0":
            return None
        if self._run.partial == "aborted":
            return _Finding(UNMEASURED, "aborted", {})
        if self._run.broken_files:
            return _Finding(
                UNMEASURED, "broken_files", {"files": ", ".join(path for path, _ in self._run.broken_files)}
            )
        gone = [node_id for path, node_id in self._run.gone if path == self._scope.path]
        if gone:
            return _Finding(UNMEASURED, "gone", {"count": len(gone), "first": gone[0]})
        missing = len(self._run.not_run) - len(self._run.gone)
        if missing:
            return _Finding(UNMEASURED, "not_run", {"missing": missing, "here": self._missing_here()})
        return None

    def _measured(
        self,
        path: MetricPath,
        records: Sequence[CaseResult],
        section: Mapping[str, Any],
        value: float | None,
        missing: _Finding | None = None,
    ) -> _Finding | None:
        """Whether the value stands."""
        # A project's own metric belongs to no stage; its cases are counted by what became of itself.
        stages = metric_stages(path.section, path.metric) or (path.base,)
        counts = count_metric(records, path.section, path.metric)
        scored, errored, skipped = counts["scored"], counts["errored"], counts["skipped"]
        if skipped and not scored and not errored:
            return _Finding(UNMEASURED, "all_skipped", {"skipped": skipped, "stage": stages[-1]})
        if errored and errored > self._run.max_error_rate * (scored + errored) + 1e-9:
            values = {"errored": errored, "labelled": scored + errored, "rate": self._run.max_error_rate}
            return _Finding(UNMEASURED, "too_many_errors", values)
        lost = (section.get("unmeasured") or {}).get(path.name, 0)
        mixed = (section.get("mixed") or {}).get(path.metric)
        if mixed and value is None:
            kinds = "_".join(kind for kind in ("numbers", "texts", "mappings") if kind in mixed)
            return _Finding(UNMEASURED, f"mixed_{kinds}", {"metric": f"{path.section}.{path.metric}", **mixed})
        if lost:
            return _Finding(UNMEASURED, "not_finite", {"cases": lost, "metric": str(path)})
        controls = (self._run.judge or {}).get("controls") or {}
        if path.section in JUDGED_SECTIONS and path.name.startswith("judge") and controls.get("trustworthy") is False:
            # The verdicts are there, but whoever gave them takes wrong answers for right ones, or the reverse.
            lows = {
                name: value_text(((controls.get(name) or {}).get("interval") or [0.0])[0])
                for name in ("sensitivity", "specificity")
            }
            return _Finding(
                UNMEASURED, "judge_not_trustworthy", {**lows, "least": value_text(controls.get("least", 0.8))}
            )
        if value is None:
            return missing or self._unknown(path) or _Finding(UNMEASURED, "no_value", {"metric": str(path)})
        return None

    def _unknown(self, path: MetricPath) -> _Finding | None:
        """A metric that no case of the file knows, with the nearest one that its section was measured in: in a section
        that is open to any name a slip of the pen is no error before the run."""
        if path.section not in OPEN_SECTIONS:
            return None
        sections = [record.sections[path.section] for record in self._records if path.section in record.sections]
        names = dict.fromkeys(
            name for section in sections for name in (*section.ratios, *section.counts) if not name.startswith("_")
        )
        if path.metric in {name.partition(".")[0].partition("@")[0] for name in names}:
            return None
        # A metric of the catalogue is no slip: there is just nothing here that it could be measured in.
        close = nearest(path.name, names) if path.spec is None else None
        if close is not None:
            values = {"metric": str(path), "nearest": f"{path.section}.{close}"}
            return _Finding(UNMEASURED, "metric_not_measured_nearest", values)
        if names and path.spec is None:
            plain = [name for name in names if "." not in name] or list(names)
            known = ", ".join(f"{path.section}.{name}" for name in plain[:_MOST_NAMED])
            values = {"metric": str(path), "known": known + (", …" if len(plain) > _MOST_NAMED else "")}
            return _Finding(UNMEASURED, "metric_not_measured_known", values)
        return _Finding(UNMEASURED, "metric_not_measured", {"metric": str(path)})

    def _selected(self, stage: str) -> bool:
        stages = self._run.stages
        return stage in stages or "all" in stages or (stage == "template" and "l2" in stages)

    def _missing_here(self) -> int:
        return sum(1 for entry in self._run.not_run if entry and entry[0] == self._scope.path)

    def _decided(self, gate: Gate) -> _Finding | None:
        """What a part of the cases has shown of all, where the others were left out for that."""
        scope = ((self._run.stopping or {}).get("scopes") or {}).get(self._scope.path) or {}
        entry = next((one for one in scope.get("gates", ()) if one["gate"] == str(gate)), None)
        if gate.level != "P0" or not scope.get("left_out") or entry is None:
            return None
        if entry["verdict"] not in ("PASS", "FAIL"):
            return _Finding(UNMEASURED, "not_decided", {})
        passed = entry["verdict"] == "PASS"
        values = {"cases": entry["cases"], "all": scope["total"]["cases"], "value": value_text(entry["value"])}
        return _Finding(PASSED if passed else MISSED, "decided_pass" if passed else "decided_fail", values)

    def _selection(self, cases: int) -> dict[str, Any] | None:
        if self._run.partial not in ("selected", "decided") or cases >= self._scope.cases:
            return None
        return {"cases": cases, "all": self._scope.cases}


def _compared(gate: Gate, value: float | None, selection: Mapping[str, Any] | None) -> _Finding:
    threshold = gate.threshold
    assert value is not None
    held = threshold.holds(value)
    values: dict[str, Any] = {
        "value": value_text(value, against=threshold.number),
        "op": threshold.op,
        "threshold": number_text(threshold.number),
        **(selection or {}),
    }
    reason = "threshold_met" if held else "threshold_missed"
    return _Finding(PASSED if held else MISSED, f"{reason}_in_selection" if selection else reason, values)


def p0_status(results: Iterable[GateResult]) -> dict[str, str]:
    """Each P0 gate as it is written → its worst status over the scopes (see :data:`WORST_FIRST`)."""
    found: dict[str, set[str]] = {}
    for result in results:
        if result.level == "P0":
            found.setdefault(result.gate, set()).add(result.status)
    return {gate: next(status for status in WORST_FIRST if status in seen) for gate, seen in found.items()}


def passed_p0(results: Iterable[GateResult]) -> bool | None:
    """``True`` when every P0 gate that applies is passed, ``False`` when one is missed or unmeasured, ``None`` when no
    P0 gate applies."""
    statuses = {result.status for result in results if result.level == "P0"} - {NOT_APPLICABLE}
    return statuses == {PASSED} if statuses else None
