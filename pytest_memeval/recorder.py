"""The controller's side of a run: collects case results from wherever they ran, then reports and gates once."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval import __version__
from pytest_memeval.garbage import spare_collector_again, undisturbed
from pytest_memeval.results import CaseResult, RunInfo, SetInfo
from pytest_memeval.run_costs import RunCosts
from pytest_memeval.values import DISTILL_STAGES

if TYPE_CHECKING:
    from pytest_memeval.baseline import Baseline
    from pytest_memeval.compare.model import Comparison
    from pytest_memeval.resume import ResumeCount, StoredRun
    from pytest_memeval.settings import Settings
    from pytest_memeval.stopping import StopRule
    from pytest_memeval.variant_reports import VariantReports


#: With so many results the end of an interrupted run leaves out what takes long.
HURRIED_FROM = 1_000


class PredictionsNotWritten(OSError):
    """The file of ``--memeval-save-predictions`` could not be written; the reports were."""


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
        self.costs = RunCosts(self.settings)
        #: Journal of the run that this one goes on with, and what came of its cases.
        self.resume_from: Path | None = None
        self.resumed: ResumeCount | None = None
        #: Cases that a worker prepared and another one ran.
        self.in_vain = 0
        #: Blocking stages that went on when their case was over: at a time limit, or when the run was interrupted.
        self.left_behind = 0
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
        from pytest_memeval.resume import ResumeCount, run_name

        self.resume_from = stored.journal
        self.resumed = ResumeCount(run_name(stored.journal), stored.unreadable)

    def take_process(self, data: Mapping[str, Any]) -> None:
        """What a process says of itself, once: its case files, engine, model, prompts, selection."""
        for given in data.get("sets", ()):
            info = SetInfo.from_json(given)
            self.sets[info.path] = info
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
        if self._journal is None:
            from pytest_memeval.report.journal import Journal

            if self.resume_from is not None:
                from pytest_memeval.resume import carry_over

                carry_over(self.resume_from, self.journal_path, self.settings.report_text)
            self._journal = Journal(self.journal_path, report_text=self.settings.report_text)
        # Counted first: a journal that cannot be written loses no result.
        self.results[result.node_id] = result
        if self.stopping is not None:
            self.stopping.add(result)
        self._journal.append(result, text=text)
        spare_collector_again(len(self.results))

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

        ``aborted`` and ``selected`` say what :meth:`partial` cannot see by itself; ``broken`` are the case files that
        could not be read, each with what is wrong. ``interrupted``: somebody waits for the process to end, so that with
        many results what takes long is left out, and the report says so.
        """
        if not self.results and not self.selected:
            return None
        self._close_journal()
        # One of several variants is told by the run as a whole.
        hurried = interrupted and (self.variant is not None or len(self.results) >= HURRIED_FROM)
        if hurried and self.variant is None:
            from pytest_memeval.report.messages import text

            notes = (*notes, text("note.hurried", self.settings.lang, count=len(self.results)))
        with undisturbed(len(self.results)):
            if self.settings.variants:
                from pytest_memeval.variant_reports import VariantReports

                self.variants = VariantReports(self)
                self.report = self.variants.finish(
                    aborted=aborted, selected=selected, notes=notes, broken=broken, hurried=hurried
                )
            else:
                self._report(aborted=aborted, selected=selected, notes=tuple(notes), broken=broken, hurried=hurried)
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

        if any(meta.get("engine_ignored") for meta in self.metas):
            from pytest_memeval.report.messages import text

            where, name = self.settings.where("engine"), self.settings.engine
            self.remarks.append(text("terminal.engine_ignored", self.settings.lang, where=where, name=name))
        records = list(self.results.values())
        sets = [self.sets[path] for path in sorted(self.sets)]
        run = replace(
            self.run_info(partial=self.partial(aborted=aborted, selected=selected), notes=notes),
            broken_files=tuple(sorted(broken)),
            shard=self._shard(chosen=selected, notes=notes),
            variant=self.variant,
            stopping=self._stopping(selected=selected),
        )
        self.report = build_report(run, sets, records, report_text=self.settings.report_text, resample=not hurried)
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
            )
            if self.settings.save_contexts is not None:
                from pytest_memeval.rag.contexts import save_contexts

                save_contexts(Path(self.settings.save_contexts), records)
            self.leave(self.target, records)
            self._remember()

    def _close_journal(self) -> None:
        if self._journal is None:
            return
        self._journal.close()
        if self.resume_from is not None:
            from pytest_memeval.resume import compact

            compact(self.journal_path, {*self.results, *self.selected})

    def leave(self, latest: Path, records: Iterable[CaseResult]) -> None:
        """What a run leaves besides its reports; ``latest`` is where the newest run's report lies then."""
        from pytest_memeval.report.write import write_latest

        if self.resume_from is not None:
            from pytest_memeval.resume import remove_superseded

            remove_superseded(self.resume_from, self.target)
        if self.settings.output is None:
            write_latest(self.base, latest)
        else:
            replace_databases(self.target / "databases", self.databases_folder)
        self.folder = self.target
        if self.settings.save_predictions is not None:
            self._save_predictions(records)
        self._step_summary()

    def _stopping(self, *, selected: bool) -> Mapping[str, Any] | None:
        if self.stopping is None:
            return None
        return {**self.stopping.to_json(self.left_out()), "selected": selected or self._is_reduced()}

    def _shard(self, *, chosen: bool, notes: tuple[str, ...]) -> Mapping[str, Any] | None:
        """What ``memeval merge`` needs to know of one part of a run, besides its cases."""
        part = self.settings.part
        if part is None:
            return None
        from pytest_memeval.shard import text_digest

        return {
            "index": part.index,
            "count": part.count,
            "selected": {path: dict(sorted(nodes.items())) for path, nodes in sorted(self.shared_out.items())},
            "files": {path: text_digest(self.settings.rootdir / path) for path in sorted(self.sets)},
            "chosen": chosen,
            "metas": self.metas,
            "crashed": self.crashed,
            "notes": list(notes),
        }

    def _appendix(self) -> list[str]:
        """What the Markdown report says of the baseline."""
        if self.comparison is None:
            return []
        from pytest_memeval.baseline import markdown_section

        return markdown_section(self.comparison, self.settings.lang)

    def comparison_lines(self) -> list[tuple[str, Mapping[str, bool]]]:
        """The same in a few lines for the terminal, and what else is to be said."""
        remarks: list[tuple[str, Mapping[str, bool]]] = [(remark, {"yellow": True}) for remark in self.remarks]
        if self.comparison is None:
            return remarks
        from pytest_memeval.baseline import terminal_section

        return [*terminal_section(self.comparison, self.settings.lang), *remarks]

    def _remember(self) -> None:
        """Leave a row in the history; a run is not the worse for a history that cannot be written."""
        if self.settings.no_history or self.report is None or self.report["partial"] == "aborted":
            return
        if self.settings.part is not None:  # a part of a run says nothing of the whole
            return
        from pytest_memeval.history import remember

        remark = remember(self.report, self.settings.cache_folder, self.target, self.settings.lang)
        if remark is not None:
            self.remarks.append(remark)

    def _step_summary(self) -> None:
        """Add the Markdown report to the job summary that GitHub Actions shows."""
        place = os.environ.get("GITHUB_STEP_SUMMARY")
        if place and self.variant is None:
            shown = [self.target / "report.md"] if self.variants is None else self.variants.shown
            with open(place, "a", encoding="utf-8") as file:
                file.writelines(path.read_text(encoding="utf-8") + "\n" for path in shown)

    def _save_predictions(self, records: Iterable[CaseResult]) -> None:
        from pytest_memeval.engine.predictions import prediction_rows
        from pytest_memeval.report.json_report import dumps
        from pytest_memeval.report.write import write_lines

        rows = prediction_rows(sorted(records, key=lambda record: record.node_id))
        try:
            write_lines(Path(self.settings.save_predictions), (dumps(row) + "\n" for row in rows))
        except OSError as error:
            raise PredictionsNotWritten(str(error)) from error

    def run_info(self, *, partial: str | None, notes: tuple[str, ...]) -> RunInfo:
        from pytest_memeval.llm.redaction import without_keys
        from pytest_memeval.run_notes import call_notes, judge_info, model_info, prediction_notes, trial_notes

        settings = self.settings
        # In an order that does not depend on which process or case came first.
        metas = sorted(self.metas, key=lambda meta: json.dumps(meta, sort_keys=True))
        first: Mapping[str, Any] = {key: value for meta in reversed(metas) for key, value in meta.items()}
        versions, hashes, prompt_notes = self._prompts()
        set_notes = tuple(f"{path}: {info.note}" for path, info in sorted(self.sets.items()) if info.note)
        crash = (f"{self.crashed} worker process(es) crashed",) if self.crashed else ()
        left = self._left_notes()
        engines = sorted({json.dumps(meta["engine"], sort_keys=True) for meta in self.metas if "engine" in meta})
        # A run of questions alone may well have asked no engine.
        none = {} if self.metas and all(meta.get("protocol") for meta in self.metas) else self._named_engine()
        engine: dict[str, Any] = dict(json.loads(engines[0])) if engines else none
        if len(engines) > 1:
            engine["others"] = [json.loads(other) for other in engines[1:]]
        stage_set = settings.stage_set
        return RunInfo(
            run_id=self.run_id,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            duration_seconds=time.perf_counter() - self.started,
            stages=("all",) if stage_set is None else tuple(sorted(stage_set)),
            stage_input=settings.stage_input,
            supported_stages=tuple(sorted(self.supported_stages())),
            prompt_versions=versions,
            prompt_hashes=hashes,
            model=model_info(first.get("model", {}), self.results.values()),
            judge=self._judge(judge_info(first.get("judge"), self.results.values(), settings)),
            engine=engine,
            matcher=dict(first.get("matcher", {})),
            registry=self._by_set("registry"),
            templates=self._by_set("templates"),
            gates=tuple((str(gate), "command line") for gate in settings.gates_from("command line")),
            gates_enabled=not settings.no_gate and settings.part is None,
            max_error_rate=settings.max_error_rate,
            partial=partial,
            not_run=self.not_run(),
            protocol=first.get("protocol"),
            notes=(
                *set_notes,
                *prompt_notes,
                *crash,
                *notes,
                *left,
                *call_notes(self.results.values(), settings),
                *trial_notes(self.results.values(), settings),
                *prediction_notes(self.results.values(), settings, partial),
            ),
            config={
                "rootdir": str(settings.rootdir),
                # An address may hold a password, another plugin's option a key.
                "options": {key: without_keys(_plain(value)) for key, value in sorted(settings.values.items())},
            },
            environment={
                "python": platform.python_version(),
                "platform": platform.platform(),
                "pytest_memeval": __version__,
                "command": without_keys(sys.argv[1:]),
                **({"prepared_in_vain": self.in_vain} if self.in_vain else {}),
                **({"stages_left_behind": self.left_behind} if self.left_behind else {}),
                **({"resumed": self.resumed.to_json()} if self.resumed is not None else {}),
            },
        )

    def supported_stages(self) -> set[str]:
        """The stages that the engine has, as far as any process has told."""
        # Where no engine was ever reached nothing is known of its stages, and none may pass for unsupported.
        told = {stage for meta in self.metas for stage in meta["supported_stages"]}
        if not told.intersection(DISTILL_STAGES):
            told.update(DISTILL_STAGES)
        # Whether the stages of another kind are supported its cases say themselves.
        told.update(stage for info in self.sets.values() if info.kind != "distill" for stage in info.truth_counts)
        return told

    def _left_notes(self) -> tuple[str, ...]:
        if not self.left_behind:
            return ()
        from pytest_memeval.report.messages import text

        return (text("note.left_behind", self.settings.lang, count=self.left_behind),)

    def _by_set(self, name: str) -> dict[str, str]:
        """Case file → hash of one of its assets."""
        found: dict[str, str] = {}
        for meta in self.metas:
            found.update(meta.get(name, {}))
        return dict(sorted(found.items()))

    def _judge(self, known: dict[str, Any] | None) -> dict[str, Any] | None:
        return known if known is None or self.judge_controls is None else {**known, "controls": self.judge_controls}

    def _named_engine(self) -> dict[str, Any]:
        """The engine of a run in which no case reached one: as far as the options tell. A conftest's is unknown."""
        if self.settings.predictions is not None:
            return {"name": "predictions"}
        return {"name": self.settings.engine} if "engine" in self.settings.origins else {}

    def _prompts(self) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
        """Versions and hashes by prompt stage; by ``set: stage`` where case files differ in their prompts."""
        by_set: dict[str, Mapping[str, Any]] = {}
        for meta in self.metas:
            by_set.update(meta["prompts"])
        notes = tuple(dict.fromkeys(note for name in sorted(by_set) for note in by_set[name]["notes"]))
        distinct = {json.dumps(prompts, sort_keys=True) for prompts in by_set.values()}
        if len(distinct) == 1:
            only = next(iter(by_set.values()))
            return dict(only["versions"]), dict(only["hashes"]), notes
        versions, hashes = {}, {}
        for name in sorted(by_set):
            versions.update({f"{name}: {stage}": version for stage, version in by_set[name]["versions"].items()})
            hashes.update({f"{name}: {stage}": digest for stage, digest in by_set[name]["hashes"].items()})
        return versions, hashes, notes


def replace_databases(folder: Path, new: Path) -> None:
    """Put this run's databases in the place of an older run's.

    A sub-folder that holds anything but a case's two databases is somebody else's and stays.
    """
    from pytest_memeval.engine.databases import MEMORY_FILE, WIKI_FILE

    for old in list(folder.iterdir()) if folder.is_dir() else ():
        if old.is_dir() and not old.is_symlink() and {file.name for file in old.iterdir()} == {MEMORY_FILE, WIKI_FILE}:
            shutil.rmtree(old)
    if new.is_dir():
        folder.mkdir(exist_ok=True)
        for case_folder in list(new.iterdir()):
            os.replace(case_folder, folder / case_folder.name)
        new.rmdir()


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
