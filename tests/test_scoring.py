"""From stage outputs and labels to figures."""

from __future__ import annotations

from typing import Any

import pytest
from run_bench import TEXTS, full_case, memory, scorer, truth

from pytest_memeval.cases.models import (
    EvalCase,
    GtConflictAction,
    GtScene,
    InjectGroundTruth,
    L2GroundTruth,
    L15GroundTruth,
)
from pytest_memeval.expectations import case_value, expectations_of, missed_expectations
from pytest_memeval.live_memories import decisions_by_memory, labelled_memories, live_id
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.thresholds import parse_path, parse_threshold
from pytest_memeval.values import Block, Decision, Memory, Message, Scene, Section

PREDICTED = [memory(f"n{at}", text) for at, text in enumerate(TEXTS)]


def values(section: SectionRecord) -> dict[str, Any]:
    return section.values()


def sections_case(*, existing: bool = True, **expected: dict[int, str]) -> EvalCase:
    fields: dict[str, Any] = {} if existing else {"existing_memories": (), "existing_scenes": ()}
    return full_case(expected_l2=L2GroundTruth((), (), expected), **fields)


# -- provenance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "identity"),
    [
        (None, "n0"),
        (Decision(0, "store"), "n0"),
        (Decision(0, "store", result_id="x9"), "x9"),
        (Decision(0, "update", ("m1",)), "m1"),
        (Decision(0, "skip", ("m1",)), "m1"),
        (Decision(0, "merge", ("m1", "m2"), result_id="m3"), "m3"),
        (Decision(0, "merge", ("m1", "m2")), None),
        (Decision(0, "update", ("m1", "m2")), None),
        (Decision(0, "explode"), None),
    ],
)
def test_the_id_that_a_memory_lives_on_under(decision: Decision | None, identity: str | None) -> None:
    assert live_id(memory("n0", "x"), decision) == identity


@pytest.mark.parametrize(
    "decision",
    [
        Decision(0, "store", result_id="kept"),
        Decision(0, "update", ("m1",), "kept", "m1"),
        Decision(0, "skip", ("m1",), result_id="m1"),
        Decision(0, "merge", ("m1",), "all of it", "m9"),
    ],
    ids=lambda decision: decision.action,
)
def test_later_truths_are_looked_up_by_live_id(decision: Decision) -> None:
    placed = {"daily": [Section("basic_info", "b", (str(decision.result_id),))]}
    found = scorer(sections_case(daily={0: "basic_info"}), l1=PREDICTED, l15=[decision], template=placed)
    assert values(found.section_l2(scenes=False, sections=True))["section_hit_rate"] == 1
    assert not found.matched_by_content("template")


def test_a_truth_that_extraction_missed_is_a_miss_and_unreached() -> None:
    placed = {"daily": [Section("basic_info", "b", ("n0",)), Section("daily_life", "d", ("n1",))]}
    case = sections_case(daily={0: "basic_info", 1: "daily_life"})
    section = scorer(case, l1=PREDICTED[:1], l15=[], template=placed).section_l2(scenes=False, sections=True)
    assert values(section)["section_hit_rate"] == 0.5
    assert section.counts["unreached"] == 1
    # What was placed although no truth stands behind it is a mis-entry.
    assert values(section)["section_misentry_rate"] == 0.5


def test_an_engine_without_ids_is_matched_by_content() -> None:
    predicted = [Memory(None, text, ("identity",)) for text in TEXTS]
    decisions = [Decision(0, "store"), Decision(1, "update", (), "drinks green tea each morning")]
    placed = {
        "daily": [
            Section("basic_info", "b", (TEXTS[0],)),
            Section("daily_life", "d", ("Drinks green tea each morning", "drinks coffee every morning")),
        ]
    }
    case = sections_case(daily={0: "basic_info", 1: "daily_life", 2: "goals"})
    found = scorer(case, l1=predicted, l15=decisions, template=placed)
    section = found.section_l2(scenes=False, sections=True)
    assert values(section)["section_hit_rate"] == pytest.approx(2 / 3)
    # Existing memories count on neither side, whatever names them; the third one was reached and is nowhere.
    assert values(section)["section_misentry_rate"] == 0
    assert section.counts["unreached"] == 0
    assert found.matched_by_content("template")


def test_provenance_does_not_depend_on_which_stage_was_scored_first() -> None:
    predicted = [Memory(None, text, ("identity",)) for text in TEXTS]
    placed = {"daily": [Section("basic_info", "b", (TEXTS[0],))]}
    case = sections_case(daily={0: "basic_info"})
    found = scorer(case, l1=predicted, l15=[Decision(0, "store")])
    found.stage_metrics("l1")
    found.stage_metrics("l15")
    found.outputs.template = placed
    section = found.stage_metrics("template")
    assert section is not None
    assert values(section)["section_hit_rate"] == 1


def test_an_engine_with_ids_is_never_matched_by_content() -> None:
    placed = {"daily": [Section("goals", "g", ("n1", "m1"))]}
    case = sections_case(daily={0: "basic_info"})
    found = scorer(case, l1=PREDICTED, l15=[], template=placed)
    assert values(found.section_l2(scenes=False, sections=True))["section_hit_rate"] == 0
    assert not found.matched_by_content("template")


def test_labelled_memories_have_ids_and_times_of_their_last_source() -> None:
    from datetime import UTC, datetime

    moment = datetime(2026, 1, 1, tzinfo=UTC)
    case = full_case(conversation=(Message("msg_1", "user", "x", time=moment),))
    found = labelled_memories(case)
    assert [one.id for one in found] == ["eval-001#0", "eval-001#1", "eval-001#2"]
    assert {one.created_at for one in found} == {moment}
    assert labelled_memories(full_case(expected_l1=None)) == []


# -- L1.5 ------------------------------------------------------------------------------------------------------------


def l15(
    *decisions: Decision, chained: bool = True, facts: Any = (), case: EvalCase | None = None, **outputs: Any
) -> Any:
    given = {"l1": PREDICTED, **outputs}
    return scorer(case or full_case(), chained=chained, facts=facts, l15=list(decisions), **given).section_l15()


def test_right_decisions() -> None:
    found = values(l15(Decision(0, "store"), Decision(1, "update", ("m1",), TEXTS[1]), Decision(2, "store")))
    assert found["action_accuracy"] == found["decision_accuracy"] == found["merged_content_match"] == 1
    assert found["bad_decisions"] == 0


@pytest.mark.parametrize(
    "bad",
    [
        Decision(1, "update", ("m99",), TEXTS[1]),
        Decision(1, "explode", ("m1",)),
        Decision(7, "store"),
        Decision(-1, "store"),
    ],
    ids=["invented target", "unknown action", "index too large", "negative index"],
)
@pytest.mark.parametrize("chained", [True, False])
def test_f29_bad_decisions_of_any_engine_are_counted_and_change_nothing_else(bad: Decision, chained: bool) -> None:
    found = values(l15(bad, Decision(1, "update", ("m1",), TEXTS[1]), chained=chained))
    assert found["bad_decisions"] == 1
    assert found["action_recall.update"] == 1


def test_what_the_engine_reported_itself_is_not_counted_twice() -> None:
    facts = [{"kind": "bad_decision", "stage": "l15", "reason": "unknown target '99'"}]
    found = values(l15(Decision(0, "store"), Decision(1, "update", ("m1",)), facts=facts))
    assert found["bad_decisions"] == 1


def test_the_first_decision_with_a_known_action_counts() -> None:
    given = [Decision(0, "explode", result_id="a"), Decision(0, "store", result_id="b"), Decision(0, "skip")]
    assert decisions_by_memory(full_case(), PREDICTED, given)[0].result_id == "b"
    assert values(l15(*given))["bad_decisions"] == 2


@pytest.mark.parametrize(
    "bad",
    [
        Decision(1, "update", ("zz",), "something else", "zz"),
        Decision(1, "update", ("zz",)),
        Decision(1, "explode", ("m1",), result_id="m1"),
    ],
    ids=["invented target", "invented target, no result", "unknown action"],
)
@pytest.mark.parametrize("counts", [Decision(1, "store"), None], ids=["then store", "nothing else"])
def test_f29_a_decision_that_does_not_count_does_not_place_its_memory_either(
    bad: Decision, counts: Decision | None
) -> None:
    decisions = [bad] if counts is None else [bad, counts]
    placed = {"daily": [Section("daily_life", "d", ("n1",))]}
    found = scorer(sections_case(daily={1: "daily_life"}), l1=PREDICTED, l15=decisions, template=placed)
    assert values(found.section_l15())["bad_decisions"] == 1
    assert values(found.section_l2(scenes=False, sections=True))["section_hit_rate"] == 1
    assert not found.matched_by_content("template")


def test_f29_one_rule_says_which_decision_counts_for_figures_and_for_places() -> None:
    given = [Decision(1, "update", ("zz",)), Decision(1, "update", ("m1",)), Decision(9, "skip", ("m1",))]
    assert decisions_by_memory(full_case(), PREDICTED, given) == {1: given[1]}
    assert values(l15(*given))["action_recall.update"] == 1
    # Without the ids of the stored memories nobody knows which targets are invented.
    unknown = full_case(existing_memories=(memory(None, "drinks coffee every morning"),))
    assert decisions_by_memory(unknown, PREDICTED, given) == {1: given[0]}


def test_a_decision_that_does_not_count_still_tells_the_id_of_a_memory_without_one() -> None:
    nameless = [Memory(None, text, ("identity",)) for text in TEXTS]
    bad = Decision(1, "ADD", ("zz",), "something else", "x1")
    assert decisions_by_memory(full_case(), nameless, [bad]) == {1: Decision(1, "store", result_id="x1")}


def test_another_new_memory_is_a_target_that_exists() -> None:
    case = full_case(expected_l15=L15GroundTruth((GtConflictAction(2, "skip", ()),)))
    found = values(l15(Decision(2, "skip", ("n0",)), case=case))
    assert (found["bad_decisions"], found["action_accuracy"], found["decision_accuracy"]) == (0, 1, 0)


def test_an_engine_without_ids_names_targets_by_content() -> None:
    found = values(l15(Decision(1, "update", ("drinks coffee every morning",))))
    assert found["bad_decisions"] == 0
    assert found["decision_accuracy"] == pytest.approx(1 / 3)


def test_with_labelled_input_nothing_is_unreached() -> None:
    found = l15(Decision(0, "store"), chained=False, l1=[])
    assert values(found)["action_accuracy"] == pytest.approx(1 / 3)
    assert found.counts["unreached"] == 0
    assert l15(Decision(0, "store"), l1=[]).counts["unreached"] == 3


# -- L2 --------------------------------------------------------------------------------------------------------------


def test_a_loaded_scene_counts_where_it_holds_a_reached_memory() -> None:
    case = full_case(expected_l2=L2GroundTruth(("Mornings",), (GtScene("Mornings", (0, 1)),)))
    loaded = [Scene("s1", "Mornings", ("n0", "n1")), Scene("s0", "Untouched", ("m7",))]
    case = full_case(
        expected_l2=case.expected_l2, existing_scenes=(Scene("s1", "Mornings"), Scene("s0", "Untouched", ("m7",)))
    )
    found = values(scorer(case, l1=PREDICTED, l15=[], l2=loaded).section_l2(scenes=True, sections=False))
    assert found["scene_grouping_f1"] == 1
    assert found["scene_label_precision"] == 1
    assert found["scene_count_ratio"] == 1


def test_scenes_of_an_engine_without_ids() -> None:
    case = full_case(expected_l2=L2GroundTruth((), (GtScene("Work", (0, 2)), GtScene("Mornings", (1,)))))
    predicted = [Memory(None, text, ("identity",)) for text in TEXTS]
    made = [Scene("a", "Work", (TEXTS[0], TEXTS[2])), Scene("b", "Mornings", (TEXTS[1],))]
    found = scorer(case, l1=predicted, l2=made)
    assert values(found.section_l2(scenes=True, sections=False))["scene_grouping_f1"] == 1
    assert found.matched_by_content("l2")


def test_profile_quality_needs_both_figures() -> None:
    placed = {"daily": [Section("basic_info", "b", ("n0",))]}
    found = scorer(sections_case(daily={0: "basic_info", 1: "daily_life"}), l1=PREDICTED[:1], l15=[], template=placed)
    path = parse_path("l2.profile_quality")
    both = found.sections(("l1", "template"))
    expected = values(both["l1"])["dimension_micro_f1"] * 0.5
    assert case_value(both, path) == pytest.approx(expected)
    assert case_value(found.sections(("template",)), path) is None
    assert case_value({}, path) is None


# -- inject ----------------------------------------------------------------------------------------------------------


def block(*ids: str, present: bool = True) -> Block:
    return Block("t", ids, present, "")


def test_injection_is_measured_on_labels_and_on_the_pipeline() -> None:
    case = full_case(expected_inject=InjectGroundTruth("daily", (), (0, 1)))
    found = values(
        scorer(
            case,
            l1=PREDICTED[:1],
            l15=[Decision(0, "store", result_id="k")],
            inject_labelled=[block("eval-001#0", "eval-001#1"), block("eval-001#2")],
            inject_pipeline=[block("k"), block("m1", present=False)],
        ).section_inject()
    )
    assert found == {
        "inject_hit_rate": 0.5,
        "reference_coverage": 1,
        "pipeline_hit_rate": 1,
        # The second memory was never extracted: it stays in the denominator.
        "pipeline_coverage": 0.5,
        "redundancy": 0,
        "pipeline_redundancy": 0,
        # The blocks have no text, and the case no budget.
        "tokens_per_block": None,
        "budget_use": None,
        "over_budget": 0,
    }


def test_injection_by_an_engine_without_ids() -> None:
    case = full_case(expected_inject=InjectGroundTruth("daily", (), (0, 1)))
    found = scorer(case, inject_labelled=[block(TEXTS[0], TEXTS[1])])
    assert values(found.section_inject())["reference_coverage"] == 1
    assert found.matched_by_content("inject")


# -- expectations ----------------------------------------------------------------------------------------------------


def record(value: float) -> dict[str, SectionRecord]:
    return {"l1": SectionRecord(ratios={"dimension_micro_f1": (value, 1.0), "memory_recall": (0, 0)})}


def missed(value: float, bound: str, metric: str = "l1.dimension_micro_f1") -> list[str]:
    return missed_expectations(record(value), [parse_threshold(metric, bound)])


@pytest.mark.parametrize(
    ("value", "bound", "sentence"),
    [
        (0.79999996, ">= 0.8", "l1.dimension_micro_f1 is 0.79999996, expected >= 0.8"),
        (0.7996, ">= 0.80", "l1.dimension_micro_f1 is 0.7996, expected >= 0.8"),
        (0.8, "> 0.8", "l1.dimension_micro_f1 is 0.800, expected > 0.8"),
        (0.5, ">= 0.12345678901", None),
        (0.5, "<= 0.12345678901", "l1.dimension_micro_f1 is 0.500, expected <= 0.12345678901"),
        (0.1 + 0.7, ">= 0.8", None),
        (0.8 - 1e-10, ">= 0.8", None),
    ],
)
def test_f25_a_missed_threshold_shows_why(value: float, bound: str, sentence: str | None) -> None:
    assert missed(value, bound) == ([] if sentence is None else [sentence])


def test_a_null_metric_fails_the_cases_own_threshold_and_no_default() -> None:
    threshold = parse_threshold("l1.memory_recall", ">= 0.5")
    assert missed_expectations(record(1), [threshold]) == ["l1.memory_recall is null here, expected >= 0.5"]
    assert missed_expectations(record(1), [threshold], [threshold]) == []
    said = missed_expectations(record(1), [threshold], why=lambda found: f"{found.path.section} was left out")
    assert said == ["l1.memory_recall is null here, expected >= 0.5: l1 was left out"]


def test_defaults_hold_where_the_case_has_labels_and_names_no_other() -> None:
    own = parse_threshold("l1.dimension_micro_f1", ">= 0.9")
    default = [
        parse_threshold("l1.dimension_micro_f1", ">= 0.1"),
        parse_threshold("l15.action_accuracy", ">= 0.2"),
        parse_threshold("l2.profile_quality", ">= 0.3"),
        parse_threshold("l1.memory_recall{difficulty=hard}", ">= 0.4"),
    ]
    only_l1 = EvalCase("x", expected_l1=truth("a"), expect=(own,))
    assert expectations_of(only_l1, None, default) == (own,)
    assert [str(one.path) for one in expectations_of(full_case(difficulty="hard"), None, default)] == [
        "l1.dimension_micro_f1",
        "l15.action_accuracy",
        "l2.profile_quality",
        "l1.memory_recall{difficulty=hard}",
    ]
    # Thresholds on stages that were not selected are nobody's; profile quality needs l1 as well as the sections.
    assert [str(one.path) for one in expectations_of(full_case(), {"l15", "template"}, default)] == [
        "l15.action_accuracy"
    ]
    assert expectations_of(only_l1, {"l15"}, default) == ()
