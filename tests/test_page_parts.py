from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report_samples import full_case, run_info, set_info

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.history.store import History, row_of
from pytest_memeval.page_parts import MOST_RUNS, baseline_html, history_points
from pytest_memeval.report.build import build_report


def report_of(day: int, cases: int = 6, **run: Any) -> dict[str, Any]:
    info = replace(run_info(**run), run_id=f"run-{day:03}", timestamp=f"2026-01-01T00:{day:02}:00+00:00")
    return build_report(info, [set_info()], [full_case(n) for n in range(cases)])


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_points_are_earlier_runs_of_the_same_cases_engine_and_model(history: History, tmp_path: Path) -> None:
    other_model = report_of(3, model={"provider": "openai", "name": "other"})
    for report in (report_of(1), report_of(2, cases=5), other_model, report_of(4), report_of(9)):
        history.append(row_of(report))
    points = history_points(report_of(5), tmp_path)
    assert [point["label"] for point in points] == ["2026-01-01 00:01", "2026-01-01 00:04", "2026-01-01 00:05"]
    assert points[-1]["value"] == report_of(5)["l1"]["dimension_micro_f1"]
    assert points[-1]["low"] <= points[-1]["value"] <= points[-1]["high"]


def test_a_run_that_is_in_the_history_is_drawn_once(history: History, tmp_path: Path) -> None:
    for day in range(MOST_RUNS + 5):
        history.append(row_of(report_of(day)))
    points = history_points(report_of(MOST_RUNS + 4), tmp_path)
    assert len(points) == MOST_RUNS
    assert len({point["label"] for point in points}) == MOST_RUNS


def test_without_a_history_there_is_the_run_alone_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    assert len(history_points(report_of(1), tmp_path)) == 1
    history = History(tmp_path)
    history.append(row_of(report_of(1)))
    history.path.write_bytes(b"no database" * 100)
    assert len(history_points(report_of(2), tmp_path)) < 2


def test_the_baselines_part_comes_from_the_report_alone() -> None:
    before, after = report_of(1), report_of(2, cases=5)
    comparison = compare_reports(before, after)
    shown = baseline_html(after, comparison)
    assert shown is not None
    assert set(shown) == {"en", "zh"}
    assert shown["en"] != shown["zh"]
    assert baseline_html({**after, "baseline": {"comparison": comparison.to_json()}}) == shown
    assert baseline_html(after) is None
    assert baseline_html({**after, "baseline": {"comparison": {"comparison_version": "9.0"}}}) is None
