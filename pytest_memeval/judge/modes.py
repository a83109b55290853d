"""The ways of judging an answer, and which one a question calls for."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pytest_memeval.documents.problems import did_you_mean

#: - ``continuous``: a score from 0 to 1 by a rubric
#: - ``adversarial``: by rule: 1 for a refusal, 0 for an answer
#: - ``temporal_reasoning``: right or wrong, a count of days (weeks, …) that is off by one forgiven
#: - ``knowledge_update``: right or wrong, the latest state of a fact counts
#: - ``preference``: a score from 0 to 1, the truth is a rubric
#: - ``default_binary``: right or wrong
#: - ``abstention``: right or wrong, right is to notice that the question cannot be answered
Mode = Literal[
    "continuous",
    "adversarial",
    "temporal_reasoning",
    "knowledge_update",
    "preference",
    "default_binary",
    "abstention",
]
MODES: tuple[Mode, ...] = get_args(Mode)
#: Modes whose score is graded; the others give 0 or 1.
GRADED_MODES: frozenset[str] = frozenset({"continuous", "preference"})
#: The mode that asks no model.
RULE_MODE: Mode = "adversarial"

#: Question type → mode. The conversational types are graded; LongMemEval's are right or wrong, as it is published.
MODE_OF_TYPE: dict[str, Mode] = {
    "single_hop": "continuous",
    "multi_hop": "continuous",
    "temporal": "continuous",
    "open_domain": "continuous",
    "adversarial": "adversarial",
    "single_session_user": "default_binary",
    "single_session_assistant": "default_binary",
    "single_session_preference": "preference",
    "multi_session": "default_binary",
    "temporal_reasoning": "temporal_reasoning",
    "knowledge_update": "knowledge_update",
}
#: How LongMemEval marks questions that cannot be answered.
ABSTENTION_SUFFIX = "_abs"


def check_mode(mode: str) -> Mode:
    """The mode of this name. Raises ValueError naming the nearest one."""
    for known in MODES:
        if mode == known:
            return known
    raise ValueError(f"unknown judge mode {mode!r}{did_you_mean(mode, MODES)}")


def type_name(question_type: Any) -> str:
    """A question type, an enum's member or its text, as text."""
    return str(getattr(question_type, "value", question_type) or "")


def mode_for(question_type: Any, question_id: str = "", mode: str = "auto") -> Mode:
    """The mode for a question: ``mode`` itself, or for ``auto`` by type, ``_abs`` at the end of the id first.

    A type that is not known is ``default_binary``. Raises ValueError for an unknown mode.
    """
    if mode != "auto":
        return check_mode(mode)
    if question_id.endswith(ABSTENTION_SUFFIX):
        return "abstention"
    return MODE_OF_TYPE.get(type_name(question_type).replace("-", "_"), "default_binary")


def prompt_stage(mode: str) -> str:
    """The prompt stage of a mode that asks a model."""
    return f"judge_{mode}"
