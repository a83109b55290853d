from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report_samples import SET, case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.json_report import dumps, report_chunks
from pytest_memeval.report.reader import (
    ReportError,
    case_result_from_entry,
    check_report,
    load_report,
    records_of,
    run_of,
    sets_of,
)

RECORDS = [*(full_case(number) for number in range(6)), errored_case(90)]


def written(tmp_path, **changes):
    report = build_report(run_info(), [set_info()], RECORDS)
    path = tmp_path / "report.json"
    path.write_text("".join(report_chunks({**report, **changes})), encoding="utf-8")
    return path


def without_texts(record):
    """Prompts and answers live in calls.jsonl.gz."""
    return replace(record, calls=tuple(replace(call, request=(), answer=None) for call in record.calls))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.case_id)
def test_an_entry_gives_back_the_record_it_was_made_from(record):
    entry = json.loads(dumps(case_entry(record)))
    back = case_result_from_entry(entry)
    assert json.loads(dumps(back.to_json())) == json.loads(dumps(without_texts(record).to_json()))
    assert case_entry(back) == entry


def test_a_report_gives_back_run_sets_and_records_so_that_it_can_be_made_again():
    run = run_info(
        gates=(("P1 l1.memory_recall >= 0.1", "command line"),),
        notes=("A note of the run.",),
        not_run=((SET, "x"),),
        partial="selected",
        max_error_rate=0.25,
    )
    report = json.loads(dumps(build_report(run, [set_info(warnings=("odd",))], RECORDS)))
    again = build_report(run_of(report), sets_of(report), records_of(report))
    assert json.loads(dumps(again)) == report


def test_a_report_is_found_by_file_and_by_folder(tmp_path):
    path = written(tmp_path)
    assert load_report(path) == load_report(tmp_path) == load_report(str(tmp_path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_report(path)["run_id"] == run_info().run_id


def test_a_newer_minor_version_is_read(tmp_path):
    path = written(tmp_path, schema_version="1.97", something_new={"a": 1})
    assert load_report(path)["something_new"] == {"a": 1}


def test_a_newer_major_version_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(ReportError, match=r"schema version 2\.0, newer than the 1\.x .* upgrade"):
        load_report(written(tmp_path, schema_version="2.0"))
    with pytest.raises(ReportError, match="not of the form"):
        load_report(written(tmp_path, schema_version="new"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not valid JSON"),
        (b'{"schema_version": "1.0", "run_id"', "line 1"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[1, 2]", "a JSON list, not a report"),
        (b'{"name": "package", "version": "1.0"}', "lacks 'schema_version'"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_report_is_refused_with_a_sentence(tmp_path, content, says):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=says) as caught:
        load_report(path)
    assert str(path) in str(caught.value)


def test_a_missing_report_is_said(tmp_path):
    with pytest.raises(ReportError, match="There is no report"):
        load_report(tmp_path / "nowhere")
    with pytest.raises(ReportError, match=r"holds no report\.json"):
        load_report(tmp_path)


def test_damaged_parts_are_said():
    report = json.loads(dumps(build_report(run_info(), [set_info()], RECORDS)))
    with pytest.raises(ReportError, match="per_case must be a list"):
        check_report({**report, "per_case": {}})
    entry = {key: value for key, value in report["per_case"][0].items() if key != "stages"}
    with pytest.raises(ReportError, match=r"eval-000 is damaged: KeyError 'stages'"):
        case_result_from_entry(entry)


def test_figures_survive_the_text_policies():
    for policy in ("hash", "none"):
        report = json.loads(dumps(build_report(run_info(), [set_info()], RECORDS, report_text=policy)))
        full = json.loads(dumps(build_report(run_info(), [set_info()], RECORDS)))
        again = build_report(run_of(report), sets_of(report), records_of(report))
        for key in ("l1", "l2", "gates", "counts", "summary", "usage"):
            assert json.loads(dumps(again[key])) == full[key]


def test_nan_comes_back_as_unmeasured():
    record = case("a", {"l1": ratio_record(memory_recall=(float("nan"), 1))})
    report = json.loads(dumps(build_report(run_info(), [set_info()], [record])))
    again = build_report(run_of(report), sets_of(report), records_of(report))
    assert again["l1"]["unmeasured"] == {"memory_recall": 1}
