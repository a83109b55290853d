"""The comparison of two reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_memeval.compare.changes import case_changes, missing, newly, recovered
from pytest_memeval.compare.confusions import confusion_changes, prompt_changes
from pytest_memeval.compare.differences import metric_differences
from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.model import CaseNote, Comparison, MetricDifference, Side
from pytest_memeval.compare.pairing import pair_cases
from pytest_memeval.compare.settings import setting_differences, shared_files
from pytest_memeval.report.build import is_embedded
from pytest_memeval.report.reader import records_of
from pytest_memeval.report.tables import describe, engine_text, prompts_text
from pytest_memeval.results import CaseResult

#: What confusions between dimensions or actions depend on.
_CONFUSED = "l1.dimension_micro_f1"


def compare_reports(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    labels: tuple[str, str] = ("A", "B"),
    prompt_texts: Mapping[str, str] | None = None,
    records: tuple[Iterable[CaseResult], Iterable[CaseResult]] | None = None,
) -> Comparison:
    """Hold report ``b`` against report ``a`` (as :func:`~pytest_memeval.report.reader.load_report` gives them).

    Compared are the cases that both have with the same content, and in each metric those that both measured. What
    differs in matcher, judge, stage input or text metrics takes the metrics that depend on it out: their values are
    given, no difference. Registry and templates do so for the cases of their file. ``prompt_texts`` (SHA-256 → text)
    lets the prompts' difference be shown. ``records`` are the cases of both, where they were read apart from the
    reports. Raises ReportError for a damaged entry.
    """
    pairing = pair_cases(*((records_of(a), records_of(b)) if records is None else records))
    settings = setting_differences(a, b, shared_files(a, b, pairing.files))
    limits = Limits(settings)
    plain, keyed, families = metric_differences(pairing, (a, b), limits)
    changes, unchanged, uncompared = case_changes(pairing.pairs, limits)
    prompts = prompt_changes(a, b, prompt_texts or {})
    confusable = limits.kept(_CONFUSED, pairing).pairs
    return Comparison(
        a=_side(a, labels[0]),
        b=_side(b, labels[1]),
        settings=tuple(settings),
        compared=len(pairing.pairs),
        metrics=tuple(plain),
        keyed=tuple(keyed),
        families=families,
        changes=tuple(changes),
        unchanged=unchanged,
        newly_errored=tuple(newly(pairing.pairs, "errored")),
        recovered=tuple(recovered(pairing.pairs)),
        newly_skipped=tuple(newly(pairing.pairs, "skipped")),
        vanished=tuple(missing(pairing.only_a, b)),
        added=tuple(missing(pairing.only_b, a)),
        content_changed=tuple(CaseNote(pair.name) for pair in pairing.changed),
        only_a=tuple(_only((*plain, *keyed), "a")),
        only_b=tuple(_only((*plain, *keyed), "b")),
        confusions=tuple(confusion_changes(confusable, prompts)),
        prompts=tuple(prompts),
        moved=pairing.moved,
        uncompared=uncompared,
    )


def _only(metrics: tuple[MetricDifference, ...], side: str) -> list[str]:
    """Metrics that only one report has a value for."""
    found = []
    for metric in metrics:
        has_a, has_b = metric.whole_a is not None, metric.whole_b is not None
        if metric.kind == "ratio" and has_a != has_b and has_a == (side == "a"):
            found.append(metric.path)
    return found


def _side(report: Mapping[str, Any], label: str) -> Side:
    usage = report.get("usage") or {}
    return Side(
        label=label,
        run_id=str(report.get("run_id", "")),
        timestamp=str(report.get("timestamp", "")),
        prompts=prompts_text(report),
        model=describe(report.get("model") or {}, "provider", "name", "model", "served_model", "version"),
        engine=engine_text(report),
        partial=report.get("partial"),
        embedded=is_embedded(report.get("model") or {}),
        counts=dict(report.get("counts") or {}),
        cost_usd=usage.get("cost_usd"),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
    )
