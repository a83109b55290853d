"""What a reader of RAG figures must know: which metrics an evaluator gave that it does not declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pytest_memeval.results import CaseResult

#: So many metrics are told one by one.
MOST = 5


def evaluator_warnings(records: Iterable[CaseResult]) -> list[dict[str, Any]]:
    """``[{id, values}]`` about the RAG figures of one case set, in a fixed order; ``id`` is a text of
    :mod:`pytest_memeval.report.messages` under ``note.``."""
    found: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        parts = (record.facts, *(trial.get("facts") or () for trial in record.trials))
        found.update(
            {
                (str(fact.get("evaluator")), str(fact.get("metric")), str(fact.get("nearest") or ""))
                for facts in parts
                for fact in facts
                if fact.get("kind") == "undeclared_metric"
            }
        )
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    warnings = []
    for (evaluator, metric, nearest), cases in rows[:MOST]:
        values = {"evaluator": evaluator, "metric": metric, "cases": cases}
        name = "metric_undeclared_near" if nearest else "metric_undeclared"
        warnings.append({"id": name, "values": {**values, "nearest": nearest} if nearest else values})
    if len(rows) > MOST:
        warnings.append({"id": "metric_undeclared_more", "values": {"count": len(rows) - MOST}})
    return warnings
