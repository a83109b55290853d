"""The record of a case that was measured several times: its trials put together, and taken apart again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_memeval.custom_metrics import SECTION
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.trials import average_records
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageStatus

#: Statuses of a stage, that first which one trial is enough for.
_WORST_FIRST: tuple[StageStatus, ...] = (
    "errored", "ran_errored", "void", "unsupported", "unselected", "skipped", "no_truth", "ran", "scored",
)  # fmt: skip
#: Between an item's label and the number of its trial in the ids of calls.
TRIAL_LABEL = "/trial-"


def averaged_sections(trials: Sequence[Mapping[str, SectionRecord]]) -> dict[str, SectionRecord]:
    """Each section's average over the trials; one that a trial lacks is left out."""
    names = [name for name in trials[0] if all(name in trial for trial in trials)]
    return {name: average_records([trial[name] for trial in trials]) for name in names}


def measured_alone(
    sections: Mapping[str, SectionRecord], statuses: Mapping[str, StageStatus]
) -> dict[str, SectionRecord]:
    """The sections without the metrics that have a status of their own and failed in some trial: the average of the
    trials that are left would pass for the case's."""

    def failed(section: str, metric: str) -> bool:
        return statuses.get(f"{section}.{metric.partition('.')[0].partition('@')[0]}") == "errored"

    return {
        name: replace(
            section, ratios={metric: pair for metric, pair in section.ratios.items() if not failed(name, metric)}
        )
        for name, section in sections.items()
    }


def trial_label(label: str, trial: int) -> str:
    """The label of a trial of an item: the first one's is the item's own."""
    return f"{label}{TRIAL_LABEL}{trial}" if trial else label


def errors_of_trials(trials: Sequence[Sequence[CaseError]]) -> tuple[CaseError, ...]:
    """Every trial's errors, each once, with the trials that it happened in."""
    where: dict[CaseError, list[int]] = {}
    for number, errors in enumerate(trials, 1):
        for error in errors:
            where.setdefault(error, []).append(number)
    return tuple(tagged(error, numbers, len(trials)) for error, numbers in where.items())


def worst_statuses(trials: Sequence[Mapping[str, StageStatus]]) -> dict[str, StageStatus]:
    """What each stage, and each metric with a status of its own, is in a case. A metric that a trial says nothing of is
    there what its stage is."""
    names = dict.fromkeys(name for statuses in trials for name in statuses)
    found = {name: [_status(statuses, name) for statuses in trials] for name in names}
    return {name: worst(one for one in own if one is not None) for name, own in found.items()}


def _status(statuses: Mapping[str, StageStatus], name: str) -> StageStatus | None:
    return statuses.get(name) or statuses.get(name.partition(".")[0])


def worst(statuses: Iterable[StageStatus]) -> StageStatus:
    """What a stage is in a case, by what it is in the trials."""
    return min(statuses, key=_WORST_FIRST.index)


def tagged(error: CaseError, numbers: Sequence[int], trials: int) -> CaseError:
    """The error with the trials (from 1) that it happened in."""
    where = f"trial {numbers[0]}" if len(numbers) == 1 else f"trials {', '.join(map(str, numbers))}"
    return replace(error, message=f"{where} of {trials}: {error.message}")


def single_records(record: CaseResult) -> list[CaseResult]:
    """The record of each trial as that of a case by itself, with its own calls."""
    found = []
    for trial in record.trials:
        number = trial["trial"]
        calls = [call for call in record.calls if _trial_of(call, record.node_id) == number]
        first = number == 0
        found.append(
            replace(
                record,
                outcome=trial["outcome"],
                stages=dict(trial["stages"]),
                sections=_own_sections(trial) if "sections" in trial else record.sections,
                errors=tuple(CaseError(**error) for error in trial["errors"]),
                outputs=record.outputs if first else trial["outputs"] or {},
                facts=record.facts if first else tuple(trial["facts"] or ()),
                calls=tuple(calls),
                timings=record.timings if first else {},
                duration_seconds=record.duration_seconds if first else 0.0,
                missed_expectations=(),
                trials=(),
            )
        )
    return found


def _own_sections(trial: Mapping[str, Any]) -> dict[str, SectionRecord]:
    """A trial's sections, whose ratios stand apart from what else is in them."""
    return {
        name: SectionRecord.from_json({**rest, "ratios": trial["ratios"].get(name, {})})
        for name, rest in trial["sections"].items()
    }


def trial_record(number: int, part: CaseResult) -> dict[str, Any]:
    """A trial's own result, in the JSON form that a case's record keeps of it. The first one's outputs and facts are
    those of the case."""
    first = number == 0
    return {
        "trial": number,
        "outcome": part.outcome,
        "passed": None if part.errors or not part.has_expectations else not part.missed_expectations,
        "errors": _listed(part.errors),
        "stages": dict(part.stages),
        **_figures(part.sections),
        "outputs": None if first else dict(part.outputs),
        "facts": None if first else [dict(fact) for fact in part.facts],
    }


def _figures(sections: Mapping[str, SectionRecord]) -> dict[str, Any]:
    ratios, rest = {}, {}
    for name, section in sections.items():
        data = section.to_json()
        ratios[name] = data.pop("ratios")
        rest[name] = {key: data[key] for key in ("counts", "tables", "details", "shares") if key in data}
    return {"ratios": ratios, "sections": rest}


def _listed(errors: Iterable[CaseError]) -> list[dict[str, str]]:
    return [{"stage": error.stage, "kind": error.kind, "message": error.message} for error in errors]


def _trial_of(call: CallRecord, node_id: str) -> int:
    # A case's own id may look like a trial's.
    _, found, rest = call.id.removeprefix(node_id).rpartition(TRIAL_LABEL)
    number = rest.partition("/")[0]
    return int(number) if found and number.isdigit() else 0


def together(record: CaseResult, parts: Sequence[CaseResult]) -> CaseResult:
    """A case's record from those of its trials, scored anew: what a stage is in any trial worst, it is in the case."""
    errors = errors_of_trials([part.errors for part in parts])
    statuses = worst_statuses([part.stages for part in parts])
    sections = measured_alone(averaged_sections([part.sections for part in parts]), statuses)
    before = record.sections.get("l2")
    if before is not None and "l2" in sections and "scene_stability" in before.ratios:
        ratios = {**sections["l2"].ratios, "scene_stability": before.ratios["scene_stability"]}
        sections["l2"] = replace(sections["l2"], ratios=ratios)
    trials = tuple(
        {
            **trial,
            "outcome": part.outcome,
            "passed": None if part.errors or not part.has_expectations else not part.missed_expectations,
            "errors": _listed(part.errors),
            "stages": dict(part.stages),
            "ratios": {
                # A project's own metrics are not computed anew: each trial keeps its own.
                name: trial["ratios"].get(name, {})
                if name == SECTION
                else {key: list(pair) for key, pair in section.ratios.items()}
                for name, section in part.sections.items()
            },
            **({"sections": _figures(part.sections)["sections"]} if "sections" in trial else {}),
            "outputs": None if trial["outputs"] is None else dict(part.outputs),
        }
        for trial, part in zip(record.trials, parts, strict=True)
    )
    return replace(
        parts[0],
        outcome="errored" if errors else parts[0].outcome,
        stages=statuses,
        sections=sections,
        errors=errors,
        calls=record.calls,
        timings=record.timings,
        duration_seconds=record.duration_seconds,
        trials=trials,
    )
