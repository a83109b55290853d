from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import errored_case, full_case, run_info, set_info

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import build_report
from pytest_memeval.report.entries import case_entry
from pytest_memeval.report.funnel import CAUSES, FUNNEL_STAGES, case_funnel, run_funnel


def pair(truth: int, missed: tuple[str, ...] = (), extra: tuple[str, ...] = (), pred: int = 0) -> dict[str, Any]:
    return {"truth": truth, "pred": pred, "missed": list(missed), "extra": list(extra)}


def entry(count: int, pairs: list[dict[str, Any]], **details: Any) -> dict[str, Any]:
    """An entry with so many labelled memories; ``details`` by section."""
    found = {one["truth"] for one in pairs}
    first = {"truth": [{"content": f"fact {n}"} for n in range(count)], **details.pop("l1", {})}
    return {
        "case_id": "eval-001",
        "matched_memories": pairs,
        "unmatched_gt": [n for n in range(count) if n not in found],
        "facts": details.pop("facts", []),
        "l1": {"details": first},
        **{section: {"details": value} for section, value in details.items()},
    }


def losses(given: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    return [(row["lost_at"], row["cause"]) for row in case_funnel(given) or ()]


def action(memory: int, expected: str = "store", decided: str = "store", targets_right: bool = True) -> dict[str, Any]:
    right = expected == decided
    return {
        "memory": memory,
        "expected": expected,
        "decided": decided,
        "action_right": right,
        "decision_right": right and targets_right,
    }


def unit(memory: int, expected: str, *placed: str, mode: str = "daily") -> dict[str, Any]:
    return {"mode": mode, "memory": memory, "expected": expected, "placed": list(placed)}


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        (entry(1, []), ("extracted", "not_extracted")),
        (entry(1, [], l1={"near_misses": [{"truth": 0, "pred": 2, "similarity": 0.4}]}), ("extracted", "near_miss")),
        (entry(1, [pair(0, ("goals",))]), ("labelled", "label_missing")),
        (entry(1, [pair(0, ("goals",), ("tasks",))]), ("labelled", "label_wrong")),
        (
            entry(1, [pair(0, ("goals",), pred=3)], facts=[{"kind": "dropped_label", "memory_index": 3}]),
            ("labelled", "label_dropped"),
        ),
        (entry(1, [pair(0, (), ("tasks",))]), (None, None)),
        (entry(1, [pair(0)], l15={"actions": [action(0, "update", "store")]}), ("resolved", "wrong_action")),
        (entry(1, [pair(0)], l15={"actions": [action(0, "update", "none")]}), ("resolved", "no_decision")),
        (
            entry(1, [pair(0)], l15={"actions": [action(0, "update", "update", targets_right=False)]}),
            ("resolved", "wrong_target"),
        ),
        (entry(1, [pair(0)], l2={"scenes": {"in_no_scene": [0]}}), ("aggregated", "in_no_scene")),
        (
            entry(1, [pair(0)], l15={"actions": [action(0, "skip", "skip")]}, l2={"scenes": {"in_no_scene": [0]}}),
            (None, None),
        ),
        (entry(1, [pair(0)], l2={"sections": {"units": [unit(0, "goals")]}}), ("placed", "in_no_section")),
        (entry(1, [pair(0)], l2={"sections": {"units": [unit(0, "goals", "tasks")]}}), ("placed", "wrong_section")),
        (
            entry(1, [pair(0)], l2={"sections": {"units": [unit(0, "a", "a"), unit(0, "b", "a", mode="work")]}}),
            ("placed", "wrong_section"),
        ),
        (entry(1, [pair(0)], inject={"fate": {"0": False}}), ("injected", "not_injected")),
        (
            entry(1, [pair(0)], search={"queries": [{"query": "q", "relevant": ["eval-001#0"], "ids": ["x#1"]}]}),
            ("found", "not_found"),
        ),
        (
            entry(1, [pair(0)], search={"queries": [{"query": "q", "relevant": ["eval-002#0"], "ids": ["x#1"]}]}),
            (None, None),
        ),
    ],
)
def test_a_fact_is_lost_at_the_first_stage_that_lost_it(given, loss):
    assert losses(given) == [loss]
    assert loss[0] is None or loss[1] in CAUSES[loss[0]]


def test_later_stages_are_not_asked_about_a_lost_fact_and_unmeasured_ones_are_passed_over():
    given = entry(
        2,
        [pair(0), pair(1, ("goals",))],
        l2={"sections": {"units": [unit(0, "a", "a"), unit(1, "a")]}},
        inject={"fate": {"0": True}},
    )
    assert case_funnel(given) == [
        {"memory": 0, "kept": ["extracted", "labelled", "placed", "injected"], "lost_at": None, "cause": None},
        {"memory": 1, "kept": ["extracted"], "lost_at": "labelled", "cause": "label_missing"},
    ]


def test_a_case_without_figures_of_extraction_has_no_funnel_and_an_empty_one_has_no_rows():
    assert case_funnel(case_entry(errored_case(1))) is None
    assert case_funnel(entry(0, [])) == []
    assert run_funnel([case_entry(errored_case(1)), entry(0, [])]) is None


def test_the_runs_funnel_adds_up():
    report = build_report(run_info(), [set_info()], [full_case(n) for n in range(12)])
    funnel = report["funnel"]
    assert funnel["facts"] == 24
    assert funnel["cases"] == 12
    left = funnel["facts"]
    for stage in funnel["stages"]:
        assert stage["kept"] + stage["lost"] + stage["not_measured"] == left
        assert stage["measured"] == stage["kept"] + stage["lost"]
        assert sum(stage["causes"].values()) == stage["lost"]
        left -= stage["lost"]
    assert left == funnel["kept"] == funnel["facts"] - funnel["lost"]
    extracted = funnel["stages"][0]
    assert extracted["kept"] == round(report["l1"]["memory_recall"] * 24)


def test_stages_that_did_not_run_say_not_measured():
    report = build_report(run_info(), [set_info()], [full_case(1)])
    by_stage = {stage["stage"]: stage for stage in report["funnel"]["stages"]}
    assert tuple(by_stage) == FUNNEL_STAGES
    assert by_stage["injected"]["measured"] == 0
    assert by_stage["found"]["measured"] == 0


def test_reports_without_a_funnel_get_one_from_their_entries():
    entries = [case_entry(full_case(n)) for n in range(6)]
    older = [{key: value for key, value in one.items() if key != "funnel"} for one in entries]
    assert run_funnel(older) == run_funnel(entries)


def test_figures_of_stages_are_no_part_of_the_text_policy():
    results = [full_case(1), replace(full_case(2), sections={"l1": SectionRecord()})]
    full, none = (build_report(run_info(), [set_info()], results, report_text=policy) for policy in ("full", "none"))
    assert full["funnel"] == none["funnel"]


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.booleans(), st.sampled_from([None, True, False]), st.sampled_from([None, True, False])
        ),
        max_size=12,
    )
)
def test_every_fact_is_counted_once(facts):
    pairs = [pair(n, () if labelled else ("x",)) for n, (found, labelled, _, _) in enumerate(facts) if found]
    given = entry(
        len(facts),
        pairs,
        l15={
            "actions": [
                action(n, "store", "store" if right else "skip")
                for n, (_, _, right, _) in enumerate(facts)
                if right is not None
            ]
        },
        inject={"fate": {str(n): arrived for n, (_, _, _, arrived) in enumerate(facts) if arrived is not None}},
    )
    rows = case_funnel(given)
    assert [row["memory"] for row in rows] == list(range(len(facts)))
    whole = run_funnel([given])
    if whole is None:
        assert not facts
        return
    assert whole["kept"] + sum(stage["lost"] for stage in whole["stages"]) == len(facts)
    assert all(stage["not_measured"] >= 0 for stage in whole["stages"])
