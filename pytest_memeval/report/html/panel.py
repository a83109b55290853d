"""The summary: gates with their lights, counts, what was run, calls and cost, what differs from the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.gates import GateResult
from pytest_memeval.report.build import report_notes
from pytest_memeval.report.html.elements import Html, Words, code, element, figure, grid, joined
from pytest_memeval.report.messages import metric_title, sentence
from pytest_memeval.report.numbers import interval_text, number_text, seconds_text, value_text
from pytest_memeval.report.reader import run_of
from pytest_memeval.report.stopping import stop_head, stop_rows, stop_sentences
from pytest_memeval.report.tables import describe, engine_text, prompts_text, resumed_text
from pytest_memeval.report.timings import stage_rows

_LIGHTS = {"passed": "●", "missed": "✕", "unmeasured": "▲", "not_applicable": "–"}


def policy_of(report: Mapping[str, Any]) -> str:
    """What became of the texts in a report: ``full``, ``hash`` or ``none``."""
    options = (report.get("config") or {}).get("options") or {}
    return str(options.get("report_text", "full"))


def panel(report: Mapping[str, Any], words: Words, comparison: Html | None = None) -> Html:
    """The whole summary. ``comparison`` is the baseline's part, already rendered."""
    return joined(
        (
            _verdict(report, words),
            _notes(report, words),
            _cards(report, words),
            element("h2", words.common("gates")),
            _gates(report, words),
            *_stopping(report, words),
            element("h2", words("run")),
            _facts(report, words),
            *_usage(report, words),
            *((element("h2", words("baseline")), comparison) if comparison else ()),
        )
    )


def _verdict(report: Mapping[str, Any], words: Words) -> Html:
    passed = report["summary"]["passed_p0"]
    state = {True: "passed", False: "missed"}.get(passed, "none")
    light = {"passed": "passed", "missed": "missed", "none": "not_applicable"}[state]
    return element(
        "p", _light(light), " ", element("strong", words(f"verdict.{state}")), class_=f"verdict {light}",
        data_path="summary.passed_p0", data_value={True: "true", False: "false"}.get(passed, "null"),
    )  # fmt: skip


def _light(status: str) -> Html:
    """A traffic light that can be told without colour."""
    return element("span", _LIGHTS[status], class_=f"light {status}", aria_hidden="true")


def _notes(report: Mapping[str, Any], words: Words) -> Html | None:
    gates = [GateResult.from_json(gate) for gate in report["gates"]]
    notes = report_notes(run_of(report), gates, words.lang, case_sets=report["case_sets"])
    policy = policy_of(report)
    if policy in ("hash", "none"):
        notes.append(words(f"texts_{policy}"))
    resumed = resumed_text(report, words.lang)
    if resumed is not None:
        notes.append(resumed)
    if not notes:
        return None
    return element("ul", *(element("li", note) for note in notes), class_="notes")


def _cards(report: Mapping[str, Any], words: Words) -> Html:
    cards = []
    for name in ("total", "scored", "errored", "skipped", "not_run"):
        number = report["counts"][name]
        title = words("cases") if name == "total" else words.common(f"status.{name}")
        bad = " bad" if name in ("errored", "not_run") and number else ""
        cards.append(
            element(
                "div",
                element("b", figure(f"counts.{name}", number, str(number))),
                element("span", title),
                class_=f"card{bad}",
            )
        )
    return element("div", *cards, class_="cards")


def _gates(report: Mapping[str, Any], words: Words) -> Html:
    if not report["gates"]:
        return element("p", words.common("no_gates"))
    head = ("status", "level", "scope", "metric", "value", "interval", "threshold", "reason")
    rows = []
    for at, data in enumerate(report["gates"]):
        gate = GateResult.from_json(data)
        reason = sentence(gate.reason_id, words.lang, gate.reason_values) if gate.reason_id else gate.reason
        name = element("small", metric_title(gate.metric, words.lang))
        state = words.common(f"status.{gate.status}")
        rows.append(
            (
                element("span", _light(gate.status), " ", state, class_=f"status {gate.status}", data_gate=at),
                gate.level,
                code(gate.scope),
                joined((code(gate.metric), " ", name)),
                figure(f"gates.{at}.value", gate.value, value_text(gate.value, against=gate.threshold)),
                interval_text(gate.interval),
                f"{gate.op} {number_text(gate.threshold)}",
                reason,
            )
        )
    return grid([words.common(key) for key in head], rows, right=frozenset({4}), caption=words.common("gates"))


def _stopping(report: Mapping[str, Any], words: Words) -> Iterator[Html]:
    """What of the run was left out because it was decided."""
    rows = stop_rows(report, words.lang)
    if rows:
        title = words.common("stopping")
        yield element("h3", title)
        yield element("ul", *(element("li", one) for one in stop_sentences(report, words.lang)), class_="notes")
        cells = [(code(scope), code(gate), *rest) for scope, gate, *rest in rows]
        yield grid(stop_head(words.lang), cells, right=frozenset({3, 4}), caption=title)


def _facts(report: Mapping[str, Any], words: Words) -> Html:
    judge = report.get("judge")
    facts = {
        words.common("run"): f"{report['run_id']} · {report['timestamp']}",
        words.common("prompts"): prompts_text(report),
        words.common("model"): describe(report["model"], "provider", "name", "model", "served_model", "version"),
        words.common("engine"): engine_text(report),
        words.common("matcher"): " ".join(f"{key}={value}" for key, value in report["matcher"].items()) or "-",
        words.common("stage_input"): report["stages"]["input"],
        words.common("duration"): words.common("seconds", seconds=report["summary"]["duration_seconds"]),
    }
    if judge:
        facts[words("judge")] = describe(judge, "model", "served_model", "endpoint")
    return element(
        "dl", *(joined((element("dt", name), element("dd", value))) for name, value in facts.items()), class_="facts"
    )


def _usage(report: Mapping[str, Any], words: Words) -> Iterator[Html]:
    usage, timings = report["usage"], report["timings"].get("calls") or {}
    if not usage["calls"]:
        return
    unknown = words.common("unknown")

    def known(name: str, shown: str | None = None) -> Html:
        value = usage[name]
        return figure(f"usage.{name}", value, unknown if value is None else (shown or str(value)))

    cost = usage.get("cost_usd")
    yield element("h2", words("calls_and_cost"))
    facts = [
        (words.common("calls"), known("calls")),
        (words.common("failed"), known("failed")),
        (words("cache_hits"), figure("timings.calls.cached", timings.get("cached"), str(timings.get("cached", "-")))),
        (words.common("tokens_in"), known("input_tokens")),
        (words.common("tokens_out"), known("output_tokens")),
        (words("cost"), known("cost_usd", None if cost is None else f"{cost:.4f}")),
        ("p50", seconds_text(timings.get("latency_p50"))),
        ("p95", seconds_text(timings.get("latency_p95"))),
    ]
    yield element("dl", *(joined((element("dt", name), element("dd", value))) for name, value in facts), class_="facts")
    stages = stage_rows(report)
    if stages:
        names = ("calls", "failed", "cached", "attempts", "retries", "input_tokens", "output_tokens")
        titles = ("calls", "failed", "cached", "requests", "retries", "tokens_in", "tokens_out")
        head = [words.common("stage"), *(words.common(name) for name in titles), "p50", "p95"]
        rows = (
            (
                code(stage["stage"]),
                *(unknown if stage[name] is None else str(stage[name]) for name in names),
                seconds_text(stage["latency_p50"]),
                seconds_text(stage["latency_p95"]),
            )
            for stage in stages
        )
        yield grid(head, rows, right=frozenset(range(1, 10)), caption=words.common("model_calls"), row_head=True)
