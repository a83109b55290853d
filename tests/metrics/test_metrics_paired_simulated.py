"""Paired comparisons keep what they promise: 1,000 simulated A/A comparisons on the counts of the shipped case set.

The counts are those of ``cases/v001.yaml`` with the recorded answers to both prompt versions. A comparison draws
clusters with replacement and tosses a coin for each which version is called A: any difference is chance, with the
variation of real conversations.

Where fewer than five clusters differ no test by swaps can reject at the 5 % level, and none may: of 2 ** 4 swaps two
are as extreme as the most extreme one. Of ten clusters so few differ often in recall, where the versions agree in two
cases of three. What a test at 5 % promises is therefore measured on the comparisons with at least five.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.metrics.paired import FEWEST_TELLING, PairedComparison, Statistic
from pytest_memeval.metrics.stats import Ratio

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COMPARISONS = 1_000
#: In these at least half of the cases differ between the versions, in recall about a third.
DENSE = ("dimension_micro_f1", "dimension_micro_precision", "time_velocity_accuracy", "priority_mae")
CONTINUOUS = (*DENSE, "dimension_micro_recall", "memory_recall")
BINARY = "strict_match_rate"
Row = dict[str, tuple[float, float, float, float]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    import subprocess
    import sys

    reports = []
    for version in ("v001", "v002"):
        folder = tmp_path_factory.mktemp(version)
        command = [sys.executable, "-m", "pytest", "cases/v001.yaml", "-q", "--memeval-prompt-version", version]
        subprocess.run([*command, "--memeval-output", str(folder)], cwd=ROOT, check=True, capture_output=True)
        reports.append(json.loads((folder / "report.json").read_text(encoding="utf-8")))
    found: list[Row] = []
    for one, two in zip(*(report["per_case"] for report in reports), strict=True):
        ratios = [entry["l1"]["ratios"] for entry in (one, two)]
        if all(own["memory_recall"][1] for own in ratios):
            found.append({name: (*ratios[0][name], *ratios[1][name]) for name in (*CONTINUOUS, BINARY)})
    assert len(found) > 70
    return found


def statistic(drawn: list[Row], name: str, first: int) -> Statistic:
    return (Ratio([row[name][first] for row in drawn], [row[name][first + 1] for row in drawn], high=None),)


def swapped(row: Row) -> Row:
    return {name: (c, d, a, b) for name, (a, b, c, d) in row.items()}


def simulate(rows: list[Row], clusters: int) -> dict[str, dict[str, float]]:
    """Metric → shares of comparisons that reject the true null, and whose interval covers the true 0.

    Counted are comparisons in which the test can reject at all, 1,000 of each metric; ``asked`` is how many were made
    for them, and ``rejected_of_all`` the share of false positives among those.
    """
    rng = random.Random(20261130)
    found: dict[str, dict[str, Any]] = {name: {"rejected": 0, "covered": 0, "asked": 0} for name in rows[0]}
    telling = dict.fromkeys(rows[0], 0)
    comparison = PairedComparison([f"{number:03}" for number in range(clusters)])
    while waiting := [name for name, count in telling.items() if count < COMPARISONS]:
        drawn = [rng.choice(rows) for _ in range(clusters)]
        drawn = [row if rng.random() < 0.5 else swapped(row) for row in drawn]
        metrics = {name: (statistic(drawn, name, 0), statistic(drawn, name, 2)) for name in waiting}
        for name, result in comparison.differences(metrics).items():
            assert result.p_value is not None
            found[name]["asked"] += 1
            if result.differing < FEWEST_TELLING:
                assert result.p_value > 0.05, result
                continue
            telling[name] += 1
            found[name]["rejected"] += result.p_value <= 0.05
            found[name]["covered"] += result.low is not None and result.low <= 0 <= (result.high or 0)
    return {
        name: {
            "rejected": own["rejected"] / COMPARISONS,
            "covered": own["covered"] / COMPARISONS,
            "rejected_of_all": own["rejected"] / own["asked"],
            "asked": own["asked"],
        }
        for name, own in found.items()
    }


@pytest.mark.parametrize("clusters", [80, 10])
def test_false_positives_and_coverage(rows: list[Row], clusters: int) -> None:
    found = simulate(rows, clusters)
    print(f"\n{clusters} clusters")
    for name, shares in found.items():
        print(
            f"  {name:26} false positives {shares['rejected']:.3f}  coverage {shares['covered']:.3f}"
            f"  of all {shares['asked']} false positives {shares['rejected_of_all']:.3f}"
        )
    for name in CONTINUOUS:
        assert 0.03 <= found[name]["rejected"] <= 0.07, (name, found[name])
        assert 0.93 <= found[name]["covered"] <= 0.97, (name, found[name])
    assert found[BINARY]["rejected"] <= 0.07
    assert found[BINARY]["covered"] >= 0.93


def test_intervals_cover_a_true_difference(rows: list[Row]) -> None:
    """The versions' real difference over all cases, seen through samples of 80 and of 10."""
    for clusters in (80, 10):
        rng = random.Random(7)
        comparison = PairedComparison([f"{number:03}" for number in range(clusters)])
        truth = {}
        for name in DENSE:
            a, b, c, d = (sum(row[name][at] for row in rows) for at in range(4))
            truth[name] = c / d - a / b
        covered = dict.fromkeys(DENSE, 0)
        for _ in range(COMPARISONS // 2):
            drawn = [rng.choice(rows) for _ in range(clusters)]
            metrics = {name: (statistic(drawn, name, 0), statistic(drawn, name, 2)) for name in DENSE}
            for name, result in comparison.differences(metrics).items():
                if result.low is None or result.high is None:
                    continue
                covered[name] += result.low <= truth[name] <= result.high
        shares = {name: count / (COMPARISONS // 2) for name, count in covered.items()}
        print(f"\n{clusters} clusters, coverage of the true difference: {shares}")
        assert all(0.92 <= share <= 0.98 for share in shares.values()), shares
