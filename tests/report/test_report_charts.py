"""The pictures of a run say the numbers of its report."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from report_samples import DIMENSIONS, case, errored_case, full_case, run_info, set_info

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import build_report
from pytest_memeval.report.html.charts import BINS, confusions, distribution, funnel_chart, heat_map, sections_by_mode
from pytest_memeval.report.html.drawing import line_chart
from pytest_memeval.report.html.elements import Words
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.languages import LANGUAGES
from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import number_text, value_text


class Tables(HTMLParser):
    """The cells' texts of every table, and the widths of the bars in it, row by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.bars: list[list[float]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.rows.append([])
            self.bars.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif "bar" in str(given.get("class")).split():
            self.bars[-1].append(float(str(given["style"]).removeprefix("width: ").removesuffix("%")))

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data.strip()}".strip()


def report_of(*records: Any) -> dict[str, Any]:
    return build_report(run_info(), [set_info()], records)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return report_of(*(full_case(n) for n in range(12)), errored_case(90))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_heat_map_has_each_dimension_by_difficulty(report, lang):
    head, *rows = Tables(str(heat_map(report, Words(lang)))).rows
    assert head[1:-1] == ["easy", "medium", "hard"]
    assert {row[0] for row in rows} == set(DIMENSIONS)
    for row in rows:
        dimension = row[0]
        for difficulty, shown in zip((*head[1:-1], None), row[1:], strict=True):
            counts = [
                entry["dimension_details"][dimension]
                for entry in report["per_case"]
                if dimension in (entry["dimension_details"] or {}) and difficulty in (None, entry["difficulty"])
            ]
            tp, fp, fn = (sum(one[name] for one in counts) for name in ("tp", "fp", "fn"))
            total = 2 * tp + fp + fn
            score = (
                report["l1"]["per_dimension_f1"][dimension] if difficulty is None else 2 * tp / total if total else None
            )
            assert shown == ("-" if score is None else f"{value_text(score, decimals=2)} {number_text(tp + fn)}")
    scores = [report["l1"]["per_dimension_f1"][row[0]] for row in rows]
    assert scores == sorted(scores)


def test_confusions_are_those_of_the_report_the_most_frequent_first(report):
    found = {tuple(key.split("→")): number for key, number in report["l1"]["confusions"].items() if number}
    assert found
    _, *rows = (table := Tables(str(confusions(report, Words("en"))))).rows
    assert {(row[0], row[1]): float(row[2]) for row in rows} == found
    numbers = [float(row[2]) for row in rows]
    assert numbers == sorted(numbers, reverse=True)
    assert table.bars[1:] == [[round(100 * number / numbers[0], 1)] for number in numbers]
    assert confusions(report_of(errored_case(1)), Words("en")) is None


def test_sections_are_counted_by_mode():
    units = [
        {"mode": "daily", "memory": n, "expected": "basics", "placed": placed}
        for n, placed in enumerate((["basics"], ["basics", "other"], ["other"], []))
    ]
    record = case(
        "a", {"l2": SectionRecord(ratios={"section_hit_rate": (2, 4)}, details={"sections": {"units": units}})}
    )
    table = Tables(str(sections_by_mode(report_of(record), Words("en"))))
    assert table.rows[1][0] == "daily"
    assert table.rows[1][2:] == ["2", "1", "1", "0.500"]
    assert table.bars[1] == [50.0, 25.0, 25.0]
    assert sections_by_mode(report_of(full_case(1)), Words("en")) is None


def test_every_score_is_in_one_bin(report):
    scores = [score[1] for entry in report["per_case"] if (score := main_score(entry)) is not None]
    _, *rows = Tables(str(distribution(report, Words("en")))).rows
    counts = [int(row[1]) for row in rows]
    assert len(counts) == BINS + 1
    assert sum(counts) == len(scores)
    assert counts[-1] == sum(score == 1 for score in scores)
    assert counts[0] == sum(score < 0.1 for score in scores)
    assert distribution(report_of(errored_case(1)), Words("en")) is None


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_funnel_has_a_row_a_stage_with_its_causes(report, lang):
    funnel = report["funnel"]
    table = Tables(str(funnel_chart(funnel, Words(lang))))
    for stage, row, bars in zip(funnel["stages"], table.rows[1:], table.bars[1:], strict=True):
        assert row[0] == text(f"html.stage.{stage['stage']}", lang)
        assert row[2:5] == [str(stage[name]) for name in ("kept", "lost", "not_measured")]
        assert sum(stage["causes"].values()) == stage["lost"]
        for cause, number in stage["causes"].items():
            assert f"{text(f'html.cause.{cause}', lang)} {number}" in row[5]
        widths = [100 * stage[name] / funnel["facts"] for name in ("kept", "not_measured", "lost") if stage[name]]
        assert bars == [round(width, 1) for width in widths]
    assert funnel_chart(None, Words(lang)) is None


def test_a_curve_has_its_points_at_their_places():
    points = [
        {"label": str(k), "value": value, "low": None, "high": None} for k, value in ((1, 0.0), (5, 0.5), (10, 1.0))
    ]
    drawn = str(line_chart(points, "title", span=(0.0, 1.0)))
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    assert [x for x, _ in places] == sorted({x for x, _ in places})
    # Half as high is half the way up.
    assert places[1][1] == pytest.approx((places[0][1] + places[2][1]) / 2, abs=0.1)
    assert places[2][1] < places[0][1]
    assert re.findall(r"<title>([^<]+)</title>", drawn) == ["1: 0.000", "5: 0.500", "10: 1.000"]
