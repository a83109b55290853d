"""How long a run's model calls took, how many requests they were, and what those cost; stage by stage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_memeval.results import CallRecord, CaseResult
from pytest_memeval.values import FREE_MODELS

#: What a question's time goes into; reading is a conversation's.
QUESTION_STEPS: tuple[str, ...] = ("ingest", "search", "answer", "judge")


def timings_of(records: Iterable[CaseResult]) -> dict[str, Any]:
    """``{stages: {stage: seconds}, calls: {…, by_stage: {prompt stage: {…}}}}``; see :func:`call_timings`. With
    ``embeddings`` where a server was asked for any; see :func:`embeddings_of`."""
    records = list(records)
    seconds: dict[str, list[float]] = {}
    calls: list[CallRecord] = []
    by_stage: dict[str, list[CallRecord]] = {}
    for record in records:
        for stage, time in record.timings.items():
            seconds.setdefault(stage, []).append(time)
        for call in record.calls:
            calls.append(call)
            by_stage.setdefault(call.stage, []).append(call)
    asked = {name: sorted(seconds[name]) for name in QUESTION_STEPS if name in seconds}
    return {
        "stages": {stage: math.fsum(times) for stage, times in sorted(seconds.items())},
        **({"questions": {name: _spread(times) for name, times in asked.items()}} if asked else {}),
        "calls": {
            **call_timings(calls),
            "by_stage": {stage: call_timings(own) for stage, own in sorted(by_stage.items())},
        },
        **({"embeddings": asked_for} if (asked_for := embeddings_of(records)) else {}),
    }


def embeddings_of(records: Iterable[CaseResult]) -> dict[str, float | None]:
    """What an embedding server was asked for: ``{requests, texts, input_tokens, unknown_tokens, spent_usd}``, ``{}``
    for nothing. ``unknown_tokens`` are the requests for which the server told no tokens; they are in no price.
    ``spent_usd`` is ``None`` where the model's price is not known."""
    told = [record.embeddings for record in records if record.embeddings]
    if not told:
        return {}
    spent = [one["spent_usd"] for one in told if one.get("spent_usd") is not None]
    names = ("requests", "texts", "input_tokens", "unknown_tokens")
    sums: dict[str, float | None] = {name: sum(one.get(name) or 0 for one in told) for name in names}
    return {**sums, "spent_usd": math.fsum(filter(None, spent)) if spent else None}


def _spread(ordered: Sequence[float]) -> dict[str, Any]:
    """Number, median and 95th percentile of some times in seconds."""
    return {"n": len(ordered), "p50": percentile(ordered, 0.50), "p95": percentile(ordered, 0.95)}


def call_timings(calls: Sequence[CallRecord]) -> dict[str, Any]:
    """``{cached, attempts, retries, latency_p50, latency_p95, spent_usd}`` of some calls.

    ``attempts`` are the requests that were sent, ``retries`` those among them that repeated another one. Latencies are
    seconds of single requests, a cached answer's those of its recording; calls that sent and read nothing have none.
    ``spent_usd`` is what this run's own requests cost, ``None`` where no call of a priced model was made.
    """
    latencies = sorted(call.latency for call in calls if call.attempts or call.cached)
    priced = [call for call in calls if call.cost is not None and call.provider not in FREE_MODELS]
    spent = [0.0 if call.cached else call.cost or 0.0 for call in priced]
    return {
        "cached": sum(call.cached for call in calls),
        "attempts": sum(call.attempts for call in calls),
        "retries": sum(max(0, call.attempts - 1) for call in calls),
        "latency_p50": percentile(latencies, 0.50),
        "latency_p95": percentile(latencies, 0.95),
        "spent_usd": math.fsum(spent) if spent else None,
    }


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Nearest rank, so that the result is one of the values; ``None`` for none."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def stage_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A report's calls stage by stage, usage and timings in one mapping; empty for a report of an older version."""
    timings = report["timings"].get("calls", {}).get("by_stage", {})
    return [
        {"stage": stage, **usage, **timings[stage]}
        for stage, usage in report["usage"]["by_stage"].items()
        if stage in timings
    ]


def usage_properties(report: Mapping[str, Any]) -> dict[str, float]:
    """The run's totals as flat numbers, for formats that know nothing else (JUnit)."""
    usage, calls = report["usage"], report["timings"]["calls"]
    found = {
        **{f"memeval.usage.{name}": usage[name] for name in ("calls", "input_tokens", "output_tokens", "cost_usd")},
        **{f"memeval.usage.{name}": calls.get(name) for name in ("cached", "attempts", "retries", "spent_usd")},
    }
    for row in stage_rows(report):
        for name in ("latency_p50", "latency_p95", "calls", "input_tokens", "output_tokens", "cost_usd"):
            found[f"memeval.usage.{row['stage']}.{name}"] = row[name]
    return {name: value for name, value in found.items() if value is not None}
