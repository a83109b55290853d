"""Early verdicts keep what they promise, on the real counts of the shipped case set with recorded answers.

A population is drawn from the per-case counts with replacement, its gates' thresholds are put exactly at its own value
(or just beyond it), and its cases come in random orders. Whatever time the test picks to stop at, a wrong verdict may
come in no more than 5 % of them; and far from the threshold a part of the cases has to be enough.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.metrics.sequential import ThresholdTest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ORDERS = 1_000
WRONG = 20
Pair = tuple[float, float]
#: A case: for each ratio of a metric, its counts and the most hits and misses.
Case = list[tuple[Pair, Pair]]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("run")
    command = [sys.executable, "-m", "pytest", "cases/v001.yaml", "-q", "--memeval-output", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found: list[dict[str, Any]] = json.loads((folder / "report.json").read_text(encoding="utf-8"))["per_case"]
    assert len(found) > 70
    return found


def labelled(section: str, name: str) -> Callable[[dict[str, Any]], Case]:
    def case(entry: dict[str, Any]) -> Case:
        counts = ((entry.get(section) or {}).get("ratios") or {}).get(name, (0, 0))
        return [((counts[0], counts[1]), (counts[1], counts[1]))]

    return case


def micro_f1(entry: dict[str, Any]) -> Case:
    counts, labels = entry["l1"]["ratios"]["dimension_micro_f1"], entry["l1"]["ratios"]["dimension_micro_recall"][1]
    return [((counts[0], counts[1]), (2 * labels, labels + WRONG))]


def profile_quality(entry: dict[str, Any]) -> Case:
    ratios = (entry.get("l2") or {}).get("ratios") or {}
    if "_profile_l1_f1" not in ratios:
        return [((0, 0), (0, 0)), ((0, 0), (0, 0))]
    labels = entry["l1"]["ratios"]["dimension_micro_recall"][1]
    first, second = ratios["_profile_l1_f1"], ratios["_profile_hit_rate"]
    return [((first[0], first[1]), (2 * labels, labels + WRONG)), ((second[0], second[1]), (second[1], second[1]))]


METRICS = {
    "l1.dimension_micro_f1": micro_f1,
    "l1.strict_match_rate": labelled("l1", "strict_match_rate"),
    "l2.section_hit_rate": labelled("l2", "section_hit_rate"),
    "l2.profile_quality": profile_quality,
}


def value_of(population: list[Case]) -> float:
    value = 1.0
    for at in range(len(population[0])):
        value *= sum(case[at][0][0] for case in population) / sum(case[at][0][1] for case in population)
    return value


def verdict(order: list[Case], threshold: float, upward: bool = True) -> tuple[bool | None, int]:
    """The first verdict, and after how many cases it came; ``None`` where all were used, or only the last told."""
    most = [[case[at][1] for case in order] for at in range(len(order[0]))]
    test = ThresholdTest(threshold, most, upward=upward)
    for number, case in enumerate(order[:-1], 1):
        test.add([counts for counts, _ in case])
        if test.verdict is not None:
            return test.verdict, number
    return None, len(order)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("cases", [80, 20])
def test_wrong_verdicts_where_the_value_is_at_its_threshold(
    entries: list[dict[str, Any]], metric: str, cases: int
) -> None:
    rng = random.Random(20261130)
    shares = [METRICS[metric](entry) for entry in entries]
    shares = [share for share in shares if any(bounds != (0, 0) for _, bounds in share)]
    wrong = {"met": 0, "missed": 0}
    orders = ORDERS if len(shares[0]) == 1 else ORDERS // 4
    for _ in range(orders):
        population = [rng.choice(shares) for _ in range(cases)]
        value = value_of(population)
        # Just met: FAIL is wrong. Just missed: PASS is.
        wrong["met"] += verdict(population, max(0.0, value - 1e-9))[0] is False
        rng.shuffle(population)
        wrong["missed"] += verdict(population, min(1.0, value + 1e-9))[0] is True
    found = {name: count / orders for name, count in wrong.items()}
    print(
        f"\n{metric}, {cases} cases, {orders} orders: wrong FAIL {found['met']:.3f}, wrong PASS {found['missed']:.3f}"
    )
    assert found["met"] <= 0.05, found
    assert found["missed"] <= 0.05, found


@pytest.mark.parametrize("metric", METRICS)
def test_far_from_the_threshold_a_part_is_enough(entries: list[dict[str, Any]], metric: str) -> None:
    """Of 800 cases: how many are used where the set is 0.3 above, and 0.3 below, its threshold."""
    rng = random.Random(7)
    shares = [METRICS[metric](entry) for entry in entries]
    used: dict[float, list[int]] = {}
    for distance in (0.3, 0.15, -0.15, -0.3):
        for _ in range(10):
            population = [rng.choice(shares) for _ in range(800)]
            threshold = value_of(population) - distance
            if not 0.05 < threshold < 0.98:
                continue
            found, number = verdict(population, threshold)
            assert found is (distance > 0)
            used.setdefault(distance, []).append(number)
    means = {distance: sum(numbers) / len(numbers) for distance, numbers in used.items()}
    print(f"\n{metric}: cases used of 800 by distance from the threshold: {means}")
    assert 0.3 in means
    assert means[0.3] <= 200
    assert all(mean <= 500 for mean in means.values())
