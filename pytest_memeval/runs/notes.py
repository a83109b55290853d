"""What a run's calls have to tell its reader, in sentences for the report's notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_memeval.engine.predictions import RECORDED_OUTPUTS
from pytest_memeval.report.messages import text
from pytest_memeval.results import CallRecord, CaseResult

if TYPE_CHECKING:
    from pytest_memeval.settings.model import Settings


def call_notes(results: Iterable[CaseResult], settings: Settings) -> tuple[str, ...]:
    """Cases that wait for a batch, and a server that ended the run's asking; nothing where neither happened."""
    pending = refused = 0
    reasons: dict[str, None] = {}
    for result in results:
        kinds = {error.kind for error in result.errors}
        pending += "pending" in kinds
        if "quota_or_auth" in kinds:
            refused += 1
            reasons.update((error.message, None) for error in result.errors if error.kind == "quota_or_auth")
    return (*_pending_note(pending, settings), *_refused_note(refused, tuple(reasons)))


#: So many rows are named where more belong to no case.
_NAMED = 3


def prediction_notes(results: Iterable[CaseResult], settings: Settings, partial: str | None) -> tuple[str, ...]:
    """How many rows of the predictions file belong to no case. Nothing where not all cases were run: then most do."""
    if settings.predictions is None or partial is not None:
        return ()
    from pytest_memeval.engine.predictions import unmatched_rows

    cases = ((result.set, result.case_id) for result in results)
    rows = unmatched_rows(settings.predictions, cases, settings.variant_name)
    if not rows:
        return ()
    more = ", …" if len(rows) > _NAMED else ""
    named = ", ".join(rows[:_NAMED]) + more
    return (text("run_note.no_case", count=len(rows), file=settings.predictions.name, rows=named),)


def trial_notes(results: Iterable[CaseResult], settings: Settings) -> tuple[str, ...]:
    """How many cases were measured once though several trials were asked for."""
    if settings.trials < 2:
        return ()
    once = [result for result in results if not result.trials and result.outcome == "scored"]
    if not once:
        return ()
    return (text("run_note.once", count=len(once)),)


def repeated_notes(results: Iterable[CaseResult]) -> tuple[str, ...]:
    """Which cases of files count more than once, because tests with ``gate=True`` measure them, too."""
    times = Counter((result.set, result.case_id) for result in results if not result.set.endswith(".py"))
    often = sorted(case for case, count in times.items() if count > 1)
    if not often:
        return ()
    named = [f"{path}::{case_id} ({times[path, case_id]} times)" for path, case_id in often[:_NAMED]]
    more = ", …" if len(often) > _NAMED else ""
    return (text("run_note.repeated", count=len(often), cases=", ".join(named) + more),)


def _pending_note(count: int, settings: Settings) -> tuple[str, ...]:
    if not count:
        return ()
    from pytest_memeval.llm.batch import REQUESTS_FILE_NAME

    path = settings.cache_folder / REQUESTS_FILE_NAME
    return (text("run_note.pending", count=count, file=path),)


def _refused_note(count: int, reasons: tuple[str, ...]) -> tuple[str, ...]:
    if not count:
        return ()
    # Each process hears of it by itself; what they heard differs in the numbers at most.
    return (text("run_note.refused", count=count, why=min(reasons)),)


def model_info(model: Mapping[str, Any], results: Iterable[CaseResult]) -> dict[str, Any]:
    """The report's ``model``: what was asked for, and under which names (sorted, with commas) servers answered; empty
    for a run whose engine asked no model, so that it is not judged by one. Recorded outputs are those of the model that
    was asked for them."""
    results = list(results)
    if model and model.get("endpoint") == RECORDED_OUTPUTS:
        return dict(model)
    calls = [call for result in results for call in result.calls if not is_judging(call)]
    if not model or not calls:
        return {}
    provider = model.get("provider")
    served = {call.model for call in calls if call.model and call.provider == provider}
    return {**model, "served_model": ", ".join(sorted(served)) or None}


def judge_info(
    told: Mapping[str, Any] | None, results: Iterable[CaseResult], settings: Settings
) -> dict[str, Any] | None:
    """The report's ``judge``: who it was, with the hashes of its prompts, and under which names servers answered;
    ``None`` where nobody judged. ``told`` is what the cases' runs say of it themselves, if anything."""
    calls = [call for result in results for call in result.calls if is_judging(call)]
    if told is None and (not calls or settings.judge_model is None):
        return None
    if told is None:
        from pytest_memeval.assets.prompts import JUDGE_STAGES

        prompts = settings.load_prompts().resolve(settings.prompt_version, JUDGE_STAGES)
        told = {
            "model": settings.judge_model,
            "endpoint": settings.model_settings("judge").endpoint,
            "prompt_versions": prompts.versions,
            "prompt_hashes": prompts.hashes,
        }
    served = {call.model for call in calls if call.model}
    return {"controls": None, **told, "served_model": ", ".join(sorted(served)) or None}


def is_judging(call: CallRecord) -> bool:
    """Whether a call asked for a verdict."""
    return call.stage.startswith(("judge_", "rag_", "ragas_"))
