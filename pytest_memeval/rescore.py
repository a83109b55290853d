"""Scoring a stored run again: other matcher, corrected labels, other gates; nothing is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.metrics.thresholds import Gate, Threshold
from pytest_memeval.outputs import Outputs
from pytest_memeval.report.build import build_report
from pytest_memeval.report.reader import ReportError, records_of, run_of, sets_of
from pytest_memeval.results import CaseError, CaseResult, StageStatus
from pytest_memeval.scopes import set_info
from pytest_memeval.scoring import CaseScorer, ScoringOptions, expectations_of, missed_expectations
from pytest_memeval.stages import truth_stages
from pytest_memeval.values import DISTILL_STAGES


@dataclass(frozen=True, slots=True)
class Rescoring:
    """What is to be different. ``gates`` replace a scope's gates on the same metric; ``ini_gates`` are used for files
    without gates of their own."""

    scoring: ScoringOptions
    gates: tuple[Gate, ...] = ()
    ini_gates: tuple[Gate, ...] = ()
    expect: tuple[Threshold, ...] = ()


def rescore_report(
    report: Mapping[str, Any], case_sets: Mapping[str, CaseSet], change: Rescoring
) -> tuple[dict[str, Any], list[CaseResult]]:
    """The report that the stored outputs give with today's labels, and its case results.

    ``case_sets`` holds the case files by their path in the report. Raises ReportError for a report without texts
    (``memeval_report_text`` was not ``full``), since similarity needs them.
    """
    policy = report.get("config", {}).get("options", {}).get("report_text", "full")
    if policy != "full":
        raise ReportError(f"The run kept no texts (memeval_report_text = {policy}), so it cannot be scored again.")
    notes: list[str] = []
    results = []
    by_id = {path: {case.case_id: case for case in loaded.cases} for path, loaded in case_sets.items()}
    gone = changed = 0
    for record in records_of(report):
        case = by_id.get(record.set, {}).get(record.case_id)
        if case is None:
            gone += 1
            continue
        changed += case.content_hash != record.content_hash
        results.append(rescore_case(record, case, change))
    if gone:
        notes.append(f"{gone} case(s) of the run are no longer in their files and were left out")
    if changed:
        notes.append(f"{changed} case(s) were changed since the run; their outputs are those of the run")
    run = run_of(report)
    run = replace(
        run,
        run_id=f"{run.run_id}-rescored",
        matcher=change.scoring.describe(),
        gates=tuple((str(gate), "command line") for gate in change.gates) or run.gates,
        notes=(*run.notes, *notes),
    )
    infos = []
    for stored in sets_of(report):
        loaded = case_sets[stored.path]
        fresh = set_info(loaded, stored.path, change.ini_gates)
        kept_ini = loaded.meta.gates is None and not change.ini_gates and any(o == "ini" for _, o in stored.gates)
        infos.append(replace(fresh, gates=stored.gates) if kept_ini else fresh)
    return build_report(run, infos, results), results


def rescore_case(record: CaseResult, case: EvalCase, change: Rescoring) -> CaseResult:
    """One case with its stored outputs and today's labels. A stage that has labels now and of which the run kept no
    output is errored: it cannot be told from the record."""
    if record.outcome == "skipped":
        return record
    outputs = Outputs.from_json(record.outputs, record.facts)
    scorer = CaseScorer(case, outputs, change.scoring)
    status, missing = _statuses(record, truth_stages(case))
    scored = [stage for stage, now in status.items() if now == "scored"]
    sections = scorer.sections(scored)
    lost = [CaseError(stage, "not_recorded", "the run kept no output of this stage") for stage in missing]
    errors = (*record.errors, *lost)
    selected = frozenset(stage for stage, now in status.items() if now != "unselected")
    thresholds = expectations_of(case, selected, change.expect)
    return replace(
        record,
        outcome="errored" if errors else "scored",
        source=case.source,
        difficulty=case.difficulty,
        tags=case.tags,
        line=case.line,
        content_hash=case.content_hash,
        stages=status,
        sections=sections,
        errors=errors,
        missed_expectations=() if errors else tuple(missed_expectations(sections, thresholds)),
        has_expectations=bool(thresholds),
    )


def _statuses(record: CaseResult, truths: Sequence[str]) -> tuple[dict[str, StageStatus], list[str]]:
    status: dict[str, StageStatus] = {}
    missing = []
    for stage in DISTILL_STAGES:
        before = record.stages.get(stage, "no_truth")
        has_output = stage in record.outputs
        if stage not in truths:
            status[stage] = "ran" if has_output and before in ("scored", "ran") else "no_truth"
        elif before in ("scored", "ran") and has_output:
            status[stage] = "scored"
        elif before in ("errored", "ran_errored"):
            status[stage] = "errored"
        elif before in ("void", "unsupported", "unselected", "skipped"):
            status[stage] = before
        else:
            status[stage] = "errored"
            missing.append(stage)
    return status, missing


def case_files(report: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """The report's case files by their path in it, looked for below ``root``."""
    return {path: root / path for path in report["case_sets"]}
