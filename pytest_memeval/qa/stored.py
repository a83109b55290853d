"""Questions scored again from what a run kept of them: nobody is asked, nothing is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_memeval.datasets.models import QAPair
from pytest_memeval.judge.modes import RULE_MODE, mode_for
from pytest_memeval.judge.refusal import is_unanswerable
from pytest_memeval.kinds import described
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.outputs import OutputError
from pytest_memeval.qa.cases import QACase, QASet
from pytest_memeval.qa.kept import relabelled
from pytest_memeval.qa.memories import UNRANKED
from pytest_memeval.qa.scoring import CUTOFFS, Answered, Ratios, score
from pytest_memeval.results import CaseError, CaseResult, StageStatus

#: Figures over everything that was retrieved: no cut-off bounds them, or, of sessions, one of sessions.
_OVER_ALL = frozenset(
    {
        *("turn_recall", "session_recall", "recall_official", "recall_official_by_category"),
        *(f"session_{name}@{k}" for name in ("recall", "hit") for k in CUTOFFS),
        *(f"{name}@{k}" for name in ("recall_any", "recall_all", "ndcg_any") for k in CUTOFFS),
    }
)
_CORRECTED = "_corrected"
#: Figures that fail with the judge's verdict on the published truth, and on the corrected one, by section.
JUDGED: Mapping[str, tuple[str, ...]] = {
    "qa": ("judge_score", "judge_score_by_type", "judge_score_corrected"),
    "longmemeval": ("accuracy", "accuracy_by_type", "abstention_accuracy"),
}


def failed_by_verdict(*, longmemeval: bool, corrected: bool = False) -> tuple[str, ...]:
    """Names (``section.metric``) of the figures that are missing without the judge's verdict."""
    if corrected:
        return ("qa.judge_score_corrected",)
    sections = ("qa", "longmemeval") if longmemeval else ("qa",)
    return tuple(f"{section}.{name}" for section in sections for name in JUDGED[section])


def statuses_of(sections: Mapping[str, SectionRecord], failed: Collection[str]) -> dict[str, StageStatus]:
    """What became of stage ``qa``. Where only the judge failed, everything else was measured, and counts."""
    if not failed:
        return {"qa": "scored"}
    measured = {
        f"{name}.{metric.partition('.')[0].partition('@')[0]}"
        for name, section in sections.items()
        for metric in section.ratios
    }
    scored: dict[str, StageStatus] = dict.fromkeys(sorted(measured), "scored")
    return {**scored, "qa": "errored", **dict.fromkeys(failed, "errored")}


def restored_sections(
    record: CaseResult, case: QACase, format_name: str, *, memory: str, adversarial_counts: bool, errata: bool
) -> dict[str, SectionRecord]:
    """The figures of a question that an earlier run has answered, for a run that goes on with it. Raises OutputError
    where they cannot be had from what was kept."""
    if "qa" not in record.sections:
        raise OutputError("the question was not answered")
    judged = any(name.startswith("judge_score") for name in record.sections["qa"].ratios)
    found, stale = _answered(record, case.pair, judged=judged, memory=memory)
    if stale:
        raise OutputError("a verdict is missing")
    return _sections(record, case.pair, found, format_name, adversarial_counts=adversarial_counts, errata=errata)


def rescored(record: CaseResult, case: QACase, case_set: QASet, protocol: Mapping[str, Any]) -> CaseResult:
    """The record with today's labels, in its figures and in what it shows of the question. A question that was not
    answered stays what it was; a verdict on another question or truth than today's is an error of the judge's score
    alone. Raises OutputError for damaged outputs."""
    dataset = case_set.dataset
    assert dataset is not None
    own = described(case, record.kind, record.node_id, record.set)
    if "qa" not in record.sections:
        return replace(record, **own)
    format_name = dataset.format
    found, stale = _answered(
        record, case.pair, judged=protocol.get("judge") is not None, memory=str(protocol.get("memory"))
    )
    sections = _sections(
        record,
        case.pair,
        found,
        format_name,
        adversarial_counts=bool(protocol.get("adversarial_in_headline")),
        errata=case_set.extra["protocol"]["errata"] is not None,
    )
    sectioned = tuple(f"{name}." for name in JUDGED)
    failed = {name for name, was in record.stages.items() if was == "errored" and name.startswith(sectioned)}
    errors = list(record.errors)
    for corrected in stale:
        failed.update(failed_by_verdict(longmemeval=format_name == "longmemeval", corrected=corrected))
    if stale:
        what = "corrected answer" if stale == [True] else "question and truth"
        errors.append(CaseError("qa", "not_recorded", f"the run kept no verdict on the {what} as labelled now"))
    statuses = statuses_of(sections, failed) if failed else {"qa": record.stages.get("qa", "scored")}
    return replace(
        record,
        **own,
        outcome="errored" if errors else "scored",
        stages=statuses,
        sections=sections,
        errors=tuple(errors),
        outputs={
            **record.outputs,
            "qa": relabelled(_output(record), case.pair, lambda: dataset.read(case.sample), stale=stale),
        },
    )


def _output(record: CaseResult) -> Mapping[str, Any]:
    output = record.outputs.get("qa")
    if not isinstance(output, Mapping):
        raise OutputError("stage qa has no output")
    for name, kind in (("answer", str), ("sources", list), ("sources_in_all", int), ("context_tokens", int)):
        if not isinstance(output.get(name), kind):
            raise OutputError(f"stage qa: {name!r} must be {kind.__name__}, not {type(output.get(name)).__name__}")
    arms = output.get("arms") or {}
    if not isinstance(arms, Mapping) or not all(isinstance(one, str) for one in (*output["sources"], *arms.values())):
        raise OutputError("stage qa: 'sources' must be a list of texts, 'arms' texts by name")
    return output


def _answered(record: CaseResult, pair: QAPair, *, judged: bool, memory: str) -> tuple[Answered, list[bool]]:
    """What the run found out, and of which truths (the published: False, the corrected: True) it kept no verdict."""
    output = _output(record)
    sources: list[str] | None = list(output["sources"])
    # Hits that name no message are no empty ranking: there is nothing to measure.
    if not sources and output.get("hits", output["context_tokens"]):
        sources = None
    found = Answered(
        answer=output["answer"],
        sources=sources,
        ranked=memory not in UNRANKED,
        context_tokens=output["context_tokens"],
        arms=dict(output.get("arms") or {}),
    )
    mode = mode_for(pair.question_type, pair.question_id)
    if not judged:
        return found, []
    if mode == RULE_MODE:
        return replace(found, judged=float(is_unanswerable(found.answer))), []
    scores = record.sections["qa"].ratios
    unchanged = output.get("question") == pair.question and output.get("truth") == pair.answer
    unchanged = unchanged and all(one.get("mode") == mode for one in output.get("verdicts") or ())
    stale: list[bool] = []
    if "judge_score" in scores and unchanged:
        found = replace(found, judged=scores["judge_score"][0])
    elif "judge_score" in scores:
        stale.append(False)
    if pair.corrected_answer is None:
        return found, stale
    name = f"judge_score{_CORRECTED}"
    if name in scores and unchanged and output.get("corrected_truth") == pair.corrected_answer:
        found = replace(found, judged_corrected=scores[name][0])
    elif record.stages.get(f"qa.{name}") != "errored":
        stale.append(True)
    return found, stale


def _sections(
    record: CaseResult, pair: QAPair, found: Answered, format_name: str, *, adversarial_counts: bool, errata: bool
) -> dict[str, SectionRecord]:
    sections = score(pair, found, format_name, adversarial_counts=adversarial_counts, errata=errata)
    output = _output(record)
    if output["sources_in_all"] <= len(output["sources"]):
        return sections
    # Only the first sources were kept: what is over all of them is the run's own, where it is about the same evidence.
    same = {"": output.get("evidence_turns", list(pair.evidence)) == list(pair.evidence)}
    same[""] = same[""] and list(output.get("evidence") or ()) == list(pair.raw_evidence)
    same[_CORRECTED] = same[""] and output.get("corrected_evidence") == _listed(pair.corrected_evidence)
    return {
        name: replace(section, ratios=_with_kept(section.ratios, record.sections.get(name), same))
        for name, section in sections.items()
    }


def _with_kept(ratios: Mapping[str, Any], before: SectionRecord | None, same: Mapping[str, bool]) -> Ratios:
    kept = {name: value for name, value in ratios.items() if not _over_all(name)}
    for name, value in (before.ratios if before is not None else {}).items():
        if _over_all(name) and name in ratios and same[_CORRECTED if _CORRECTED in name else ""]:
            kept[name] = value
    return kept


def _over_all(name: str) -> bool:
    return name.replace(_CORRECTED, "").partition(".")[0] in _OVER_ALL


def _listed(value: Any) -> list[Any] | None:
    return None if value is None else list(value)
