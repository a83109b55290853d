"""What a run over several variants leaves: a report each, and each compared with the candidate, the last of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.report.messages import text
from pytest_memeval.report.reader import JOURNAL_NAME
from pytest_memeval.runs.files import leave
from pytest_memeval.settings.variants import Variant, variant_in
from pytest_memeval.writing import put, put_off

if TYPE_CHECKING:
    from pytest_memeval.compare.model import Comparison
    from pytest_memeval.runs.recorder import Recorder

Line = tuple[str, Mapping[str, bool]]

#: Figures that a variant's line shows, where it has them.
SHOWN = (
    ("l1", "dimension_micro_f1", "l1 F1"),
    ("l15", "action_accuracy", "l15 accuracy"),
    ("l2", "section_hit_rate", "section hit"),
    ("inject", "reference_coverage", "inject coverage"),
    ("qa", "judge_score", "qa judge"),
)


class VariantReports:
    """Shares one recorder's results out among the variants and has each write its own report."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lang = recorder.settings.lang
        #: Variant → its report, in the order in which they were named; those of which nothing was selected have none.
        self.reports: dict[str, dict[str, Any]] = {}
        self.comparisons: list[Comparison] = []
        #: The Markdown files that tell of the run as a whole.
        self.shown: list[Path] = []

    @property
    def candidate(self) -> str:
        return self._recorder.settings.variant_names[-1]

    def finish(
        self,
        *,
        aborted: bool,
        selected: bool,
        notes: Iterable[str],
        broken: Iterable[tuple[str, str]],
        hurried: bool = False,
    ) -> None:
        """Make the reports, then write everything. ``hurried`` leaves out what takes long. Raises OSError where
        something could not be written."""
        recorder = self._recorder
        notes, broken = tuple(notes), tuple(broken)
        failed: list[OSError] = []
        for variant in recorder.settings.variants:
            own = self._recorder_of(variant)
            report = None
            with put_off(failed):
                report = own.finish(aborted=aborted, selected=selected, notes=notes, broken=broken, interrupted=hurried)
            report = report or own.report
            recorder.remarks += own.remarks
            if variant.name == self.candidate:
                recorder.comparison = own.comparison
            if report is not None:
                self.reports[variant.name] = report
        if recorder.results:
            if not hurried:
                self._compare(failed)
            if failed:
                raise failed[0]
            if recorder.journal_path.exists() and recorder.journal_path.name != JOURNAL_NAME:
                put(recorder.journal_path, recorder.target / JOURNAL_NAME)
            written = [name for name in self.reports if (recorder.target / name / "report.md").exists()]
            self.shown += [recorder.target / name / "report.md" for name in written if name == self.candidate]
            leave(recorder, recorder.target / written[-1], list(recorder.results.values()))

    def _recorder_of(self, variant: Variant) -> Recorder:
        """A recorder that holds what is the variant's."""
        whole, names = self._recorder, self._recorder.settings.variant_names
        settings = whole.settings.for_variant(variant)
        last = variant.name == self.candidate
        values = {**settings.values, "output": whole.target / variant.name, "save_predictions": None}
        if not last:
            values["save_contexts"] = None
        own = type(whole)(
            replace(settings, values=values),
            results={node: one for node, one in whole.results.items() if one.variant == variant.name},
            sets=whole.sets,
            selected=_of_variant(whole.selected, variant.name, names),
            metas=[meta for meta in whole.metas if meta.get("variant") == variant.name],
            baseline=whole.baseline if last else None,
            variant={"name": variant.name, "candidate": last, "of": list(names)},
        )
        own.run_id, own.started, own.base = f"{whole.run_id}-{variant.name}", whole.started, whole.base
        own.prepared = whole.prepared
        own.shared_out = {
            path: {node: part for node, part in nodes.items() if variant_in(node, path, names) == variant.name}
            for path, nodes in whole.shared_out.items()
        }
        own.crashed = sum(any(e.kind == "worker_crashed" for e in one.errors) for one in own.results.values())
        if whole.resumed is not None:
            kept = {node for node in whole.resumed.states if node in own.results}
            own.resumed = replace(
                whole.resumed,
                states={node: state for node, state in whole.resumed.states.items() if node in kept},
                changes={node: parts for node, parts in whole.resumed.changes.items() if node in kept},
            )
        return own

    # -- the comparison --------------------------------------------------------------------------------------------

    def _compare(self, failed: list[OSError]) -> None:
        """Hold the candidate against each of the others, as ``memeval compare`` does; ``failed`` takes what cannot be
        written of it."""
        from pytest_memeval.compare.build import compare_reports
        from pytest_memeval.compare.load import prompt_texts

        last = self.reports.get(self.candidate)
        if last is None:
            return
        for name, report in self.reports.items():
            if name == self.candidate:
                continue
            texts = prompt_texts((report, last))
            comparison = compare_reports(report, last, labels=(name, self.candidate), prompt_texts=texts)
            self.comparisons.append(comparison)
            with put_off(failed):
                self._write(comparison, f"compare-{name}-{self.candidate}")

    def _write(self, comparison: Comparison, stem: str) -> None:
        from pytest_memeval.compare.render_html import html_text
        from pytest_memeval.compare.render_markdown import markdown_text
        from pytest_memeval.report.json_report import dumps
        from pytest_memeval.report.write import write_lines

        texts = {
            ".json": dumps(comparison.to_json(), indent=2) + "\n",
            ".html": html_text(comparison, self._lang),
            ".md": markdown_text(comparison, self._lang),
        }
        for ending, content in texts.items():
            write_lines(self._recorder.target / f"{stem}{ending}", [content])
        self.shown.append(self._recorder.target / f"{stem}.md")

    # -- the terminal ----------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[Line]:
        """What the summary says before the candidate's own: a line a variant, and how they differ."""
        from pytest_memeval.compare.render_terminal import summary_lines

        for name in self._recorder.settings.variant_names:
            report = self.reports.get(name)
            if report is None:
                yield text("terminal.variant_absent", self._lang, name=name), {"yellow": True}
                continue
            counts = report["counts"]
            bad = counts["errored"] or counts["not_run"]
            line = text("terminal.variant_line", self._lang, name=name, figures=_figures(report), **counts)
            yield line, {"red": True} if bad else {"bold": name == self.candidate}
        for comparison in self.comparisons:
            yield text("terminal.against", self._lang, a=comparison.a.label, b=comparison.b.label), {"bold": True}
            yield from ((f"  {line}", markup) for line, markup in summary_lines(comparison, self._lang))
        if self.candidate not in self.reports:
            yield text("terminal.no_candidate", self._lang, name=self.candidate), {"yellow": True}


def _of_variant(selected: Mapping[str, str], name: str, names: tuple[str, ...]) -> dict[str, str]:
    return {node: path for node, path in selected.items() if variant_in(node, path, names) == name}


def _figures(report: Mapping[str, Any]) -> str:
    values = ((label, (report.get(section) or {}).get(metric)) for section, metric, label in SHOWN)
    shown = [f"{label} {value:.3f}" for label, value in values if isinstance(value, int | float)]
    return f" | {', '.join(shown)}" if shown else ""
