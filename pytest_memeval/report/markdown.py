"""``report.md``: the report as tables that render on GitHub, in English or Chinese."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.gates import GateResult
from pytest_memeval.metrics.catalog import METRICS, SECTIONS
from pytest_memeval.report.build import report_notes
from pytest_memeval.report.funnel import run_funnel
from pytest_memeval.report.markdown_cells import code, escape, paragraph, shorten, table
from pytest_memeval.report.markdown_kinds import kind_lines, lowest_lines
from pytest_memeval.report.messages import metric_title, sentence, text
from pytest_memeval.report.numbers import interval_text, number_text, seconds_text, value_text
from pytest_memeval.report.reader import run_of
from pytest_memeval.report.stopping import stop_head, stop_rows, stop_sentences
from pytest_memeval.report.tables import (
    case_misses,
    describe,
    engine_text,
    errors_by_stage,
    kinds_text,
    misses_by_kind,
    prompts_text,
    resumed_text,
    usage_text,
    worst_cases,
)
from pytest_memeval.report.timings import stage_rows
from pytest_memeval.report.trials import trial_sentences

#: F1 below this is marked in the heat map.
HEAT_LIMIT = 0.6
HEAT_WIDTH = 20
MOST_CASES = 20
MOST_ERRORS = 50
MOST_CONFUSIONS = 15
_STATUS_SIGN = {"passed": "✅", "missed": "❌", "unmeasured": "⚠️", "not_applicable": "➖"}


def markdown_report(report: Mapping[str, Any], lang: str = "en") -> str:
    """The whole page. Its first lines are the notes; everything else is headed."""
    return "\n".join(_Page(report, lang).lines()) + "\n"


class _Page:
    def __init__(self, report: Mapping[str, Any], lang: str) -> None:
        self._report, self._lang = report, lang
        self._entries: Sequence[Mapping[str, Any]] = report["per_case"]

    def _(self, key: str, **values: Any) -> str:
        return text(key, self._lang, **values)

    def lines(self) -> Iterator[str]:
        gates = [GateResult.from_json(gate) for gate in self._report["gates"]]
        notes = report_notes(run_of(self._report), gates, self._lang, case_sets=self._report["case_sets"])
        for note in notes[:1]:
            yield f"> {paragraph(note)}"
            yield ""
        yield f"# {self._('report_title')}"
        yield ""
        yield from self._head()
        yield from self._gates(gates)
        yield from self._stopping()
        yield from self._counts()
        yield from kind_lines(self._report, self._lang)
        yield from self._metrics()
        yield from self._heat_map()
        yield from self._confusions()
        yield from self._funnel()
        yield from self._misses()
        yield from self._trials()
        yield from self._worst()
        yield from lowest_lines(self._entries, self._lang, MOST_CASES)
        yield from self._calls()
        yield from self._errors()
        yield from self._expectations()
        if notes[1:]:
            yield from self._title("notes")
            yield from (f"- {paragraph(note)}" for note in notes[1:])

    def _title(self, key: str) -> Iterator[str]:
        yield ""
        yield f"## {self._(key)}"
        yield ""

    def _head(self) -> Iterator[str]:
        report = self._report
        facts = {
            "run": code(report["run_id"]) + " " + escape(report["timestamp"]),
            "model": escape(describe(report["model"], "provider", "name", "model", "served_model", "version")),
            "engine": escape(engine_text(report)),
            "prompts": escape(prompts_text(report)),
            "matcher": escape(" ".join(f"{key}={value}" for key, value in report["matcher"].items()) or "-"),
            "stage_input": escape(report["stages"]["input"]),
            "duration": self._("seconds", seconds=report["summary"]["duration_seconds"]),
        }
        usage = report["usage"]
        if usage["calls"]:
            facts["usage"] = usage_text(usage, self._lang)
        resumed = resumed_text(report, self._lang)
        colon = "：" if self._lang == "zh" else ": "
        yield from (f"- {self._(key)}{colon}{value}" for key, value in facts.items())
        if resumed is not None:
            yield f"- {escape(resumed)}"

    def _gates(self, gates: Sequence[GateResult]) -> Iterator[str]:
        yield from self._title("gates")
        if not gates:
            yield self._("no_gates")
            return
        head = ("scope", "level", "metric", "value", "interval", "threshold", "status", "reason")
        yield from table([self._(key) for key in head], map(self._gate_row, gates), frozenset({3}))

    def _stopping(self) -> Iterator[str]:
        rows = stop_rows(self._report, self._lang)
        if not rows:
            return
        yield from self._title("stopping")
        yield from (f"- {escape(sentence)}" for sentence in stop_sentences(self._report, self._lang))
        yield ""
        cells = [[code(scope), code(gate), *map(escape, rest)] for scope, gate, *rest in rows]
        yield from table(stop_head(self._lang), cells, frozenset({3, 4}))

    def _gate_row(self, gate: GateResult) -> list[str]:
        reason = sentence(gate.reason_id, self._lang, gate.reason_values) if gate.reason_id else gate.reason
        return [
            code(gate.scope),
            gate.level,
            f"{code(gate.metric)} {escape(metric_title(gate.metric, self._lang))}",
            value_text(gate.value, against=gate.threshold),
            interval_text(gate.interval),
            f"{escape(gate.op)} {number_text(gate.threshold)}",
            f"{_STATUS_SIGN[gate.status]} {self._(f'status.{gate.status}')}",
            escape(reason),
        ]

    def _counts(self) -> Iterator[str]:
        yield from self._title("counts")
        names = ("scored", "errored", "skipped", "not_run", "total")
        head = [self._("scope"), *(self._(f"status.{name}") for name in names[:-1]), self._("of")]
        rows = [
            [code(path), *(str(scope["counts"][name]) for name in names)]
            for path, scope in self._report["case_sets"].items()
        ]
        if len(rows) != 1:
            rows.append(["**Σ**", *(str(self._report["counts"][name]) for name in names)])
        yield from table(head, rows, frozenset(range(1, 6)))
        yield ""
        stages = ("scored", "errored", "skipped", "unsupported", "unselected", "no_truth")
        # A benchmark's section and that of all questions are of one stage.
        by_stage = {
            stage: counts
            for section in SECTIONS
            for stage, counts in ((self._report.get(section) or {}).get("stage_counts") or {}).items()
        }
        rows = [[code(stage), *(str(counts[name]) for name in stages)] for stage, counts in by_stage.items()]
        yield from table(
            [self._("stage"), *(self._(f"status.{name}") for name in stages)], rows, frozenset(range(1, 7))
        )

    def _metrics(self) -> Iterator[str]:
        yield from self._title("metrics")
        head = [self._(key) for key in ("metric", "value", "interval", "n")]
        yield from table(head, self._metric_rows(), frozenset({1}))

    def _metric_rows(self) -> Iterator[list[str]]:
        for section in SECTIONS:
            figures = self._report.get(section)
            if figures is None:
                continue
            for name, size in figures["n"].items():
                if "." in name or figures.get(name) is None:
                    continue
                path = f"{section}.{name}"
                spec = METRICS.get(path.partition("@")[0])
                count = spec is not None and spec.kind == "count"
                yield [
                    f"{code(path)} {escape(metric_title(path, self._lang))}",
                    value_text(figures[name], decimals=0 if count else 3),
                    interval_text(figures["intervals"].get(name)),
                    "" if count else " / ".join(number_text(size[key]) for key in ("units", "cases", "clusters")),
                ]

    def _heat_map(self) -> Iterator[str]:
        first = self._report["l1"]
        scores: Mapping[str, float | None] = first["per_dimension_f1"]
        if not scores:
            return
        yield from self._title("per_dimension")
        yield self._("heat_note", limit=HEAT_LIMIT)
        yield ""
        counts = {short: first.get(f"per_dimension_{short}") or {} for short in ("tp", "fn")}
        rows = []
        for dimension, score in sorted(scores.items(), key=lambda item: (item[1] is None, item[1] or 0.0, item[0])):
            low = score is not None and score < HEAT_LIMIT
            support = sum(table.get(dimension, 0) for table in counts.values())
            name = f"per_dimension_f1.{dimension}"
            rows.append(
                [
                    code(dimension),
                    ("⚠ " if low else "") + value_text(score),
                    f"`{heat_bar(score)}`",
                    interval_text(first["intervals"].get(name)),
                    number_text(support),
                ]
            )
        head = [self._("dimension"), "F1", "", self._("interval"), self._("support")]
        yield from table(head, rows, frozenset({1, 4}))

    def _confusions(self) -> Iterator[str]:
        for section in ("l1", "l15"):
            confusions: Mapping[str, float] = (self._report[section] or {}).get("confusions") or {}
            pairs = [(key.partition("→"), number) for key, number in confusions.items() if number]
            if section == "l15":
                pairs = [(parts, number) for parts, number in pairs if parts[0] != parts[2]]
            if not pairs:
                continue
            yield from self._title("confusions" if section == "l1" else "action_confusions")
            yield self._("confusions_note" if section == "l1" else "action_confusions_note")
            yield ""
            pairs.sort(key=lambda pair: (-pair[1], pair[0]))
            rows = [[code(parts[0]), code(parts[2]), number_text(number)] for parts, number in pairs[:MOST_CONFUSIONS]]
            yield from table([self._("missed_label"), self._("given_label"), self._("count")], rows, frozenset({2}))
            yield from self._more(len(pairs) - MOST_CONFUSIONS)

    def _funnel(self) -> Iterator[str]:
        funnel = self._report["funnel"] if "funnel" in self._report else run_funnel(self._entries)
        if not funnel:
            return
        yield from self._title("html.funnel")
        numbers = {name: funnel[name] for name in ("facts", "cases", "kept", "lost")}
        yield self._("html.funnel_note", **numbers)
        yield ""
        rows = [
            [
                self._(f"html.stage.{stage['stage']}"),
                f"`{heat_bar(stage['kept'] / stage['measured'] if stage['measured'] else None)}`",
                *(str(stage[name]) for name in ("kept", "lost", "not_measured")),
                escape(", ".join(f"{self._(f'html.cause.{name}')} {count}" for name, count in stage["causes"].items())),
            ]
            for stage in funnel["stages"]
        ]
        names = ("stage", "kept", "lost", "not_measured", "causes")
        head = [self._(f"html.funnel.{name}") for name in names]
        yield from table([head[0], "", *head[1:]], rows, frozenset({2, 3, 4}))

    def _misses(self) -> Iterator[str]:
        misses = misses_by_kind(self._entries)
        if misses:
            yield from self._title("misses")
            rows = [[self._(m.kind), number_text(round(m.count, 6)), number_text(round(m.of, 6))] for m in misses]
            yield from table([self._("kind"), self._("count"), self._("of")], rows, frozenset({1, 2}))

    def _trials(self) -> Iterator[str]:
        sentences = list(trial_sentences(self._report, self._lang))
        if not sentences:
            return
        yield from self._title("trials.title")
        yield from (f"- {escape(line)}" for line in sentences)
        main = "l1.dimension_micro_f1"
        spread = [(entry["node_id"], entry["spread"].get(main)) for entry in self._entries if entry.get("spread")]
        rows = [
            [code(node), *(f"{one[key]:.3f}" for key in ("mean", "sd", "low", "high"))]
            for node, one in sorted(spread, key=lambda pair: -(pair[1] or {"sd": 0})["sd"])
            if one is not None and one["sd"] > 0
        ]
        if rows:
            yield ""
            head = [self._("case"), *(self._(f"trials.{key}") for key in ("mean", "sd", "low", "high"))]
            yield from table(head, rows[:MOST_CASES], frozenset({1, 2, 3, 4}))
            yield from self._more(len(rows) - MOST_CASES)

    def _worst(self) -> Iterator[str]:
        worst = worst_cases(self._entries, MOST_CASES)
        if not worst:
            return
        yield from self._title("worst")
        rows = []
        for entry in worst:
            misses = [
                f"{self._(m.kind)} {number_text(round(m.count, 6))}/{number_text(round(m.of, 6))}"
                for m in case_misses(entry)
            ]
            rows.append([code(entry["node_id"]), value_text(entry["l1_f1"]), escape(", ".join(misses))])
        yield from table([self._("case"), self._("f1"), self._("misses")], rows, frozenset({1}))

    def _calls(self) -> Iterator[str]:
        stages = stage_rows(self._report)
        if not stages:
            return
        yield from self._title("model_calls")
        names = ("stage", "calls", "failed", "cached", "requests", "retries", "tokens_in", "tokens_out", "list_price")
        head = [*(self._(name) for name in names), "p50", "p95"]
        counts = ("calls", "failed", "cached", "attempts", "retries", "input_tokens", "output_tokens")
        rows = []
        for stage in stages:
            cost = stage.get("cost_usd")
            rows.append(
                [
                    code(stage["stage"]),
                    *(self._("unknown") if stage[name] is None else str(stage[name]) for name in counts),
                    self._("unknown") if cost is None else f"{cost:.4f}",
                    seconds_text(stage["latency_p50"]),
                    seconds_text(stage["latency_p95"]),
                ]
            )
        yield from table(head, rows, frozenset(range(1, len(head))))

    def _errors(self) -> Iterator[str]:
        rows = [
            [code(entry["node_id"]), code(error["stage"]), code(error["kind"]), escape(shorten(error["message"]))]
            for entry in self._entries
            for error in entry["errors"]
        ]
        if rows:
            yield from self._title("errors")
            by_stage = errors_by_stage(self._entries)
            yield from (f"- {code(stage)}: {kinds_text(kinds)}" for stage, kinds in by_stage.items())
            yield ""
            head = [self._(key) for key in ("case", "stage", "error_kind", "message")]
            yield from table(head, rows[:MOST_ERRORS])
            yield from self._more(len(rows) - MOST_ERRORS)

    def _expectations(self) -> Iterator[str]:
        rows = [
            [code(entry["node_id"]), escape(shorten(missed))]
            for entry in self._entries
            for missed in entry["missed_expectations"]
        ]
        if rows:
            yield from self._title("expectations")
            yield from table([self._("case"), self._("threshold")], rows[:MOST_ERRORS])
            yield from self._more(len(rows) - MOST_ERRORS)

    def _more(self, count: int) -> Iterator[str]:
        if count > 0:
            yield ""
            yield self._("more", count=count)


def heat_bar(score: float | None) -> str:
    """A bar of :data:`HEAT_WIDTH` characters; empty where there is no score."""
    if score is None:
        return "·" * HEAT_WIDTH
    full = round(min(max(score, 0.0), 1.0) * HEAT_WIDTH)
    return "█" * full + "░" * (HEAT_WIDTH - full)
