"""A finished case from an earlier run's record, in the place of running it."""

from __future__ import annotations

from typing import Any

from pytest_memeval.measuring.repeated_ids import repeated_in
from pytest_memeval.outputs import OutputError, Outputs
from pytest_memeval.results import CaseResult
from pytest_memeval.runner import CaseRun


def restore(run: CaseRun, record: CaseResult) -> bool:
    """Put the record's stage outputs in the place of the case's stages, scored by today's options. False, and nothing
    changed, where a stage that the case needs is not in it."""
    try:
        outputs = Outputs.from_json(record.outputs, record.facts)
    except OutputError:
        return False
    if repeated_in(run.case, outputs, chained=run.settings.chained) is not None:
        return False
    if any(record.stages.get(stage) not in ("scored", "ran") for stage in run.plan.run):
        return False
    calls: dict[str, list[Any]] = {stage: [] for stage in run.plan.run}
    for call in record.calls:
        parts = call.id.rsplit("/", 2)
        own = parts[1] if len(parts) == 3 and parts[1] in calls else run.plan.run[-1]
        calls[own].append(call)
    run.outputs.facts.extend(outputs.facts)
    for stage in run.plan.run:
        run.restore(stage, outputs.of(stage), calls[stage], record.timings.get(stage, 0.0))
    return True
