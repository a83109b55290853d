"""One case in ``report.json``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_memeval.report.funnel import case_funnel
from pytest_memeval.report.trials import spread_of
from pytest_memeval.results import CallRecord, CaseResult

#: Sections that every entry has, ``None`` where the case has no figures there.
FIXED_SECTIONS: tuple[str, ...] = ("l1", "l15", "l2", "inject", "search")
#: Key at the top of an entry, where readers look for it → the detail of section ``l1`` that moves there.
HOISTED: Mapping[str, str] = {
    "matched_memories": "pairs",
    "unmatched_pred": "unmatched_pred",
    "unmatched_gt": "unmatched_truth",
}
#: A call's fields that may differ between equal runs: under ``timings.calls``.
VARYING: tuple[str, ...] = ("id", "latency", "cached", "attempts")
#: A call's fields that ``per_case`` keeps; its texts are in ``calls.jsonl.gz``.
KEPT: tuple[str, ...] = (
    "stage",
    "version",
    "provider",
    "model",
    "finish_reason",
    "input_tokens",
    "output_tokens",
    "cost",
    "error",
)


def case_entry(result: CaseResult) -> dict[str, Any]:
    """A case's entry: what identifies it, its outcome, its figures section by section, its errors, what each stage
    gave out, what was noted, its calls' tokens. Everything but the prompts and answers can be read back with
    :func:`pytest_memeval.report.reader.case_result_from_entry`.

    What the record holds in the entry's form already is not copied: a run of 10,000 cases would hold it twice.
    """
    entry: dict[str, Any] = {
        "node_id": result.node_id,
        "set": result.set,
        "case_id": result.case_id,
        "variant": result.variant,
        "kind": result.kind,
        "source": result.source,
        "difficulty": result.difficulty,
        "tags": list(result.tags),
        "line": result.line,
        "content_hash": result.content_hash,
        "cluster": result.cluster,
        "outcome": result.outcome,
        "l1_f1": None,
        "strict_match": None,
        **dict.fromkeys(HOISTED),
        "dimension_details": None,
        "stages": _as_dict(result.stages),
    }
    for name in (*FIXED_SECTIONS, *(name for name in result.sections if name not in FIXED_SECTIONS)):
        section = result.sections.get(name)
        entry[name] = section.shown() if section is not None else None
    first = result.sections.get("l1")
    if first is not None:
        values = entry["l1"]["values"]
        entry["l1_f1"] = values.get("dimension_micro_f1")
        strict = values.get("strict_match_rate")
        entry["strict_match"] = strict if strict is None or 0 < strict < 1 else strict >= 1
        details = entry["l1"]["details"] = dict(entry["l1"]["details"])
        entry.update({key: details.pop(detail) for key, detail in HOISTED.items() if detail in details})
        entry["dimension_details"] = _dimension_details(first.tables)
    second = result.sections.get("l2")
    if second is not None:
        entry["l2"]["values"]["profile_quality"] = _product(second.ratios, "_profile_l1_f1", "_profile_hit_rate")
    entry["errors"] = [{"stage": e.stage, "kind": e.kind, "message": e.message} for e in result.errors]
    entry["error"] = entry["errors"][0] if entry["errors"] else None
    entry["missed_expectations"] = list(result.missed_expectations)
    entry["has_expectations"] = result.has_expectations
    entry["input"] = _as_dict(result.input) or None
    entry["outputs"] = _as_dict(result.outputs)
    entry["facts"] = [dict(fact) for fact in result.facts]
    if result.trials:
        entry["trials"] = [dict(trial) for trial in result.trials]
        entry["spread"] = spread_of(result.trials)
    entry["calls"] = [{name: getattr(call, name) for name in KEPT} for call in result.calls]
    entry["usage"] = usage_of(result.calls)
    entry["funnel"] = case_funnel(entry)
    entry["duration_seconds"] = result.duration_seconds
    entry["timings"] = {
        "stages": _as_dict(result.timings),
        "calls": [{name: getattr(call, name) for name in VARYING} for call in result.calls],
        **({"embeddings": dict(result.embeddings)} if result.embeddings else {}),
    }
    return entry


def _as_dict(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return mapping if type(mapping) is dict else dict(mapping)


def _product(ratios: Mapping[str, tuple[float, float]], first: str, second: str) -> float | None:
    """The product of two ratios, ``None`` where either is missing or has denominator 0."""
    product = 1.0
    for name in (first, second):
        numerator, denominator = ratios.get(name, (0, 0))
        if not denominator or numerator is None:
            return None
        product *= numerator / denominator
    return product


def _dimension_details(tables: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Dimension → {tp, fp, fn} in this case."""
    found: dict[str, dict[str, float]] = {}
    for short in ("tp", "fp", "fn"):
        for dimension, number in tables.get(f"per_dimension_{short}", {}).items():
            found.setdefault(dimension, {"tp": 0, "fp": 0, "fn": 0})[short] = number
    return dict(sorted(found.items()))


def usage_of(calls: Iterable[CallRecord]) -> dict[str, Any]:
    """Calls, tokens and their list price: ``{calls, failed, input_tokens, output_tokens, unknown_tokens, cost_usd,
    unknown_cost}``.

    A sum is over the calls that say theirs and ``None`` where none does; ``unknown_tokens`` and ``unknown_cost`` count
    the calls that leave it out: they are unknown, not free.
    """
    usage: dict[str, Any] = {
        "calls": 0,
        "failed": 0,
        "input_tokens": None,
        "output_tokens": None,
        "unknown_tokens": 0,
        "cost_usd": None,
        "unknown_cost": 0,
    }
    costs = []
    for call in calls:
        if call.cost is None:
            usage["unknown_cost"] += 1
        else:
            costs.append(call.cost)
        usage["calls"] += 1
        usage["failed"] += call.error is not None
        usage["unknown_tokens"] += call.input_tokens is None or call.output_tokens is None
        for name in ("input_tokens", "output_tokens"):
            tokens = getattr(call, name)
            if tokens is not None:
                usage[name] = (usage[name] or 0) + tokens
    usage["cost_usd"] = math.fsum(costs) if costs else None
    return usage


def add_usage(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    """Add one case's usage to a sum of the same shape."""
    for name in ("calls", "failed", "unknown_tokens", "unknown_cost"):
        total[name] = total.get(name, 0) + usage[name]
    for name in ("input_tokens", "output_tokens", "cost_usd"):
        known = [number for number in (total.get(name), usage[name]) if number is not None]
        total[name] = sum(known) if known else None
