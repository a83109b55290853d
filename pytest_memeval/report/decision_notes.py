"""What a reader of decision figures must know: decisions that nobody could carry out, which count as none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_memeval.documents.problems import nearest
from pytest_memeval.report.text_policy import text_digest
from pytest_memeval.results import CaseResult
from pytest_memeval.values import ACTIONS

#: So many actions are told one by one.
MOST = 5


def decision_warnings(records: Iterable[CaseResult], report_text: str = "full") -> list[dict[str, Any]]:
    """``[{id, values}]`` about the decisions of one case set, in a fixed order; the names of actions, which are the
    engine's own, as ``report_text`` wants them. ``id`` is a text of :mod:`pytest_memeval.report.messages` under
    ``note.``. A model's decisions that the engine itself left out are in its facts, and not told here.
    """
    actions: Counter[str] = Counter()
    lost = 0
    for record in records:
        outputs = [record.outputs, *(trial.get("outputs") or {} for trial in record.trials)]
        actions.update({action for output in outputs for action in _unknown_actions(output)})
        lost += any(map(_has_lost_index, outputs))
    rows = sorted(actions.items(), key=lambda row: (-row[1], row[0]))
    warnings: list[dict[str, Any]] = []
    for action, cases in rows[:MOST]:
        shown = {"full": action, "hash": text_digest(action)}.get(report_text, "-")
        values = {"action": shown, "cases": cases, "known": ", ".join(ACTIONS)}
        near = nearest(action, ACTIONS)
        if near is None:
            warnings.append({"id": "action_unknown", "values": values})
        else:
            warnings.append({"id": "action_unknown_near", "values": {**values, "nearest": near}})
    if len(rows) > MOST:
        warnings.append({"id": "action_unknown_more", "values": {"count": len(rows) - MOST}})
    if lost:
        warnings.append({"id": "decision_lost", "values": {"cases": lost}})
    return warnings


def _unknown_actions(outputs: Mapping[str, Any]) -> Iterator[str]:
    for decision in outputs.get("l15") or ():
        if decision.get("action") not in ACTIONS:
            yield str(decision.get("action"))


def _has_lost_index(outputs: Mapping[str, Any]) -> bool:
    """Whether some decision is about a memory that there is none of. With labelled input nobody knows here how many
    there were, but that none of them has a negative index."""
    memories = outputs.get("l1")
    bound = float("inf") if memories is None else len(memories)
    indexes = (decision.get("memory_index") for decision in outputs.get("l15") or ())
    return any(isinstance(index, int) and not 0 <= index < bound for index in indexes)
