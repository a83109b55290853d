"""``memeval power``: what a case set can tell apart, from the answers of a stored run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import say

if TYPE_CHECKING:
    from pytest_memeval.compare.power import MetricPower, Question


def add_power_command(commands: Any) -> None:
    """Register ``power`` with the sub-commands of ``memeval``."""
    power = commands.add_parser("power", help="the smallest differences that a set of cases can find")
    power.add_argument("run", metavar="RUN", help="report.json, run folder, or 'latest': a run of the set")
    power.add_argument(
        "other", nargs="?", metavar="OTHER", help="a run of the same cases with other answers, such as another prompt"
    )
    power.add_argument(
        "--metric", action="append", default=[], metavar="PATH", help="instead of the gated metrics; repeatable"
    )
    power.add_argument(
        "--difference", action="append", default=[], type=float, metavar="D", help="how many cases find it; repeatable"
    )
    power.add_argument("--power", type=float, default=0.8, help="probability of finding it (default 0.8)")
    power.add_argument("--alpha", type=float, default=0.05, help="level of the two-sided test (default 0.05)")
    power.add_argument("--json", action="store_true", help="print JSON")
    power.set_defaults(command=_power)


def _power(arguments: argparse.Namespace) -> int:
    from pytest_memeval.compare.load import load_side
    from pytest_memeval.compare.power import DIFFERENCES, Question, set_power
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_path
    from pytest_memeval.options import SettingsError

    question = Question(arguments.power, arguments.alpha, tuple(arguments.difference) or DIFFERENCES)
    for name, value in (("--power", question.power), ("--alpha", question.alpha)):
        if not 0.0 < value < 1.0:
            raise SettingsError(f"{name} lies between 0 and 1, not {value:g}")
    for wanted in question.differences:
        if not 0.0 < wanted < float("inf"):
            raise SettingsError(f"--difference must be above 0, not {wanted:g}")
    try:
        for metric in arguments.metric:
            parse_path(metric)
    except ThresholdError as error:
        raise SettingsError(f"--metric: {error}") from None
    report = load_side(arguments.run, Path.cwd())
    other = load_side(arguments.other, Path.cwd()) if arguments.other is not None else None
    found = set_power(report, other, metrics=arguments.metric, question=question)
    if arguments.json:
        print(json.dumps([one.to_json() for one in found], indent=2, ensure_ascii=False, allow_nan=False))
    elif not found:
        say("nothing to tell: the run has no gates that apply; name a metric with --metric")
    else:
        say("\n".join(_lines(found, question, paired=other is not None)))
    return 0 if found else 1


def _lines(found: Sequence[MetricPower], question: Question, *, paired: bool) -> list[str]:
    lines: list[str] = []
    width = max(len(_name(one)) for one in found)
    for scope in dict.fromkeys(one.scope for one in found):
        own = [one for one in found if one.scope == scope]
        lines += [
            f"{scope}: differences between two runs that are found with {question.power:.0%} probability "
            f"(two-sided, {question.alpha:.0%} level)",
            "",
            f"{'':{width}}  {'value':>7}  {'cases':>5}  {'same cases':>10}  {'unrelated':>9}  {'gate margin':>11}"
            + "".join(f"  {f'n for {wanted:g}':>10}" for wanted in question.differences),
        ]
        for one in own:
            row = f"{_name(one):{width}}  {_shown(one.value):>7}  {one.clusters:>5}"
            if one.unpaired is None:
                lines.append(f"{row}  {one.reason}")
                continue
            row += f"  {_shown(one.paired):>10}  {_shown(one.unpaired):>9}  {_shown(one.margin):>11}"
            needed = (one.needed[f"{wanted:g}"] for wanted in question.differences)
            lines.append(row + "".join(f"  {'-' if count is None else count:>10}" for count in needed))
        lines += [f"  {one.metric}: {one.reason}" for one in own if one.reason and one.unpaired is not None]
        lines.append("")
    lines.append(
        "same cases: both runs over the same cases, as similar to each other as these two."
        if paired
        else "same cases: unknown from one run; name a second one, such as another prompt version's."
    )
    lines.append("unrelated: as if the two runs' answers had nothing in common; usually an upper bound.")
    lines.append(f"gate margin: so far from its threshold the true value must be to pass with {question.power:.0%}.")
    basis = "same cases" if paired else "unrelated"
    lines.append(f"n for d: so many cases like these, with labels for the metric, find a difference of d ({basis}).")
    return lines


def _name(one: MetricPower) -> str:
    return f"{'/'.join(one.levels)} {one.metric}".strip()


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
