"""Sets of RAG samples in ``report.md`` and in the page: each metric over all samples, and by difficulty and tag."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import interval_text, value_text

Entry = Mapping[str, Any]

#: So many tags get a column, the most frequent ones.
MOST_TAGS = 8
_DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard", "unspecified")


class SampleSet:
    """One case set of kind ``rag`` in a report."""

    def __init__(self, path: str, scope: Mapping[str, Any], entries: Sequence[Entry], lang: str) -> None:
        self.path, self._lang = path, lang
        self._body: Mapping[str, Any] = scope.get("rag") or {}
        self._entries = entries
        self._groups = [("", entries), *self._named_groups()]

    def _(self, key: str, **values: Any) -> str:
        return text(f"view.{key}", self._lang, **values)

    def _named_groups(self) -> Iterator[tuple[str, list[Entry]]]:
        found = {entry["difficulty"] for entry in self._entries}
        if len(found) > 1:
            known = [name for name in _DIFFICULTIES if name in found]
            for name in (*known, *sorted(found.difference(_DIFFICULTIES))):
                yield name, [entry for entry in self._entries if entry["difficulty"] == name]
        tags = Counter(tag for entry in self._entries for tag in entry["tags"])
        # A tag that every sample has says nothing that the first column does not.
        telling = [(tag, count) for tag, count in tags.items() if count < len(self._entries)]
        for tag, _ in sorted(telling, key=lambda pair: (-pair[1], pair[0]))[:MOST_TAGS]:
            yield tag, [entry for entry in self._entries if tag in entry["tags"]]

    def head(self) -> list[str]:
        return [self._("metric"), self._("all"), *(name for name, _ in self._groups[1:])]

    def rows(self) -> list[list[str]]:
        """How many samples, how many of them errored, and a row a metric: over all with its interval, then by group."""
        metrics = [name for name in self._body.get("n") or () if "." not in name]
        return [
            self._row(self._("n"), lambda entries: str(len(entries))),
            self._row(
                self._("errors"), lambda entries: str(sum(entry["outcome"] == "errored" for entry in entries))
            ),
            *(self._metric(name) for name in metrics),
        ]  # fmt: skip

    def _row(self, name: str, say: Callable[[Sequence[Entry]], str]) -> list[str]:
        return [name, *(say(entries) for _, entries in self._groups)]

    def _metric(self, name: str) -> list[str]:
        row = self._row(name, lambda entries: value_text(mean_of(entries, "rag", name)))
        interval = (self._body.get("intervals") or {}).get(name)
        row[1] = value_text(self._body.get(name)) + (f" {interval_text(interval)}" if interval else "")
        return row

    def labels(self) -> list[str]:
        """How often evaluators gave each label, a sentence a metric."""
        found: dict[str, Counter[str]] = {}
        for entry in self._entries:
            for metric, labels in ((entry.get("rag") or {}).get("tables") or {}).items():
                found.setdefault(metric, Counter()).update({label: int(number) for label, number in labels.items()})
        return [
            f"{metric}: " + ", ".join(f"{label} {count}" for label, count in sorted(counts.items()))
            for metric, counts in sorted(found.items())
        ]


def sample_sets(report: Mapping[str, Any], lang: str) -> list[SampleSet]:
    """The report's sets of RAG samples that have figures."""
    return [
        SampleSet(path, scope, [entry for entry in report["per_case"] if entry["set"] == path], lang)
        for path, scope in report["case_sets"].items()
        if scope.get("kind") == "rag" and scope.get("rag")
    ]


def mean_of(entries: Sequence[Entry], section: str, name: str) -> float | None:
    """A metric over some cases: the ratio of their sums; ``None`` where none has it."""
    pairs = [((entry.get(section) or {}).get("ratios") or {}).get(name) or (0, 0) for entry in entries]
    known = [pair for pair in pairs if None not in pair]
    below = math.fsum(pair[1] for pair in known)
    return math.fsum(pair[0] for pair in known) / below if below else None
