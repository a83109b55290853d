from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import SET, case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.console import columns, console_text, display_width
from pytest_memeval.report.messages import metric_title
from pytest_memeval.report.numbers import interval_text, number_text, value_text
from pytest_memeval.report.terminal import summary_lines


def lines(lang="en", verbosity=0, records=None, sets=None, folder=None, decides_exit=True, **run):
    found = records if records is not None else [full_case(number) for number in range(12)]
    report = build_report(run_info(**run), sets or [set_info()], found)
    return summary_lines(report, lang, verbosity, folder=folder, decides_exit=decides_exit)


def text(*args, **kwargs):
    return "\n".join(line for line, _ in lines(*args, **kwargs))


def recall(value, gate="P0 l1.memory_recall >= 0.80"):
    return {
        "records": [case("a", {"l1": ratio_record(memory_recall=(value, 1))})],
        "sets": [set_info(gates=((gate, "file"),))],
    }


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r", "\t", "\x1b[2J", "\x85", "\u2028", "\x00"])
def test_names_of_the_projects_break_no_line(breaks):
    model = {"model": f"m{breaks}x", "endpoint": "e"}
    shown = text(engine={"name": f"my{breaks}engine", "version": f"1{breaks}2"}, model=model)
    escaped = ascii(breaks)[1:-1]
    (line,) = [line for line in shown.splitlines() if "engine my" in line]
    assert f"engine my{escaped}engine 1{escaped}2 | prompts" in line
    assert f"m{escaped}x" in line


def test_the_summary_tells_what_was_run_and_where_the_report_is():
    shown = text(folder="out/run")
    assert shown.startswith("Chat model `embedded`: these figures are a pipeline check")
    assert "model embedded | engine reference 1 | prompts v002 | input chained" in shown
    assert "12 cases: 12 scored, 0 errored, 0 skipped, 0 not run" in shown
    assert "12 of 12 cases have no thresholds of their own" in shown
    assert "report: out/run" in shown
    assert shown.endswith("all P0 gates passed")


def test_f25_digits_show_why_a_value_misses():
    shown = text(**recall(0.7996))
    assert "0.7996" in shown
    assert ">= 0.8 " in shown
    assert shown.endswith("P0 gate missed: exit status 1")
    assert "0.800 " in text(**recall(0.8 - 1e-10))


def test_the_verdict_is_red_and_says_what_decides():
    line, markup = lines(**recall(0.1))[-1]
    assert (line, markup["red"]) == ("P0 gate missed: exit status 1", True)
    assert lines(**recall(0.1), decides_exit=False)[-1][0] == "P0 gate missed"
    assert lines(records=[errored_case(1)])[-1][0] == "P0 gate unmeasured: exit status 1"
    assert lines("zh", **recall(0.1))[-1][0] == "P0 门禁未达标：退出状态 1"


def test_a_p1_gate_that_is_missed_does_not_make_a_verdict():
    shown = text(**recall(0.1, "P1 l1.memory_recall >= 0.8"))
    assert "missed" in shown
    assert "exit status" not in shown


def test_unmeasured_gates_give_their_reason():
    shown = text(records=[full_case(1), errored_case(90)])
    assert "1 of 2 errored" in shown
    assert "errors by stage: l1: unusable_answer 1" in shown


def test_gates_that_do_not_apply_are_shown_on_demand():
    sets = [set_info(gates=(("P1 l15.action_accuracy >= 0.8", "default"),))]
    assert "l15.action_accuracy" not in text(sets=sets)
    assert "1 gate(s) not applicable" in text(sets=sets)
    shown = text(sets=sets, verbosity=1)
    assert "l15.action_accuracy" in shown
    assert "No case of this file has labels for stage l15." in shown


def test_near_misses_name_the_option():
    shown = text(records=[case("a", {"l1": ratio_record()}), full_case(0)])
    assert "1 pair(s) came close to matching: see --memeval-matcher or ini memeval_match_threshold (0.5)." in shown
    assert "memeval-matcher" not in text(records=[full_case(1)])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_near_misses_of_a_matcher_of_the_projects_name_no_option_that_it_does_not_heed(lang: str) -> None:
    own = {"kind": "own", "name": "matchers:match"}
    shown = text(lang, records=[case("a", {"l1": ratio_record()}), full_case(0)], matcher=own)
    (line,) = [line for line in shown.splitlines() if "matchers:match" in line]
    assert "1" in line
    assert "memeval show --case" in line
    assert "threshold" not in line


def test_quiet_keeps_the_first_note_the_failed_gates_and_the_verdict():
    shown = text(verbosity=-1, **recall(0.1)).splitlines()
    assert shown[0].startswith("Chat model `embedded`")
    assert shown[1] == SET
    assert "l1.memory_recall" in shown[3]
    assert shown[-1] == "P0 gate missed: exit status 1"
    assert "cases:" not in "\n".join(shown)


def test_chinese_summary():
    shown = text("zh", folder="out")
    assert "聊天模型为 `embedded`" in shown
    assert "共 12 个用例：已评分 12，出错 0，跳过 0，未运行 0" in shown
    assert "报告：out" in shown
    assert shown.endswith("P0 门禁全部通过")


def test_two_scopes_stand_apart():
    shown = text(sets=[set_info(), set_info(path="b.yaml")], records=[full_case(1), full_case(2, set="b.yaml")])
    assert shown.index(SET) < shown.index("b.yaml")


def test_the_table_is_aligned_also_with_wide_characters():
    rows = columns([["指标", "值"], ["abc", "1.25"], ["用例集", "-"]], right=frozenset({1}))
    assert {display_width(row) for row in rows} == {12}
    assert columns([]) == []


@given(st.text(), st.sampled_from(["ascii", "utf-8", "gbk", "cp1252", "latin-1", "no-such-encoding", None]))
def test_f21_any_text_can_be_written_to_any_console(value, encoding):
    shown = console_text(value, encoding)
    shown.encode("ascii" if encoding in (None, "no-such-encoding") else encoding)
    assert not [char for char in shown if unicodedata.category(char) == "Cc" and char not in "\n\t"]


def test_f21_an_ascii_console_degrades_readably():
    assert console_text("a ≥ b … 中", "ascii") == "a >= b ... \\u4e2d"
    assert console_text("a ≥ b … 中", "utf-8") == "a ≥ b … 中"


@pytest.mark.parametrize(
    ("value", "against", "expected"),
    [
        (None, None, "-"),
        (0.8125, None, "0.812"),
        (0.7996, 0.80, "0.7996"),
        (0.79999996, 0.8, "0.79999996"),
        (0.8 - 1e-12, 0.8, "0.800"),
        (0.8, 0.8, "0.800"),
        (0.5, 0.8, "0.500"),
        (17.0, None, "17"),
        (1.0, None, "1.000"),
    ],
)
def test_values_get_as_many_digits_as_it_takes(value, against, expected):
    assert value_text(value, against=against) == expected


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_value_that_differs_from_its_threshold_looks_different(value, threshold):
    if abs(value - threshold) > 1e-9:
        shown = value_text(value, against=threshold)
        assert shown != f"{threshold:.{len(shown.partition('.')[2])}f}"


def test_numbers_and_names():
    assert number_text(0.75) == "0.75"
    assert number_text(3.0) == "3"
    assert interval_text(None) == "-"
    assert interval_text([0.5, 1]) == "[0.500, 1.000]"
    assert metric_title("search.ndcg@10") == "NDCG@10"
    assert metric_title("l1.per_dimension_f1.family", "zh") == "各维度 F1 family"
    assert metric_title("l1.memory_recall{tag=slow}") == "memory recall"
    assert metric_title("qa.judge_score") == "judge score"
    assert metric_title("metrics.of_ones_own") == "metrics.of_ones_own"
