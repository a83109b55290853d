"""Which confusions appeared and vanished, and what of the prompts' difference names them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pytest_memeval.compare.model import ConfusionChange, PromptChange
from pytest_memeval.compare.pairing import CasePair

#: As many cases are named with a confusion, and as many lines of the prompts.
MOST_CASES = 5
MOST_LINES = 8
_ARROW = "→"


def confusion_changes(pairs: Iterable[CasePair], prompts: Sequence[PromptChange]) -> list[ConfusionChange]:
    """Confusions of dimensions (``l1``) and of conflict actions (``l15``) whose number differs, over the cases that
    both measured; the greatest change first."""
    found: dict[tuple[Literal["l1", "l15"], str], tuple[list[float], list[str]]] = {}
    stages: tuple[Literal["l1", "l15"], ...] = ("l1", "l15")
    for pair in pairs:
        for stage in stages:
            tables = [_confusions(record, stage) for record in (pair.a, pair.b)]
            if tables[0] is None or tables[1] is None:
                continue
            for key in sorted({*tables[0], *tables[1]}):
                one, two = tables[0].get(key, 0), tables[1].get(key, 0)
                sums, cases = found.setdefault((stage, key), ([0, 0], []))
                sums[0] += one
                sums[1] += two
                if one != two:
                    cases.append(pair.name)
    changes = []
    for (stage, key), (sums, cases) in found.items():
        expected, _, given = key.partition(_ARROW)
        if sums[0] != sums[1] and expected != given:
            lines = prompt_lines(prompts, stage, (expected, given))
            changes.append(ConfusionChange(stage, expected, given, sums[0], sums[1], tuple(cases[:MOST_CASES]), lines))
    return sorted(changes, key=lambda one: (-abs(one.b - one.a), one.stage, one.expected, one.given))


def _confusions(record: Any, stage: str) -> Mapping[str, float] | None:
    section = record.sections.get(stage)
    if section is None or record.stages.get(stage, "scored") != "scored":
        return None
    return {key: number for key, number in section.tables.get("confusions", {}).items() if number == number}


def prompt_lines(prompts: Iterable[PromptChange], stage: str, words: Sequence[str]) -> tuple[str, ...]:
    """The added and removed lines of the stage's prompt that name any of ``words``."""
    prompt_stage = {"l1": "l1_extraction", "l15": "l1_conflict"}[stage]
    names = [re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in words if word and word != "none"]
    lines = [
        line
        for prompt in prompts
        if prompt.stage.rpartition(": ")[2] == prompt_stage
        for line in prompt.diff or ()
        if line[:1] in "+-" and not line.startswith(("+++", "---")) and any(name.search(line[1:]) for name in names)
    ]
    return tuple(lines[:MOST_LINES])


def prompt_changes(a: Mapping[str, Any], b: Mapping[str, Any], texts: Mapping[str, str]) -> list[PromptChange]:
    """Prompt stages whose texts differ. ``texts`` holds prompt texts by SHA-256."""
    versions = [report.get("prompt_versions") or {} for report in (a, b)]
    hashes = [report.get("prompt_hashes") or {} for report in (a, b)]
    changes = []
    for stage in dict.fromkeys([*hashes[0], *hashes[1]]):
        one, two = hashes[0].get(stage), hashes[1].get(stage)
        if one == two:
            continue
        first, second = (own.get(stage) for own in versions)
        before, after = texts.get(one or ""), texts.get(two or "")
        diff = None
        if before is not None and after is not None:
            lines = before.splitlines(), after.splitlines()
            diff = tuple(difflib.unified_diff(*lines, f"{stage} {first}", f"{stage} {second}", lineterm=""))
        changes.append(PromptChange(stage, first, second, one, two, diff))
    return changes
