from __future__ import annotations

import copy
import json
import math
import random
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from report_samples import SET, case, errored_case, full_case, ratio_record, run_info, set_info

from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.build import (
    SCHEMA_VERSION,
    VARYING_CASE_KEYS,
    VARYING_KEYS,
    build_report,
    is_embedded,
)
from pytest_memeval.report.json_report import dumps, report_chunks
from pytest_memeval.results import CallRecord

SCHEMA = json.loads((files("pytest_memeval") / "data/schemas/report.schema.json").read_text(encoding="utf-8"))

#: Formats: the keys that every report has.
REPORT_KEYS_TEXT = """
    schema_version run_id timestamp summary counts partial config prompt_versions model judge
    engine matcher metrics_spec l1 l15 l2 inject search rrf qa rag locomo longmemeval metrics
    case_sets gates per_case usage timings environment
"""
REPORT_KEYS = frozenset(REPORT_KEYS_TEXT.split())
CASE_KEYS_TEXT = """
    node_id set case_id variant source difficulty tags outcome l1_f1 strict_match matched_memories
    unmatched_pred unmatched_gt dimension_details l15 l2 inject search usage duration_seconds error
    errors stages outputs facts timings
"""
CASE_KEYS = frozenset(CASE_KEYS_TEXT.split())


def sample(**run: Any) -> dict[str, Any]:
    records = [*(full_case(number) for number in range(12)), errored_case(90)]
    return build_report(run_info(**run), [set_info()], records)


def validate(report: dict[str, Any]) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads("".join(report_chunks(report))))


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("policy", ["full", "hash", "none"])
def test_a_built_report_meets_the_schema(policy):
    records = [
        *(full_case(number) for number in range(12)),
        errored_case(90),
        case("custom", {"metrics": ratio_record(politeness=(1, 2)), "search": ratio_record(**{"ndcg@10": (1, 1)})}),
        case("skipped", {}, outcome="skipped", stages={"l1": "skipped"}),
        case("nan", {"l1": ratio_record(memory_recall=(math.nan, 1))}, variant="v002"),
    ]
    run = run_info(partial="selected", not_run=((SET, "x"),), notes=("A note.",))
    validate(build_report(run, [set_info(), set_info(path="b.yaml")], records, report_text=policy))
    validate(build_report(run_info(), [], []))


def test_the_schema_refuses_what_is_no_report():
    report = json.loads(dumps(sample()))
    for key in ("gates", "per_case", "l1", "summary"):
        broken = {name: value for name, value in report.items() if name != key}
        assert not Draft202012Validator(SCHEMA).is_valid(broken), key
    for path, value in ((("counts", "scored"), -1), (("l1", "memory_recall"), "high"), (("gates", 0, "status"), "ok")):
        broken = copy.deepcopy(report)
        place = broken
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert not Draft202012Validator(SCHEMA).is_valid(broken), path


def test_every_key_of_the_format_is_there_and_described():
    report = sample()
    assert report["schema_version"] == SCHEMA_VERSION
    assert report.keys() >= REPORT_KEYS
    assert report.keys() <= SCHEMA["properties"].keys()
    entry = report["per_case"][0]
    assert entry.keys() >= CASE_KEYS
    assert entry.keys() <= SCHEMA["$defs"]["case"]["properties"].keys()
    for name in ("l1", "l15", "l2", "inject", "search"):
        assert {"intervals", "n", "counts"} <= report[name].keys()


def test_counts_and_summary():
    report = sample(not_run=((SET, "eval-777"),))
    assert report["counts"] == {"scored": 12, "errored": 1, "skipped": 0, "not_run": 1, "total": 14}
    assert report["summary"]["total_cases"] == 14
    assert report["summary"]["passed_p0"] is False
    assert report["summary"]["p0_status"] == {"P0 l1.dimension_micro_f1 >= 0.3": "unmeasured"}
    assert report["summary"]["without_own_thresholds"] == 13
    assert report["case_sets"][SET]["counts"] == report["counts"]


def test_top_level_sections_are_over_all_cases_and_case_sets_over_their_own():
    records = [full_case(1), full_case(2, set="b.yaml"), full_case(4, set="unlisted.yaml")]
    report = build_report(run_info(), [set_info(), set_info(path="b.yaml"), set_info(path="empty.yaml")], records)
    assert report["l1"]["counts"]["scored"] == 3
    assert {path: scope["l1"]["counts"]["scored"] for path, scope in report["case_sets"].items()} == {
        SET: 1,
        "b.yaml": 1,
        "empty.yaml": 0,
        "unlisted.yaml": 1,
    }
    assert set(SECTIONS) <= report["case_sets"][SET].keys()
    assert [gate["scope"] for gate in report["gates"]] == [SET, SET, "b.yaml", "b.yaml", "empty.yaml", "empty.yaml"]
    assert report["case_sets"]["unlisted.yaml"]["gates"] == []


def test_an_entry_shows_its_l1_figures_at_the_top():
    entry = build_report(run_info(), [], [full_case(1)])["per_case"][0]
    assert entry["l1_f1"] == 1.0
    assert entry["strict_match"] is True
    assert [pair["truth"] for pair in entry["matched_memories"]] == [0, 1]
    assert entry["unmatched_pred"] == entry["unmatched_gt"] == []
    assert entry["dimension_details"]["family"] == {"tp": 1, "fp": 0, "fn": 0}
    assert entry["l2"]["values"]["profile_quality"] == pytest.approx(0.25)
    failed = build_report(run_info(), [], [errored_case(1)])["per_case"][0]
    assert failed["l1_f1"] is None
    assert failed["l1"] is None
    assert failed["error"]["stage"] == "l1"
    worse = build_report(run_info(), [], [full_case(4)])["per_case"][0]
    assert worse["strict_match"] is False
    assert worse["unmatched_gt"] == [1]


def test_unknown_tokens_are_unknown_and_not_zero():
    report = sample()
    assert report["usage"]["calls"] == 12
    assert report["usage"]["input_tokens"] == 1200
    assert report["usage"]["output_tokens"] == 220
    assert report["usage"]["unknown_tokens"] == 1
    assert report["usage"]["by_stage"]["l1_extraction"]["calls"] == 12
    silent = case("a", {}, calls=(CallRecord("1", "l1_extraction"), CallRecord("2", "l1_extraction", error="no")))
    usage = build_report(run_info(), [], [silent])["usage"]
    assert (usage["input_tokens"], usage["unknown_tokens"], usage["failed"]) == (None, 2, 1)


def test_timings_name_the_percentiles_of_latencies():
    calls = tuple(CallRecord(str(i), "l1_extraction", latency=float(i), cached=i < 5, attempts=2) for i in range(1, 21))
    report = build_report(run_info(), [], [case("a", {}, calls=calls, timings={"l1": 0.5})])
    expected = {"cached": 4, "attempts": 40, "retries": 20, "latency_p50": 10.0, "latency_p95": 19.0, "spent_usd": None}
    assert report["timings"]["calls"] == {**expected, "by_stage": {"l1_extraction": expected}}
    assert report["timings"]["stages"] == {"l1": 0.5}
    assert build_report(run_info(), [], [])["timings"]["calls"]["latency_p50"] is None


def without_varying(report: dict[str, Any]) -> dict[str, Any]:
    left = {key: value for key, value in report.items() if key not in VARYING_KEYS}
    left["summary"] = {key: value for key, value in left["summary"].items() if key != "duration_seconds"}
    left["per_case"] = [
        {key: value for key, value in entry.items() if key not in VARYING_CASE_KEYS} for entry in left["per_case"]
    ]
    return left


@settings(deadline=None, max_examples=15)
@given(st.randoms(use_true_random=False))
def test_f01_equal_runs_differ_under_the_listed_keys_only(rng: random.Random):
    def one_run(number: int) -> dict[str, Any]:
        records = []
        for case_number in range(8):
            record = full_case(case_number, duration_seconds=rng.random(), timings={"l1": rng.random()})
            call = record.calls[0]
            changed = CallRecord(
                **{
                    **{name: getattr(call, name) for name in call.__slots__},
                    "id": f"{number}-{case_number}",
                    "latency": rng.random(),
                    "cached": bool(number),
                    "attempts": 1 + number,
                }
            )
            records.append(
                full_case(case_number, duration_seconds=rng.random(), timings={"l1": rng.random()}, calls=(changed,))
            )
        rng.shuffle(records)
        run = run_info(
            run_id=f"run-{number}",
            timestamp=f"2026-01-0{number + 1}T00:00:00Z",
            duration_seconds=rng.random(),
            config={"concurrency": number},
            environment={"pid": number},
        )
        return build_report(run, [set_info()], records)

    first, second = one_run(0), one_run(1)
    assert dumps(without_varying(first)) == dumps(without_varying(second))
    assert dumps(first) != dumps(second)


def test_the_first_note_says_that_embedded_is_a_pipeline_check():
    assert sample()["notes"][0] == "Chat model `embedded`: these figures are a pipeline check, not quality."
    real = sample(model={"provider": "openai", "name": "gpt"}, notes=("Something else.",))
    assert real["notes"] == ["Something else."]
    assert is_embedded({"kind": "embedded"})
    assert not is_embedded({"name": "text-embedded-3"})


def test_notes_say_what_is_partial_and_what_is_off():
    notes = " ".join(
        sample(partial="aborted", gates_enabled=False, stage_input="truth", not_run=((SET, "x"),))["notes"]
    )
    for part in ("cut short", "switched off", "`truth`", "1 selected case(s)"):
        assert part in notes
    assert any("No P0 gate" in note for note in build_report(run_info(), [], [])["notes"])


def test_f02_a_figure_that_is_not_finite_is_null_in_the_report():
    record = case("a", {"l1": ratio_record(memory_recall=(math.nan, 1), dimension_micro_f1=(math.inf, 2))})
    report = json.loads("".join(report_chunks(build_report(run_info(), [set_info()], [record]))))
    assert report["l1"]["memory_recall"] is None
    assert report["l1"]["unmeasured"] == {"dimension_micro_f1": 1, "memory_recall": 1}
    assert report["per_case"][0]["l1"]["ratios"]["memory_recall"] == [None, 1]
    assert report["gates"][0]["status"] == "unmeasured"
    assert report["summary"]["passed_p0"] is False


def test_a_report_that_cannot_wait_draws_no_resample(monkeypatch):
    def refused(*given):
        raise AssertionError("a resample was drawn")

    monkeypatch.setattr("pytest_memeval.metrics.stats.resampled_sums", refused)
    pairs = [(number % 3, 3) for number in range(60)]
    records = [
        case(f"c{number}", {"l1": ratio_record(memory_recall=pair)}, source="real" if number % 2 else "synthetic")
        for number, pair in enumerate(pairs)
    ]
    gates = (("P0 l1.memory_recall >= 0.2", "file"), ("P0 l1.memory_recall{source=real} >= 0.2", "file"))
    built = build_report(run_info(), [set_info(gates=gates)], records, resample=False)
    validate(built)
    assert built["l1"]["memory_recall"] == pytest.approx(1 / 3)
    assert built["l1"]["intervals"]["memory_recall"] is None
    assert "interrupted" in built["l1"]["interval_reasons"]["memory_recall"]
    assert [gate["value"] is None for gate in built["gates"]] == [False, False]
