"""The scopes of cases that are in no file: those that tests in Python have built in code.

A test module is such a scope. No process sees all of its cases (a worker has its own, a fixture may give one late), so
what the gates need to know of it is told by the cases' records at the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from pytest_memeval.case_counts import LABELLED, stage_category
from pytest_memeval.metrics.thresholds import Gate
from pytest_memeval.results import CaseResult, SetInfo
from pytest_memeval.values import DISTILL_STAGES


def code_scope(path: str, ini_gates: Sequence[Gate], dimensions: Sequence[str] | None = None) -> SetInfo:
    """A test module with cases of its own. The gates of the ini are its gates, and none where there are none: the
    default ones are made for case files, and here a test checks its results itself."""
    return SetInfo(
        path=path,
        gates=tuple((str(gate), "ini") for gate in ini_gates),
        dimensions=None if dimensions is None else tuple(dimensions),
        in_code=True,
    )


def joined(known: SetInfo | None, given: SetInfo) -> SetInfo:
    """What two processes, or two tests, have told of one scope. A module whose tests name cases of a file and build
    others has the file's gates, and the ini's on other metrics."""
    if known is None or known.in_code == given.in_code:
        # Of two that hold cases in code, one that knows of a file knows more.
        return known if known is not None and known.in_code and known.cases else given
    file, code = (given, known) if known.in_code else (known, given)
    metrics = {_metric(text) for text, _ in file.gates}
    more = tuple(gate for gate in code.gates if _metric(gate[0]) not in metrics)
    return replace(file, gates=(*file.gates, *more), in_code=True)


def _metric(gate: str) -> str:
    return gate.split()[1]


def counted(
    sets: Mapping[str, SetInfo],
    records: Iterable[CaseResult],
    selected: Mapping[str, str],
    ini_gates: Sequence[Gate],
) -> list[SetInfo]:
    """The scopes in the order of their paths: ``sets``, those of cases in code by what became of the cases, and one for
    each module of ``selected`` (node id → scope) of which nobody has told."""
    modules = {path for path in set(selected.values()) if PurePosixPath(path).suffix == ".py"} - set(sets)
    found = {**sets, **{path: code_scope(path, ini_gates) for path in modules}}
    own: dict[str, list[CaseResult]] = {path: [] for path, info in found.items() if info.in_code}
    nodes: dict[str, set[str]] = {path: set() for path in own}
    for node_id, path in selected.items() if own else ():
        if path in own:
            nodes[path].add(node_id)
    for record in records if own else ():
        if record.set in own:
            own[record.set].append(record)
            nodes[record.set].add(record.node_id)
    for path, cases in own.items():
        counts = {stage: sum(stage_category(case, stage) in LABELLED for case in cases) for stage in DISTILL_STAGES}
        labelled: dict[str, int] = {stage: count for stage, count in counts.items() if count}
        found[path] = replace(found[path], cases=len(nodes[path]), truth_counts=labelled)
    return [found[path] for path in sorted(found)]
