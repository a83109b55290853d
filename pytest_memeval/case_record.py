"""The record of a case: what became of each stage, figures, errors, outputs, calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.results import CaseError, CaseResult, StageStatus
from pytest_memeval.truths import truth_stages
from pytest_memeval.values import DISTILL_STAGES

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.runner import CaseRun
    from pytest_memeval.settings.case import RunSettings
    from pytest_memeval.values import Message


def stage_statuses(run: CaseRun, *, cut_short: bool = True) -> dict[str, StageStatus]:
    """What became of every stage. One that was never run was voided, or, where nothing went wrong
    (``cut_short=False``), was not asked for: a hand-written test may use some of the stages only."""
    status: dict[str, StageStatus] = {}
    for stage in DISTILL_STAGES:
        result, scored = run.results.get(stage), stage in run.plan.scored
        idle = run.plan.idle.get(stage, "no_truth")
        if stage not in run.plan.run or (result is None and not scored) or idle == "unsupported":
            status[stage] = idle
        elif result is None:
            status[stage] = "void" if cut_short else "unselected"
        elif result.error is None:
            status[stage] = "scored" if scored else "ran"
        elif scored:
            status[stage] = "void" if result.error.kind == "void" else "errored"
        else:
            status[stage] = "ran_errored"
    return {**status, **run.metric_statuses}


def case_result(
    run: CaseRun,
    *,
    node_id: str,
    set_path: str,
    variant: str | None = None,
    extra_errors: Sequence[CaseError] = (),
    skipped: bool = False,
) -> CaseResult:
    """Everything recorded of the case, as far as it got."""
    run.complete()
    errors = (*run.errors, *extra_errors)
    missed = () if errors or skipped else tuple(run.missed())
    if missed and run.why_idle is not None:
        # Its own thresholds ask for figures that nothing in it can give.
        errors = (CaseError("expect", "not_measured", run.why_idle),)
    # A case that was skipped because there is nothing to score in it still tells why of each stage.
    touched = skipped and run.why_idle is None
    status = stage_statuses(run, cut_short=bool(errors) or touched)
    if touched:
        status = {stage: "skipped" if stage in run.plan.scored else why for stage, why in status.items()}
    return CaseResult(
        node_id=node_id,
        set=set_path,
        case_id=run.case.case_id,
        outcome="skipped" if skipped else "errored" if errors else "scored",
        variant=variant,
        kind=run.case.kind,
        source=run.case.source,
        difficulty=run.case.difficulty,
        tags=run.case.tags,
        line=run.case.line,
        content_hash=run.case.content_hash,
        stages=status,
        sections={} if skipped else run.sections(run.measured),
        errors=errors,
        missed_expectations=missed,
        has_expectations=bool(run.expectations()),
        input=case_input(run.case),
        outputs=run.outputs.to_json(),
        facts=tuple(run.outputs.facts),
        trials=() if skipped else run.trial_records(),
        calls=tuple(call for stage in DISTILL_STAGES if stage in run.results for call in run.results[stage].calls),
        duration_seconds=sum(result.seconds for result in run.results.values()),
        timings={
            **{stage: run.results[stage].seconds for stage in DISTILL_STAGES if stage in run.results},
            "waited": run.waited,
        },
    )


def case_input(case: EvalCase) -> dict[str, Any]:
    """The conversation, the memories that were there before it, and the later conversation that memories are injected
    into, in JSON form."""
    given: dict[str, Any] = {}
    if case.conversation:
        given["conversation"] = [_message(message) for message in case.conversation]
    if case.existing_memories:
        given["existing_memories"] = [
            {"memory_id": memory.id, "content": memory.content, "dimensions": list(memory.dimensions)}
            for memory in case.existing_memories
        ]
    inject = case.expected_inject
    if inject is not None and inject.subsequent_conversation:
        given["subsequent_conversation"] = [_message(message) for message in inject.subsequent_conversation]
    return given


def _message(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "role": message.role,
        **({"name": message.name} if message.name else {}),
        "content": message.content,
        **({"time": message.time.isoformat()} if message.time is not None else {}),
    }


def untouched_result(
    case: EvalCase,
    *,
    node_id: str,
    set_path: str,
    settings: RunSettings,
    errors: Sequence[CaseError] = (),
    skipped: bool = False,
    variant: str | None = None,
) -> CaseResult:
    """The record of a case of which no stage ran: skipped, invalid, or stopped in a fixture before the first."""
    status: dict[str, StageStatus] = {}
    truths = truth_stages(case)
    for stage in DISTILL_STAGES:
        if stage not in truths:
            status[stage] = "no_truth"
        elif settings.stages is not None and stage not in settings.stages:
            status[stage] = "unselected"
        else:
            status[stage] = "skipped" if skipped else "void"
    return CaseResult(
        node_id=node_id,
        set=set_path,
        case_id=case.case_id,
        outcome="skipped" if skipped else "errored",
        variant=variant,
        kind=case.kind,
        source=case.source,
        difficulty=case.difficulty,
        tags=case.tags,
        line=case.line,
        content_hash=case.content_hash,
        stages=status,
        errors=tuple(errors),
        has_expectations=bool(case.expect),
        input=case_input(case),
    )
