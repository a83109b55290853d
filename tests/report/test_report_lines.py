"""Reports read case by case: the same as read as a whole, whatever their lay-out, and no less strict."""

from __future__ import annotations

import contextlib
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from report_samples import errored_case, full_case, run_info, set_info

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.load import load_cases
from pytest_memeval.report.build import build_report
from pytest_memeval.report.json_report import report_chunks
from pytest_memeval.report.lines import paused_collector, read_by_lines
from pytest_memeval.report.reader import ReportError, load_report


def sample_report() -> dict[str, Any]:
    records = [*(full_case(number) for number in range(6)), errored_case(9)]
    return build_report(run_info(), [set_info()], records)


def written(folder: Path, report: dict[str, Any], layout: str = "own") -> Path:
    file = folder / "report.json"
    texts = {
        "own": lambda: "".join(report_chunks(report)),
        "compact": lambda: json.dumps(report),
        "indented": lambda: json.dumps(report, indent=2),
        "windows": lambda: "".join(report_chunks(report)).replace("\n", "\r\n"),
        "mark": lambda: "\ufeff" + "".join(report_chunks(report)),
    }
    with open(file, "w", encoding="utf-8", newline="") as stream:
        stream.write(texts[layout]())
    return file


@pytest.mark.parametrize("layout", ["own", "compact", "indented", "windows", "mark"])
def test_any_lay_out_gives_the_same_report_and_comparison(tmp_path: Path, layout: str) -> None:
    report = json.loads("".join(report_chunks(sample_report())))
    file = written(tmp_path, report, layout)
    assert load_report(file) == report
    assert (read_by_lines(file, list) is not None) == (layout in ("own", "windows", "mark"))
    head, records = load_cases(str(file), tmp_path)
    assert head == {**report, "per_case": []}
    whole, slim = (
        compare_reports(report, report).to_json(),
        compare_reports(head, head, records=(records, records)).to_json(),
    )
    assert whole == slim


def test_what_is_cut_off_or_damaged_is_told_as_ever(tmp_path: Path) -> None:
    text = written(tmp_path, sample_report()).read_text(encoding="utf-8")
    start = text.index('  "per_case": [\n')
    cut = [text[: start + 40], text[: len(text) - 4], text[:start] + text[start:].replace("},\n", "}\n", 1)]
    for at, damaged in enumerate((*cut, text.replace('  "per_case": [\n', '  "per_case": [\n    3,\n'))):
        file = tmp_path / f"{at}.json"
        file.write_text(damaged, encoding="utf-8")
        with pytest.raises(ReportError):
            load_report(file)
        with pytest.raises(ReportError):
            load_cases(str(file), tmp_path)


def test_the_collector_is_on_again_afterwards() -> None:
    assert gc.isenabled()
    seen = []
    for number in (1, 0):
        with contextlib.suppress(ZeroDivisionError), paused_collector():
            seen.append(gc.isenabled())
            seen.append(bool(1 / number))
        assert gc.isenabled()
    assert seen == [False, True, False]
