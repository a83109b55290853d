"""The terminal summary, as lines with the colour that pytest's terminal writer should give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.gates import MISSED, NOT_APPLICABLE, UNMEASURED, GateResult, passed_p0
from pytest_memeval.report.build import is_embedded, report_notes
from pytest_memeval.report.console import columns
from pytest_memeval.report.messages import cases_text, sentence, text
from pytest_memeval.report.numbers import interval_text, number_text, seconds_text, value_text
from pytest_memeval.report.questions import question_sets
from pytest_memeval.report.reader import run_of
from pytest_memeval.report.stopping import stop_lines
from pytest_memeval.report.tables import (
    describe,
    engine_text,
    errors_by_stage,
    kinds_text,
    prompts_text,
    resumed_text,
    usage_text,
)
from pytest_memeval.report.timings import stage_rows
from pytest_memeval.report.trials import trial_sentences

Markup = Mapping[str, bool]
Line = tuple[str, Markup]

PLAIN: Markup = {}
BOLD: Markup = {"bold": True}
RED: Markup = {"red": True}
GREEN: Markup = {"green": True}
YELLOW: Markup = {"yellow": True}
FAINT: Markup = {"light": True}

_COLOUR: Mapping[str, Markup] = {MISSED: RED, UNMEASURED: YELLOW, NOT_APPLICABLE: FAINT, "passed": GREEN}


def summary_lines(
    report: Mapping[str, Any],
    lang: str = "en",
    verbosity: int = 0,
    *,
    folder: str | None = None,
    decides_exit: bool = True,
    middle: Sequence[Line] = (),
) -> list[Line]:
    """The summary of a run: ``(text, markup)`` pairs, markup as keyword arguments of ``TerminalReporter.write_line``.

    Notes that change how figures are read come first, then what was run, the counts, the gates, what to look at, where
    the report is (``folder``), and last what decides the exit status. With a negative verbosity (``-q``) only the
    first note, how many cases left no result or were taken from an earlier run, the gates that failed and the verdict
    remain; from 1 on (``-v``) gates that do not apply are shown too.
    ``middle`` (what a run is compared with) comes before the report's place.
    ``decides_exit`` is false where pytest's own status is not 0, so that the gates do not make it 1.
    """
    summary = _Summary(report, lang, verbosity, folder)
    return list(summary.lines(decides_exit, middle))


class _Summary:
    def __init__(self, report: Mapping[str, Any], lang: str, verbosity: int, folder: str | None) -> None:
        self._report, self._lang, self._verbosity, self._folder = report, lang, verbosity, folder
        self._gates = [GateResult.from_json(gate) for gate in report["gates"]]

    def _(self, key: str, **values: Any) -> str:
        return text(f"terminal.{key}", self._lang, **values)

    def lines(self, decides_exit: bool, middle: Sequence[Line] = ()) -> Iterator[Line]:
        notes = report_notes(run_of(self._report), self._gates, self._lang, case_sets=self._report["case_sets"])
        quiet = self._verbosity < 0
        yield from ((note, YELLOW) for note in (self._first_notes(notes) if quiet else notes))
        if quiet:
            yield from self._resumed()
        else:
            yield from self._headline()
            yield from self._counts()
        if not quiet:
            yield from self._questions()
        yield from self._gate_table()
        yield from ((line, {"bold": bold}) for line, bold in stop_lines(self._report, self._lang, brief=quiet))
        if not quiet:
            yield from ((line, PLAIN) for line in trial_sentences(self._report, self._lang))
            yield from self._hints()
        # With -q too: a baseline was asked for by name.
        yield from middle
        if self._folder is not None:
            yield self._("report_at", folder=self._folder), PLAIN
        yield from self._verdict(decides_exit)

    def _headline(self) -> Iterator[Line]:
        report = self._report
        yield (
            self._(
                "model_line",
                model=describe(report["model"], "provider", "name", "model", "served_model", "version"),
                engine=engine_text(report),
                prompts=prompts_text(report),
                input=report["stages"]["input"],
            ),
            BOLD,
        )

    def _counts(self) -> Iterator[Line]:
        counts = self._report["counts"]
        bad = counts["errored"] or counts["not_run"]
        cases = cases_text(counts["total"], self._lang)
        yield self._("counts_line", cases=cases, **counts), RED if bad else PLAIN
        yield from self._resumed()
        stages = errors_by_stage(self._report["per_case"])
        if stages:
            listed = "; ".join(f"{stage}: {kinds_text(kinds)}" for stage, kinds in stages.items())
            yield self._("errors_title", errors=listed), RED
        if self._report["usage"]["calls"] and (self._verbosity > 0 or not is_embedded(self._report["model"])):
            yield from self._calls()
        yield from self._embeddings()

    def _first_notes(self, notes: Sequence[str]) -> Sequence[str]:
        """The first, and how many cases left no result: the counts are not shown beside them."""
        lost = text("note.not_run", self._lang, count=len(self._report["not_run"]))
        return [*notes[:1], *(note for note in notes[1:] if note == lost)]

    def _resumed(self) -> Iterator[Line]:
        resumed = resumed_text(self._report, self._lang)
        if resumed is not None:
            yield resumed, PLAIN

    def _questions(self) -> Iterator[Line]:
        for one in question_sets(self._report, self._lang):
            yield one.path, BOLD
            yield f"  {one.asked()}", PLAIN
            head, *rows = columns([one.head(), *one.rows()], right=frozenset(range(1, 20)))
            yield f"  {head}", FAINT
            yield from ((f"  {row}", PLAIN) for row in rows)
            yield from ((f"  {line}", PLAIN) for line in one.lines())

    def _embeddings(self) -> Iterator[Line]:
        asked = self._report["timings"].get("embeddings")
        if asked:
            spent = asked["spent_usd"]
            cost = self._("spent", cost=f"{spent:.4f}") if spent is not None else ""
            yield self._("embeddings_line", **{**asked, "spent": cost}), PLAIN

    def _calls(self) -> Iterator[Line]:
        calls = self._report["timings"].get("calls", {})
        asked = bool(calls.get("attempts")) or self._verbosity > 0
        if asked or self._report["usage"]["input_tokens"] is not None:
            yield usage_text(self._report["usage"], self._lang), PLAIN
        if "retries" not in calls or is_embedded(self._report["model"]):
            return
        spent = calls["spent_usd"]
        cost = self._("spent", cost=f"{spent:.4f}") if spent is not None else ""
        sent = {name: calls[name] for name in ("attempts", "retries", "cached")}
        recorded = self._report["model"].get("provider") == "recorded" and not calls["attempts"]
        yield self._("recorded_line" if recorded else "calls_line", spent=cost, **sent), PLAIN
        # Answers that were all there already took no time worth showing.
        for row in stage_rows(self._report) if asked else ():
            p50, p95 = (seconds_text(row[name]) for name in ("latency_p50", "latency_p95"))
            counts = {name: row[name] for name in ("stage", "calls", "failed")}
            yield self._("stage_line", p50=p50, p95=p95, **counts), PLAIN

    def _gate_table(self) -> Iterator[Line]:
        shown = [gate for gate in self._gates if self._shows(gate)]
        by_scope: dict[str, list[GateResult]] = {}
        for gate in shown:
            by_scope.setdefault(gate.scope, []).append(gate)
        head = [text(key, self._lang) for key in ("level", "metric", "value", "interval", "threshold", "status")]
        # One set of column widths for all scopes, so that the eye can run down the page.
        lines = columns([head, *(self._row(gate) for gate in shown)], right=frozenset({2}))
        position = 1
        for scope, gates in by_scope.items():
            yield scope, BOLD
            yield "  " + lines[0], FAINT
            for gate in gates:
                yield "  " + lines[position], _COLOUR[gate.status]
                position += 1
                if gate.status != "passed" and (gate.status == UNMEASURED or self._verbosity > 0):
                    yield "      " + self._reason(gate), _COLOUR[gate.status]
        hidden = sum(gate.status == NOT_APPLICABLE for gate in self._gates) if self._verbosity <= 0 else 0
        if hidden and self._verbosity == 0:
            yield self._("more_gates", count=hidden), FAINT

    def _shows(self, gate: GateResult) -> bool:
        if self._verbosity < 0:
            return gate.status in (MISSED, UNMEASURED)
        return gate.status != NOT_APPLICABLE or self._verbosity > 0

    def _row(self, gate: GateResult) -> Sequence[str]:
        return (
            gate.level,
            gate.metric,
            value_text(gate.value, against=gate.threshold),
            interval_text(gate.interval),
            f"{gate.op} {number_text(gate.threshold)}",
            text(f"status.{gate.status}", self._lang),
        )

    def _reason(self, gate: GateResult) -> str:
        return sentence(gate.reason_id, self._lang, gate.reason_values) if gate.reason_id else gate.reason

    def _hints(self) -> Iterator[Line]:
        report = self._report
        near = report["l1"].get("near_misses")
        if near:
            matcher = report["matcher"]
            if matcher.get("kind") == "own":
                # It has no threshold that an option could change.
                yield self._("near_misses_own", count=near, matcher=matcher.get("name", "-")), PLAIN
            else:
                yield self._("near_misses", count=near, threshold=matcher.get("threshold", 0.5)), PLAIN
        dropped = report["l1"].get("dropped_labels")
        if dropped:
            yield self._("dropped_labels", count=dropped, labels=_dropped_labels(report["per_case"])), YELLOW
        without = report["summary"]["without_own_thresholds"]
        if without and self._gates and report["counts"]["scored"]:
            yield self._("own_thresholds", count=without, total=len(report["per_case"])), PLAIN

    def _verdict(self, decides_exit: bool) -> Iterator[Line]:
        passed = passed_p0(self._gates)
        if passed is None:
            if not self._report["counts"]["scored"]:
                yield self._("nothing_measured"), YELLOW
            return
        if passed:
            yield self._("p0_passed"), GREEN
            return
        missed = any(gate.level == "P0" and gate.status == MISSED for gate in self._gates)
        key = "p0_missed" if missed else "p0_unmeasured"
        yield self._(key if decides_exit else f"{key}_plain"), {"red": True, "bold": True}


def _dropped_labels(entries: Iterable[Mapping[str, Any]], most: int = 5) -> str:
    """The unknown labels that came most often, each with its number; ``-`` where the report keeps no texts."""
    found = Counter(
        str(fact["label"])
        for entry in entries
        for fact in entry["facts"]
        if fact.get("kind") == "dropped_label" and fact.get("label") is not None
    )
    named = [f"{label} ({count})" for label, count in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))]
    return ", ".join([*named[:most], *(["…"] if len(named) > most else [])]) or "-"
