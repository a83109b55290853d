"""What the gates need to know of a case file, told without its cases."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_memeval.cases.models import CaseSet
from pytest_memeval.kinds import KindSet
from pytest_memeval.kinds import set_info as kind_set_info
from pytest_memeval.metrics.catalog import DEFAULT_DISTILL_GATES
from pytest_memeval.metrics.thresholds import Gate
from pytest_memeval.results import SetInfo
from pytest_memeval.truths import truth_stages

#: Optional labels of a memory → how a scope's ``truth_counts`` call them.
OPTIONAL_LABELS = {name: f"l1.{name}" for name in ("memory_type", "time_velocity", "priority")}
#: How ``truth_counts`` call the cases that say which memories belong together.
SCENE_GROUPS = "l2.scene_groups"


def set_info(case_set: CaseSet | KindSet, path: str, ini_gates: Sequence[Gate] = ()) -> SetInfo:
    """The file's own gates, else the ini's, else the defaults of its kind, and how many cases have labels for what."""
    if isinstance(case_set, KindSet):
        return kind_set_info(case_set, path, ini_gates)
    # Optional labels are counted too: none in a whole file is no lack of measurement.
    counts: dict[str, int] = dict.fromkeys((*OPTIONAL_LABELS.values(), SCENE_GROUPS), 0)
    for case in case_set.cases:
        for memory in case.expected_l1.memories if case.expected_l1 is not None else ():
            for name, counted in OPTIONAL_LABELS.items():
                counts[counted] += getattr(memory, name) is not None
        if case.expected_l2 is not None and any(scene.memories for scene in case.expected_l2.scenes):
            counts[SCENE_GROUPS] += 1
        for stage in truth_stages(case):
            counts[stage] = counts.get(stage, 0) + 1
    if case_set.meta.gates is not None:
        gates = tuple((str(gate), "file") for gate in case_set.meta.gates)
    elif ini_gates:
        gates = tuple((str(gate), "ini") for gate in ini_gates)
    else:
        gates = tuple((gate, "default") for gate in DEFAULT_DISTILL_GATES) if case_set.kind == "distill" else ()
    return SetInfo(
        path=path,
        kind=case_set.kind,
        version=case_set.meta.version,
        cases=len(case_set.cases),
        gates=gates,
        truth_counts=counts,
        warnings=tuple(str(warning).replace(str(case_set.path), path, 1) for warning in case_set.warnings),
        note=None if case_set.meta.extra.get("gates_note") is None else str(case_set.meta.extra["gates_note"]),
        dimensions=None if case_set.registry is None else tuple(case_set.registry.ids),
    )
