from __future__ import annotations

import json
from dataclasses import replace

import pytest
from compare_samples import cases, counts_case, report_of

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.read import comparison_from_json
from pytest_memeval.compare.render_html import html_text
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.reader import ReportError


def test_a_comparison_comes_back_from_its_json_form_whole():
    before = [*cases(6), counts_case(20, 3, 1, 1)]
    after = [*cases(5), counts_case(20, 4, 0, 0), replace(counts_case(21, 1, 0, 0), content_hash="new")]
    comparison = compare_reports(report_of(before), report_of(after, prompt_versions={"l1_extraction": "v003"}))
    again = comparison_from_json(json.loads(dumps(comparison.to_json())))
    assert again == comparison
    assert html_text(again) == html_text(comparison)


@pytest.mark.parametrize(
    ("data", "said"),
    [({}, "version none"), ({"comparison_version": "9.0"}, "version 9.0"), ({"comparison_version": "1.0"}, "damaged")],
)
def test_what_is_no_comparison_is_refused(data, said):
    with pytest.raises(ReportError, match=said):
        comparison_from_json(data)
