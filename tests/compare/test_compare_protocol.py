"""How questions were asked, in comparisons: told first, and what is no like with like is flagged."""

from __future__ import annotations

from typing import Any

from pytest_memeval.compare.limits import Limits
from pytest_memeval.compare.settings import setting_differences


def report(**protocol: Any) -> dict[str, Any]:
    return {
        "engine": {"name": protocol.pop("engine", "reference")},
        "case_sets": {
            "a.json": {"protocol": {"memory": "bm25", "captions": "as text", "mean_context_tokens": 400.0, **protocol}},
            "v001.yaml": {},
        },
    }


def told(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.name, one.a, one.b) for one in setting_differences(a, b)]


def test_protocol_differences_come_first() -> None:
    found = told(report(), report(memory="vector", captions="off", engine="other"))
    assert found == [
        ("protocol memory", "bm25", "vector"),
        ("protocol captions", "as text", "off"),
        ("engine", "name=reference", "name=other"),
    ]


def test_context_budgets_are_flagged_from_one_and_a_half_times_on() -> None:
    assert told(report(), report(mean_context_tokens=600.0)) == []
    assert told(report(), report(mean_context_tokens=800.0)) == [
        ("protocol mean_context_tokens", "400", "800 (2 ×, more than 1.5 × apart)")
    ]
    assert told(report(), report(mean_context_tokens=None)) == []


def test_nothing_is_kept_from_being_compared() -> None:
    settings = setting_differences(report(), report(memory="vector", mean_context_tokens=9000.0))
    assert not any(Limits(settings).of(path) for path in ("qa.f1", "locomo.f1_official"))


def test_a_file_of_one_run_alone_says_nothing() -> None:
    assert told(report(), {"engine": {"name": "reference"}, "case_sets": {"v001.yaml": {}, "a.json": {}}}) == []
