"""``memeval power`` on stored runs: what it says, and what it says of runs that tell nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_samples import SET, case, full_case, run_info, set_info

from pytest_memeval.cli.main import main
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import build_report
from pytest_memeval.results import CaseResult

GATES = (("P0 l1.dimension_micro_f1 >= 0.3", "file"), ("P1 l1.dimension_micro_f1 >= 0.5", "file"))


def stored(folder: Path, records: list[CaseResult], **info: Any) -> str:
    info = {"gates": GATES, "cases": len(records), "truth_counts": {"l1": len(records)}, **info}
    report = build_report(run_info(), [set_info(**info)], records)
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return str(folder)


def scored(number: int, right: float) -> CaseResult:
    section = SectionRecord(ratios={"dimension_micro_f1": (right, 4.0), "strict_match_rate": (float(right == 4), 1.0)})
    return case(
        f"eval-{number:03d}", {"l1": section}, content_hash=f"h{number}", difficulty=("easy", "hard")[number % 2]
    )


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    one = [scored(number, float(number % 5)) for number in range(20)]
    two = [scored(number, float(min(4, number % 5 + (number % 3 == 0)))) for number in range(20)]
    return stored(tmp_path / "a", one), stored(tmp_path / "b", two)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["power", *words])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_gated_metrics_are_told_with_their_levels(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    status, text = told(capsys, *runs)
    assert status == 0
    (row,) = [line for line in text.splitlines() if "dimension_micro_f1" in line]
    assert row.startswith("P0/P1 l1.dimension_micro_f1")
    assert SET in text
    assert "n for 0.02" in text


def test_pairing_makes_differences_smaller(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, text = told(capsys, *runs, "--json", "--difference", "0.1")
    (metric,) = json.loads(text)
    assert 0 < metric["paired"] < metric["unpaired"]
    assert list(metric["needed"]) == ["0.1"]
    assert metric["reason"] is None
    _, alone = told(capsys, runs[0], "--json", "--difference", "0.1")
    (single,) = json.loads(alone)
    assert single["paired"] is None
    assert single["unpaired"] == metric["unpaired"]
    assert single["needed"]["0.1"] > metric["needed"]["0.1"]


def test_a_run_against_itself_says_that_nothing_differs(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = told(capsys, runs[0], runs[0])
    assert "both runs gave the same in every case" in text


def test_other_content_is_not_paired(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = [case(f"eval-{n:03d}", scored(n, 2.0).sections, content_hash="other") for n in range(20)]
    _, text = told(capsys, runs[0], stored(tmp_path / "c", changed))
    assert "the second run measured none of these cases" in text


def test_any_metric_can_be_named_with_a_filter(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, text = told(capsys, runs[0], "--json", "--metric", "l1.strict_match_rate{difficulty=hard}")
    (metric,) = json.loads(text)
    assert metric["clusters"] == 10
    assert metric["levels"] == []


def test_sets_that_tell_nothing_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = stored(tmp_path / "few", [scored(number, float(number)) for number in range(3)])
    assert "fewer than 5 cases measured" in told(capsys, few)[1]
    equal = stored(tmp_path / "equal", [scored(number, 3.0) for number in range(9)])
    assert "all cases agree" in told(capsys, equal)[1]
    other = stored(tmp_path / "other", [full_case(number) for number in range(6)], gates=())
    assert told(capsys, other) == (1, "nothing to tell: the run has no gates that apply; name a metric with --metric\n")
    assert "nothing to measure" in told(capsys, other, "--metric", "l15.action_accuracy")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--power", "1"), "--power lies between 0 and 1, not 1"),
        (("--alpha", "0"), "--alpha lies between 0 and 1, not 0"),
        (("--difference", "-0.1"), "--difference must be above 0, not -0.1"),
        (("--difference", "nan"), "--difference must be above 0, not nan"),
        (("--metric", "l1.dimension_micro"), "dimension_micro_f1"),
    ],
)
def test_senseless_options_are_one_sentence(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    status, text = told(capsys, runs[0], *words)
    assert status == 2
    assert sentence in text
    assert len(text.splitlines()) == 1


def test_what_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = told(capsys, str(tmp_path / "absent"))
    assert status == 2
    assert "absent" in text
