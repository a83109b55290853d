"""What the Markdown report and the terminal summary both show, taken from the report dict."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_memeval.report.messages import text

#: Kind of miss → (section, ratio, whether the ratio's numerator counts the misses itself).
MISS_KINDS: Mapping[str, tuple[str, str, bool]] = {
    "missed_memories": ("l1", "memory_recall", False),
    "spurious_memories": ("l1", "memory_precision", False),
    "wrong_type": ("l1", "memory_type_accuracy", False),
    "wrong_velocity": ("l1", "time_velocity_accuracy", False),
    "wrong_action": ("l15", "action_accuracy", False),
    "section_miss": ("l2", "section_miss_rate", True),
    "section_misentry": ("l2", "section_misentry_rate", True),
    "scene_pairs": ("l2", "scene_grouping_recall", False),
    "inject_empty": ("inject", "inject_hit_rate", False),
    "inject_uncovered": ("inject", "reference_coverage", False),
}


@dataclass(frozen=True, slots=True)
class Misses:
    """How many of ``of`` units went wrong in one way."""

    kind: str
    count: float
    of: float


def misses_by_kind(entries: Sequence[Mapping[str, Any]]) -> list[Misses]:
    """The misses of every kind that any case was measured for, in pipeline order."""
    found = []
    sections = {section for section, _, _ in MISS_KINDS.values()}
    measured = {
        section: [ratios for entry in entries if (ratios := (entry.get(section) or {}).get("ratios"))]
        for section in sections
    }
    for kind, (section, ratio, counts_misses) in MISS_KINDS.items():
        numerators: list[float] = []
        denominators: list[float] = []
        for ratios in measured[section]:
            pair = ratios.get(ratio)
            if pair is not None and pair[0] is not None and pair[1] is not None:
                numerators.append(pair[0])
                denominators.append(pair[1])
        of = math.fsum(denominators)
        if of:
            hits = math.fsum(numerators)
            found.append(Misses(kind, hits if counts_misses else of - hits, of))
    return found


def worst_cases(entries: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """The cases with the lowest L1 F1 below 1, the lowest first, by node id where equal."""
    scored = [entry for entry in entries if entry["l1_f1"] is not None and entry["l1_f1"] < 1]
    return sorted(scored, key=lambda entry: (entry["l1_f1"], entry["node_id"]))[:limit]


def case_misses(entry: Mapping[str, Any]) -> Iterator[Misses]:
    """What went wrong in one case, kind by kind."""
    return (misses for misses in misses_by_kind([entry]) if misses.count)


def errors_by_stage(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Stage → kind of error → how many cases had it."""
    found: dict[str, dict[str, int]] = {}
    for entry in entries:
        for stage, kind in sorted({(error["stage"], error["kind"]) for error in entry["errors"]}):
            kinds = found.setdefault(stage, {})
            kinds[kind] = kinds.get(kind, 0) + 1
    return found


_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def describe(mapping: Mapping[str, Any], *names: str) -> str:
    """The first named values that a description has, as ``name version``; ``-`` where it has none. What breaks a line
    is shown as an escape: names are the project's, and stand in the middle of lines and tables."""
    parts = [str(mapping[name]) for name in names if mapping.get(name) not in (None, "")]
    return _BREAKS.sub(lambda found: ascii(found[0])[1:-1], " ".join(dict.fromkeys(parts))) or "-"


def engine_text(report: Mapping[str, Any]) -> str:
    """Every engine of a run as ``name version``, with commas; ``-`` where none is known."""
    engine = report.get("engine") or {}
    return ", ".join(describe(one, "name", "version") for one in (engine, *engine.get("others", ())))


def asked_prompts(report: Mapping[str, Any]) -> bool:
    """Whether prompts can have counted in a run: a model was asked, or a version was named for an engine that asks one
    by itself. A report that does not say counts as one that did."""
    named = ((report.get("config") or {}).get("options") or {}).get("prompt_version")
    return bool(named) or (report.get("usage") or {}).get("calls") != 0


def prompts_text(report: Mapping[str, Any]) -> str:
    """The prompt versions: one word where all stages have the same, else ``stage=version`` for each; ``-`` where none
    was asked for and no model was either, so that none can have counted."""
    versions = report.get("prompt_versions") or {}
    if not versions or not asked_prompts(report):
        return "-"
    different = set(versions.values())
    if len(different) == 1:
        return str(next(iter(different)))
    return ", ".join(f"{stage}={version}" for stage, version in versions.items())


def kinds_text(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def resumed_text(report: Mapping[str, Any], lang: str) -> str | None:
    """How many cases were taken from an earlier run, and why the others were not; ``None`` in a run of its own."""
    resumed = report["environment"].get("resumed")
    if resumed is None:
        return None
    counts = {"unusable": 0, **resumed["run_again"]}  # which older reports do not tell
    again = sum(counts.values())
    unusable = text("terminal.resumed_unusable", lang, count=counts["unusable"]) if counts["unusable"] else ""
    why = text("terminal.resumed_why", lang, **{**counts, "unusable": unusable}) if again else ""
    line = text(
        "terminal.resumed", lang, cases=resumed["cases"], total=report["counts"]["total"], run=resumed["from"],
        again=again, why=why,
    )  # fmt: skip
    parts = ", ".join(resumed["changed"])
    return line + (text("terminal.resumed_changed", lang, parts=parts) if parts else "")


def usage_text(usage: Mapping[str, Any], lang: str) -> str:
    """Calls and tokens in a line; a sum that nobody gave is said to be unknown."""
    unknown = usage["unknown_tokens"]
    shown = {
        name: usage[name] if usage[name] is not None else text("unknown", lang)
        for name in ("input_tokens", "output_tokens")
    }
    return text(
        "terminal.usage_line",
        lang,
        calls=usage["calls"],
        input=shown["input_tokens"],
        output=shown["output_tokens"],
        unknown=text("terminal.usage_unknown", lang, count=unknown) if unknown else "",
        cost=text("terminal.usage_cost", lang, cost=f"{cost:.4f}") if (cost := usage.get("cost_usd")) else "",
    )
