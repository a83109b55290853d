"""Controls of the judge inside a run: how far its verdicts can be trusted, and what the run's accuracy is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_memeval.results import CaseResult

if TYPE_CHECKING:
    from pytest_memeval.judge.protocol import NamedJudge


def controls_of(judge: NamedJudge, records: Iterable[CaseResult], wanted: int) -> dict[str, Any] | None:
    """The report's ``judge.controls``: ``wanted`` known-right and known-wrong answers to the run's own questions, put
    to its judge, and with ``accuracy`` the corrected share of right answers. ``None`` where nothing was judged."""
    from pytest_memeval.judge.controls import ControlQuestion, can_be_controlled
    from pytest_memeval.judge.modes import mode_for
    from pytest_memeval.judge.trust import check_judge, corrected_accuracy

    judged = [
        record
        for record in sorted(records, key=lambda record: record.node_id)
        if record.kind == "qa" and "judge_score" in getattr(record.sections.get("qa"), "ratios", {})
    ]
    if not judged:
        return None
    outputs = [record.outputs["qa"] for record in judged]
    questions = [
        ControlQuestion(
            output["question_id"],
            record.tags[0],
            output["question"],
            output["truth"],
            output.get("question_date") or None,
        )
        for record, output in zip(judged, outputs, strict=True)
    ]
    trust = check_judge(judge, questions, wanted)
    controlled = [
        (record.sections["qa"].ratios["judge_score"][0], f"{record.set}::{record.cluster}")
        for record, question in zip(judged, questions, strict=True)
        if can_be_controlled(mode_for(question.question_type, question.question_id))
    ]
    accuracy = corrected_accuracy(
        [score for score, _ in controlled], trust, clusters=[cluster for _, cluster in controlled]
    )
    return {**trust.to_json(), "accuracy": accuracy.to_json()}


def is_untrusted(judge: Mapping[str, Any] | None) -> bool:
    """Whether controls were asked for and did not show that the judge can be trusted."""
    controls = (judge or {}).get("controls")
    return bool(controls) and (controls or {}).get("trustworthy") is not True


def goes_by_judge(section: str, metric: str) -> bool:
    """Whether a metric's value comes from the judge's verdicts on answers."""
    return (section == "qa" and metric.startswith("judge_score")) or (
        section == "longmemeval" and ("accuracy" in metric)
    )
