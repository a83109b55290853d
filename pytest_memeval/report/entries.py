"""One case in ``report.json``, and what becomes of its texts in reports of private conversations."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.funnel import case_funnel
from pytest_memeval.report.trials import spread_of
from pytest_memeval.results import CallRecord, CaseResult

TextPolicy = Literal["full", "hash", "none"]
TEXT_POLICIES: tuple[TextPolicy, ...] = ("full", "hash", "none")

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


# What a text policy leaves as it is: labels, ids and words of the formats. Every other string may quote a person.
_STRUCTURAL = frozenset(
    {
        "action", "candidate_ids", "case_id", "change", "created_at", "decided", "dimension", "dimensions", "expected",
        "expected_targets", "extra", "finish_reason", "id", "ids", "injected", "kind", "memory_id", "memory_ids",
        "memory_type", "missed", "mode", "modes", "model", "placed", "provider", "result_id", "scene_id", "scene_ids",
        "relevant", "repeated", "section", "section_id", "source_ids", "source_message_ids", "stage", "status",
        "target_ids", "targets", "time", "time_velocity", "variant", "version",
    }
)  # fmt: skip
#: What an engine or a model filled as it liked: even its keys and labels are texts.
_OPAQUE = frozenset({"extra", "item", "params"})
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}(?:@\d{1,6})?|-?\d{1,9}")
#: Parts of an entry whose keys may be texts themselves: a search output is keyed by its queries.
_KEYED_BY_TEXT = frozenset({"search", "queries", "hits", "rankings"})
_RECORD_FIELDS = frozenset({"query", "results", "hits", "relevant", "score", "content", "params", *_STRUCTURAL})


def text_digest(text: str) -> str:
    """``sha256:`` and the first 12 hexadecimal digits of the text's digest: equal texts stay recognisable as equal."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def apply_text_policy(entry: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """An entry (of ``per_case``, or of the journal) with its texts as ``policy`` wants them.

    ``full`` leaves all, ``hash`` puts a digest for every text, ``none`` leaves every text out (``None``; an error keeps
    stage and kind with an empty message). Figures, labels, ids, structure stay. An unknown policy raises ValueError.
    """
    if policy not in TEXT_POLICIES:
        raise ValueError(f"unknown text policy {policy!r}; known: {', '.join(TEXT_POLICIES)}")
    if policy == "full":
        return dict(entry)
    replace: Callable[[str], str | None] = text_digest if policy == "hash" else lambda _: None
    result = dict(entry)
    if "outputs" in result:
        result["outputs"] = _scrub_outputs(result["outputs"], replace)
    for key in (*HOISTED, "facts"):
        if key in result:
            result[key] = _scrub(result[key], replace, key in _KEYED_BY_TEXT)
    if result.get("input"):
        result["input"] = _scrub_input(result["input"], replace)
    sections = result.get("sections")
    if isinstance(sections, Mapping):
        result["sections"] = {name: _scrub_section(section, replace) for name, section in sections.items()}
    for name in SECTIONS:
        if isinstance(result.get(name), Mapping):
            result[name] = _scrub_section(result[name], replace)
    if result.get("trials"):
        # Each is built as the entry itself, in what may hold texts.
        result["trials"] = [apply_text_policy(trial, policy) for trial in result["trials"]]
    if "errors" in result:
        result["errors"] = [{**error, "message": replace(error["message"]) or ""} for error in result["errors"]]
        if "error" in result:
            result["error"] = result["errors"][0] if result["errors"] else None
    if "calls" in result:
        result["calls"] = [scrub_call(call, policy) for call in result["calls"]]
    return result


def scrub_call(call: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """A model call with prompt, answer and error text as ``policy`` wants them."""
    if policy == "full":
        return dict(call)
    replace: Callable[[str], str | None] = text_digest if policy == "hash" else lambda _: None
    result = dict(call)
    if "request" in result:
        result["request"] = [
            {key: value if key == "role" else replace(str(value)) for key, value in message.items()}
            for message in (result["request"] if policy == "hash" else ())
        ]
    for key in ("answer", "error"):
        if result.get(key) is not None:
            # That a call failed is a figure, not a text.
            result[key] = replace(result[key]) if key == "answer" or policy == "hash" else ""
    return result


def _scrub_input(given: Mapping[str, Any], replace: Callable[[str], str | None]) -> dict[str, Any]:
    """What was said without its words: who of the formats' roles spoke, and when, is structure; names are not."""
    scrubbed: dict[str, Any] = _scrub(given, replace, False)
    for part in ("conversation", "subsequent_conversation"):
        for message, original in zip(scrubbed.get(part) or (), given.get(part) or (), strict=True):
            message["role"] = original.get("role")
    return scrubbed


#: What a question's output has of ids, as ``source_message_ids`` has of a memory.
_QUESTION_IDS = ("question_id", "evidence", "evidence_turns", "corrected_evidence", "sources")


def _scrub_outputs(given: Any, replace: Callable[[str], str | None]) -> Any:
    scrubbed = _scrub(given, replace, False)
    question = given.get("qa") if isinstance(given, Mapping) else None
    if isinstance(question, Mapping):
        # Nobody but the package writes these: under the same names elsewhere an engine may have put words.
        scrubbed["qa"].update({key: question[key] for key in _QUESTION_IDS if key in question})
    return scrubbed


def _scrub_section(section: Any, replace: Callable[[str], str | None]) -> Any:
    if not isinstance(section, Mapping) or "details" not in section:
        return section
    return {**section, "details": _scrub(section["details"], replace, False)}


def _scrub(value: Any, replace: Callable[[str], str | None], keyed_by_text: bool, structural: bool = False) -> Any:
    if isinstance(value, str):
        return value if structural else replace(value)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = str(key)
            known = _FIELD.fullmatch(name) is not None and (not keyed_by_text or name in _RECORD_FIELDS)
            if name in _OPAQUE and isinstance(item, Mapping):
                result[name] = _scrub_all(item, replace)
            else:
                inner = known and name in _STRUCTURAL and not isinstance(item, Mapping)
                result[_shown_key(name, known, replace, result)] = _scrub(item, replace, name in _KEYED_BY_TEXT, inner)
        return result
    if isinstance(value, (list, tuple)):
        return [_scrub(item, replace, False, structural) for item in value]
    return value


def _scrub_all(value: Any, replace: Callable[[str], str | None]) -> Any:
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            result[_shown_key(str(key), False, replace, result)] = _scrub_all(item, replace)
        return result
    if isinstance(value, (list, tuple)):
        return [_scrub_all(item, replace) for item in value]
    return value


def _shown_key(name: str, known: bool, replace: Callable[[str], str | None], others: Mapping[str, Any]) -> str:
    """A key as it is, or a stand-in: without its text a key still has to differ from its neighbours."""
    return name if known else (replace(name) or f"#{len(others)}")
