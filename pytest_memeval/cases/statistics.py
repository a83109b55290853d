"""What a case set consists of: lengths, languages, and which dimensions it covers at which difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pytest_memeval.cases.lint_labels import memories_of
from pytest_memeval.cases.lint_set import conversation_text
from pytest_memeval.cases.models import CaseSet, EvalCase

LANGUAGES = ("zh", "en", "mixed", "other")
DIFFICULTIES = ("easy", "medium", "hard", "unspecified")
#: From this share of the letters on a script makes a text mixed; a Chinese character weighs as two Latin letters.
MIXED_FROM = 0.15


def language_of(text: str) -> str:
    """``zh``, ``en`` (any language in Latin letters), ``mixed``, or ``other`` for a text with neither script.

    Judged by the letters alone: Chinese with the odd product name is ``zh``, with every seventh letter Latin ``mixed``.
    """
    chinese = 2 * sum("\u4e00" <= char <= "\u9fff" for char in text)
    latin = sum(char.isascii() and char.isalpha() for char in text)
    total = chinese + latin
    if not total:
        return "other"
    share = latin / total
    return "zh" if share < MIXED_FROM else "en" if share > 1 - MIXED_FROM else "mixed"


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median and largest of some counts."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[int]) -> Spread:
        return cls(min(values), median(values), max(values)) if values else cls(0, 0, 0)

    def as_dict(self) -> dict[str, float]:
        return {"min": self.low, "median": self.middle, "max": self.high}


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """Counts of a set.

    ``coverage``: dimension → difficulty → (labelled memories, cases); ``alone``: dimension → memories that have no
    other dimension; ``truths``: kind of truth → how many.
    """

    cases: int
    memories: int
    languages: dict[str, int]
    difficulties: dict[str, int]
    sources: dict[str, int]
    messages: Spread
    characters: Spread
    memories_a_case: Spread
    without_memories: int
    coverage: dict[str, dict[str, tuple[int, int]]]
    alone: dict[str, int]
    truths: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return {
            "cases": self.cases,
            "memories": self.memories,
            "languages": self.languages,
            "difficulties": self.difficulties,
            "sources": self.sources,
            "messages": self.messages.as_dict(),
            "characters": self.characters.as_dict(),
            "memories_a_case": self.memories_a_case.as_dict(),
            "without_memories": self.without_memories,
            "coverage": {
                dimension: {name: {"memories": memories, "cases": cases} for name, (memories, cases) in row.items()}
                for dimension, row in self.coverage.items()
            },
            "alone": self.alone,
            "truths": self.truths,
        }


def set_statistics(case_set: CaseSet) -> SetStatistics:
    """Count a loaded set; cases with problems are counted as far as they could be read."""
    cases = case_set.cases
    texts = [conversation_text(case) for case in cases]
    used = dict.fromkeys(label for case in cases for memory in memories_of(case) for label in memory.dimensions)
    dimensions = list(dict.fromkeys([*(case_set.registry.ids if case_set.registry is not None else ()), *used]))
    counts: Counter[tuple[str, str]] = Counter()
    in_cases: Counter[tuple[str, str]] = Counter()
    alone: Counter[str] = Counter()
    for case in cases:
        labels = [label for memory in memories_of(case) for label in memory.dimensions]
        counts.update((label, case.difficulty) for label in labels)
        in_cases.update((label, case.difficulty) for label in set(labels))
        alone.update(memory.dimensions[0] for memory in memories_of(case) if len(memory.dimensions) == 1)
    difficulties = Counter(case.difficulty for case in cases)
    shown = [name for name in DIFFICULTIES if difficulties[name]]
    languages = Counter(language_of(text) for text in texts if text.strip())
    return SetStatistics(
        cases=len(cases),
        memories=sum(len(memories_of(case)) for case in cases),
        languages={name: languages[name] for name in LANGUAGES if languages[name]},
        difficulties={name: difficulties[name] for name in shown},
        sources=dict(sorted(Counter(case.source for case in cases).items())),
        messages=Spread.of([len(case.conversation) for case in cases if case.conversation]),
        characters=Spread.of([len(text) for text in texts if text]),
        memories_a_case=Spread.of([len(memories_of(case)) for case in cases if case.expected_l1 is not None]),
        without_memories=sum(case.expected_l1 is not None and not memories_of(case) for case in cases),
        coverage={
            label: {name: (counts[label, name], in_cases[label, name]) for name in shown} for label in dimensions
        },
        alone={label: alone[label] for label in dimensions},
        truths=_truths(cases),
    )


def _truths(cases: Sequence[EvalCase]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for case in cases:
        if case.expected_l15 is not None:
            found.update(f"l15 {action.action}" for action in case.expected_l15.actions)
        if case.expected_l2 is not None:
            for mode, placed in case.expected_l2.template_section.items():
                found[f"section {mode}"] += len(placed)
            found["scenes"] += len(case.expected_l2.scenes)
        found["injections"] += case.expected_inject is not None
        found["queries"] += len(case.expected_search.queries) if case.expected_search is not None else 0
    return {name: count for name, count in sorted(found.items()) if count}


def statistics_lines(statistics: SetStatistics) -> list[str]:
    """The statistics as lines for a console."""
    from pytest_memeval.report.console import columns

    def shares(counts: dict[str, int]) -> str:
        total = sum(counts.values())
        return ", ".join(f"{name} {count} ({100 * count / total:.0f} %)" for name, count in counts.items()) or "none"

    def spread(values: Spread) -> str:
        return f"{values.low:g} to {values.high:g}, median {values.middle:g}"

    lines = [
        f"languages: {shares(statistics.languages)}",
        f"difficulty: {shares(statistics.difficulties)}",
        f"sources: {shares(statistics.sources)}",
        f"messages a conversation: {spread(statistics.messages)}",
        f"characters a conversation: {spread(statistics.characters)}",
        f"memories a case: {spread(statistics.memories_a_case)}; {statistics.without_memories} cases with none",
        "truths: " + (", ".join(f"{name} {count}" for name, count in statistics.truths.items()) or "none"),
        "labelled memories by dimension and difficulty (cases in brackets):",
    ]
    names = list(statistics.difficulties)
    rows = [["dimension", *names, "all", "alone"]]
    for label, row in statistics.coverage.items():
        cells = [f"{memories} ({cases})" if memories else "-" for memories, cases in row.values()]
        total, in_cases = sum(one for one, _ in row.values()), sum(one for _, one in row.values())
        rows.append([label, *cells, f"{total} ({in_cases})" if total else "-", str(statistics.alone[label])])
    lines += [f"  {line}" for line in columns(rows, right=frozenset(range(1, len(rows[0]))))]
    return lines
