"""What a run of several trials says: how far a case's figures spread, what passed, where the variance lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_memeval.metrics.trials import pass_at_k, pass_hat_k, split_variance
from pytest_memeval.report.messages import text
from pytest_memeval.results import CaseResult

#: The figures whose variance is split.
SPLIT: tuple[tuple[str, str], ...] = (
    ("l1", "dimension_micro_f1"),
    ("l1", "strict_match_rate"),
    ("l1", "memory_recall"),
    ("l1", "memory_precision"),
    ("l15", "action_accuracy"),
    ("l2", "section_hit_rate"),
    ("l2", "scene_grouping_f1"),
    ("inject", "reference_coverage"),
    ("qa", "judge_score"),
    ("qa", "f1"),
    ("rag", "faithfulness"),
    ("rag", "answer_relevancy"),
)


def spread_of(trials: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """A case's figures over its scored trials: mean, standard deviation (n - 1), lowest, highest. Figures that were not
    measured in two of them are left out."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial["outcome"] != "scored":
            continue
        for section, ratios in trial["ratios"].items():
            for name, (numerator, denominator) in ratios.items():
                if not name.startswith("_") and "." not in name and denominator and numerator is not None:
                    found.setdefault(f"{section}.{name}", []).append(numerator / denominator)
    return {
        name: {
            "trials": len(values),
            "mean": math.fsum(values) / len(values),
            "sd": statistics.stdev(values),
            "low": min(values),
            "high": max(values),
        }
        for name, values in found.items()
        if len(values) > 1 and all(map(math.isfinite, values))
    }


def trials_of(records: Sequence[CaseResult]) -> dict[str, Any] | None:
    """The report's part on trials; ``None`` for a run in which no case was measured more than once.

    Cases with an errored trial are counted and left out of everything else: their figures are not those of K trials.
    """
    own = [record for record in records if record.trials]
    if not own:
        return None
    whole = [record for record in own if all(trial["outcome"] == "scored" for trial in record.trials)]
    count = max(len(record.trials) for record in own)
    whole = [record for record in whole if len(record.trials) == count]
    return {
        "count": count,
        "cases": len(own),
        "errored_cases": sum(record.outcome == "errored" for record in own),
        "variance": dict(_variance(whole)),
        "expect": _passes(whole, count),
    }


def _variance(records: Sequence[CaseResult]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    for section, name in SPLIT:
        groups: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
        for record in records:
            if all(name in trial["ratios"].get(section, {}) for trial in record.trials):
                own = [tuple(trial["ratios"][section][name]) for trial in record.trials]
                # What shares a text varies together: questions about one conversation are one unit.
                groups.setdefault((record.set, record.cluster or record.node_id), []).append(own)
        numbers = (number for cases in groups.values() for case in cases for pair in case for number in pair)
        if not groups or any(number is None for number in numbers):
            continue
        figures = [_added(cases) for cases in groups.values()]
        split = split_variance(figures)
        if split is not None:
            yield f"{section}.{name}", {**asdict(split), "share_within": split.share_within, "advice": split.advice}


def _added(cases: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Each trial's numerators and denominators, added up over cases."""
    return [
        (math.fsum(pair[0] for pair in trial), math.fsum(pair[1] for pair in trial))
        for trial in zip(*cases, strict=True)
    ]


def _passes(records: Sequence[CaseResult], count: int) -> dict[str, Any] | None:
    """pass^k and pass@k for k up to the number of trials, averaged over the cases with thresholds of their own."""
    passed = [
        sum(bool(trial["passed"]) for trial in record.trials)
        for record in records
        if all(trial["passed"] is not None for trial in record.trials)
    ]
    if not passed:
        return None
    ks = range(1, count + 1)
    return {
        "cases": len(passed),
        "pass_hat": {str(k): math.fsum(pass_hat_k(one, count, k) for one in passed) / len(passed) for k in ks},
        "pass_at": {str(k): math.fsum(pass_at_k(one, count, k) for one in passed) / len(passed) for k in ks},
    }


def trial_sentences(report: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The same in sentences, for the terminal and the Markdown report."""
    trials = report.get("trials")
    if not trials:
        return
    yield text("trials.head", lang, count=trials["count"], cases=trials["cases"], errored=trials["errored_cases"])
    expect = trials["expect"]
    if expect is not None:
        k = str(trials["count"])
        values = {"all": expect["pass_hat"][k], "one": expect["pass_at"][k], "single": expect["pass_hat"]["1"]}
        yield text("trials.expect", lang, k=k, cases=expect["cases"], **values)
    stability = (report.get("l2") or {}).get("scene_stability")
    if stability is not None:
        yield text("trials.stability", lang, value=stability)
    for path, split in trials["variance"].items():
        if split["share_within"] is None:
            continue
        yield text(
            f"trials.split_{split['advice']}",
            lang,
            path=path,
            share=split["share_within"],
            error=split["error"],
            cases=split["error_twice_cases"],
            trials=split["error_twice_trials"],
        )
