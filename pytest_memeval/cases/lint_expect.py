"""Rules about a case's own thresholds."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_memeval.cases.findings import Finding, Rule, finding, sound_cases
from pytest_memeval.cases.models import CaseSet
from pytest_memeval.metrics.catalog import metric_stages
from pytest_memeval.truths import truth_stages


def expect_unlabelled(case_set: CaseSet) -> Iterator[Finding]:
    """A threshold names a metric of a stage for which the case has no label: no engine can meet it."""
    for case in sound_cases(case_set):
        labelled = truth_stages(case) if case.expect else ()
        for threshold in case.expect:
            path = threshold.path
            lacking = [stage for stage in metric_stages(path.section, path.metric) if stage not in labelled]
            if lacking:
                message = f"expect names {path}, and the case has no label for {' and '.join(lacking)}"
                yield finding("expect-unlabelled", "warning", case_set, case.line, message, case.case_id)


EXPECT_RULES: dict[str, Rule] = {"expect-unlabelled": expect_unlabelled}
