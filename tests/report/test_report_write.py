from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from report_samples import full_case, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.calls import calls_of
from pytest_memeval.report.journal import Journal
from pytest_memeval.report.reader import load_report, read_journal
from pytest_memeval.report.write import (
    default_folder,
    latest_folder,
    new_run_id,
    write_latest,
    write_lines,
    write_reports,
)

RECORDS = [full_case(number) for number in range(3)]


def report(**run):
    return build_report(run_info(**run), [set_info()], RECORDS)


def test_a_folder_gets_all_files(tmp_path):
    journal = tmp_path / "journal.jsonl"
    with Journal(journal) as lines:
        for record in RECORDS:
            lines.append(record)
    paths = write_reports(tmp_path, report(), calls_of(RECORDS), "zh", journal=journal)
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.json",
        "report.md",
        "per_case.csv",
        "journal.jsonl",
        "calls.jsonl.gz",
    }
    assert paths[-1] == tmp_path / "report.json"
    assert load_report(tmp_path)["run_id"] == run_info().run_id
    assert "记忆评测报告" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_journal_kept_under_another_name_takes_its_place(tmp_path):
    old = tmp_path / "journal.jsonl"
    old.write_text("old\n", encoding="utf-8")
    new = tmp_path / "journal.run-2.jsonl"
    with Journal(new) as lines:
        lines.append(RECORDS[0])
    assert old.read_text(encoding="utf-8") == "old\n"
    write_reports(tmp_path, report(), journal=new)
    assert read_journal(old) == [RECORDS[0]]
    assert not new.exists()


def test_an_older_run_stays_whole_when_writing_fails(tmp_path):
    write_reports(tmp_path, report(run_id="old"), calls_of(RECORDS))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def failing():
        yield {"id": "1"}
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_reports(tmp_path, report(run_id="new"), failing())
    broken = {**report(run_id="new"), "per_case": [{"node_id": "no entry"}]}
    with pytest.raises(KeyError):
        write_reports(tmp_path, broken)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    write_reports(tmp_path, report(run_id="new"))
    assert load_report(tmp_path)["run_id"] == "new"


def test_files_are_as_readable_as_others(tmp_path):
    other = tmp_path / "other"
    other.write_text("x", encoding="utf-8")
    for path in write_reports(tmp_path, report()):
        assert path.stat().st_mode == other.stat().st_mode


def test_run_ids_sort_by_time_and_differ_at_the_same_instant():
    start = datetime(2026, 8, 6, 10, 15, 30, 5, tzinfo=UTC)
    moments = [start + timedelta(microseconds=7**power) for power in range(12)]
    ids = [new_run_id(moment) for moment in moments]
    assert ids == sorted(ids)
    assert len({new_run_id(start) for _ in range(50)}) > 40
    assert new_run_id(start)[:-6] == new_run_id(start.astimezone(timezone(timedelta(hours=8))))[:-6]
    assert re.fullmatch(r"20260806T101530\.000005Z-[0-9a-f]{6}", new_run_id(start))
    assert new_run_id() > "2025"


def test_latest_names_the_newest_run(tmp_path):
    assert latest_folder(tmp_path) is None
    first, second = (default_folder(tmp_path, name) for name in ("run-1", "run-2"))
    for folder in (first, second):
        folder.mkdir(parents=True)
        write_latest(tmp_path, folder)
        assert latest_folder(tmp_path) == folder
    assert (tmp_path / ".memeval" / "latest").read_text(encoding="utf-8") == "runs/run-2\n"
    os.rmdir(second)
    assert latest_folder(tmp_path) is None
    elsewhere = tmp_path / "reports"
    elsewhere.mkdir()
    write_latest(tmp_path, elsewhere)
    assert latest_folder(tmp_path) == elsewhere


def test_f21_files_are_utf8_whatever_the_locale(tmp_path):
    write_reports(tmp_path, report(notes=("笔记 😀 \ud800",)))
    data = json.loads((tmp_path / "report.json").read_bytes().decode("utf-8"))
    assert data["run_notes"] == ["笔记 😀 \ud800"]
    (tmp_path / "report.md").read_bytes().decode("utf-8")


def test_other_files_of_lines_are_written_whole(tmp_path):
    target = tmp_path / "deep" / "rows.jsonl"
    write_lines(target, ["a\n", "中\n"])
    assert target.read_bytes() == "a\n中\n".encode()
    with pytest.raises(ZeroDivisionError):
        write_lines(target, (f"{1 / number}\n" for number in (1, 0)))
    assert target.read_bytes() == "a\n中\n".encode()
    assert [path.name for path in target.parent.iterdir()] == ["rows.jsonl"]


def test_a_brief_set_of_files_leaves_no_older_runs_others(tmp_path):
    write_reports(tmp_path, report(), calls_of(RECORDS))
    written = write_reports(tmp_path, report(), calls_of(RECORDS), brief=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written} == {"report.json", "report.md"}
    assert load_report(tmp_path)["counts"]["scored"] == len(RECORDS)
