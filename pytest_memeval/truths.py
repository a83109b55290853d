"""What a case has labels for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase


def truth_stages(case: EvalCase) -> tuple[str, ...]:
    """The stages for which the case has labels, in pipeline order."""
    l15, l2 = case.expected_l15, case.expected_l2
    found = ["l1"] if case.expected_l1 is not None else []
    if l15 is not None and l15.actions:
        found.append("l15")
    if l2 is not None and (l2.scene_labels or l2.scenes):
        found.append("l2")
    if l2 is not None and any(l2.template_section.values()):
        found.append("template")
    if case.expected_inject is not None:
        found.append("inject")
    if case.expected_search is not None:
        found.append("search")
    return tuple(found)
