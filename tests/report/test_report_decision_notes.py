"""Which decisions nobody could carry out, told with the figures that they make worse."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_memeval.report.decision_notes import MOST, decision_warnings
from pytest_memeval.results import CaseResult

MEMORY = {"content": "a"}


def result(number: int, *decisions: tuple[int, str], memories: int | None = 2, **fields: Any) -> CaseResult:
    outputs: dict[str, Any] = {"l15": [{"memory_index": at, "action": action} for at, action in decisions]}
    if memories is not None:
        outputs["l1"] = [MEMORY] * memories
    return CaseResult(
        node_id=f"c.yaml::{number}", set="c.yaml", case_id=str(number), outcome="scored", outputs=outputs, **fields
    )


def test_known_actions_on_memories_that_exist_are_not_told() -> None:
    assert decision_warnings([]) == []
    assert decision_warnings([result(1, (0, "store"), (1, "merge")), result(2, memories=0)]) == []
    # Repeated decisions and strange targets are counted, and are no matter of a misspelt name.
    assert decision_warnings([result(1, (0, "skip"), (0, "update"))]) == []


def test_an_unknown_action_is_told_once_with_the_nearest() -> None:
    records = [result(1, (0, "stored"), (1, "stored")), result(2, (0, "stored")), result(3, (0, "放弃"))]
    assert decision_warnings(records) == [
        {
            "id": "action_unknown_near",
            "values": {"action": "stored", "cases": 2, "known": "store, update, merge, skip", "nearest": "store"},
        },
        {"id": "action_unknown", "values": {"action": "放弃", "cases": 1, "known": "store, update, merge, skip"}},
    ]


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_an_engines_own_words_are_kept_back(policy: str) -> None:
    [warning] = decision_warnings([result(1, (0, "a secret"))], policy)
    assert "secret" not in str(warning)


def test_many_actions_are_counted() -> None:
    records = [result(1, *((0, f"zz{number}qq") for number in range(MOST + 3)))]
    warnings = decision_warnings(records)
    assert len(warnings) == MOST + 1
    assert warnings[-1] == {"id": "action_unknown_more", "values": {"count": 3}}


@pytest.mark.parametrize(
    ("index", "memories", "told"), [(2, 2, True), (-1, 2, True), (-1, None, True), (5, None, False), (0, 0, True)]
)
def test_decisions_about_memories_that_do_not_exist(index: int, memories: int | None, told: bool) -> None:
    found = decision_warnings([result(1, (index, "store"), memories=memories), result(2, (0, "store"))])
    assert found == ([{"id": "decision_lost", "values": {"cases": 1}}] if told else [])


def test_trials_are_looked_at_too() -> None:
    trial = {"outputs": {"l1": [MEMORY], "l15": [{"memory_index": 1, "action": "stroe"}]}}
    found = decision_warnings([result(1, (0, "store"), trials=(trial, trial))])
    assert [warning["id"] for warning in found] == ["action_unknown_near", "decision_lost"]
