"""What is recorded of a case of a kind before anything ran, and of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.kinds.protocol import KindCase, KindSet
from pytest_memeval.kinds.registry import kind_named
from pytest_memeval.results import CaseError, CaseResult, SetInfo, StageStatus

if TYPE_CHECKING:
    from pytest_memeval.metrics.thresholds import Gate


def described(case: KindCase, kind: str, node_id: str, set_path: str) -> dict[str, Any]:
    """The fields of a record that say which case it is of."""
    return {
        "node_id": node_id,
        "set": set_path,
        "case_id": case.case_id,
        "kind": kind,
        "source": case.source,
        "difficulty": case.difficulty,
        "tags": case.tags,
        "line": case.line,
        "content_hash": case.content_hash,
        "cluster": case.cluster,
    }


def untouched(
    case: KindCase,
    kind: str,
    *,
    node_id: str,
    set_path: str,
    errors: Sequence[CaseError] = (),
    skipped: bool = False,
    unselected: bool = False,
) -> CaseResult:
    """The record of a case of which nothing ran: skipped, invalid, or stopped in a fixture."""
    status: StageStatus = "unselected" if unselected else "skipped" if skipped else "void"
    return CaseResult(
        **described(case, kind, node_id, set_path),
        outcome="skipped" if skipped or unselected else "errored",
        stages=dict.fromkeys(case.stages, status),
        errors=tuple(errors),
        has_expectations=bool(case.expect),
    )


def set_info(case_set: KindSet, path: str, ini_gates: Sequence[Gate] = ()) -> SetInfo:
    """What gates and reports need to know of a file."""
    if case_set.gates is not None:
        gates = tuple((str(gate), "file") for gate in case_set.gates)
    elif ini_gates:
        gates = tuple((str(gate), "ini") for gate in ini_gates)
    else:
        gates = tuple((text, "default") for text in kind_named(case_set.kind).default_gates)
    return SetInfo(
        path=path,
        kind=case_set.kind,
        version=case_set.version,
        cases=len(case_set.cases),
        gates=gates,
        truth_counts=dict(Counter(stage for case in case_set.cases for stage in case.stages)),
        warnings=tuple(str(warning).replace(str(case_set.path), path, 1) for warning in case_set.warnings),
        note=case_set.note,
        protocol=case_set.extra.get("protocol"),
    )
