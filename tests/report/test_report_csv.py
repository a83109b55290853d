from __future__ import annotations

import csv
import io

import pytest
from report_samples import case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.csv_report import csv_chunks
from pytest_memeval.results import CaseError


def rows(records):
    text = "".join(csv_chunks(build_report(run_info(), [set_info()], records)))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_one_row_a_case_with_its_figures():
    table = rows([full_case(1), full_case(4), errored_case(90)])
    assert [row["case_id"] for row in table] == ["eval-001", "eval-004", "eval-090"]
    assert table[0]["l1_f1"] == table[0]["l1.dimension_micro_f1"] == "1.0"
    assert table[0]["strict_match"] == "1"
    assert table[0]["l2.profile_quality"] == "0.25"
    assert table[0]["tags"] == "slow"
    assert table[0]["calls"] == "1"
    assert table[2]["l1_f1"] == ""
    assert (table[2]["error_stage"], table[2]["error_kind"]) == ("l1", "unusable_answer")


def test_the_headers_are_english_words_without_keyed_figures():
    header = next(csv_chunks(build_report(run_info(), [], [full_case(1)]))).splitlines()[0]
    assert header.isascii()
    assert "per_dimension" not in header
    assert "_profile" not in header


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1+1", "＝1"])
def test_a_text_is_never_a_formula(text):
    record = case("a", {}, outcome="errored", errors=(CaseError("l1", text, text),), node_id=text)
    (row,) = rows([record])
    for column in ("node_id", "error_kind", "error_message"):
        assert row[column] == f"'{text}"


def test_negative_numbers_stay_numbers():
    (row,) = rows([case("a", {"metrics": ratio_record(balance=(-1, 2))})])
    assert row["metrics.balance"] == "-0.5"


def test_line_ends_quotes_and_odd_characters_survive():
    message = 'two\nlines, "quoted"; a\x00b \ud83d 中文'
    record = case("a", {}, outcome="errored", errors=(CaseError("l1", "k", message),))
    text = "".join(csv_chunks(build_report(run_info(), [], [record])))
    text.encode("utf-8")
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["error_message"] == 'two\nlines, "quoted"; a\ufffdb \\ud83d 中文'


def test_a_large_table_comes_in_pieces():
    chunks = list(csv_chunks(build_report(run_info(), [], [full_case(number) for number in range(800)])))
    assert len(chunks) > 1
    assert sum(chunk.count("\r\n") for chunk in chunks) == 801


def test_no_case_gives_a_header_alone():
    assert rows([]) == []
