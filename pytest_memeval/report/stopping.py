"""What a report tells of ``--memeval-stop-when-decided``: verdicts, cases used, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.metrics.catalog import METRICS
from pytest_memeval.metrics.thresholds import parse_gate
from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import number_text, value_text

#: Metrics whose early verdict supposes a bound on wrong predictions.
_SUPPOSING = ("_f1", "precision", "profile_quality")


def stop_counts(stopping: Mapping[str, Any]) -> dict[str, int]:
    """Over all case sets: ``{run, total, seed}``, cases that were run and cases there are."""
    total = sum(scope["total"]["cases"] for scope in stopping["scopes"].values())
    return {"run": total - len(stopping["left_out"]), "total": total, "seed": stopping["seed"]}


def stop_head(lang: str) -> list[str]:
    """The columns of :func:`stop_rows`."""
    return [text(f"stopping.{key}", lang) for key in ("scope", "gate", "verdict", "cases", "value", "reason")]


def stop_rows(report: Mapping[str, Any], lang: str) -> list[list[str]]:
    """A row for each P0 gate of each case set; none in a run that had to get to its end anyway."""
    return [
        [
            path,
            gate["gate"],
            text(f"stopping.{gate['verdict']}", lang),
            "" if gate["cases"] is None else f"{gate['cases']} / {scope['total']['cases']}",
            "" if gate["value"] is None else value_text(gate["value"]),
            text(f"stopping.{gate['reason_id']}", lang, **gate["reason_values"]) if gate["reason_id"] else "",
        ]
        for path, scope in _scopes(report)
        for gate in scope["gates"]
    ]


def stop_sentences(report: Mapping[str, Any], lang: str) -> list[str]:
    """What became of each case set, and what the verdicts are worth."""
    stopping = report.get("stopping")
    if not stopping or not any(scope["gates"] for _, scope in _scopes(report)):
        return []
    found = [_sentence(report, path, scope, lang) for path, scope in _scopes(report)]
    found.append(text("stopping.promise", lang, percent=number_text(100 * stopping["level"]), seed=stopping["seed"]))
    gates = [gate for _, scope in _scopes(report) for gate in scope["gates"] if gate["testable"]]
    if any(_supposes(gate["gate"]) for gate in gates):
        found.append(text("stopping.assumed", lang, most_wrong=stopping["most_wrong"]))
    return found


def stop_lines(report: Mapping[str, Any], lang: str, *, brief: bool = False) -> Iterator[tuple[str, bool]]:
    """The same for the terminal, as (line, whether it is a title); ``brief`` gives the sets alone."""
    sentences = stop_sentences(report, lang)
    if not sentences:
        return
    if brief:
        yield from ((_sentence(report, path, scope, lang), False) for path, scope in _scopes(report))
        return
    yield text("stopping", lang), True
    yield from ((f"  {sentence}", False) for sentence in sentences)
    for path, gate, verdict, cases, value, reason in stop_rows(report, lang):
        used = f" ({cases}, {value})" if cases else ""
        yield f"  {path}  {gate}: {verdict}{used}{'. ' + reason if reason else ''}", False


def _scopes(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from ((report.get("stopping") or {}).get("scopes") or {}).items()


def _sentence(report: Mapping[str, Any], path: str, scope: Mapping[str, Any], lang: str) -> str:
    total, used = scope["total"]["cases"], scope["used"]["cases"]
    run = sum(entry["set"] == path for entry in report["per_case"])
    values = {"path": path, "total": total, "used": used, "run": run, "left_out": scope["left_out"]}
    if scope["left_out"]:
        return text("stopping.stopped", lang, more=total - scope["left_out"] - used, **values)
    return text("stopping.whole" if run >= total else "stopping.cut", lang, **values)


def _supposes(gate: str) -> bool:
    path = parse_gate(gate).path
    return path.base in METRICS and path.metric.endswith(_SUPPOSING) and path.section in ("l1", "l2")
