"""Reports for tests of comparisons, built by the real aggregation from case results."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from report_samples import SET, full_case, run_info, set_info

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import build_report
from pytest_memeval.report.json_report import dumps
from pytest_memeval.results import CaseResult


def report_of(records: Iterable[CaseResult], **run: Any) -> dict[str, Any]:
    """A report as it is read back from its file."""
    records = list(records)
    sets = [set_info(path=path) for path in sorted({record.set for record in records})]
    data: dict[str, Any] = json.loads(dumps(build_report(run_info(**run), sets, records)))
    return data


def cases(count: int) -> list[CaseResult]:
    return [full_case(number) for number in range(1, count + 1)]


def counts_case(number: int, tp: int, fp: int, fn: int, **fields: Any) -> CaseResult:
    """A case with given dimension counts, every one of dimension ``family``."""
    f1 = (2 * tp, 2 * tp + fp + fn)
    section = SectionRecord(
        ratios={
            "dimension_micro_f1": f1,
            "dimension_micro_recall": (tp, tp + fn),
            "dimension_micro_precision": (tp, tp + fp),
            "per_dimension_f1.family": f1,
            "memory_recall": (tp, tp + fn),
            "strict_match_rate": (int(fp + fn == 0), 1),
        },
        counts={"total_tp": tp, "total_fp": fp, "total_fn": fn},
        tables={"confusions": {"family→social": fn} if fn else {}},
        details={"pairs": [], "unmatched_pred": [], "unmatched_truth": []},
    )
    record = CaseResult(
        node_id=f"{SET}::eval-{number:03}",
        set=SET,
        case_id=f"eval-{number:03}",
        outcome="scored",
        stages={"l1": "scored"},
        sections={"l1": section},
        content_hash=f"{number:064x}",
    )
    return replace(record, **fields)


def changed(report: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    return {**copy.deepcopy(dict(report)), **keys}
