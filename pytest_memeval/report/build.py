"""The report: one dict from which every rendering is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_memeval.aggregate import aggregate_sections
from pytest_memeval.case_counts import one_per_case
from pytest_memeval.gates import GateResult, evaluate_gates, p0_status, passed_p0
from pytest_memeval.metrics.thresholds import TOLERANCE
from pytest_memeval.qa_figures import question_report
from pytest_memeval.report.decision_notes import decision_warnings
from pytest_memeval.report.entries import add_usage, case_entry, usage_of
from pytest_memeval.report.evaluator_notes import evaluator_warnings
from pytest_memeval.report.funnel import run_funnel
from pytest_memeval.report.messages import run_note, text
from pytest_memeval.report.search_notes import search_setup, search_warnings, sentences
from pytest_memeval.report.section_notes import section_warnings
from pytest_memeval.report.stopping import stop_counts
from pytest_memeval.report.text_policy import apply_text_policy
from pytest_memeval.report.timings import timings_of
from pytest_memeval.report.trials import trials_of
from pytest_memeval.results import CaseResult, RunInfo, SetInfo

#: "major.minor": new keys raise minor, a changed meaning raises major.
SCHEMA_VERSION = "1.13"
#: Keys of a report under which equal runs may differ (in ``summary`` only ``duration_seconds``).
VARYING_KEYS: tuple[str, ...] = ("run_id", "timestamp", "environment", "config", "timings")
#: The same within an entry of ``per_case``.
VARYING_CASE_KEYS: tuple[str, ...] = ("duration_seconds", "timings")
#: Sections that later parts fill; absent figures are ``None``.
_LATER: tuple[str, ...] = ("rrf", "baseline")


def build_report(
    run: RunInfo,
    sets: Sequence[SetInfo],
    records: Iterable[CaseResult],
    *,
    report_text: str = "full",
    resample: bool = True,
    entry_of: Callable[[CaseResult], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The whole report of a run.

    One record a node id counts (the last given), and their order plays no part. ``report_text`` (``full``, ``hash``,
    ``none``) says what becomes of the texts in ``per_case``. ``resample=False`` leaves out the intervals that take a
    bootstrap, for a run whose end cannot wait. ``entry_of`` gives the entries that were made already, with their texts
    as ``report_text`` wants them.
    """
    ordered = one_per_case(records)
    by_set: dict[str, list[CaseResult]] = {scope.path: [] for scope in sets}
    for record in ordered:
        by_set.setdefault(record.set, []).append(record)
    aggregated = partial(aggregate_sections, resample=resample, protocol=run.protocol)
    sections = aggregated(ordered)
    # With one file its figures are the run's: computing them twice would double the time of the largest runs.
    scoped = {
        path: sections if len(own) == len(ordered) and ordered else aggregated(own) for path, own in by_set.items()
    }
    _add_warnings(sections, ordered, report_text)
    for path, figures in scoped.items():
        if figures is not sections:
            _add_warnings(figures, by_set[path], report_text)
    gates = evaluate_gates(run, sets, ordered, aggregates=scoped, resample=resample)
    case_sets = _case_sets(run, sets, by_set, scoped, gates)
    worst = p0_status(gates)
    if entry_of is None:
        per_case = [apply_text_policy(case_entry(record), report_text) for record in ordered]
    else:
        per_case = [entry_of(record) for record in ordered]
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "timestamp": run.timestamp,
        "notes": report_notes(run, gates, case_sets=case_sets),
        "run_notes": list(run.notes),
        "summary": {
            "total_cases": len(ordered) + len(run.not_run),
            "passed_p0": passed_p0(gates),
            "p0_status": worst,
            "without_own_thresholds": sum(not record.has_expectations for record in ordered),
            "missed_own_thresholds": sum(bool(record.missed_expectations) for record in ordered),
            "duration_seconds": run.duration_seconds,
        },
        "counts": case_counts(ordered, len(run.not_run)),
        "partial": run.partial,
        "shard": dict(run.shard) if run.shard is not None else None,
        "variant": dict(run.variant) if run.variant is not None else None,
        "stopping": dict(run.stopping) if run.stopping is not None else None,
        "not_run": [list(entry) for entry in run.not_run],
        **({"gone": [list(entry) for entry in run.gone]} if run.gone else {}),
        "broken_files": [list(entry) for entry in run.broken_files],
        "stages": {
            "selected": list(run.stages),
            "supported": list(run.supported_stages),
            "input": run.stage_input,
        },
        "gating": {
            "enabled": run.gates_enabled,
            "max_error_rate": run.max_error_rate,
            "command_line": [list(gate) for gate in run.gates],
        },
        "config": dict(run.config),
        "prompt_versions": dict(run.prompt_versions),
        "prompt_hashes": dict(run.prompt_hashes),
        "model": dict(run.model),
        "judge": None if run.judge is None else dict(run.judge),
        "engine": dict(run.engine),
        "matcher": dict(run.matcher),
        "registry": dict(run.registry),
        "templates": dict(run.templates),
        "protocol": None if run.protocol is None else dict(run.protocol),
        "metrics_spec": {
            "confidence": 0.95,
            "gate_tolerance": TOLERANCE,
            "aggregation": "ratio of sums",
            **({"text": run.protocol["text_metrics"]} if run.protocol and "text_metrics" in run.protocol else {}),
        },
        **sections,
        **dict.fromkeys(_LATER),
        "case_sets": case_sets,
        "gates": [gate.to_json() for gate in gates],
        "funnel": run_funnel(per_case),
        "trials": trials_of(ordered),
        "usage": _usage(ordered),
        "timings": timings_of(ordered),
        "environment": dict(run.environment),
        "per_case": per_case,
    }


def is_embedded(model: Mapping[str, Any]) -> bool:
    """Whether a run's chat model is the offline lexical reader, whose figures say nothing of quality."""
    return any(str(model.get(key, "")).partition("/")[0] == "embedded" for key in ("kind", "provider", "name", "llm"))


def _add_warnings(sections: Mapping[str, Any], records: Sequence[CaseResult], report_text: str) -> None:
    """What searched, and what the figures of search, sections, decisions and RAG samples cannot tell."""
    section = sections.get("search")
    if section is not None:
        section["setup"] = search_setup(records)
        section["warnings"] = search_warnings(records, section)
    placed = sections.get("l2")
    if placed is not None and (warnings := section_warnings(records, report_text)):
        placed["warnings"] = warnings
    decided = sections.get("l15")
    if decided is not None and (warnings := decision_warnings(records, report_text)):
        decided["warnings"] = warnings
    evaluated = sections.get("rag")
    if evaluated is not None and (warnings := evaluator_warnings(records)):
        evaluated["warnings"] = warnings


def report_notes(
    run: RunInfo, gates: Sequence[GateResult], lang: str = "en", *, case_sets: Mapping[str, Any] | None = None
) -> list[str]:
    """What a reader must know before the figures, the most important first. ``case_sets`` are the report's."""
    ids: list[tuple[str, dict[str, Any]]] = []
    if is_embedded(run.model):
        ids.append(("embedded", {}))
    if run.shard is not None:
        ids.append(("shard", {"index": run.shard["index"], "count": run.shard["count"]}))
    if run.variant is not None:
        names = {"name": run.variant["name"], "names": ", ".join(run.variant["of"]), "last": run.variant["of"][-1]}
        ids.append(("candidate" if run.variant["candidate"] else "variant", names))
    stopping = run.stopping or {}
    if run.partial == "decided":
        ids.append(("partial_decided", stop_counts(stopping)))
    chosen = run.partial == "selected" or (run.partial == "decided" and stopping.get("selected"))
    if run.partial == "aborted" or (chosen and run.shard is None):
        ids.append((f"partial_{'selected' if chosen else run.partial}", {}))
    if len(run.not_run) > len(run.gone):
        ids.append(("not_run", {"count": len(run.not_run) - len(run.gone)}))
    ids += (("broken_file", {"path": path, "problem": problem}) for path, problem in run.broken_files)
    if run.shard is not None:
        pass  # said above
    elif not run.gates_enabled:
        ids.append(("gates_off", {}))
    elif passed_p0(gates) is None:
        ids.append(("no_p0", {}))
    if run.stage_input == "truth":
        ids.append(("truth_input", {}))
    searched = sentences(case_sets or {}, lambda key, **values: text(key, lang, **values))
    return [
        *(text(f"note.{key}", lang, **values) for key, values in ids),
        *searched,
        *(run_note(note, lang) for note in run.notes),
    ]


def case_counts(records: Iterable[CaseResult], not_run: int = 0) -> dict[str, int]:
    """``{scored, errored, skipped, not_run, total}`` of cases by outcome."""
    counts = {"scored": 0, "errored": 0, "skipped": 0, "not_run": not_run}
    for record in records:
        counts[record.outcome] += 1
    return {**counts, "total": sum(counts.values())}


def _case_sets(
    run: RunInfo,
    sets: Sequence[SetInfo],
    by_set: Mapping[str, Sequence[CaseResult]],
    scoped: Mapping[str, Mapping[str, Any]],
    gates: Sequence[GateResult],
) -> dict[str, Any]:
    infos = {info.path: info for info in sets}
    result = {}
    for path, own in by_set.items():
        info = infos.get(path) or SetInfo(path=path, kind=own[0].kind, cases=len(own))
        missing = sum(1 for entry in run.not_run if entry and entry[0] == path)
        result[path] = {
            **{key: value for key, value in info.to_json().items() if key not in ("path", "gates")},
            "gate_texts": [list(gate) for gate in info.gates],
            "counts": case_counts(own, missing),
            **scoped[path],
            "gates": [gate.to_json() for gate in gates if gate.scope == path],
            **(_questions(run, info, own, scoped[path]) if info.kind == "qa" else {}),
        }
    return result


def _questions(run: RunInfo, info: SetInfo, own: Sequence[CaseResult], sections: Mapping[str, Any]) -> dict[str, Any]:
    """What a file of questions has besides: how they were asked, and what its figures are worth."""
    tokens = (sections.get("qa") or {}).get("context_tokens")
    protocol = {**(info.protocol or {}), **(run.protocol or {}), "mean_context_tokens": tokens}
    return {"protocol": protocol, "questions": question_report(own, sections, protocol)}


def _usage(records: Iterable[CaseResult]) -> dict[str, Any]:
    total = usage_of(())
    by_stage: dict[str, dict[str, Any]] = {}
    for record in records:
        if not record.calls:
            continue
        add_usage(total, usage_of(record.calls))
        stages = sorted({call.stage for call in record.calls})
        for stage in stages:
            own = usage_of(call for call in record.calls if call.stage == stage)
            add_usage(by_stage.setdefault(stage, usage_of(())), own)
    return {**total, "by_stage": dict(sorted(by_stage.items()))}
