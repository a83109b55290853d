"""A run held against an earlier report while it ends: gates on differences, and what the reports say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.differences import path_difference
from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.load import prompt_texts
from pytest_memeval.compare.messages import text
from pytest_memeval.compare.model import CaseNote, Comparison
from pytest_memeval.compare.pairing import Pairing, pair_cases
from pytest_memeval.compare.render_markdown import markdown_lines
from pytest_memeval.compare.render_terminal import summary_lines
from pytest_memeval.compare.settings import setting_differences, shared_files
from pytest_memeval.gates import Difference, Differences, evaluate_gates, p0_status, passed_p0
from pytest_memeval.metrics.thresholds import MetricPath, parse_gate
from pytest_memeval.report.build import report_notes
from pytest_memeval.report.reader import ReportError, load_report, records_of
from pytest_memeval.report.write import LATEST_NAME, latest_folder
from pytest_memeval.results import CaseResult, RunInfo, SetInfo

#: As many changed cases are kept in the run's own report; ``memeval compare`` has them all.
MOST_CHANGES = 50


@dataclass(frozen=True)
class Baseline:
    """An earlier report and its cases. ``label`` is how it was named."""

    report: Mapping[str, Any]
    records: Sequence[CaseResult]
    label: str
    prompts: Path | None = None

    def apply(
        self, report: dict[str, Any], run: RunInfo, sets: Sequence[SetInfo], records: Iterable[CaseResult]
    ) -> tuple[dict[str, Any], Comparison]:
        """The run's report with the comparison in it and with its gates on differences decided."""
        folders = [self.prompts] if self.prompts is not None else []
        texts = prompt_texts((self.report, report), folders)
        names = (self.label, "this run")
        comparison = compare_reports(self.report, report, labels=names, prompt_texts=texts)
        policies = {policy_of(self.report), policy_of(report)}
        if policies != {"full"}:
            comparison = without_texts(comparison)
        records = list(records)
        if any(parse_gate(gate).path.difference for gate, _ in (*run.gates, *(one for s in sets for one in s.gates))):
            pairing = pair_cases(self.records, records)
            gates = evaluate_gates(
                run,
                sets,
                records,
                aggregates=report["case_sets"],
                differences=_differences(pairing, self.report, report),
            )
            report = {
                **report,
                "notes": report_notes(run, gates),
                "summary": {**report["summary"], "passed_p0": passed_p0(gates), "p0_status": p0_status(gates)},
                "gates": [gate.to_json() for gate in gates],
                "case_sets": {
                    path: {**scope, "gates": [gate.to_json() for gate in gates if gate.scope == path]}
                    for path, scope in report["case_sets"].items()
                },
            }
        # This run's own id and time stand at the top of its report, where equal runs may differ.
        own = replace(comparison.b, run_id="", timestamp="")
        kept = replace(comparison, b=own, changes=comparison.changes[:MOST_CHANGES])
        said = {"path": self.label, "run_id": self.report["run_id"], "comparison": kept.to_json()}
        return {**report, "baseline": said}, comparison


def policy_of(report: Mapping[str, Any]) -> str:
    """What became of the texts in a report: ``full``, ``hash`` or ``none``."""
    options = (report.get("config") or {}).get("options") or {}
    return str(options.get("report_text", "full"))


def without_texts(comparison: Comparison) -> Comparison:
    """The comparison of private conversations: no memories, no messages of errors."""

    def bare(notes: Sequence[CaseNote]) -> tuple[CaseNote, ...]:
        return tuple(
            replace(note, reason=note.reason if note.reason in ("not_run", "decided") else "") for note in notes
        )

    return replace(
        comparison,
        changes=tuple(replace(change, memories=()) for change in comparison.changes),
        newly_errored=bare(comparison.newly_errored),
        recovered=bare(comparison.recovered),
    )


def _differences(pairing: Pairing, before: Mapping[str, Any], now: Mapping[str, Any]) -> Differences:
    """Each scope's own: what differs in another file keeps none of its metrics from being compared."""
    scopes: dict[str, Pairing] = {}
    for pair in pairing.pairs:
        scopes.setdefault(pair.b.set, Pairing()).pairs.append(pair)
    shared = {name for _, name in shared_files(before, now, pairing.files)}
    settings = {
        scope: setting_differences(before, now, own.files or {(scope, scope)})
        for scope, own in ((scope, scopes.get(scope, Pairing())) for scope in now["case_sets"])
    }

    def difference(scope: str, path: MetricPath) -> Difference:
        # A baseline that knows none of this run's files is a wrong one, and nothing passes for it.
        if shared and scope not in shared:
            return Difference(None, reason_id="file_not_in_baseline", applies=False)
        base = f"{path.section}.{path.name}"
        limits, own = Limits(settings.get(scope, ())), scopes.get(scope, Pairing())
        blocked = limits.everywhere(base, {pair.files for pair in own.pairs} or {(scope, scope)})
        if blocked is not None:
            return Difference(None, reason_id="not_comparable", reason_values={"setting": blocked})
        found, cases, _ = path_difference(limits.kept(base, own), path)
        interval = (found.low, found.high) if found.low is not None and found.high is not None else None
        size = {"units": cases, "cases": cases, "clusters": found.clusters}
        return Difference(found.difference, interval, size)

    return difference


def load_baseline(path: Path, prompts: Path | None = None) -> Baseline:
    """The report at ``path``; ``latest`` is the newest run of its folder. Raises ReportError, also for a damaged
    entry: what is wrong with it has to be known before a run."""
    place = path
    if path.name == LATEST_NAME and not path.exists():
        found = latest_folder(path.parent)
        if found is None:
            raise ReportError(f"There is no run in .memeval/runs of {path.parent}, so there is no latest one.")
        place = found
    report = load_report(place)
    return Baseline(
        report, records_of(report), place.name if place.name != "report.json" else place.parent.name, prompts
    )


def markdown_section(comparison: Comparison, lang: str) -> list[str]:
    """The comparison as a chapter of the run's Markdown report."""
    title = text("baseline", lang)
    return ["", f"## {title}", "", *markdown_lines(comparison, lang, level=3)]


def terminal_section(comparison: Comparison, lang: str) -> list[tuple[str, Mapping[str, bool]]]:
    """The comparison in a few lines for the run's summary."""
    colon = "：" if lang == "zh" else ":"
    return [(text("baseline", lang) + colon, {"bold": True}), *summary_lines(comparison, lang)]
