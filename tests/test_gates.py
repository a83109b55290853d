from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import SET, case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.gates import (
    UNMEASURED,
    GateResult,
    _Scope,
    evaluate_gates,
    p0_status,
    passed_p0,
    scope_gates,
)
from pytest_memeval.metrics.catalog import DEFAULT_DISTILL_GATES
from pytest_memeval.metrics.thresholds import MetricPath, ThresholdError
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.messages import sentence

RECALL = "P0 l1.memory_recall >= 0.8"


def recall_cases(*values: float) -> list:
    return [case(f"c{i}", {"l1": ratio_record(memory_recall=(value, 1))}) for i, value in enumerate(values)]


def scope(*gates: str, origin: str = "file", **fields):
    return set_info(gates=tuple((gate, origin) for gate in gates), **fields)


def only(records, gate: str = RECALL, *, origin: str = "file", run=None, **fields) -> GateResult:
    (result,) = evaluate_gates(run or run_info(), [scope(gate, origin=origin, **fields)], records)
    return result


def skipped_case(name: str, stage: str = "l1"):
    return case(name, {}, outcome="skipped", stages={stage: "skipped"})


def test_f25_a_mean_that_is_equal_but_for_rounding_passes():
    result = only(recall_cases(0.7, 0.8, 0.9))
    assert result.status == "passed"
    below = only(recall_cases(0.8 - 5e-10))
    assert below.value < 0.8
    assert below.status == "passed"
    assert only(recall_cases(0.8 - 2e-9)).status == "missed"


def test_f25_a_near_miss_is_missed_and_shown_with_enough_digits():
    result = only(recall_cases(0.7996))
    assert result.status == "missed"
    assert "0.7996" in result.reason
    assert "0.8" in result.reason


@pytest.mark.parametrize(
    ("metric", "reason", "named"),
    [
        ("metrics.answr_f1", "metric_not_measured_nearest", "the nearest that was measured is metrics.answer_f1."),
        ("rag.answr_f1", "metric_not_measured_nearest", "the nearest that was measured is rag.answer_f1."),
        (
            "rag.zzzzz",
            "metric_not_measured_known",
            "rag.zzzzz; measured were rag.answer_f1, rag.context_recall, rag.empty.",
        ),
        ("rag.faithfulness", "metric_not_measured", "No case of this file measures rag.faithfulness."),
        ("qa.answer_f1", "metric_not_measured", "No case of this file measures qa.answer_f1."),
        # Known, and yet without anything to divide by.
        ("metrics.empty", "no_value", "No case gives metrics.empty anything to divide by"),
    ],
)
def test_a_metric_that_no_case_knows_is_told_from_one_without_a_value(metric: str, reason: str, named: str):
    figures = {"answer_f1_by_type.odd": (1, 2), "answer_f1": (1, 2), "context_recall": (1, 1), "empty": (0, 0)}
    stages = dict.fromkeys(("rag", "qa"), "scored")
    records = [case("c", {section: ratio_record(**figures) for section in ("rag", "metrics")}, stages=stages)]
    run = run_info(stages=("all",), supported_stages=tuple(stages))
    result = only(records, f"P0 {metric} >= 0.5", run=run, truth_counts=dict.fromkeys(stages, 1))
    assert (result.status, result.reason_id) == ("unmeasured", reason)
    assert named in result.reason
    assert named not in sentence(reason, "zh", result.reason_values or {})


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_gate_on_the_value_itself_is_always_met(units, hits):
    hits = min(hits, units)
    records = [case("a", {"l1": ratio_record(memory_recall=(hits, units))})]
    for op, status in ((">=", "passed"), ("<=", "passed"), (">", "missed"), ("<", "missed")):
        assert only(records, f"P0 l1.memory_recall {op} {hits / units!r}").status == status


def test_a_gate_carries_its_interval_and_size():
    result = only(recall_cases(*([1.0] * 5 + [0.5] * 5)), "P1 l1.memory_recall >= 0.7")
    assert result.value == 0.75
    assert result.interval is not None
    assert result.interval[0] < 0.75 < result.interval[1]
    assert result.n == {"units": 10, "cases": 10, "clusters": 10}
    assert result.scope == SET
    assert result.gate == "P1 l1.memory_recall >= 0.7"


def test_a_stage_that_is_not_selected_is_not_applicable():
    for origin in ("default", "file", "command line"):
        result = only(recall_cases(1.0), origin=origin, run=run_info(stages=("l15",)))
        assert result.status == "not_applicable"
        assert result.reason == "Stage l1 is not selected in this run."


def test_selecting_l2_selects_template_too():
    records = [case("a", {"l2": ratio_record(section_hit_rate=(1, 1))})]
    gate = "P0 l2.section_hit_rate >= 0.5"
    assert only(records, gate, run=run_info(stages=("l2",))).status == "passed"
    assert only(records, gate, run=run_info(stages=("l1",))).status == "not_applicable"


@pytest.mark.parametrize(
    ("origin", "status"), [("default", "not_applicable"), ("file", "unmeasured"), ("ini", "unmeasured")]
)
def test_no_truth_in_the_file(origin, status):
    result = only(recall_cases(1.0), "P0 l15.action_accuracy >= 0.8", origin=origin)
    assert result.status == status
    assert "l15" in result.reason


@pytest.mark.parametrize(("origin", "status"), [("default", "not_applicable"), ("file", "unmeasured")])
def test_a_stage_that_the_engine_lacks(origin, status):
    run = run_info(supported_stages=("l15",))
    records = [case("a", {}, stages={"l1": "unsupported"})]
    result = only(records, origin=origin, run=run)
    assert result.status == status
    assert "does not support" in result.reason


@pytest.mark.parametrize(("origin", "status"), [("default", "not_applicable"), ("file", "unmeasured")])
def test_a_stage_that_no_case_could_run_counts_as_unsupported(origin, status):
    """One run may hold several engines: what the run supports need not be what this file's engine does."""
    result = only([case("a", {}, stages={"l1": "unsupported"})], origin=origin)
    assert (result.status, result.reason_id) == (status, "stage_unsupported")


@pytest.mark.parametrize("origin", ["default", "file", "ini", "command line"])
def test_where_no_case_at_all_was_scored_gates_are_unmeasured(origin):
    run = run_info(stages=("inject",))
    result = only([skipped_case("c1")], origin=origin, run=run)
    assert result.status == "unmeasured"
    assert "No case of this run was scored" in result.reason
    # Nobody wrote the default ones down: they ask for nothing that the file has no labels for.
    unlabelled = only([skipped_case("c1")], origin=origin, run=run, truth_counts={"inject": 1})
    assert unlabelled.status == ("not_applicable" if origin == "default" else "unmeasured")
    # Another file of the run was measured: this one was left out on purpose.
    other = case("c2", {"inject": ratio_record(block_presence_rate=(1, 1))}, set="cases/v002.yaml")
    sets = [scope(RECALL, origin=origin), set_info(path="cases/v002.yaml")]
    result = evaluate_gates(run, sets, [skipped_case("c1"), other])[0]
    assert result.status == "not_applicable"


def test_a_reason_within_a_reason_is_said_in_chinese_too():
    result = only([skipped_case("c1")], run=run_info(stages=("inject",)))
    read = GateResult.from_json(result.to_json())
    assert sentence(read.reason_id, "zh", read.reason_values) == "本次运行未选择阶段 l1。本次运行没有任何用例被评分。"


def test_a_selection_that_leaves_no_truth_is_not_applicable():
    records = [case("a", {}, stages={"l1": "no_truth"})]
    result = only(records, run=run_info(partial="selected"))
    assert result.status == "not_applicable"
    assert only(records, run=run_info()).status == "unmeasured"
    assert only([], run=run_info(partial="selected")).status == "not_applicable"


def test_a_selection_counts_and_says_so():
    result = only(recall_cases(0.9, 0.9), run=run_info(partial="selected"), cases=80)
    assert result.status == "passed"
    assert "2 of the file's 80 cases" in result.reason


def test_all_cases_skipped_is_unmeasured():
    result = only([skipped_case("a"), skipped_case("b")])
    assert result.status == "unmeasured"
    assert "skipped (2)" in result.reason
    assert only([skipped_case("a"), *recall_cases(1.0)]).status == "passed"


def test_errors_beyond_the_allowed_share_make_a_value_unmeasured():
    records = [*recall_cases(*[1.0] * 77), *(errored_case(900 + i) for i in range(3))]
    result = only(records)
    assert result.status == "unmeasured"
    assert "3 of 80 errored" in result.reason
    assert only(records, run=run_info(max_error_rate=3 / 80)).status == "passed"
    assert only(records, run=run_info(max_error_rate=0.03)).status == "unmeasured"


def test_errors_count_per_stage():
    """An error in scenes does not touch the gate on sections."""
    stages = {"l1": "scored", "l2": "errored", "template": "scored"}
    records = [case("a", {"l2": ratio_record(section_hit_rate=(1, 1))}, stages=stages)]
    fields = {"truth_counts": {"l1": 1, "l2": 1, "template": 1}}
    assert only(records, "P0 l2.section_hit_rate >= 0.5", **fields).status == "passed"
    assert only(records, "P0 l2.scene_grouping_f1 >= 0.5", **fields).status == "unmeasured"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_f02_a_gate_on_a_metric_that_is_not_finite_is_unmeasured(bad):
    result = only(recall_cases(1.0, bad, 1.0))
    assert result.status == "unmeasured"
    assert "was NaN, infinite or too large to count in 1 case" in result.reason
    assert passed_p0([result]) is False
    dumps(result.to_json()).index('"unmeasured"')


def test_a_metric_without_a_value_is_unmeasured():
    result = only([case("a", {"l1": ratio_record(memory_recall=(0, 0))})])
    assert (result.status, result.value) == ("unmeasured", None)


def test_cases_without_a_result_make_p0_unmeasured_and_leave_p1():
    run = run_info(not_run=((SET, "eval-9"), ("other.yaml", "x")))
    p0, p1 = evaluate_gates(run, [scope("P1 l1.memory_recall >= 0.5", RECALL)], recall_cases(1.0))
    assert (p0.level, p0.status) == ("P0", "unmeasured")
    assert "2 selected case(s) left no result (1 of them in this file)" in p0.reason
    assert (p1.level, p1.status) == ("P1", "passed")


def test_an_aborted_run_decides_no_p0_gate():
    p0, p1 = evaluate_gates(
        run_info(partial="aborted"), [scope(RECALL, "P1 l1.memory_recall >= 0.5")], recall_cases(1.0)
    )
    assert (p0.status, p1.status) == ("unmeasured", "passed")
    assert only([], run=run_info(partial="aborted")).status == "unmeasured"


def test_command_line_gates_replace_those_on_the_same_metric_in_every_scope():
    run = run_info(gates=(("P1 l1.memory_recall >= 0.1", "command line"),))
    own = scope(
        RECALL, "P2 l1.memory_recall >= 0.9", "P0 l1.memory_precision >= 0.5", "P0 l1.memory_recall{tag=slow} >= 1"
    )
    assert [str(gate) for gate in scope_gates(run, own)] == [
        "P0 l1.memory_precision >= 0.5",
        "P0 l1.memory_recall{tag=slow} >= 1",
        "P1 l1.memory_recall >= 0.1",
    ]
    other = set_info(path="b.yaml", gates=())
    results = evaluate_gates(run, [own, other], recall_cases(1.0))
    assert {result.scope for result in results if result.metric == "l1.memory_recall"} == {SET, "b.yaml"}


def test_every_file_is_a_scope_of_its_own():
    records = [*recall_cases(1.0), case("z", {"l1": ratio_record(memory_recall=(0, 1))}, set="b.yaml")]
    results = evaluate_gates(run_info(), [scope(RECALL), scope(RECALL, path="b.yaml")], records)
    assert [result.status for result in results] == ["passed", "missed"]
    assert p0_status(results) == {RECALL: "missed"}
    assert passed_p0(results) is False


@pytest.mark.parametrize(
    ("statuses", "worst", "passed"),
    [
        (["passed", "passed"], "passed", True),
        (["passed", "not_applicable"], "passed", True),
        (["not_applicable", "not_applicable"], "not_applicable", None),
        (["passed", "unmeasured"], "unmeasured", False),
        (["unmeasured", "missed"], "missed", False),
    ],
)
def test_the_worst_status_over_the_scopes_decides(statuses, worst, passed):
    results = [
        GateResult(f"{i}.yaml", "P0", "l1.memory_recall", ">=", 0.8, None, None, None, status, "So it is.")
        for i, status in enumerate(statuses)
    ]
    assert p0_status(results) == {RECALL: worst}
    assert passed_p0(results) is passed


def test_p1_gates_never_fail_the_run():
    result = only(recall_cases(0.0), "P1 l1.memory_recall >= 0.5")
    assert result.status == "missed"
    assert passed_p0([result]) is None


def test_a_filtered_gate_is_measured_over_the_matching_cases():
    records = [
        case("a", {"l1": ratio_record(memory_recall=(1, 1))}, difficulty="hard"),
        case("b", {"l1": ratio_record(memory_recall=(0, 1))}, difficulty="easy"),
    ]
    hard = only(records, "P0 l1.memory_recall{difficulty=hard} >= 0.8")
    assert (hard.status, hard.value, hard.n["cases"]) == ("passed", 1.0, 1)
    nobody = only(records, "P0 l1.memory_recall{tag=slow} >= 0.8")
    assert nobody.status == "unmeasured"
    assert "{tag=slow}" in nobody.reason


def test_a_filtered_gate_ignores_errors_elsewhere():
    records = [*recall_cases(1.0), errored_case(1, difficulty="hard")]
    assert only(records, "P0 l1.memory_recall{difficulty=unspecified} >= 0.8").status == "passed"
    assert only(records).status == "unmeasured"


def test_defaults_of_a_set_with_l1_and_sections_only():
    records = [full_case(number) for number in range(12)]
    results = evaluate_gates(run_info(), [scope(*DEFAULT_DISTILL_GATES, origin="default")], records)
    statuses = {result.metric: result.status for result in results}
    assert statuses["l15.action_accuracy"] == statuses["search.ndcg@10"] == "not_applicable"
    assert statuses["l1.strict_match_rate"] in ("passed", "missed")
    assert statuses["l2.profile_quality"] == "missed"
    assert all(result.reason.endswith(".") for result in results)
    assert [result.level for result in results] == sorted(result.level for result in results)


def test_no_gates_when_switched_off_and_an_unreadable_gate_is_an_error():
    assert evaluate_gates(run_info(gates_enabled=False), [scope(RECALL)], recall_cases(0.0)) == []
    with pytest.raises(ThresholdError, match="memory_recall"):
        only(recall_cases(1.0), "P0 l1.memory_recal >= 0.8")


def test_a_result_survives_its_json_form():
    result = only(recall_cases(0.7996))
    assert GateResult.from_json(result.to_json()) == result
    assert GateResult.from_json({**result.to_json(), "later": 1}) == result


def test_records_may_come_in_any_order():
    records = [full_case(number) for number in range(9)]
    gates = [scope("P0 l1.dimension_micro_f1 >= 0.5", "P1 l2.profile_quality >= 0.5")]
    assert evaluate_gates(run_info(), gates, records) == evaluate_gates(run_info(), gates, records[::-1])


COVERAGE = "P0 inject.pipeline_coverage >= 0.9"


def inject_case(name: str, *, l1: str = "scored", l15: str = "no_truth"):
    """A case whose labelled half of injection was measured; the pipeline's too, unless a stage before it failed."""
    ratios = {"reference_coverage": (1, 1)}
    if {l1, l15} <= {"scored", "ran", "no_truth"}:
        ratios["pipeline_coverage"] = (1, 1)
    return case(name, {"inject": ratio_record(**ratios)}, stages={"l1": l1, "l15": l15, "inject": "scored"})


@pytest.mark.parametrize(
    "broken",
    [
        {"l1": "errored", "l15": "void"},
        {"l1": "ran_errored", "l15": "ran_errored"},
        {"l15": "errored"},
        {"l15": "ran_errored"},
    ],
    ids=["l1", "unlabelled l1", "l15", "unlabelled l15"],
)
def test_a_case_whose_pipeline_broke_is_lost_to_the_pipelines_injection(broken):
    records = [inject_case("a"), inject_case("b", **broken)]
    scope = {"truth_counts": {"l1": 2, "inject": 2}}
    found = only(records, COVERAGE, **scope)
    assert (found.status, found.reason_id) == ("unmeasured", "too_many_errors")
    assert found.reason.startswith("1 of 2 errored")
    # Nothing before it has to work for injection of the labelled memories.
    assert only(records, "P0 inject.reference_coverage >= 0.9", **scope).status == "passed"
    assert only(records, COVERAGE, run=run_info(max_error_rate=0.5), **scope).status == "passed"
    assert only(records[:1], COVERAGE, **scope).status == "passed"


def test_the_stages_that_the_pipelines_injection_builds_on_need_not_be_selected_or_labelled():
    records = [inject_case("a", l1="ran", l15="ran")]
    run = run_info(stages=("inject",))
    assert only(records, COVERAGE, run=run, truth_counts={"inject": 1}).status == "passed"


@pytest.mark.parametrize(
    ("section", "trustworthy", "status"),
    [("qa", False, UNMEASURED), ("qa", True, None), ("qa", None, None), ("metrics", False, None)],
)
def test_a_judge_that_cannot_be_trusted_voids_gates_on_its_scores(section, trustworthy, status):
    rate = {"value": 0.9, "interval": [0.715, 0.97]}
    controls = {"trustworthy": trustworthy, "sensitivity": rate, "specificity": {"interval": [0.9, 1.0]}, "least": 0.8}
    run = run_info(judge={"model": "j", "controls": controls})
    found = _Scope(run, scope(), (), {})._measured(MetricPath(section, "judge_score"), (), {}, 0.9)
    assert (found.status if found else None) == status
    if found:
        assert found.values == {"sensitivity": "0.715", "specificity": "0.900", "least": "0.800"}
