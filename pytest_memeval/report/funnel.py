"""The fact funnel: every labelled memory followed through the stages, and where it was lost.

A fact is one labelled memory. At each stage it is kept, lost, or not measured there (no label, stage not run, errored).
It counts as lost at the first stage that lost it; later stages are not asked about it. Everything is read from entries
of ``per_case``, so that reports of earlier versions can be followed too, as far as they hold what is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

#: The stages of a fact's way, in order.
FUNNEL_STAGES: tuple[str, ...] = ("extracted", "labelled", "resolved", "aggregated", "placed", "injected", "found")
#: Stage of the way → why a fact can be lost there.
CAUSES: Mapping[str, tuple[str, ...]] = {
    "extracted": ("not_extracted", "near_miss"),
    "labelled": ("label_missing", "label_wrong", "label_dropped"),
    "resolved": ("no_decision", "wrong_action", "wrong_target"),
    "aggregated": ("in_no_scene",),
    "placed": ("in_no_section", "wrong_section"),
    "injected": ("not_injected",),
    "found": ("not_found",),
}

#: A stage's verdict on a fact: ``""`` for kept, else why it was lost.
Verdict = str


def case_funnel(entry: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """One row a labelled memory: ``{memory, kept: [stages], lost_at, cause}``; ``lost_at`` and ``cause`` are ``None``
    for a fact that no measured stage lost.

    ``None`` for a case of which no way can be told: without labelled memories, skipped, or with a failed extraction.
    """
    first = entry.get("l1")
    if not first:
        return None
    truths = (first.get("details") or {}).get("truth")
    if truths is None:
        # Reports of before 1.1 kept no labelled memories; their number is known all the same.
        truths = [None] * (len(entry.get("matched_memories") or ()) + len(entry.get("unmatched_gt") or ()))
    judges = [(stage, verdicts) for stage, judge in _JUDGES.items() if (verdicts := judge(entry))]
    return [_row(index, judges) for index in range(len(truths))]


def _row(index: int, judges: Sequence[tuple[str, Mapping[int, Verdict]]]) -> dict[str, Any]:
    kept = []
    for stage, verdicts in judges:
        verdict = verdicts.get(index)
        if verdict == "":
            kept.append(stage)
        elif verdict is not None:
            return {"memory": index, "kept": kept, "lost_at": stage, "cause": verdict}
    return {"memory": index, "kept": kept, "lost_at": None, "cause": None}


def run_funnel(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The facts of all cases: ``{facts, cases, lost, kept, stages: [{stage, measured, kept, lost, not_measured,
    causes}]}``. At each stage ``measured`` + ``not_measured`` is what no earlier stage lost. ``None`` without facts.
    """
    facts = cases = 0
    kept = dict.fromkeys(FUNNEL_STAGES, 0)
    causes: dict[str, dict[str, int]] = {stage: {} for stage in FUNNEL_STAGES}
    for entry in entries:
        rows = entry["funnel"] if "funnel" in entry else case_funnel(entry)
        if not rows:
            continue
        cases += 1
        for row in rows:
            facts += 1
            for stage in row["kept"]:
                kept[stage] += 1
            if row["lost_at"] is not None:
                found = causes[row["lost_at"]]
                found[row["cause"]] = found.get(row["cause"], 0) + 1
    if not facts:
        return None
    stages = []
    left = facts
    for stage in FUNNEL_STAGES:
        lost = sum(causes[stage].values())
        stages.append(
            {
                "stage": stage,
                "measured": kept[stage] + lost,
                "kept": kept[stage],
                "lost": lost,
                "not_measured": left - kept[stage] - lost,
                "causes": {cause: causes[stage][cause] for cause in CAUSES[stage] if cause in causes[stage]},
            }
        )
        left -= lost
    return {"facts": facts, "cases": cases, "kept": left, "lost": facts - left, "stages": stages}


# -- one stage's verdicts: labelled memory's index → "" for kept, a cause for lost, absent where it was not measured


def _pairs(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return entry.get("matched_memories") or ()


def _details(entry: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    return (entry.get(section) or {}).get("details") or {}


def _extracted(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    near = {miss.get("truth") for miss in _details(entry, "l1").get("near_misses") or ()}
    return {
        **{pair["truth"]: "" for pair in _pairs(entry)},
        **{index: "near_miss" if index in near else "not_extracted" for index in entry.get("unmatched_gt") or ()},
    }


def _labelled(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    """A fact keeps its way with all of its labels; labels beyond them lead nobody away from it."""
    dropped = {fact.get("memory_index") for fact in entry.get("facts") or () if fact.get("kind") == "dropped_label"}
    return {
        pair["truth"]: ""
        if not pair.get("missed")
        else "label_dropped"
        if pair.get("pred") in dropped
        else "label_wrong"
        if pair.get("extra")
        else "label_missing"
        for pair in _pairs(entry)
    }


def _resolved(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    found = {}
    for action in _details(entry, "l15").get("actions") or ():
        if action["decision_right"]:
            cause = ""
        elif action["action_right"]:
            cause = "wrong_target"
        else:
            cause = "no_decision" if action["decided"] == "none" else "wrong_action"
        found[action["memory"]] = cause
    return found


def _aggregated(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    outside = (_details(entry, "l2").get("scenes") or {}).get("in_no_scene")
    if outside is None:
        return {}
    # What is rightly skipped adds nothing that could go into a scene.
    skipped = {a["memory"] for a in _details(entry, "l15").get("actions") or () if a["expected"] == "skip"}
    reached = {pair["truth"] for pair in _pairs(entry)} | set(outside)
    return {index: "in_no_scene" if index in outside else "" for index in reached - skipped}


def _placed(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    """In its section in every mode that labels it."""
    found: dict[int, Verdict] = {}
    for unit in (_details(entry, "l2").get("sections") or {}).get("units") or ():
        cause = "" if unit["expected"] in unit["placed"] else "wrong_section" if unit["placed"] else "in_no_section"
        found[unit["memory"]] = found.get(unit["memory"]) or cause
    return found


def _injected(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    fate = _details(entry, "inject").get("fate") or {}
    return {int(index): "" if arrived else "not_injected" for index, arrived in fate.items()}


def _found(entry: Mapping[str, Any]) -> dict[int, Verdict]:
    """Among the hits of every query of its own case for which it is relevant."""
    found: dict[int, Verdict] = {}
    for index, hit in _searched(entry):
        found[index] = found.get(index) or ("" if hit else "not_found")
    return found


def _searched(entry: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    prefix = f"{entry.get('case_id')}#"
    for query in _details(entry, "search").get("queries") or ():
        hits = query.get("ids") or ()
        for name in query.get("relevant") or ():
            if isinstance(name, str) and name.startswith(prefix) and name[len(prefix) :].isdecimal():
                yield int(name[len(prefix) :]), name in hits


_JUDGES = dict(
    zip(
        FUNNEL_STAGES,
        (_extracted, _labelled, _resolved, _aggregated, _placed, _injected, _found),
        strict=True,
    )
)
