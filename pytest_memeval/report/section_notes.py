"""What a reader of section figures must know: which sections an engine filled that their modes do not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_memeval.report.text_policy import text_digest
from pytest_memeval.results import CaseResult

#: So many sections are told one by one.
MOST = 5


def section_warnings(records: Iterable[CaseResult], report_text: str = "full") -> list[dict[str, Any]]:
    """``[{id, values}]`` about the template figures of one case set, in a fixed order; the names of sections, which are
    the engine's own, as ``report_text`` wants them. ``id`` is a text of :mod:`pytest_memeval.report.messages` under
    ``note.``.
    """
    found: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        found.update(
            {
                (str(fact.get("mode")), str(fact.get("section")), str(fact.get("nearest") or ""))
                for fact in _facts(record)
                if fact.get("kind") == "unknown_section" and fact.get("memories")
            }
        )
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    warnings = []
    for (mode, section, nearest), cases in rows[:MOST]:
        shown = {"full": section, "hash": text_digest(section)}.get(report_text, "-")
        values = {"mode": mode, "section": shown, "cases": cases}
        name = "section_unknown_near" if nearest else "section_unknown"
        warnings.append({"id": name, "values": {**values, "nearest": nearest} if nearest else values})
    if len(rows) > MOST:
        warnings.append({"id": "section_unknown_more", "values": {"count": len(rows) - MOST}})
    return warnings


def _facts(record: CaseResult) -> Iterator[Mapping[str, Any]]:
    yield from record.facts
    for trial in record.trials:
        yield from trial.get("facts") or ()
