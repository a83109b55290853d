"""Comparisons of reports: what is compared, what is found, and what is never claimed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from compare_samples import cases, changed, counts_case, report_of
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import SET, errored_case, full_case, ratio_record

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.conditions import judge, parse_condition
from pytest_memeval.compare.model import Comparison, MetricDifference
from pytest_memeval.compare.render_terminal import terminal_text
from pytest_memeval.compare.view import blocks, finding
from pytest_memeval.report.reader import ReportError, records_of
from pytest_memeval.results import CaseError, CaseResult


def metric(comparison: Comparison, path: str) -> MetricDifference:
    found = comparison.metric(path)
    assert found is not None, path
    return found


def eighty(rng: random.Random) -> list[CaseResult]:
    return [counts_case(number, rng.randint(2, 6), rng.randint(0, 2), rng.randint(0, 2)) for number in range(1, 81)]


def worse_case(record: CaseResult) -> CaseResult:
    return counts_case(int(record.case_id[-3:]), 0, 4, 6)


class TestSelf:
    def test_a_report_with_itself_shows_no_change(self) -> None:
        report = report_of([*cases(12), errored_case(20)])
        result = compare_reports(report, report)
        assert result.is_unchanged
        assert {one.signal for one in (*result.metrics, *result.keyed)} <= {"same", "unmeasured"}
        assert all(not one.difference for one in result.metrics)
        assert (result.changes, result.confusions, result.settings) == ((), (), ())
        assert result.compared == 13

    def test_the_order_of_cases_plays_no_part(self) -> None:
        one, two = report_of(cases(12)), report_of(cases(9))
        shuffled = changed(two, per_case=list(reversed(two["per_case"])))
        assert compare_reports(one, two) == compare_reports(one, shuffled)


class TestFindings:
    def test_a_planted_change_is_found_and_attributed(self) -> None:
        before = eighty(random.Random(3))
        planted = {4, 17, 33, 50, 71}
        after = [worse_case(record) if number in planted else record for number, record in enumerate(before, 1)]
        result = compare_reports(report_of(before), report_of(after))
        f1 = metric(result, "l1.dimension_micro_f1")
        assert f1.difference is not None
        assert f1.difference < -0.03
        assert (f1.differing, f1.losses, f1.ties, f1.wins) == (5, 5, 75, 0)
        # Five of five in one direction: 2 · (1/2)^6 with mid-p.
        assert f1.p_value == pytest.approx(1 / 32)
        assert f1.direction == "worse"
        assert f1.low is not None
        assert f1.low < f1.difference < (f1.high or 0)
        assert {int(change.case[-3:]) for change in result.changes} == planted
        assert all(change.figures[0][0].startswith("l1.") for change in result.changes)
        [confusion] = result.confusions
        assert (confusion.expected, confusion.given, confusion.change) == ("family", "social", "more")
        assert {int(name[-3:]) for name in confusion.cases} == planted
        [dimension] = result.heat_map
        assert dimension.path == "l1.per_dimension_f1.family"
        assert dimension.difference == f1.difference

    def test_the_difference_is_b_minus_a(self) -> None:
        low = [counts_case(number, 1, 1, 1) for number in range(1, 9)]
        high = [counts_case(number, 3, 0, 0) for number in range(1, 9)]
        up = metric(compare_reports(report_of(low), report_of(high)), "l1.dimension_micro_f1")
        down = metric(compare_reports(report_of(high), report_of(low)), "l1.dimension_micro_f1")
        assert up.difference == pytest.approx(1 - 2 / 4)
        assert down.difference == -(up.difference or 0)
        assert (up.value_a, up.value_b) == (0.5, 1.0)
        assert (up.direction, down.direction) == ("better", "worse")
        assert (up.wins, down.losses) == (8, 8)

    def test_ratio_metrics_are_compared_by_sums_not_by_means_of_cases(self) -> None:
        before = [counts_case(1, 1, 0, 0), counts_case(2, 90, 10, 10)]
        after = [counts_case(1, 0, 1, 1), counts_case(2, 95, 5, 5)]
        f1 = metric(compare_reports(report_of(before), report_of(after)), "l1.dimension_micro_f1")
        assert f1.difference == pytest.approx(190 / 202 - 182 / 202)

    def test_lower_is_better_for_errors(self) -> None:
        def points(number: int, error: float) -> CaseResult:
            record = counts_case(number, 2, 0, 0)
            return replace(record, sections={"l1": ratio_record(priority_mae=(error, 2))})

        before = [points(number, 4 + number % 3) for number in range(1, 13)]
        after = [points(number, 1 + number % 2) for number in range(1, 13)]
        found = metric(compare_reports(report_of(before), report_of(after)), "l1.priority_mae")
        assert found.difference is not None
        assert found.difference < 0
        assert (found.direction, found.wins) == ("better", 12)

    def test_holm_over_what_was_tested(self) -> None:
        rng = random.Random(1)
        result = compare_reports(report_of(eighty(rng)), report_of(eighty(rng)))
        tested = [one for one in result.metrics if one.p_value is not None]
        assert result.families["metrics"] == len(tested)
        assert all(one.holm is not None and one.holm >= (one.p_value or 0) for one in tested)

    def test_a_product_is_compared_as_a_product(self) -> None:
        shifted = [replace(one, sections=full_case(number + 1).sections) for number, one in enumerate(cases(12), 1)]
        before, after = report_of(cases(12)), report_of(shifted)
        found = metric(compare_reports(before, after), "l2.profile_quality")
        assert found.value_a == pytest.approx(before["l2"]["profile_quality"])
        assert found.value_b == pytest.approx(after["l2"]["profile_quality"])
        assert found.difference == pytest.approx((found.value_b or 0) - (found.value_a or 0))


class TestCoverage:
    def test_lost_cases_are_never_an_improvement(self) -> None:
        good = [counts_case(number, 5, 0, 0) for number in range(1, 41)]
        bad = [counts_case(number, 0, 3, 3) for number in range(41, 51)]
        fair = [counts_case(number, 4, 1, 1) for number in range(1, 41)]
        errored = [
            counts_case(
                number,
                0,
                0,
                0,
                outcome="errored",
                stages={"l1": "errored"},
                sections={},
                errors=(CaseError("l1", "timeout", "no answer"),),
            )
            for number in range(41, 51)
        ]
        result = compare_reports(report_of([*fair, *bad]), report_of([*good, *errored]))
        f1 = metric(result, "l1.dimension_micro_f1")
        assert (f1.cases, f1.lost) == (40, 10)
        assert f1.signal == "clear"
        assert f1.direction == "coverage_lost"
        # The errored cases take nothing out of A alone: both values are over the same 40.
        assert f1.value_a == pytest.approx(0.8)
        assert len(result.newly_errored) == 10
        assert "l1 timeout: no answer" in result.newly_errored[0].reason
        gone = compare_reports(report_of([*fair, *bad]), report_of(good))
        assert len(gone.vanished) == 10
        assert metric(gone, "l1.dimension_micro_f1").direction == "coverage_lost"

    def test_vanished_added_recovered_skipped(self) -> None:
        before = report_of([*cases(5), errored_case(6), full_case(8)], not_run=())
        after = report_of(
            [*cases(4), full_case(6), full_case(9), replace(full_case(8), outcome="skipped", sections={}, stages={})],
            not_run=((SET, f"{SET}::eval-005"),),
        )
        result = compare_reports(before, after)
        assert [(note.case[-3:], note.reason) for note in result.vanished] == [("005", "not_run")]
        assert [note.case[-3:] for note in result.added] == ["009"]
        assert [note.case[-3:] for note in result.newly_skipped] == ["008"]
        # An errored case of these samples has another content hash than the good one.
        assert {note.case[-3:] for note in (*result.recovered, *result.content_changed)} == {"006"}

    def test_changed_content_is_left_out(self) -> None:
        after = [
            replace(record, content_hash="other") if record.case_id == "eval-002" else record for record in cases(6)
        ]
        result = compare_reports(report_of(cases(6)), report_of(after))
        assert [note.case[-3:] for note in result.content_changed] == ["002"]
        assert result.compared == 5
        assert not result.is_unchanged

    def test_a_renamed_file_is_recognised(self) -> None:
        moved = [replace(one, set="b.yaml", node_id=f"b.yaml::{one.case_id}") for one in cases(6)]
        result = compare_reports(report_of(cases(6)), report_of(moved))
        assert (result.compared, result.moved, result.vanished, result.added) == (6, 6, (), ())

    def test_variants_are_paired_by_their_case(self) -> None:
        def variant(name: str) -> dict[str, Any]:
            return report_of([replace(one, variant=name, node_id=f"{one.node_id}[{name}]") for one in cases(5)])

        assert compare_reports(variant("v001"), variant("v002")).compared == 5


class TestLimits:
    @pytest.mark.parametrize(
        ("keys", "name", "blocked", "free"),
        [
            ({"matcher": {"similarity": "hybrid"}}, "matcher", "l1.memory_recall", None),
            ({"registry": {SET: "b" * 64}}, "registry", "l1.dimension_micro_f1", "l1.memory_recall"),
            ({"templates": {SET: "b" * 64}}, "templates", "l2.section_hit_rate", "l1.dimension_micro_f1"),
            (
                {"stages": {"selected": ["all"], "supported": [], "input": "truth"}},
                "stage_input",
                "l2.section_hit_rate",
                "l1.dimension_micro_f1",
            ),
        ],
    )
    def test_only_what_is_equal_is_compared(
        self, keys: dict[str, Any], name: str, blocked: str, free: str | None
    ) -> None:
        known = {"registry": {SET: "a" * 64}, "templates": {SET: "a" * 64}}
        before = changed(report_of(cases(8)), **known)
        result = compare_reports(before, changed(before, **keys))
        first = result.settings[0]
        assert (first.name, first.effect) == (name, "limits")
        found = metric(result, blocked)
        assert (found.signal, found.blocked_by, found.difference) == ("incomparable", name, None)
        assert found.whole_a is not None
        if free is not None:
            assert metric(result, free).signal == "same"

    def test_the_judge_limits_what_it_judged(self) -> None:
        records = [
            replace(one, sections={**one.sections, "metrics": ratio_record(judge_score=(1, 1), length=(3, 1))})
            for one in cases(6)
        ]
        before = report_of(records)
        result = compare_reports(changed(before, judge={"model": "a"}), changed(before, judge={"model": "b"}))
        assert metric(result, "metrics.judge_score").blocked_by == "judge"
        assert metric(result, "metrics.length").signal == "same"

    def test_what_came_of_the_judges_controls_is_no_difference(self) -> None:
        before = report_of(cases(6))
        judges = [{"model": "a", "controls": {"right": number}} for number in (1, 2)]
        result = compare_reports(changed(before, judge=judges[0]), changed(before, judge=judges[1]))
        assert result.is_unchanged
        assert result.settings == ()

    def test_several_subjects_are_several_causes(self) -> None:
        before = report_of(cases(6))
        after = changed(before, engine={"name": "other"}, model={"provider": "openai", "name": "m"})
        result = compare_reports(before, after)
        assert [setting.name for setting in result.subjects] == ["engine", "model"]

    def test_an_older_report_that_does_not_say(self) -> None:
        older = {key: value for key, value in report_of(cases(6)).items() if key not in ("registry", "templates")}
        newer = changed(report_of(cases(6)), registry={SET: "a" * 64})
        result = compare_reports({**older, "schema_version": "1.0"}, newer)
        assert all(setting.effect == "note" for setting in result.settings)
        assert metric(result, "l1.dimension_micro_f1").signal == "same"

    def test_metrics_that_one_side_lacks(self) -> None:
        extra = [replace(one, sections={**one.sections, "metrics": ratio_record(mine=(1, 2))}) for one in cases(6)]
        result = compare_reports(report_of(cases(6)), report_of(extra))
        assert result.only_b == ("metrics.mine",)
        assert metric(result, "metrics.mine").gained == 6


def of_file(path: str, records: list[CaseResult]) -> list[CaseResult]:
    return [replace(one, set=path, node_id=f"{path}::{one.case_id}") for one in records]


def hashed(records: list[CaseResult], **hashes: str) -> dict[str, Any]:
    """A report with a hash of the registry and of the templates for each of its files, ``a`` where none is told."""
    files = sorted({one.set for one in records})
    own = {path: hashes.get(path.partition(".")[0], "a") * 64 for path in files}
    return changed(report_of(records), registry=own, templates=own)


FOUR = [counts_case(number, 3, 0, 0) for number in range(1, 9)]
WORSE = [worse_case(one) if number > 4 else one for number, one in enumerate(FOUR, 1)]


class TestOtherFiles:
    """Case files that one run alone has take nothing from what is said of the others."""

    @pytest.mark.parametrize("added", [True, False], ids=["added", "vanished"])
    @pytest.mark.parametrize("other", ["a", "c"], ids=["same registry", "own registry"])
    def test_a_file_of_one_run_alone_limits_nothing(self, added: bool, other: str) -> None:
        extra = of_file("b.yaml", [counts_case(number, 5, 0, 0) for number in range(20, 23)])
        before, after = of_file("a.yaml", FOUR), of_file("a.yaml", WORSE)
        if added:
            result = compare_reports(hashed(before), hashed([*after, *extra], b=other))
        else:
            result = compare_reports(hashed([*before, *extra], b=other), hashed(after))
        alone = compare_reports(hashed(before), hashed(after))
        found = metric(result, "l1.dimension_micro_f1")
        expected = metric(alone, "l1.dimension_micro_f1")
        assert found.difference == expected.difference
        assert found.difference is not None
        assert found.difference < -0.3
        assert (found.signal, found.cases, found.differing) == (expected.signal, 8, 4)
        assert (result.compared, len(result.changes), result.unchanged, result.uncompared) == (8, 4, 4, 0)
        assert len(result.added if added else result.vanished) == 3
        assert [setting.effect for setting in result.settings] == ["note"]
        sides = (result.settings[0].a, result.settings[0].b)
        assert result.settings[0].name == "case_sets"
        assert sides == (("-", "b.yaml=v001") if added else ("b.yaml=v001", "-"))

    @pytest.mark.parametrize("name", ["registry", "templates"])
    def test_a_file_with_another_registry_keeps_only_its_own_cases_out(self, name: str) -> None:
        """Its cases changed too, in any direction: nothing of them is in a difference, a count, a change, a gate."""
        path = {"registry": "l1.dimension_micro_f1", "templates": "l2.section_hit_rate"}[name]
        inner = [self.placed(one, 3) for one in FOUR]
        worse = [self.placed(one, 1) if number > 4 else self.placed(one, 3) for number, one in enumerate(WORSE, 1)]
        extra = [self.placed(counts_case(number, 5, 0, 0), 3) for number in range(20, 23)]
        other = [self.placed(worse_case(one), 0) for one in extra]
        before = hashed([*of_file("a.yaml", inner), *of_file("b.yaml", extra)])
        after = hashed([*of_file("a.yaml", worse), *of_file("b.yaml", other)])
        after[name] = {**after[name], "b.yaml": "c" * 64}
        result = compare_reports(before, after)
        alone = compare_reports(hashed(of_file("a.yaml", inner)), hashed(of_file("a.yaml", worse)))
        found, expected = metric(result, path), metric(alone, path)
        assert expected.difference is not None
        assert expected.difference < -0.3
        assert replace(found, whole_a=None, whole_b=None, held_back=0, holm=None) == replace(
            expected, whole_a=None, whole_b=None, holm=None
        )
        assert (found.held_back, found.lost, found.blocked_by) == (3, 0, None)
        (setting,) = (one for one in result.settings if one.effect == "limits")
        assert (setting.name, setting.files) == (name, (("b.yaml", "b.yaml"),))
        assert "b.yaml" in setting.a
        assert "3 case(s) are left out of the metrics that depend on" in terminal_text(result)
        condition = parse_condition(f"{path} < -0.01")
        verdict = judge(condition, records_of(before), records_of(after), result)
        assert verdict.value == expected.difference
        if name == "registry":
            total = metric(result, "l1.total_tp")
            assert (total.cases, total.difference) == (8, metric(alone, "l1.total_tp").difference)
            assert [one.a for one in result.confusions] == [one.a for one in alone.confusions]
            assert [one.b for one in result.confusions] == [one.b for one in alone.confusions]
            # What does not depend on the registry is compared in every case.
            assert metric(result, "l1.memory_recall").cases == 11
            named = {figure for change in result.changes if "b.yaml" in change.case for figure, _, _ in change.figures}
            assert named
            assert not any("dimension" in figure for figure in named)

    def test_a_ratio_that_moved_by_its_units_alone_is_neither_better_nor_worse(self) -> None:
        """As many wrong placements among half as many: no case is worse, and what fell is another figure's to tell."""
        before = [self.entries(number, wrong=number in (1, 3), placed=1) for number in range(1, 19)]
        after = [self.entries(number, wrong=number in (1, 3), placed=number % 2) for number in range(1, 19)]
        found = metric(compare_reports(report_of(before), report_of(after)), "l2.section_misentry_rate")
        assert found.difference == pytest.approx(1 / 9)
        assert found.p_value is not None
        assert found.p_value < 0.05
        assert (found.signal, found.direction, found.wins, found.losses) == ("unclear", "none", 0, 0)
        assert (finding(found), finding(found, "zh")) == ("only units differ", "仅单位数不同")

    @staticmethod
    def entries(number: int, *, wrong: bool, placed: int) -> CaseResult:
        record = counts_case(number, 1, 0, 0)
        section = ratio_record(section_misentry_rate=(int(wrong), placed))
        return replace(record, sections={"l2": section}, stages={**record.stages, "l2": "scored"})

    @staticmethod
    def placed(record: CaseResult, hits: int) -> CaseResult:
        section = ratio_record(section_hit_rate=(hits, 3), section_miss_rate=(3 - hits, 3))
        stages = {**record.stages, "l2": "scored"}
        return replace(record, sections={**record.sections, "l2": section}, stages=stages)

    def test_a_file_of_another_name_is_held_against_what_it_was(self) -> None:
        before, after = of_file("a.yaml", FOUR), of_file("b.yaml", WORSE)
        result = compare_reports(hashed(before), hashed(after))
        assert result.moved == 8
        assert metric(result, "l1.dimension_micro_f1").differing == 4
        limited = compare_reports(hashed(before), hashed(after, b="c"))
        assert metric(limited, "l1.dimension_micro_f1").blocked_by == "registry"
        assert "a.yaml → b.yaml" in next(one.a for one in limited.settings if one.name == "registry")

    def test_what_differs_in_a_shared_file_still_limits(self) -> None:
        both = [*of_file("a.yaml", FOUR), *of_file("b.yaml", FOUR)]
        result = compare_reports(hashed(both), hashed(both, b="c"))
        found = metric(result, "l1.dimension_micro_f1")
        assert (found.blocked_by, found.cases, found.held_back) == (None, 8, 8)
        everywhere = compare_reports(hashed(both), hashed(both, a="c", b="c"))
        found = metric(everywhere, "l1.dimension_micro_f1")
        assert (found.blocked_by, found.signal, found.difference) == ("registry", "incomparable", None)
        registry = next(one for one in result.settings if one.name == "registry")
        assert (registry.a, registry.b) == (f"b.yaml={'a' * 12}", f"b.yaml={'c' * 12}")

    def test_cases_kept_from_being_compared_are_not_unchanged(self) -> None:
        result = compare_reports(hashed(of_file("a.yaml", FOUR)), hashed(of_file("a.yaml", FOUR), a="c"))
        assert (result.compared, result.unchanged, result.uncompared) == (8, 0, 8)
        gone = [errored_case(number, content_hash=full_case(number).content_hash) for number in (1, 2)]
        result = compare_reports(report_of(cases(6)), report_of([*gone, *cases(6)[2:]]))
        assert (result.unchanged, result.uncompared) == (4, 2)

    def test_versions_of_case_sets_are_named(self) -> None:
        before, after = hashed(of_file("a.yaml", FOUR)), hashed(of_file("a.yaml", FOUR))
        after["case_sets"]["a.yaml"]["version"], before["case_sets"]["a.yaml"]["version"] = "2", None
        [setting] = compare_reports(before, after).settings
        assert (setting.a, setting.b) == ("a.yaml=-", "a.yaml=2")
        both = hashed([*of_file("a.yaml", FOUR), *of_file("b.yaml", FOUR)])
        both["case_sets"]["b.yaml"]["version"] = None
        [setting] = compare_reports(hashed(of_file("a.yaml", FOUR)), both).settings
        assert (setting.a, setting.b) == ("-", "b.yaml")

    def test_how_texts_are_compared_is_of_runs_with_questions(self) -> None:
        plain = hashed(of_file("a.yaml", FOUR))
        asked = changed(plain, metrics_spec={**plain["metrics_spec"], "text": {"bleu": 4}})
        other = changed(plain, metrics_spec={**plain["metrics_spec"], "text": {"bleu": 2}})
        assert compare_reports(plain, asked).settings == ()
        assert [one.name for one in compare_reports(asked, other).settings] == ["metrics_spec"]


class TestMissingFigures:
    """Figures that B lacks in cases that it scored are no lost cases."""

    def ranked(self, *, ranks: bool, number: int) -> CaseResult:
        figures = {"answer_f1": (2, 2 + (not ranks)), **({"mrr": (1, 2)} if ranks else {})}
        content = full_case(number).content_hash
        record = replace(full_case(number), sections={"metrics": ratio_record(**figures)}, content_hash=content)
        return replace(record, stages={"metrics": "scored"})

    def lines(self, before: list[CaseResult], after: list[CaseResult]) -> list[str]:
        result = compare_reports(report_of(before), report_of(after))
        return [line.text for block in blocks(result) if block.title is None for line in block.lines]

    def test_what_is_missing_is_named(self) -> None:
        before = [self.ranked(ranks=True, number=number) for number in range(1, 7)]
        after = [self.ranked(ranks=number > 4, number=number) for number in range(1, 7)]
        said = self.lines(before, after)
        assert "B has no figure of metrics.mrr in 4 case(s) where A has one: none of these counts as improved." in said
        assert not any("lost" in line for line in said)
        assert not any("no figure of" in line for line in self.lines(after, before))

    @pytest.mark.parametrize("how", ["vanished", "errored"])
    def test_lost_are_cases_that_errored_or_vanished(self, how: str) -> None:
        before = [self.ranked(ranks=True, number=number) for number in range(1, 7)]
        gone = [errored_case(number, content_hash=before[number - 1].content_hash) for number in (1, 2)]
        said = self.lines(before, [*(gone if how == "errored" else []), *before[2:]])
        assert "B lost 2 case(s) that A measured: no metric over them counts as improved." in said
        assert not any("no figure of" in line for line in said)

    def test_both_at_once_are_told_apart(self) -> None:
        before = [self.ranked(ranks=True, number=number) for number in range(1, 9)]
        after = [self.ranked(ranks=number > 5, number=number) for number in range(3, 9)]
        result = compare_reports(report_of(before), report_of(after))
        found = metric(result, "metrics.mrr")
        assert (found.lost, found.absent, found.cases) == (5, 3, 3)

    def test_a_figure_that_rose_without_some_cases_is_not_better(self) -> None:
        before = [counts_case(number, 1, 2, 2) for number in range(1, 13)]
        after = [counts_case(number, 4, 0, 0) for number in range(1, 13)]
        section = after[0].sections["l1"]
        some = {name: pair for name, pair in section.ratios.items() if name != "memory_recall"}
        after[0] = replace(after[0], sections={"l1": replace(section, ratios=some)})
        found = metric(compare_reports(report_of(before), report_of(after)), "l1.memory_recall")
        assert (found.direction, found.lost, found.absent) == ("coverage_lost", 1, 1)
        assert finding(found) == "clear: higher, but without 1 case(s) that A measured"

    @pytest.mark.parametrize(
        ("differing", "said"), [(1, "too few differ"), (4, "too few differ"), (5, "likely: better")]
    )
    def test_of_fewer_than_five_nothing_can_be_told(self, differing: int, said: str) -> None:
        before = [counts_case(number, 2, 1, 1) for number in range(1, 21)]
        after = [counts_case(number, 3, 0, 0) for number in range(1, differing + 1)]
        found = metric(compare_reports(report_of(before), report_of([*after, *before[differing:]])), "l1.memory_recall")
        assert (found.differing, finding(found)) == (differing, said)
        assert finding(found, "zh") == {"too few differ": "有差异的太少"}.get(said, finding(found, "zh"))
        assert found.p_value is not None
        assert (found.p_value <= 0.05) is (differing >= 5)


class TestEdges:
    def test_zero_overlap(self) -> None:
        result = compare_reports(report_of(cases(3)), report_of([full_case(number) for number in (7, 8)]))
        assert result.compared == 0
        assert not result.is_unchanged
        assert {one.difference for one in result.metrics} == {None}
        json.dumps(result.to_json(), allow_nan=False)

    def test_a_baseline_of_zero_has_no_relative_change(self) -> None:
        before = [counts_case(number, 0, 1, 1) for number in range(1, 7)]
        after = [counts_case(number, 1, 0, 0) for number in range(1, 7)]
        found = metric(compare_reports(report_of(before), report_of(after)), "l1.dimension_micro_f1")
        assert (found.value_a, found.difference, found.relative) == (0, 1, None)

    def test_empty_reports(self) -> None:
        result = compare_reports(report_of([]), report_of([]))
        assert (result.compared, result.metrics) == (0, ())

    def test_a_damaged_entry_is_told(self) -> None:
        report = report_of(cases(3))
        report["per_case"][1].pop("stages")
        with pytest.raises(ReportError, match="eval-002 is damaged"):
            compare_reports(report, report)

    @given(
        st.lists(
            st.tuples(*[st.one_of(st.none(), st.floats(0, 1e6, allow_nan=False)) for _ in range(4)], st.booleans()),
            max_size=12,
        )
    )
    @settings(max_examples=40, deadline=None)
    def test_no_nan_whatever_was_measured(self, rows: list[tuple[Any, ...]]) -> None:
        def side(at: int) -> dict[str, Any]:
            report = report_of(cases(len(rows)))
            for row, entry in zip(rows, report["per_case"], strict=True):
                entry["l1"]["ratios"]["dimension_micro_f1"] = [row[at], row[at + 1]]
                entry["stages"]["l1"] = "errored" if row[4] and at else "scored"
            return report

        json.dumps(compare_reports(side(0), side(2)).to_json(), allow_nan=False)
