"""Scoring a stored run again: other matcher, corrected labels, other gates; nothing is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_memeval.assets.registry import Registry
from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.corpus import set_cutoffs
from pytest_memeval.custom_metrics import SECTION
from pytest_memeval.expectations import default_expectations, expectations_of, kind_defaults, missed_expectations
from pytest_memeval.kinds import KindCase, KindSet, kind_named, sections_of
from pytest_memeval.measuring.repeated_ids import repeated_in, without_what_built_on
from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.metrics.l1 import PRIORITY_TOLERANCE
from pytest_memeval.metrics.search import CUTOFFS
from pytest_memeval.metrics.thresholds import Gate, Threshold, parse_gate
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.report.build import build_report
from pytest_memeval.report.messages import text
from pytest_memeval.report.reader import ReportError, records_of, run_of, sets_of
from pytest_memeval.results import CaseError, CaseResult, RunInfo, StageStatus
from pytest_memeval.scopes import set_info
from pytest_memeval.scoring import CaseScorer, ScoringOptions
from pytest_memeval.stages import CHAIN, why_null
from pytest_memeval.trials.records import single_records, together
from pytest_memeval.truths import truth_stages
from pytest_memeval.values import DISTILL_STAGES


@dataclass(frozen=True, slots=True)
class Rescoring:
    """What is to be different. ``gates`` replace a scope's gates on the same metric; ``ini_gates`` are used for files
    without gates of their own; ``expect`` are the default thresholds of every case."""

    scoring: ScoringOptions
    gates: tuple[Gate, ...] = ()
    ini_gates: tuple[Gate, ...] = ()
    expect: tuple[Threshold, ...] = ()


def rescore_report(
    report: Mapping[str, Any], case_sets: Mapping[str, CaseSet | KindSet], change: Rescoring
) -> tuple[dict[str, Any], list[CaseResult]]:
    """The report that the stored outputs give with today's labels, and its case results.

    ``case_sets`` holds the case files by their path in the report. A case that is no longer in its file is left out
    and counts as not run, so that no gate of the file passes for that; one that the run did not have is not measured.
    The report's notes say how many. Raises ReportError for a report
    without texts (``memeval_report_text`` was not ``full``), since similarity needs them, and for damaged outputs.
    """
    policy = report.get("config", {}).get("options", {}).get("report_text", "full")
    if policy != "full":
        raise ReportError(f"The run kept no texts (memeval_report_text = {policy}), so it cannot be scored again.")
    run = run_of(report)
    records = records_of(report)
    by_id = {path: {case.case_id: case for case in loaded.cases} for path, loaded in case_sets.items()}
    wanted = [gate.threshold for gate in (*change.gates, *change.ini_gates, *_stored_gates(run))]
    cutoffs = {
        path: set_cutoffs(loaded, (*wanted, *change.expect))
        for path, loaded in case_sets.items()
        if isinstance(loaded, CaseSet)
    }
    results: list[CaseResult] = []
    in_code = changed = 0
    gone: list[tuple[str, str]] = []
    for record in records:
        case = by_id.get(record.set, {}).get(record.case_id)
        if case is None:
            in_code += record.set not in case_sets
            if record.set in case_sets:
                gone.append((record.set, record.node_id))
            continue
        changed += case.content_hash != record.content_hash
        here = replace(change, scoring=replace(change.scoring, cutoffs=cutoffs.get(record.set, CUTOFFS)))
        try:
            registry = getattr(case_sets[record.set], "registry", None)
            loaded = case_sets[record.set]
            if isinstance(loaded, KindSet) and isinstance(case, KindCase):
                results.append(_rescore_kind(record, case, loaded, change, run))
            else:
                assert isinstance(case, EvalCase)
                results.append(rescore_case(record, case, here, run, registry))
        except OutputError as error:
            raise ReportError(f"The outputs of {record.node_id} cannot be read: {error}.") from None
    known = {(record.set, record.case_id) for record in records} | _not_run(run)
    added = sum((path, name) not in known for path, cases in by_id.items() for name in cases)
    said = _notes(in_code=in_code, gone=len(gone), changed=changed, added=added)
    # What an interrupted run left out is made now.
    outdated = {text("note.hurried", lang, count=len(records)) for lang in ("en", "zh")}
    run = replace(
        run,
        run_id=f"{run.run_id}-rescored",
        matcher=change.scoring.describe(),
        gates=_gates(run, change.gates),
        gates_enabled=run.gates_enabled or bool(change.gates),
        stopping=_without_verdicts(run.stopping),
        partial=run.partial or ("selected" if added else None),
        not_run=(*((path, node) for path, node in run.not_run if path in case_sets), *gone),
        gone=(*((path, node) for path, node in run.gone if path in case_sets), *gone),
        notes=(
            *(note for note in run.notes if note not in outdated),
            *(note for note in said if note not in run.notes),
        ),
    )
    infos = [
        set_info(case_sets[stored.path], stored.path, change.ini_gates)
        for stored in sets_of(report)
        if stored.path in case_sets
    ]
    return build_report(run, infos, results), results


def _without_verdicts(stopping: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Early verdicts are of the figures as the run measured them: of what is scored again they say nothing, and its
    gates go by the cases that were run, as those of a selection do."""
    if stopping is None:
        return None
    scopes = {path: {**scope, "gates": []} for path, scope in stopping["scopes"].items()}
    return {**stopping, "scopes": scopes}


def _not_run(run: RunInfo) -> set[tuple[str, str]]:
    left_out = ((entry[0], entry[1]) for entry in (run.stopping or {}).get("left_out", ()))
    return {(path, node.partition("::")[2]) for path, node in (*run.not_run, *left_out)}


def _stored_gates(run: RunInfo) -> list[Gate]:
    return [parse_gate(gate, origin) for gate, origin in run.gates]


def _gates(run: RunInfo, gates: Sequence[Gate]) -> tuple[tuple[str, str], ...]:
    """The command line's gates: the new ones, and those of the run on other metrics."""
    replaced = {str(gate.path) for gate in gates}
    kept = [(gate, origin) for gate, origin in run.gates if str(parse_gate(gate, origin).path) not in replaced]
    return (*kept, *((str(gate), "command line") for gate in gates))


def _notes(*, in_code: int, gone: int, changed: int, added: int) -> list[str]:
    counted = {"in_code": in_code, "gone": gone, "changed": changed, "added": added}
    return [text(f"run_note.{key}", count=count) for key, count in counted.items() if count]


def rescore_case(
    record: CaseResult, case: EvalCase, change: Rescoring, run: RunInfo, registry: Registry | None = None
) -> CaseResult:
    """One case with its stored outputs and today's labels, which were checked against ``registry``. A stage that has
    labels now and of which the run kept no output is errored: it cannot be told from the record. So is a case whose
    labels are now invalid."""
    was_idle = record.outcome == "skipped" and bool(record.stages) and "skipped" not in record.stages.values()
    if record.outcome == "skipped" and not was_idle:
        return record
    if record.trials:
        parts = [rescore_case(part, case, change, run, registry) for part in single_records(record)]
        whole = together(record, parts)
        return _held_against(whole, case, change, run)
    described = replace(
        record,
        source=case.source,
        difficulty=case.difficulty,
        tags=case.tags,
        line=case.line,
        content_hash=case.content_hash,
    )
    if case.problems:
        return _invalid(described, case)
    outputs = Outputs.from_json(record.outputs, record.facts)
    tolerance = registry.priority_tolerance if registry is not None else PRIORITY_TOLERANCE
    scorer = CaseScorer(case, outputs, change.scoring, priority_tolerance=tolerance)
    selected = None if "all" in run.stages else frozenset(run.stages)
    status, lost = _statuses(record, case, outputs, selected, run.supported_stages)
    chained = run.stage_input == "chained"
    repeated = repeated_in(case, outputs, chained=chained)
    if repeated is not None and status[repeated.stage] in ("scored", "ran"):
        status = without_what_built_on(repeated.stage, status, outputs, chained=chained)
        lost = [repeated, *(one for one in lost if status[one.stage] == "errored")]
    sections = scorer.sections([stage for stage, now in status.items() if now == "scored"])
    # A project's own metrics stay as they were: their functions are not at hand.
    own = {name: before for name, before in record.stages.items() if name.startswith(f"{SECTION}.")}
    status = {**status, **own}
    if SECTION in record.sections:
        sections[SECTION] = record.sections[SECTION]
    errors = (*(error for error in record.errors if _still_counts(error, status)), *lost)
    scored = replace(
        described,
        outcome="errored" if errors else "skipped" if was_idle and "scored" not in status.values() else "scored",
        stages=status,
        sections=sections,
        errors=errors,
    )
    return _held_against(scored, case, change, run)


def _held_against(record: CaseResult, case: EvalCase, change: Rescoring, run: RunInfo) -> CaseResult:
    """The record with the thresholds that its figures miss, and why, as the run itself says it."""

    def why(threshold: Threshold) -> str:
        stages = metric_stages(threshold.path.section, threshold.path.metric)
        engine, chained = str(run.engine.get("name")), run.stage_input == "chained"
        return why_null(stages, record.stages, run.supported_stages, engine=engine, chained=chained)

    selected = None if "all" in run.stages else frozenset(run.stages)
    thresholds = expectations_of(case, selected, change.expect)
    optional = [one for one in default_expectations(case, change.expect) if one not in case.expect]
    missed = () if record.errors else tuple(missed_expectations(record.sections, thresholds, optional, why))
    return replace(record, missed_expectations=missed, has_expectations=bool(thresholds))


def _rescore_kind(record: CaseResult, case: KindCase, case_set: KindSet, change: Rescoring, run: RunInfo) -> CaseResult:
    if record.outcome == "skipped":
        return record
    if record.trials:
        before = single_records(record)
        parts = [_rescore_kind(part, case, case_set, change, run) for part in before]
        if all(part is was for part, was in zip(parts, before, strict=True)):
            return record
        whole = together(record, parts)
        return _kind_held_against(whole, case, change)
    if case.problems:
        return _invalid(replace(record, content_hash=case.content_hash, line=case.line), case)
    again = kind_named(record.kind).rescore(record, case, case_set, run.protocol or {})
    if again is record:
        return record
    # A project's own metrics stay as they were: their functions are not at hand.
    own = {name: before for name, before in record.stages.items() if name.startswith(f"{SECTION}.")}
    kept = {SECTION: record.sections[SECTION]} if SECTION in record.sections else {}
    again = replace(again, stages={**again.stages, **own}, sections={**again.sections, **kept})
    return _kind_held_against(again, case, change)


def _kind_held_against(record: CaseResult, case: KindCase, change: Rescoring) -> CaseResult:
    """The same for a case of another kind."""
    added = kind_defaults(case, (*sections_of(record.kind), SECTION), change.expect)
    thresholds = (*case.expect, *added)
    missed = () if record.errors else tuple(missed_expectations(record.sections, thresholds, added))
    return replace(record, missed_expectations=missed, has_expectations=bool(thresholds))


def _invalid(record: CaseResult, case: EvalCase | KindCase) -> CaseResult:
    text = "\n".join(f"line {problem.line}: {problem.message}" for problem in case.problems)
    stages: dict[str, StageStatus] = dict.fromkeys(case.stages, "void") if isinstance(case, KindCase) else {}
    if isinstance(case, EvalCase):
        truths = truth_stages(case)
        stages = {stage: "void" if stage in truths else "no_truth" for stage in DISTILL_STAGES}
    return replace(
        record,
        outcome="errored",
        stages=stages,
        sections={},
        errors=(CaseError("case", "invalid_case", text),),
        missed_expectations=(),
    )


def _still_counts(error: CaseError, status: Mapping[str, StageStatus]) -> bool:
    """Whether a stage's error still matters: its labels, and those of all that builds on it, may have been removed."""
    return error.stage not in status or status[error.stage] in ("errored", "ran_errored")


def _statuses(
    record: CaseResult,
    case: EvalCase,
    outputs: Outputs,
    selected: Collection[str] | None,
    supported: Collection[str],
) -> tuple[dict[str, StageStatus], list[CaseError]]:
    """Each stage's status with today's labels, and an error for each stage whose output is wanted and not there."""
    truths = truth_stages(case)
    status: dict[str, StageStatus] = {}
    lost: list[CaseError] = []
    for stage in DISTILL_STAGES:
        before = record.stages.get(stage, "no_truth")
        there = stage in record.outputs
        chosen = selected is None or stage in selected
        if stage not in truths or not chosen:
            needed = any(stage in CHAIN[later] for later in truths)
            if there and before in ("scored", "ran"):
                status[stage] = "ran"
            elif needed and before in ("errored", "ran_errored"):
                status[stage] = "ran_errored"
            else:
                status[stage] = "no_truth" if stage not in truths else "unselected"
        elif before in ("errored", "ran_errored"):
            status[stage] = "errored"
        elif before in ("void", "unsupported", "unselected", "skipped") or (
            before == "no_truth" and stage not in supported
        ):
            status[stage] = "unsupported" if before == "no_truth" else before
        else:
            why = _not_recorded(stage, case, outputs) if there else "the run kept no output of this stage"
            status[stage] = "errored" if why else "scored"
            if why:
                lost.append(CaseError(stage, "not_recorded", why))
    return status, lost


def _not_recorded(stage: str, case: EvalCase, outputs: Outputs) -> str | None:
    """What a stage's stored output lacks of what is labelled now."""
    if stage == "search" and case.expected_search is not None:
        unasked = [entry.query for entry in case.expected_search.queries if entry.query not in (outputs.search or {})]
        return f"the run kept no hits of {len(unasked)} of the queries, such as {unasked[0]!r}" if unasked else None
    if stage != "template" or case.expected_l2 is None:
        return None
    wanted = (mode for mode, labels in case.expected_l2.template_section.items() if labels)
    missing = [mode for mode in wanted if mode not in (outputs.template or {})]
    return f"the run kept no sections of mode {', '.join(missing)}" if missing else None


def case_files(report: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """The report's case files by their path in it, looked for below ``root``; cases built in code have none."""
    return {path: root / path for path in report["case_sets"] if Path(path).suffix != ".py"}
