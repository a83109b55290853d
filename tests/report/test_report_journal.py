from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
import os

import pytest
from report_samples import case, errored_case, full_case

from pytest_memeval.report.calls import CALLS_NAME, calls_of, read_calls, write_calls
from pytest_memeval.report.journal import Journal
from pytest_memeval.report.reader import ReportError, read_journal
from pytest_memeval.results import CallRecord


def test_a_line_is_there_as_soon_as_its_case_ended(tmp_path):
    path = tmp_path / "deep" / "journal.jsonl"
    with Journal(path) as journal:
        assert not path.exists()
        for number in range(3):
            journal.append(full_case(number))
            assert path.read_bytes().count(b"\n") == number + 1
    assert read_journal(path) == [full_case(number) for number in range(3)]


def test_a_journal_without_cases_leaves_nothing(tmp_path):
    Journal(tmp_path / "journal.jsonl").close()
    assert list(tmp_path.iterdir()) == []


def test_a_half_written_last_line_is_left_out_and_overwritten(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(full_case(1))
        journal.append(full_case(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with Journal(path) as journal:
        journal.append(full_case(3))
    assert read_journal(path) == [full_case(1), full_case(2), full_case(3)]
    for cut in (2, 10, 500):
        path.write_bytes(whole[:-cut])
        assert read_journal(path) == [full_case(1)]
    with Journal(path) as journal:
        journal.append(full_case(3))
    assert read_journal(path) == [full_case(1), full_case(3)]


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(full_case(1))
    path.write_bytes(path.read_bytes() + b"{half\n" + b"{}\n")
    with pytest.raises(ReportError, match=r"journal\.jsonl:2 cannot be read"):
        read_journal(path)
    path.write_bytes(b"{}\n{}\n")
    with pytest.raises(ReportError, match=r"journal\.jsonl:1 is no case record"):
        read_journal(path)
    with pytest.raises(ReportError, match="cannot be read"):
        read_journal(tmp_path / "none.jsonl")


def test_the_last_record_of_a_case_counts(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(errored_case(1))
        journal.append(full_case(2))
        journal.append(full_case(1))
    assert [(record.case_id, record.outcome) for record in read_journal(path)] == [
        ("eval-002", "scored"),
        ("eval-001", "scored"),
    ]


def test_a_case_once_more_takes_the_place_of_its_line(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(full_case(1))
    with Journal(path) as journal:
        journal.append(full_case(1))  # of an earlier run's line nothing is known
        journal.append(errored_case(2))
        journal.append(full_case(2))
        assert journal.lines == 2
        # What an interrupt in the middle of a line leaves.
        with path.open("ab") as file:
            file.write(b'{"node_id": "half a li')
        journal.append(full_case(2))
        journal.append(full_case(3))
        assert journal.lines == 3
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(row["case_id"], row["outcome"]) for row in rows] == [
        ("eval-001", "scored"),
        ("eval-001", "scored"),
        ("eval-002", "scored"),
        ("eval-003", "scored"),
    ]


def test_separators_of_unicode_lines_do_not_split_a_record(tmp_path):
    path = tmp_path / "journal.jsonl"
    record = case("a\u2028b\u0085c", {}, outputs={"l1": ["x\u2029y\r\nz \ud800"]})
    with Journal(path) as journal:
        journal.append(record)
    assert read_journal(path) == [record]


def test_private_texts_do_not_reach_the_journal(tmp_path):
    for policy in ("hash", "none"):
        path = tmp_path / f"{policy}.jsonl"
        with Journal(path, report_text=policy) as journal:
            journal.append(full_case(1))
            journal.append(errored_case(2))
        assert "secret" not in path.read_text(encoding="utf-8")
        assert [record.case_id for record in read_journal(path)] == ["eval-001", "eval-002"]
        assert read_journal(path)[0].sections["l1"].ratios == full_case(1).sections["l1"].ratios


def test_calls_are_found_by_id_and_equal_calls_give_equal_bytes(tmp_path):
    records = [full_case(number) for number in range(4)]
    first, second = io.BytesIO(), io.BytesIO()
    write_calls(first, calls_of(records))
    write_calls(second, calls_of(records[::-1]))
    assert first.getvalue() == second.getvalue()
    path = tmp_path / CALLS_NAME
    path.write_bytes(first.getvalue())
    calls = read_calls(path)
    assert calls["call-2"]["node_id"] == records[2].node_id
    assert calls["call-2"]["request"] == [{"role": "user", "content": "secret prompt 2"}]
    assert calls["call-2"]["answer"] == "secret answer 2"


def test_private_texts_do_not_reach_the_calls():
    for policy in ("hash", "none"):
        for call in calls_of([full_case(1)], policy):
            assert "secret" not in json.dumps(call)
            assert call["input_tokens"] == 100
    (hashed,) = calls_of([full_case(1)], "hash")
    assert hashed["answer"].startswith("sha256:")
    assert hashed["request"][0]["role"] == "user"


def test_damaged_calls_are_an_error_with_a_sentence(tmp_path):
    path = tmp_path / CALLS_NAME
    path.write_bytes(gzip.compress(b'{"id": "a"}\n')[:-4])
    with pytest.raises(ReportError, match="cannot be read as model calls"):
        read_calls(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(ReportError, match="cannot be read as model calls"):
        read_calls(path)


def test_many_calls_are_packed_piece_by_piece_and_come_back_in_order(tmp_path):
    path = tmp_path / CALLS_NAME
    calls = [{"id": f"c{number}", "answer": f"{number} " * 40_000} for number in range(60)]
    with path.open("wb") as file:
        write_calls(file, calls)
    assert list(read_calls(path).values()) == calls


def test_a_full_disk_is_told_though_calls_are_packed_elsewhere():
    class Full(io.BytesIO):
        def write(self, data, /):
            raise OSError(28, "No space left on device")

    calls = ({"id": f"c{number}", "answer": os.urandom(30_000).hex()} for number in range(200))
    with pytest.raises(OSError, match="No space left"):
        write_calls(Full(), calls)


def test_what_is_no_json_in_a_call_becomes_some():
    class Word(str):
        __slots__ = ()

    call = CallRecord("c", Word("l1"), latency=math.nan, request=({"role": "user", "content": Word("x")},), cost=1.5)
    record = dataclasses.replace(full_case(1), calls=(call,))
    (found,) = calls_of([record])
    assert (found["latency"], found["cost"], found["request"]) == (None, 1.5, [{"role": "user", "content": "x"}])
    assert type(found["stage"]) is type(found["request"][0]["content"]) is str
