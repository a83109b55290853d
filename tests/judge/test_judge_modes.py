from __future__ import annotations

from enum import StrEnum

import pytest

from pytest_memeval.assets.prompts import JUDGE_STAGES
from pytest_memeval.judge.modes import MODES, RULE_MODE, mode_for, prompt_stage


class Kind(StrEnum):
    UPDATE = "knowledge_update"


@pytest.mark.parametrize(
    ("question_type", "question_id", "mode"),
    [
        ("single_hop", "q1", "continuous"),
        ("multi_hop", "", "continuous"),
        ("temporal", "", "continuous"),
        ("open_domain", "", "continuous"),
        ("adversarial", "", "adversarial"),
        ("single_session_user", "", "default_binary"),
        ("single_session_assistant", "", "default_binary"),
        ("single_session_preference", "", "preference"),
        ("single-session-preference", "", "preference"),
        ("multi_session", "", "default_binary"),
        ("temporal_reasoning", "", "temporal_reasoning"),
        (Kind.UPDATE, "", "knowledge_update"),
        (Kind.UPDATE, "f4f1d8a4_abs", "abstention"),
        ("my_own", "", "default_binary"),
        (None, "", "default_binary"),
    ],
)
def test_auto_goes_by_question_type(question_type: object, question_id: str, mode: str) -> None:
    assert mode_for(question_type, question_id) == mode


def test_a_mode_named_is_taken() -> None:
    assert mode_for("adversarial", "q_abs", "preference") == "preference"
    with pytest.raises(ValueError, match="did you mean 'preference'"):
        mode_for("adversarial", "", "preferences")


def test_every_mode_that_asks_has_its_prompt() -> None:
    assert {prompt_stage(mode) for mode in MODES if mode != RULE_MODE} == set(JUDGE_STAGES)
