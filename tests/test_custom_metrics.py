"""Metrics of a project's own: what they may return, what is counted, what their errors do."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "plugin"))

from api_samples import Lines, write
from plugin_project import case, good_cases, stable

from pytest_memeval import custom_metrics, run
from pytest_memeval.custom_metrics import CaseMetrics, CustomMetric, MetricError, metric, registered


@pytest.fixture(autouse=True)
def none_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    known = dict(custom_metrics._REGISTERED)
    custom_metrics._REGISTERED.clear()
    yield
    custom_metrics._REGISTERED.clear()
    custom_metrics._REGISTERED.update(known)


def measured(function: Callable[..., Any]) -> CaseMetrics:
    metric(name="m")(function)
    found = CaseMetrics(case=None)
    found.finish(None, lambda one: None, asyncio.run)
    custom_metrics._REGISTERED.clear()
    return found


@pytest.mark.parametrize(
    ("value", "ratios", "tables"),
    [
        (0.5, {"m": (0.5, 1.0)}, {}),
        (3, {"m": (3.0, 1.0)}, {}),
        (True, {"m": (1.0, 1.0)}, {}),
        (False, {"m": (0.0, 1.0)}, {}),
        ("good one", {}, {"m": {"good_one": 1}}),
        ({"a": 1, "b c": True}, {"m.a": (1.0, 1.0), "m.b_c": (1.0, 1.0)}, {}),
    ],
)
def test_values(value: Any, ratios: dict[str, Any], tables: dict[str, Any]) -> None:
    found = measured(lambda case, outputs: value)
    assert found.section is not None
    assert (found.section.ratios, found.section.tables) == (ratios, tables)
    assert found.statuses == {"metrics.m": "scored"}


def test_none_is_not_measured() -> None:
    found = measured(lambda case, outputs: None)
    assert (found.section, found.statuses, found.errors) == (None, {"metrics.m": "no_truth"}, [])


@pytest.mark.parametrize("value", [math.nan, math.inf, [1], object(), {"a": "x"}, {"a": math.nan}, {"{": 1}, ""])
def test_what_is_no_value_is_an_error(value: Any) -> None:
    found = measured(lambda case, outputs: value)
    assert (found.section, found.statuses) == (None, {"metrics.m": "errored"})
    assert [error.kind for error in found.errors] == ["metric_value"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (10**400, "a metric gave a number that is too large: beyond 1.8e308 there is none"),
        ({"a": -(10**400)}, "a metric gave a number that is too large: beyond 1.8e308 there is none"),
        ([1], "a metric gives a number, a bool, a text or a mapping, not list"),
        ({"a": 1, "b": "x"}, "m.b: a mapping holds numbers and bools, not str; leave out what was not measured"),
        ({"a": None}, "m.a: a mapping holds numbers and bools, not NoneType; leave out what was not measured"),
        ({"a b": 0, "a_b": 1}, "two of its keys have the same name: ['a b', 'a_b']"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_truly(value: Any, words: str) -> None:
    (error,) = measured(lambda case, outputs: value).errors
    assert words in error.message


def test_an_exception_is_an_error_with_its_place() -> None:
    def broken(case: Any, outputs: Any) -> float:
        return 1 / 0

    found = measured(broken)
    assert found.errors[0].kind == "metric_exception"
    assert "ZeroDivisionError" in found.errors[0].message
    assert "in broken" in found.errors[0].message


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.booleans())
def test_every_finite_number_counts_once(value: float) -> None:
    custom_metrics._REGISTERED.clear()
    try:
        float(value)
    except OverflowError:
        return
    found = measured(lambda case, outputs: value)
    assert found.section is not None
    assert found.section.ratios["m"] == (float(value), 1.0)


def test_asynchronous_functions_are_awaited() -> None:
    async def slow(case: Any, outputs: Any) -> float:
        await asyncio.sleep(0)
        return 0.25

    assert measured(slow).section is not None


def test_names() -> None:
    def one(case: Any, outputs: Any) -> int:
        return 1

    def other(case: Any, outputs: Any) -> int:
        return 2

    metric(name="same")(one)
    metric(name="same")(one)
    with pytest.raises(MetricError, match=r"two metrics are called 'same'"):
        metric(name="same")(other)
    with pytest.raises(MetricError, match="no name of a metric"):
        metric(lambda case, outputs: 1)
    with pytest.raises(MetricError, match="unknown kind 'distil'; did you mean 'distill'"):
        metric(kinds=("distil",))(one)
    with pytest.raises(MetricError, match="unknown stage 'l3'"):
        metric(stages=("l3",))(one)
    with pytest.raises(MetricError, match="no function"):
        custom_metrics.register(CustomMetric("x", 7))  # type: ignore[arg-type]  # that is the fault
    assert [known.name for known in registered("distill")] == ["same"]
    assert registered("qa") == []


# -- in a run ------------------------------------------------------------------------------------------------------

CASES = [
    *good_cases(4),
    case("two", "identity: is tall", "habits: runs"),
    case("broken", "raise", truth=[("identity", "x")]),
]


def test_they_are_aggregated_and_gated() -> None:
    @metric
    def memories(case: Any, outputs: Any) -> int:
        return len(outputs.l1)

    @metric
    def is_short(case: Any, outputs: Any) -> bool:
        return len(case.conversation) < 2

    @metric
    def verdict(case: Any, outputs: Any) -> str:
        return "many" if len(outputs.l1) > 1 else "one"

    @metric
    async def parts(case: Any, outputs: Any) -> dict[str, float]:
        return {"first": 1.0, "second": len(outputs.l1)}

    gates = [
        "P0 metrics.memories <= 1.2",
        "P0 metrics.is_short >= 0.8",
        "P0 metrics.verdict.one >= 4",
        "P0 metrics.parts.second <= 1",
        "P0 metrics.unknown >= 0",
    ]
    report = run(write(CASES[:5], gates=gates), engine=Lines())
    figures = report["metrics"]
    assert figures["memories"] == pytest.approx(6 / 5)
    assert figures["is_short"] == pytest.approx(4 / 5)
    assert figures["verdict"] == {"one": 4, "many": 1}
    assert figures["parts"] == {"first": 1.0, "second": pytest.approx(6 / 5)}
    assert report.value("metrics.parts.second") == pytest.approx(6 / 5)
    assert [gate["status"] for gate in report["gates"]] == ["passed", "passed", "passed", "missed", "unmeasured"]
    assert stable(run("cases/v001.yaml", engine=Lines(), concurrency=1)) == stable(report)


def test_errors_are_counted_and_are_no_zeros() -> None:
    @metric
    def picky(case: Any, outputs: Any) -> float:
        if case.case_id == "two":
            raise RuntimeError("cannot say")
        return 1.0

    file = write(CASES, gates=["P0 metrics.picky >= 1"])
    report = run(file, engine=Lines())
    assert report["metrics"]["picky"] == 1.0
    assert report["metrics"]["metric_errors"] == {"picky": 2}  # one is lost with its stage
    errors = {entry["case_id"]: [error["kind"] for error in entry["errors"]] for entry in report["per_case"]}
    assert errors["two"] == ["metric_exception"]
    assert errors["broken"] == ["engine_exception"]
    assert report["l1"]["counts"]["scored"] == 5
    assert report["gates"][0]["status"] == "unmeasured"
    again = run(file, engine=Lines(), max_error_rate=0.5)
    assert again["gates"][0]["status"] == "passed"
    assert not again.passed


def test_a_metric_of_a_stage_counts_where_the_stage_ran() -> None:
    @metric(stages=("l15",))
    def decisions(case: Any, outputs: Any) -> int:
        return len(outputs.l15)

    report = run(write(CASES[:2]), engine=Lines())
    assert report["metrics"] is None
    assert report["counts"]["scored"] == 2


def test_a_case_can_expect_a_value_of_its_own() -> None:
    @metric
    def memories(case: Any, outputs: Any) -> int:
        return len(outputs.l1)

    report = run(write([case("two", "identity: a", "habits: b", expect={"metrics.memories": "<= 1"})]), engine=Lines())
    assert report["summary"]["missed_own_thresholds"] == 1


def test_functions_can_be_given_for_one_run() -> None:
    def memories(case: Any, outputs: Any) -> int:
        return len(outputs.l1)

    assert run(write(CASES[:2]), engine=Lines(), metrics=[memories]).value("metrics.memories") == 1
    assert registered("distill") == []
    with pytest.raises(ValueError, match="no name of a metric"):
        run(write(CASES[:2]), engine=Lines(), metrics=[lambda case, outputs: 1])


def test_an_asynchronous_metric_ends_with_the_cases_time() -> None:
    @metric
    async def endless(case: Any, outputs: Any) -> float:
        await asyncio.sleep(60)
        return 1.0

    for concurrency in (1, 4):
        report = run(write(CASES[:2]), engine=Lines(), timeout=0.3, concurrency=concurrency)
        assert [entry["errors"][0]["stage"] for entry in report["per_case"]] == ["metrics.endless"] * 2
        assert "time limit" in report["per_case"][0]["errors"][0]["message"]


def test_questions_have_metrics_of_their_own_kind() -> None:
    from dataset_samples import locomo_record

    @metric(kinds=("qa",))
    def answered(case: Any, outputs: Any) -> bool:
        return bool(outputs["qa"]["answer"])

    import json

    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = run("locomo.json")
    assert report["metrics"]["answered"] is not None
    assert report["counts"]["scored"] == 6


def test_rescoring_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_memeval.cli.main import main

    def memories(case: Any, outputs: Any) -> int:
        return len(outputs.l1)

    report = run(write(CASES[:5], gates=["P0 metrics.memories <= 1.2"]), engine=Lines(), metrics=[memories])
    assert main(["rescore", str(report.folder), "--matcher", "optimal"]) == 0
    assert "metrics.memories" in capsys.readouterr().out


def no_arguments() -> int:
    return 1


async def three(case: Any, outputs: Any, more: Any) -> int:
    return 1


def keywords(*, case: Any, outputs: Any) -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (no_arguments, "no_arguments takes () -> 'int'"),
        (three, "three takes (case: 'Any', outputs: 'Any', more: 'Any') -> 'int'"),
        (keywords, "keywords takes (*, case: 'Any', outputs: 'Any') -> 'int'"),
    ],
)
def test_a_function_with_other_arguments_is_told_with_its_place(function: Callable[..., Any], taken: str) -> None:
    (error,) = measured(function).errors
    assert error.kind == "metric_exception"
    place = f"test_custom_metrics.py:{function.__code__.co_firstlineno}"
    assert error.message.startswith(f"metric m needs (case, outputs), and {taken} (")
    assert error.message.endswith(f"{place})")


def test_a_type_error_within_a_metric_is_told_as_it_is() -> None:
    (error,) = measured(lambda case, outputs: len(case)).errors
    assert error.message.startswith("TypeError: object of type 'NoneType' has no len()")
