from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from compare_samples import changed, counts_case, report_of

from pytest_memeval.compare.bisect import BisectResult, bisect, most_tests
from pytest_memeval.metrics.thresholds import parse_path

PATH = parse_path("l1.dimension_micro_f1")
VERSIONS = [f"v{number:03}" for number in range(1, 8)]


def reports(quality: dict[str, float], count: int = 60, noise: float = 0.0) -> Callable[[str], dict[str, Any]]:
    """A report per version whose cases are right with the version's probability."""

    def report(version: str) -> dict[str, Any]:
        rng = random.Random(int(version[1:]) if noise else 0)
        rows = []
        for number in range(1, count + 1):
            right = sum(rng.random() < quality[version] for _ in range(6))
            rows.append(counts_case(number, right, 6 - right, 6 - right))
        return report_of(rows)

    return report


def search(quality: dict[str, float], **keys: Any) -> tuple[BisectResult, list[str]]:
    asked: list[str] = []
    make = reports(quality, **keys)

    def report(version: str) -> dict[str, Any]:
        asked.append(version)
        return make(version)

    return bisect(list(quality), report, PATH, lower_is_better=False), asked


@pytest.mark.parametrize("first_bad", range(1, 7))
def test_the_first_bad_version_is_found(first_bad: int) -> None:
    quality = {version: 0.9 if at < first_bad else 0.5 for at, version in enumerate(VERSIONS)}
    result, asked = search(quality, noise=1.0)
    assert (result.outcome, result.first, result.before) == ("found", VERSIONS[first_bad], VERSIONS[first_bad - 1])
    # No version runs twice, and not all of them have to.
    assert len(asked) == len(set(asked)) <= 5
    assert len(result.steps) <= most_tests(7)
    assert result.alpha == 0.05 / most_tests(7)


def test_neighbours_need_one_test() -> None:
    result, _ = search({"v001": 0.9, "v002": 0.4})
    assert (result.outcome, result.first, len(result.steps)) == ("found", "v002", 1)
    assert result.alpha == 0.05


def test_no_regression_beyond_noise() -> None:
    quality = dict.fromkeys(VERSIONS, 0.7)
    result, asked = search(quality, noise=1.0)
    assert (result.outcome, result.first) == ("not_worse", None)
    assert asked == ["v001", "v007"]


def test_what_lies_between_cannot_be_told() -> None:
    # Eight wrong cases are more than noise, four are not: neither against none nor against eight.
    wrong = dict.fromkeys(VERSIONS, 4) | {"v001": 0, "v007": 8}

    def report(version: str) -> dict[str, Any]:
        return report_of(
            [counts_case(at, 0, 2, 2) if at <= wrong[version] else counts_case(at, 2, 0, 0) for at in range(1, 13)]
        )

    result = bisect(VERSIONS, report, PATH, lower_is_better=False)
    assert (result.outcome, result.first, result.before) == ("unclear", None, "v001")
    assert result.candidates == tuple(VERSIONS[1:])
    # Every version between was given its chance.
    assert {step.version for step in result.steps} == set(VERSIONS[1:])


def test_lower_is_better_turns_it_round() -> None:
    up = {version: 0.4 if at < 3 else 0.9 for at, version in enumerate(VERSIONS)}
    result = bisect(VERSIONS, reports(up, noise=1.0), PATH, lower_is_better=True)
    assert (result.outcome, result.first) == ("found", "v004")


def test_what_cannot_be_compared_ends_the_search() -> None:
    make = reports({"v001": 0.9, "v002": 0.4})

    def report(version: str) -> dict[str, Any]:
        return changed(make(version), matcher={"similarity": version})

    result = bisect(["v001", "v002"], report, PATH, lower_is_better=False)
    assert result.outcome == "incomparable"
    assert "matcher" in result.reason
    nothing = bisect(["v001", "v002"], lambda version: report_of([]), PATH, lower_is_better=False)
    assert nothing.outcome == "incomparable"


def test_a_search_needs_two_versions() -> None:
    with pytest.raises(ValueError, match="a good and a bad"):
        bisect(["v001"], reports({"v001": 1.0}), PATH, lower_is_better=False)
