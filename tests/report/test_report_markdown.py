from __future__ import annotations

import re

import pytest
from report_samples import SET, case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import build_report
from pytest_memeval.report.markdown import heat_bar, markdown_report
from pytest_memeval.report.markdown_cells import escape
from pytest_memeval.results import CaseError

HOSTILE = "<img src=x onerror=alert(1)>|</script>\n# head `code` [link](http://x.y) @user *b*"


def page(lang: str = "en", records=None, sets=None, **run) -> str:
    found = records if records is not None else [*(full_case(number) for number in range(12)), errored_case(90)]
    return markdown_report(build_report(run_info(**run), sets or [set_info()], found), lang)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_all_parts_are_there(lang):
    headings = re.findall(r"^## (.+)$", page(lang, not_run=((SET, "x"),)), flags=re.MULTILINE)
    expected = {
        "en": [
            "Gates",
            "Counts",
            "Metrics",
            "F1 per dimension",
            "Confusions",
            "The way of the labelled memories",
            "Misses by kind",
            "Worst cases",
            "Model calls",
            "Errors",
            "Notes",
        ],
        "zh": [
            *(
                "门禁",
                "计数",
                "指标",
                "各维度 F1",
                "混淆",
                "标注记忆的去向",
                "各类失误",
                "最差用例",
                "模型调用",
                "错误",
            ),
            "说明",
        ],
    }
    assert headings == expected[lang]


def test_the_first_line_says_that_embedded_is_no_quality():
    assert page().splitlines()[0] == "> Chat model `embedded`: these figures are a pipeline check, not quality."
    assert page("zh").startswith("> 聊天模型为 `embedded`：")
    assert page(model={"provider": "openai", "name": "m"}).startswith("# Memory evaluation report")


def test_chinese_pages_have_no_english_sentences():
    text = page("zh", partial="selected", not_run=((SET, "x"),), stage_input="truth")
    # Names in code style are the formats' own words.
    prose = re.sub(r"`[^`]*`|eval-\d+|cases/\S+|unusable\\?_answer", "", text)
    prose = prose.replace("the answer is no JSON: secret text", "")
    words = re.findall(r"[A-Za-z]{3,}(?: [a-z]{2,}){2,}", prose)
    assert words == []


def test_every_table_has_rows_of_equal_width():
    for lang in ("en", "zh"):
        width = None
        for line in page(lang).splitlines():
            if not line.startswith("|"):
                width = None
                continue
            cells = len(re.findall(r"(?<!\\)\|", line))
            assert width in (None, cells), line
            width = cells


def test_f19_hostile_texts_stay_text_inside_their_cell():
    record = case(
        HOSTILE.replace("\n", " "),
        {
            "l1": SectionRecord(
                ratios={"dimension_micro_f1": (0, 2), f"per_dimension_f1.{HOSTILE}": (0, 2)},
                tables={"confusions": {f"{HOSTILE}→y": 1}},
            )
        },
        outcome="errored",
        errors=(CaseError("l2", "kind", HOSTILE),),
        missed_expectations=(HOSTILE,),
    )
    text = page(records=[record])
    for line in text.splitlines():
        plain = re.sub(r"`[^`]*`", "", line)
        assert "<img" not in plain
        assert "</script" not in plain
        assert not line.startswith("# head")
    assert "&lt;img" in text


def test_escape_leaves_plain_text_readable():
    assert escape("a - b (c) 1.5% >= 2, 中文!") == "a - b (c) 1.5% >= 2, 中文!"
    assert escape("a|b\n c_d") == r"a\|b c\_d"
    assert escape("\ud83d").isascii()


def test_the_heat_map_marks_what_is_below_the_limit_and_lists_it_first():
    records = [
        case(
            "a",
            {
                "l1": SectionRecord(
                    ratios={
                        "per_dimension_f1.good": (9, 10),
                        "per_dimension_f1.bad": (1, 2),
                        "per_dimension_f1.edge": (6, 10),
                        "per_dimension_f1.none": (0, 0),
                    },
                    tables={"per_dimension_tp": {"good": 4, "bad": 1}, "per_dimension_fn": {"good": 1}},
                )
            },
        )
    ]
    text = page(records=records)
    lines = [line for line in text.splitlines() if line.startswith(("| `good`", "| `bad`", "| `edge`", "| `none`"))]
    assert [line.split("`")[1] for line in lines] == ["bad", "edge", "good", "none"]
    assert ["⚠" in line for line in lines] == [True, False, False, False]
    assert heat_bar(0.5) in lines[0]
    assert lines[2].endswith("| 5 |")


@pytest.mark.parametrize(("score", "full"), [(0.0, 0), (1.0, 20), (0.5, 10), (1.7, 20), (-1, 0)])
def test_heat_bars_have_one_width(score, full):
    assert heat_bar(score) == "█" * full + "░" * (20 - full)
    assert len(heat_bar(None)) == 20


def test_misses_are_counted_by_kind():
    records = [
        case(
            "a",
            {
                "l1": ratio_record(memory_recall=(3, 5), dimension_micro_f1=(1, 2)),
                "l15": SectionRecord(
                    ratios={"action_accuracy": (1, 4)}, tables={"confusions": {"merge→skip": 3, "store→store": 1}}
                ),
                "l2": ratio_record(section_miss_rate=(2, 6)),
            },
        )
    ]
    text = page(records=records)
    assert "| memories missed | 2 | 5 |" in text
    assert "| wrong conflict action | 3 | 4 |" in text
    assert "| memory in no section | 2 | 6 |" in text
    assert "| `merge` | `skip` | 3 |" in text
    assert "`store` | `store`" not in text
    assert "memories missed 2/5, wrong conflict action 3/4" in text


def test_worst_cases_come_worst_first_and_perfect_ones_are_not_listed():
    text = page().partition("## Worst cases")[2]
    scores = [
        float(line.split("|")[2])
        for line in text.splitlines()
        if line.startswith("| `cases/") and "unusable" not in line
    ]
    assert scores == sorted(scores)
    assert all(score < 1 for score in scores)


def test_many_errors_are_cut_with_their_number():
    text = page(records=[errored_case(number) for number in range(60)])
    assert "- `l1`: unusable_answer 60" in text
    assert "… and 10 more" in text


def test_f25_the_gate_table_shows_why_a_near_miss_is_one():
    sets = [set_info(gates=(("P0 l1.memory_recall >= 0.80", "file"),))]
    text = page(records=[case("a", {"l1": ratio_record(memory_recall=(0.7996, 1))})], sets=sets)
    assert "| 0.7996 |" in text
    assert "❌ missed" in text


def test_a_report_without_cases_has_a_page():
    assert "## Gates" in page(records=[], sets=[set_info(gates=())])
