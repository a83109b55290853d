"""The controller's side of a run: collects case results from wherever they ran, then reports and gates once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.code_scopes import counted, joined
from pytest_memeval.garbage import spare_collector_again, undisturbed
from pytest_memeval.results import CaseResult, SetInfo
from pytest_memeval.runs.costs import RunCosts
from pytest_memeval.values import DISTILL_STAGES
from pytest_memeval.writing import put_off

if TYPE_CHECKING:
    from pytest_memeval.compare.baseline import Baseline
    from pytest_memeval.compare.model import Comparison
    from pytest_memeval.report.prepared import PreparedEntries
    from pytest_memeval.resume.run import ResumeCount, StoredRun
    from pytest_memeval.runs.variants import VariantReports
    from pytest_memeval.settings.model import Settings
    from pytest_memeval.stopping import StopRule


#: With so many results the end of an interrupted run leaves out what takes long.
HURRIED_FROM = 1_000


@dataclass
class Recorder:
    """Takes what an item's report carries, journals each case at once and builds the report.

    That is the case's record (a CaseResult as JSON), and with a process's first one of a kind ``sets`` (SetInfos of the
    collected files), ``meta`` (engine, model, prompts of the process) and ``selected`` (node ids of all its case items
    with their sets).
    """

    settings: Settings
    results: dict[str, CaseResult] = field(default_factory=dict)
    sets: dict[str, SetInfo] = field(default_factory=dict)
    selected: dict[str, str] = field(default_factory=dict)
    metas: list[Mapping[str, Any]] = field(default_factory=list)
    #: Of a run that is shared out over machines: case set → node id → part, for all of its cases.
    shared_out: dict[str, dict[str, int]] = field(default_factory=dict)
    crashed: int = 0
    #: What the judge said of answers of which it is known whether they are right, where it was asked.
    judge_controls: Mapping[str, Any] | None = None
    report: dict[str, Any] | None = None
    folder: Path | None = None
    #: What the run is compared with, and the comparison once it is made.
    baseline: Baseline | None = None
    comparison: Comparison | None = None
    #: What is to be said at the end, and is no fault of the run's.
    remarks: list[str] = field(default_factory=list)
    #: The reports of a run over several variants; ``report`` is the candidate's then.
    variants: VariantReports | None = None
    #: In the recorder of one such variant: which of them it is.
    variant: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        from pytest_memeval.report.write import new_run_id

        self.run_id = new_run_id()
        self.started = time.perf_counter()
        #: Fixed at the start: a test may change the current folder.
        self.base = Path.cwd()
        self._journal: Any = None
        #: What the report will have of cases, and the results of which it was not made yet.
        self.prepared: PreparedEntries | None = None
        self._unprepared: list[CaseResult] = []
        self.costs = RunCosts(self.settings)
        #: Journal of the run that this one goes on with, and what came of its cases.
        self.resume_from: Path | None = None
        self.resumed: ResumeCount | None = None
        #: Cases that a worker prepared and another one ran.
        self.in_vain = 0
        #: Blocking stages that went on when their case was over: at a time limit, or when the run was interrupted.
        self.left_behind = 0
        #: Asynchronous stages that went on then though they were cancelled.
        self.cancelled_in_vain = 0
        #: Stores that an engine did not let go of in time.
        self.late_releases = 0
        #: What decides case sets before all of their cases were run, where that was asked for.
        self.stopping: StopRule | None = None
        if self.settings.stop_when_decided:
            from pytest_memeval.stopping import StopRule

            self.stopping = StopRule(
                seed=self.settings.seed,
                most_wrong=self.settings.stop_most_wrong,
                max_error_rate=self.settings.max_error_rate,
                supported=self.supported_stages,
            )

    def take(self, record: str, result: CaseResult | None = None) -> None:
        """Add a case's result given as the text of its JSON form, and as ``result`` too where that is at hand."""
        self.add(CaseResult.from_json(json.loads(record)) if result is None else result, text=record)

    def go_on_with(self, stored: StoredRun) -> None:
        """Have the new run's journal begin with the finished cases of an earlier run's."""
        from pytest_memeval.resume.run import ResumeCount, run_name

        self.resume_from = stored.journal
        self.resumed = ResumeCount(run_name(stored.journal), stored.unreadable)

    def take_process(self, data: Mapping[str, Any]) -> None:
        """What a process says of itself, once: its case files, engine, model, prompts, selection."""
        for given in data.get("sets", ()):
            info = SetInfo.from_json(given)
            self.sets[info.path] = joined(self.sets.get(info.path), info)
        if "meta" in data and data["meta"] not in self.metas:
            self.metas.append(data["meta"])
        self.selected.update(data.get("selected", {}))
        self.shared_out.update(data.get("shared_out", {}))
        if "stopping" in data and self.stopping is not None:
            self.stopping.take_plan(data["stopping"])
        if "resumption" in data and self.resumed is not None:
            self.resumed.note(data["resumption"])

    def add(self, result: CaseResult, *, text: str | None = None) -> None:
        """Add a case's result; a later one of the same item replaces it. ``text``: its JSON form, if that is known."""
        if result.embeddings:
            result, text = self.costs.with_embeddings_priced(result), None
        if result.calls:
            paid = self.resumed is not None and self.resumed.took(result.node_id)
            result, text = self.costs.priced(result, paid=paid), None
        # Counted first: a journal that cannot be written loses no result.
        self.results[result.node_id] = result
        if self.stopping is not None:
            self.stopping.add(result)
        if self._journal is None:
            from pytest_memeval.report.journal import Journal

            if self.resume_from is not None:
                from pytest_memeval.resume.run import carry_over

                carry_over(self.resume_from, self.journal_path, self.settings.report_text)
            self._journal = Journal(self.journal_path, report_text=self.settings.report_text)
        self._journal.append(result, text=text)
        self._unprepared.append(result)
        spare_collector_again(len(self.results), self._prepare)

    def _prepare(self) -> None:
        """Make what the report will have of the results so far: all at once takes half as long as one by one."""
        if self.prepared is None:
            from pytest_memeval.report.prepared import PreparedEntries

            self.prepared = PreparedEntries(self.target, report_text=self.settings.report_text)
        for result in self._unprepared:
            if self.results.get(result.node_id) is result:
                self.prepared.add(result)
        self._unprepared.clear()

    @property
    def target(self) -> Path:
        """The run's folder: ``--memeval-output``, else ``.memeval/runs/<run id>`` in the current folder."""
        if self.settings.output is not None:
            return Path(self.settings.output)
        from pytest_memeval.report.write import default_folder

        return default_folder(self.base, self.run_id)

    @property
    def journal_path(self) -> Path:
        """Where this run's journal grows: under a name of its own where an older run's files may still lie."""
        name = "journal.jsonl" if self.settings.output is None else f"journal-{self.run_id}.jsonl"
        return self.target / name

    @property
    def databases_folder(self) -> Path:
        """Where the cases' databases go while the run lasts: among an older run's files they would be mixed up."""
        name = "databases" if self.settings.output is None else f"databases-{self.run_id}"
        return self.target / name

    def not_run(self) -> tuple[tuple[str, str], ...]:
        """Selected cases without a result, as (set, node id); not those that need none (:meth:`left_out`)."""
        return tuple(entry for entry in self._without_result() if not self._is_spared(entry))

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Selected cases that were not run because their set was decided, as (set, node id)."""
        return tuple(filter(self._is_spared, self._without_result())) if self.stopping is not None else ()

    def _without_result(self) -> Iterable[tuple[str, str]]:
        return ((path, node) for node, path in sorted(self.selected.items()) if node not in self.results)

    def _is_spared(self, entry: tuple[str, str]) -> bool:
        return self.stopping is not None and self.stopping.spares(*entry)

    def partial(self, *, aborted: bool, selected: bool = False) -> str | None:
        """``aborted`` for a run cut short, ``decided`` for one that stopped when its gates were, ``selected`` for one
        over a part of its files' cases (or where ``selected`` says that whole files were left out), else ``None``."""
        if aborted:
            return "aborted"
        if self.left_out():
            return "decided"
        return "selected" if selected or self._is_reduced() else None

    def scopes(self) -> list[SetInfo]:
        """What the gates hold over, by path: the case files, and the test modules with cases of their own."""
        return counted(self.sets, self.results.values(), self.selected, self.settings.gates_from("ini"))

    def _is_reduced(self) -> bool:
        """Whether the selection is a part of its files' cases."""
        chosen: dict[str, int] = {}
        for node_id, path in self.selected.items():
            # A test in Python that counts for a file is none of the file's own cases.
            if node_id.startswith(f"{path}::"):
                chosen[path] = chosen.get(path, 0) + 1
        return any(chosen.get(path, 0) < info.cases for path, info in self.sets.items())

    def finish(
        self,
        *,
        aborted: bool,
        selected: bool = False,
        notes: Iterable[str] = (),
        broken: Iterable[tuple[str, str]] = (),
        interrupted: bool = False,
    ) -> dict[str, Any] | None:
        """Evaluate, write every file and return the report; ``None`` where no case has a result and none was selected.

        Raises OSError where something cannot be written; what was found is in ``report`` and ``variants`` all the same.

        ``aborted`` and ``selected`` say what :meth:`partial` cannot see by itself; ``broken`` are the case files that
        could not be read, each with what is wrong. ``interrupted``: somebody waits for the process to end, so that with
        many results what takes long is left out, and the report says so.
        """
        if not self.results and not self.selected:
            return None
        failed: list[OSError] = []
        with put_off(failed):
            self._close_journal()
        # One of several variants is told by the run as a whole.
        hurried = interrupted and (self.variant is not None or len(self.results) >= HURRIED_FROM)
        if hurried and self.variant is None:
            from pytest_memeval.report.messages import text

            notes = (*notes, text("note.hurried", self.settings.lang, count=len(self.results)))
        try:
            with undisturbed(len(self.results)), put_off(failed):
                if self.settings.variants:
                    from pytest_memeval.runs.variants import VariantReports

                    self.variants = VariantReports(self)
                    try:
                        self.variants.finish(
                            aborted=aborted, selected=selected, notes=notes, broken=broken, hurried=hurried
                        )
                    finally:
                        self.report = self.variants.reports.get(self.variants.candidate)
                else:
                    self._report(aborted=aborted, selected=selected, notes=tuple(notes), broken=broken, hurried=hurried)
        finally:
            if self.prepared is not None and self.variant is None:
                self.prepared.close()
        if failed:
            raise failed[0]
        return self.report

    def _report(
        self,
        *,
        aborted: bool,
        selected: bool,
        notes: tuple[str, ...],
        broken: Iterable[tuple[str, str]],
        hurried: bool,
    ) -> None:
        """Make the report and write every file."""
        from pytest_memeval.report.build import build_report
        from pytest_memeval.report.calls import calls_of
        from pytest_memeval.report.write import write_reports
        from pytest_memeval.runs.files import leave, nothing_saved, remember
        from pytest_memeval.runs.info import run_info, shard_info

        if any(meta.get("engine_ignored") for meta in self.metas):
            from pytest_memeval.report.messages import text

            where, name = self.settings.where("engine"), self.settings.engine
            self.remarks.append(text("terminal.engine_ignored", self.settings.lang, where=where, name=name))
        records = list(self.results.values())
        sets = self.scopes()
        run = replace(
            run_info(self, partial=self.partial(aborted=aborted, selected=selected), notes=notes),
            broken_files=tuple(sorted(broken)),
            shard=shard_info(self, chosen=selected, notes=notes),
            variant=self.variant,
            stopping=self._stopping(selected=selected),
        )
        self.report = build_report(
            run,
            sets,
            records,
            report_text=self.settings.report_text,
            resample=not hurried,
            entry_of=self.prepared.entry_of if self.prepared is not None else None,
        )
        if self.baseline is not None and not hurried:
            self.report, self.comparison = self.baseline.apply(self.report, run, sets, records)
        if self.results:
            write_reports(
                self.target,
                self.report,
                calls_of(records, self.settings.report_text),
                self.settings.lang,
                journal=self.journal_path if self._journal is not None else None,
                appendix=self._appendix(),
                brief=hurried,
                line_of=self.prepared.line_of if self.prepared is not None else None,
            )
            if self.settings.save_contexts is not None:
                from pytest_memeval.rag.contexts import save_contexts

                if not save_contexts(Path(self.settings.save_contexts), records):
                    self.remarks.append(nothing_saved(self.settings, "save_contexts"))
            failed: list[OSError] = []
            with put_off(failed):
                leave(self, self.target, records)
            remember(self)
            if failed:
                raise failed[0]

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        self._journal.close()
        # A record that an interrupt met while it was taken is taken again.
        if self.resume_from is not None or self._journal.lines > len(self.results):
            from pytest_memeval.resume.run import compact

            compact(self.journal_path, {*self.results, *self.selected})

    def _stopping(self, *, selected: bool) -> Mapping[str, Any] | None:
        if self.stopping is None:
            return None
        return {**self.stopping.to_json(self.left_out()), "selected": selected or self._is_reduced()}

    def _appendix(self) -> list[str]:
        """What the Markdown report says of the baseline."""
        if self.comparison is None:
            return []
        from pytest_memeval.compare.baseline import markdown_section

        return markdown_section(self.comparison, self.settings.lang)

    def comparison_lines(self) -> list[tuple[str, Mapping[str, bool]]]:
        """The same in a few lines for the terminal, and what else is to be said."""
        remarks: list[tuple[str, Mapping[str, bool]]] = [(remark, {"yellow": True}) for remark in self.remarks]
        if self.comparison is None:
            return remarks
        from pytest_memeval.compare.baseline import terminal_section

        return [*terminal_section(self.comparison, self.settings.lang), *remarks]

    def supported_stages(self) -> set[str]:
        """The stages that the engine has, as far as any process has told."""
        # Where no engine was ever reached nothing is known of its stages, and none may pass for unsupported.
        told = {stage for meta in self.metas for stage in meta["supported_stages"]}
        if not told.intersection(DISTILL_STAGES):
            told.update(DISTILL_STAGES)
        # Whether the stages of another kind are supported its cases say themselves.
        told.update(stage for info in self.sets.values() if info.kind != "distill" for stage in info.truth_counts)
        return told
