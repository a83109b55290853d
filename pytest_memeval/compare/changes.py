"""Case by case: whose figures changed most, with their memories side by side, and who fell out of the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.model import CaseChange, CaseNote, MemoryRow
from pytest_memeval.compare.pairing import CasePair, case_name, measured, value_of
from pytest_memeval.metrics.catalog import METRICS
from pytest_memeval.results import CaseResult

#: What a distillation case's change is measured by.
MAIN_FIGURES: tuple[tuple[str, str], ...] = (
    ("l1", "dimension_micro_f1"),
    ("l1", "memory_recall"),
    ("l1", "memory_precision"),
    ("l15", "action_accuracy"),
    ("l2", "section_hit_rate"),
    ("l2", "scene_grouping_f1"),
    ("inject", "reference_coverage"),
)
#: Sections of other kinds of cases: all their figures count.
_OPEN = ("search", "qa", "rag", "locomo", "longmemeval", "metrics")
_TIE = 1e-9


def case_changes(pairs: Iterable[CasePair], limits: Limits) -> tuple[list[CaseChange], int, int]:
    """The cases of which any main figure changed, the greatest change first; how many have none; and how many of the
    others cannot be told: a figure that both measured cannot be compared (``limits``), or there is none."""
    changes, unchanged, uncompared = [], 0, 0
    for pair in pairs:
        figures, whole = _changed_figures(pair, limits)
        if figures:
            size = (
                abs(figures[0][2] - figures[0][1]) if figures[0][1] is not None and figures[0][2] is not None else 0.0
            )
            changes.append(CaseChange(pair.name, size, tuple(figures), tuple(memory_rows(pair))))
        elif whole:
            unchanged += 1
        else:
            uncompared += 1
    # At the same greatest change the one with more of it.
    changes.sort(key=lambda one: (-one.size, -_sum(one), one.case))
    return changes, unchanged, uncompared


def _sum(change: CaseChange) -> float:
    return sum(abs(b - a) for _, a, b in change.figures if a is not None and b is not None)


def _changed_figures(pair: CasePair, limits: Limits) -> tuple[list[tuple[str, float | None, float | None]], bool]:
    """The figures that changed, and whether there are any to compare and all of them could be."""
    figures: list[tuple[str, float | None, float | None]] = []
    compared = held_back = 0
    for section, name in _figures(pair):
        path = f"{section}.{name}"
        one, two = measured(pair.a, section, name), measured(pair.b, section, name)
        if one is None or two is None:
            continue
        if limits.setting_of(path, pair.files) is not None:
            held_back += 1
            continue
        compared += 1
        a, b = value_of(one), value_of(two)
        if (a is None) != (b is None) or (a is not None and b is not None and abs(a - b) > _TIE):
            figures.append((path, a, b))
    figures.sort(key=lambda one: -abs(one[2] - one[1]) if one[1] is not None and one[2] is not None else 0.0)
    return figures, compared > 0 and not held_back


def _figures(pair: CasePair) -> Iterator[tuple[str, str]]:
    yield from MAIN_FIGURES
    for section in _OPEN:
        found = [record.sections[section] for record in (pair.a, pair.b) if section in record.sections]
        if not found:
            continue
        names = dict.fromkeys(name for figures in found for name in figures.ratios if not name.startswith("_"))
        for name in names:
            spec = METRICS.get(f"{section}.{name.partition('@')[0]}")
            # A figure of unknown range, such as a count of points, cannot be held against shares.
            if section != "metrics" or spec is not None or _is_share(found, name):
                yield section, name


def _is_share(found: Sequence[Any], name: str) -> bool:
    values = [value_of((figures.ratios[name],)) for figures in found if name in figures.ratios]
    return all(value is None or 0 <= value <= 1 for value in values)


# -- memories side by side


def memory_rows(pair: CasePair) -> Iterator[MemoryRow]:
    """The labelled memories that A and B treat differently, then the memories that nothing labelled asks for and only
    one of them has."""
    one, two = _Side(pair.a), _Side(pair.b)
    truths = one.truths or two.truths
    for index in sorted({*one.matched, *two.matched, *one.missed, *two.missed}):
        a, b = one.matched.get(index), two.matched.get(index)
        if _outcome(a) != _outcome(b):
            truth = truths[index] if index < len(truths) else {"content": None, "dimensions": [], "index": index}
            yield MemoryRow(truth, a, b)
    for mine, other, is_a in ((one, two, True), (two, one, False)):
        for memory in mine.spare:
            if memory not in other.spare:
                yield MemoryRow(None, memory if is_a else None, None if is_a else memory)


def _outcome(match: Mapping[str, Any] | None) -> Any:
    """What became of a labelled memory; the same with other words is the same."""
    return None if match is None else (sorted(match["missed"]), sorted(match["extra"]))


class _Side:
    """What one report says of a case's memories."""

    def __init__(self, record: CaseResult) -> None:
        first = record.sections.get("l1")
        details = first.details if first is not None else {}
        outputs = record.outputs.get("l1")
        self._memories: Sequence[Any] = outputs if isinstance(outputs, list) else []
        self.truths: list[Mapping[str, Any]] = [one for one in details.get("truth") or () if isinstance(one, Mapping)]
        self.matched: dict[int, dict[str, Any]] = {}
        for match in details.get("pairs") or ():
            memory = self._memory(match["pred"])
            self.matched[match["truth"]] = {**memory, "missed": match["missed"], "extra": match["extra"]}
        self.missed: list[int] = [at for at in details.get("unmatched_truth") or () if isinstance(at, int)]
        self.spare = [self._memory(at) for at in details.get("unmatched_pred") or () if isinstance(at, int)]

    def _memory(self, index: int) -> dict[str, Any]:
        memory = self._memories[index] if 0 <= index < len(self._memories) else {}
        return {"content": memory.get("content"), "dimensions": list(memory.get("dimensions") or ())}


# -- cases that are not in it, or not whole


def newly(pairs: Iterable[CasePair], outcome: str) -> list[CaseNote]:
    """Cases with ``outcome`` in B that did not have it in A."""
    return [
        CaseNote(pair.name, errors_text(pair.b) if outcome == "errored" else "")
        for pair in pairs
        if pair.b.outcome == outcome and pair.a.outcome != outcome
    ]


def recovered(pairs: Iterable[CasePair]) -> list[CaseNote]:
    """Cases that were errored in A and are scored in B."""
    return [
        CaseNote(pair.name, errors_text(pair.a))
        for pair in pairs
        if pair.a.outcome == "errored" and pair.b.outcome == "scored"
    ]


def missing(records: Iterable[CaseResult], other: Mapping[str, Any]) -> list[CaseNote]:
    """Cases that the other report lacks, and whether they were left out there or left no result."""
    lost = {entry[1]: "not_run" for entry in other.get("not_run") or () if len(entry) > 1}
    decided = (other.get("stopping") or {}).get("left_out") or ()
    lost.update((entry[1], "decided") for entry in decided if len(entry) > 1)
    return [CaseNote(case_name(one), lost.get(one.node_id, "")) for one in records]


def errors_text(record: CaseResult) -> str:
    return "; ".join(f"{error.stage} {error.kind}: {error.message}".strip(": ") for error in record.errors)
