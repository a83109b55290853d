"""What a set of answered questions has to say besides sums: averages over types, what errors could hide, which figure
is the headline, each conversation by itself, and what saying nothing would earn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_memeval.results import CaseResult

#: Above this share of errors the figure that counts them as wrong is the headline.
MOST_ERRORS = 0.01
#: Tags by which a question is told whose right reply is a refusal.
REFUSALS = frozenset({"adversarial", "abstention"})
#: Section → its figures that errors are counted against.
BOUNDED: Mapping[str, tuple[str, ...]] = {
    "qa": ("judge_score", "f1", "exact_match"),
    "locomo": ("f1_official",),
    "longmemeval": ("accuracy",),
}
#: Section → its figures that are null without a judge.
JUDGED: Mapping[str, tuple[str, ...]] = {"qa": ("judge_score",), "longmemeval": ("accuracy",)}
_BY_TYPE = "_by_type"
#: Question types in report order.
TYPES: tuple[str, ...] = (
    *("single_hop", "multi_hop", "temporal", "open_domain", "adversarial"),
    *("single_session_user", "single_session_assistant", "single_session_preference"),
    *("multi_session", "temporal_reasoning", "knowledge_update"),
)


def adversarial_counts(protocol: Mapping[str, Any] | None) -> bool:
    """Whether the run was asked to have LoCoMo's category 5 among the figures over answers."""
    return bool((protocol or {}).get("adversarial_in_headline"))


def is_left_out(record: CaseResult, *, adversarial: bool) -> bool:
    """Whether the question is none that the figures over answers are about; ``adversarial``: those are."""
    return bool(REFUSALS.intersection(record.tags)) and not (adversarial and "adversarial" in record.tags)


def derived_figures(
    section: str, body: Mapping[str, Any], records: Iterable[CaseResult], *, adversarial: bool = False
) -> dict[str, Any]:
    """``task_averaged {metric: unweighted mean over question types}`` and ``errors_as_wrong {metric: value}``, the
    figure with every question that could not be measured counted as 0. Both hold only what was measured.
    ``adversarial`` as :func:`adversarial_counts` says."""
    if section not in BOUNDED:
        return {}
    averaged = {
        name.removesuffix(_BY_TYPE): _mean(values.values())
        for name, values in body.items()
        if name.endswith(_BY_TYPE) and isinstance(values, Mapping)
    }
    bounds = {}
    ordered = list(records)
    for metric in BOUNDED[section]:
        value, size = body.get(metric), body["n"].get(metric)
        if value is not None and size is not None:
            missing = len(unmeasured(section, metric, ordered, adversarial=adversarial))
            bounds[metric] = value * size["units"] / (size["units"] + missing)
    # What only a judge can say has its place without one, too.
    unjudged = {name: None for name in JUDGED.get(section, ()) if name not in body}
    return {**unjudged, "task_averaged": averaged, "errors_as_wrong": bounds}


def unmeasured(
    section: str, metric: str, records: Iterable[CaseResult], *, adversarial: bool = False
) -> list[CaseResult]:
    """The errored questions that the metric is about and that have no value of it."""
    return [
        record
        for record in records
        if record.kind == "qa"
        and record.outcome == "errored"
        and _concerns(section, metric, record, adversarial=adversarial)
        and (section not in record.sections or metric not in record.sections[section].ratios)
    ]


def _concerns(section: str, metric: str, record: CaseResult, *, adversarial: bool) -> bool:
    if section != "qa":
        return True
    # LongMemEval counts its abstention questions among the judged ones; a refusal has no text to compare.
    if metric == "judge_score":
        return adversarial or "adversarial" not in record.tags
    return not is_left_out(record, adversarial=adversarial)


def question_report(
    records: Sequence[CaseResult], sections: Mapping[str, Any], protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """What stands in a QA set's report beside its sections.

    ``headline {metric, value, basis, errors, error_rate}``: the judge's score where there is one, else F1, with errors
    as wrong where they are more than one in a hundred; ``categories``: a row a question type;
    ``answerable {n, errors}``: of all questions that have an answer (or count as if they had); ``by_conversation``;
    ``always_refuse``: what an answerer would get that refuses every question; ``ceiling``: what wrong labels leave
    reachable, ``None`` without an errata file; ``single_run``: whether answers and verdicts come from fewer than three
    trials; ``clusters``: how many conversations or haystacks there are, texts that are the same counted once.
    """
    body = sections.get("qa") or {}
    return {
        "headline": _headline(body, records, adversarial=adversarial_counts(protocol)),
        "categories": [
            _category(kind, records, body, adversarial=adversarial_counts(protocol)) for kind in _types(records)
        ],
        "answerable": _answerable(records, protocol),
        "by_conversation": _by_conversation(records),
        "always_refuse": _always_refuse(records, sections),
        "ceiling": _ceiling(records, protocol),
        "single_run": int(protocol.get("trials", 1)) < 3,
        "clusters": len({record.cluster for record in records}),
        "errors": sum(record.outcome == "errored" for record in records),
    }


def _headline(body: Mapping[str, Any], records: Sequence[CaseResult], *, adversarial: bool) -> dict[str, Any] | None:
    metric = next((name for name in ("judge_score", "f1") if body.get(name) is not None), None)
    if metric is None:
        return None
    errors = len(unmeasured("qa", metric, records, adversarial=adversarial))
    units = body["n"][metric]["units"]
    rate = errors / (units + errors)
    basis = "errors_as_wrong" if rate > MOST_ERRORS else "measured"
    value = body["errors_as_wrong"][metric] if basis == "errors_as_wrong" else body[metric]
    return {
        "metric": metric,
        "value": value,
        "basis": basis,
        "measured": body[metric],
        "errors_as_wrong": body["errors_as_wrong"][metric],
        "interval": body["intervals"].get(metric),
        "n": units,
        "clusters": body["n"][metric]["clusters"],
        "errors": errors,
        "error_rate": rate,
    }


def _types(records: Iterable[CaseResult]) -> list[str]:
    """Question types in the benchmarks' order, others behind them."""
    present = {type_of(record) for record in records}
    return [*(kind for kind in TYPES if kind in present), *sorted(present.difference(TYPES))]


def type_of(record: CaseResult) -> str:
    """A question's type: its first tag."""
    return record.tags[0] if record.tags else "unspecified"


def _answerable(records: Iterable[CaseResult], protocol: Mapping[str, Any]) -> dict[str, int]:
    """How many questions the figures over all of them are about, errored ones among them, and how many errored."""
    own = [one for one in records if not is_left_out(one, adversarial=adversarial_counts(protocol))]
    return {"n": len(own), "errors": sum(record.outcome == "errored" for record in own)}


def _category(
    kind: str, records: Sequence[CaseResult], body: Mapping[str, Any], *, adversarial: bool
) -> dict[str, Any]:
    own = [record for record in records if type_of(record) == kind]
    row: dict[str, Any] = {
        "type": kind,
        "n": len(own),
        "errors": sum(record.outcome == "errored" for record in own),
    }
    for name in ("judge_score", "f1", "bleu1", "rougeL", "exact_match"):
        row[name] = (body.get(f"{name}{_BY_TYPE}") or {}).get(kind)
        row[f"{name}_interval"] = body.get("intervals", {}).get(f"{name}{_BY_TYPE}.{kind}")
    refused = [_ratio(record, name) for record in own for name in ("adversarial_accuracy", "abstention_accuracy")]
    row["refused"] = _quotient(refused)
    row["errors_as_wrong"] = _type_bound(kind, own, row, body, adversarial=adversarial)
    row["session_recall"] = _quotient([_ratio(record, "session_recall") for record in own])
    row["turn_recall"] = _quotient([_ratio(record, "turn_recall") for record in own])
    return row


def _type_bound(
    kind: str,
    own: Sequence[CaseResult],
    row: Mapping[str, Any],
    body: Mapping[str, Any],
    *,
    adversarial: bool,
) -> float | None:
    """The type's share of the headline figure with its errored questions as wrong; of questions that none of it is
    about, the share that was refused."""
    metric = next((name for name in ("judge_score", "f1") if body.get(name) is not None), None)
    if metric is not None and row[metric] is not None:
        about = [one for one in own if metric == "judge_score" or not is_left_out(one, adversarial=adversarial)]
        name, value = f"{metric}{_BY_TYPE}.{kind}", row[metric]
    else:
        about = [one for one in own if REFUSALS.intersection(one.tags)]
        name, value = f"{'adversarial' if kind == 'adversarial' else 'abstention'}_accuracy", row["refused"]
    if value is None:
        return None
    units = math.fsum(_ratio(one, name)[1] for one in about)
    missing = sum(one.outcome == "errored" and not _ratio(one, name)[1] for one in about)
    return float(value) * units / (units + missing) if units else None


def _by_conversation(records: Sequence[CaseResult]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[CaseResult]] = {}
    for record in records:
        groups.setdefault(record.cluster, []).append(record)
    if len(groups) == len(records):
        return {}  # every question has a text of its own: the cases say it all
    names = ("judge_score", "f1", "adversarial_accuracy", "turn_recall")
    return {
        cluster: {
            "n": len(own),
            "errors": sum(record.outcome == "errored" for record in own),
            **{name: _quotient([_ratio(record, name) for record in own]) for name in names},
        }
        for cluster, own in sorted(groups.items())
    }


def _always_refuse(records: Sequence[CaseResult], sections: Mapping[str, Any]) -> dict[str, float]:
    """By section's figure: refusing everything is right where a refusal is, and nowhere else."""
    asked = [record for record in records if record.outcome != "skipped"]
    refusals = sum(bool(REFUSALS.intersection(record.tags)) for record in asked)
    found: dict[str, float] = {}
    if refusals:
        kind = "adversarial" if any("adversarial" in record.tags for record in asked) else "abstention"
        found[f"qa.{kind}_accuracy"] = 1.0
        if sections.get("locomo"):
            found["locomo.f1_official"] = refusals / len(asked)
        if sections.get("longmemeval"):
            found["longmemeval.accuracy"] = refusals / len(asked)
    return found


def _ceiling(records: Sequence[CaseResult], protocol: Mapping[str, Any]) -> dict[str, Any] | None:
    """Questions with an answer whose published one is wrong: an answerer that is always right misses those."""
    if not protocol.get("errata"):
        return None
    own = [record for record in records if not REFUSALS.intersection(record.tags) and record.outcome != "skipped"]
    wrong = sum("wrong_label" in record.tags for record in own)
    return {"n": len(own), "wrong_labels": wrong, "value": 1 - wrong / len(own) if own else None}


def _ratio(record: CaseResult, name: str) -> tuple[float, float]:
    section = record.sections.get("qa")
    pair = section.ratios.get(name, (0.0, 0.0)) if section is not None else (0.0, 0.0)
    return pair if all(math.isfinite(one) for one in pair) else (0.0, 0.0)


def _quotient(pairs: Sequence[tuple[float, float]]) -> float | None:
    below = math.fsum(pair[1] for pair in pairs)
    return math.fsum(pair[0] for pair in pairs) / below if below else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
