"""What a project's own figures are, over all cases: booleans are shares, wherever their records have been; what is a
number here and something else there is said to be that."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from plugin_project import MODES, Project, good_cases

COUNT = 8
CONFTEST = """
import pytest
from line_engine import LineEngine
from pytest_memeval import metric


@pytest.fixture(scope="session")
def memeval_engine():
    return LineEngine()


@metric(kinds=("distill", "rag"))
def flag(case, outputs):
    return not case.case_id.endswith("1")


@metric(kinds=("distill", "rag"))
def number(case, outputs):
    return 0 if case.case_id.endswith("1") else 1


@metric(kinds=("distill", "rag"))
def either(case, outputs):
    return 1 if case.case_id.endswith("2") else not case.case_id.endswith("1")


@metric(kinds=("distill", "rag"))
def parts(case, outputs):
    return {"flag": not case.case_id.endswith("1"), "number": int(not case.case_id.endswith("1"))}
"""
EVALUATOR = """
from pytest_memeval.rag import BaseEvaluator


class Own(BaseEvaluator):
    metrics = ("polite", "score")

    async def evaluate_sample(self, sample):
        return {"polite": sample.id != "eval-001", "score": int(sample.id != "eval-001")}
"""
#: Name → whether it is a share.
FLAT = {
    "metrics.flag": True,
    "metrics.number": False,
    "metrics.either": False,
    "metrics.parts.flag": True,
    "metrics.parts.number": False,
}
RAG = {"rag.polite": True, "rag.score": False}


def made(project: Project, kind: str) -> dict[str, bool]:
    project.pytester.makeconftest(CONFTEST)
    project.write("own.py", EVALUATOR)
    if kind == "distill":
        project.cases(good_cases(COUNT))
        return FLAT
    rows = [
        {"id": f"eval-{n:03}", "query": "Where?", "response": "Here.", "ground_truth": "here"}
        for n in range(1, COUNT + 1)
    ]
    project.write("cases/a.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    project.write("pytest.ini", "[pytest]\nmemeval_evaluator = own:Own\n")
    return {**FLAT, **RAG}


def in_range(report: dict[str, Any], wanted: dict[str, bool]) -> dict[str, list[float]]:
    found = {}
    for path, share in wanted.items():
        section, _, name = path.partition(".")
        low, high = found[path] = report[section]["intervals"][name]
        assert (0 <= low < high <= 1) is share, path
    return found


def command(project: Project, *args: str, status: int = 0) -> None:
    words = [sys.executable, "-m", "pytest_memeval", *args]
    done = subprocess.run(words, cwd=project.path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == status, done.stdout + done.stderr


@MODES
@pytest.mark.parametrize("kind", ["distill", "rag"])
@pytest.mark.parametrize("trials", ["1", "2"])
def test_the_interval_of_a_share_is_within_its_range(
    project: Project, kind: str, trials: str, mode: tuple[str, ...]
) -> None:
    wanted = made(project, kind)
    assertions = {"passed": COUNT} if kind == "distill" else {"passed": COUNT - 1, "failed": 1}
    options = (*mode, f"--memeval-trials={trials}", "-p", "no:cacheprovider")
    project.run("cases", *options).assert_outcomes(**assertions)
    first = in_range(project.report(), wanted)
    (project.path / "out").rename(project.path / "kept")
    # The records say it wherever they come from: a journal, another process, a report.
    project.run("cases", *options, "--memeval-resume=kept").assert_outcomes(**assertions)
    assert project.report()["environment"]["resumed"]["cases"] == COUNT
    assert in_range(project.report(), wanted) == first
    command(project, "rescore", "kept", "--output", "again")
    assert in_range(project.report("again"), wanted) == first


@pytest.mark.parametrize("kind", ["distill", "rag"])
def test_parts_of_a_run_put_together_keep_it(project: Project, kind: str) -> None:
    wanted = made(project, kind)
    project.run("cases")
    first = in_range(project.report(), wanted)
    for part in ("1", "2"):
        project.run("cases", f"--memeval-shard={part}/2", "--memeval-output", f"part{part}")
    # A false assertion of a sample is a failure of the parts, and of the whole.
    command(project, "merge", "part1", "part2", "--output", "merged", status=int(kind == "rag"))
    assert in_range(project.report("merged"), wanted) == first


MIXED = """
import pytest
from line_engine import LineEngine
from pytest_memeval import metric


@pytest.fixture(scope="session")
def memeval_engine():
    return LineEngine()


@metric(kinds=("distill", "rag"))
def mix(case, outputs):
    given = {GIVEN}
    return given.get(int(case.case_id[-3:]), 1)
"""


@MODES
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("given", "mixed", "said", "chinese"),
    [
        (
            "{3: 'odd'}",
            {"numbers": 7, "texts": 1},
            "metrics.mix was a number in 7 case(s) and a text in 1, so no mean is made of it.",
            "metrics.mix 在 7 个用例中是数字，在 1 个用例中是文本，因此不计算均值。",
        ),
        (
            "{3: {'a': 1}, 4: {'a': True}, 5: None}",
            {"numbers": 5, "mappings": 2},
            "metrics.mix was a number in 5 case(s) and a mapping in 2, so no mean is made of it.",
            "metrics.mix 在 5 个用例中是数字，在 2 个用例中是映射，因此不计算均值。",
        ),
        (
            "{n: 'odd' if n < 7 else {'a': 1} for n in range(9)}",
            {"texts": 6, "mappings": 2},
            "metrics.mix was a text in 6 case(s) and a mapping in 2, so no mean is made of it.",
            "metrics.mix 在 6 个用例中是文本，在 2 个用例中是映射，因此不计算均值。",
        ),
        (
            "{3: 'odd', 4: {'a': 1}}",
            {"numbers": 6, "texts": 1, "mappings": 1},
            "metrics.mix was a number in 6 case(s), a text in 1 and a mapping in 1, so no mean is made of it.",
            "metrics.mix 在 6 个用例中是数字，在 1 个用例中是文本，在 1 个用例中是映射，因此不计算均值。",
        ),
    ],
)
def test_a_number_here_and_something_else_there_is_said_to_be_that(
    project: Project, mode: tuple[str, ...], lang: str, given: str, mixed: dict[str, int], said: str, chinese: str
) -> None:
    project.pytester.makeconftest(MIXED.replace("{GIVEN}", given))
    project.cases(good_cases(COUNT))
    gates = [f"--memeval-gate=P0 metrics.{name} >= 0.5" for name in ("mix", "mix.a")]
    result = project.run(*mode, *gates, f"--memeval-lang={lang}")
    assert result.ret == 1
    report = project.report()
    assert [gate["status"] for gate in report["gates"]] == ["unmeasured"] * 2
    assert {gate["reason"] for gate in report["gates"]} == {said}
    shown = " ".join(result.stdout.str().split())
    assert (said if lang == "en" else chinese) in shown
    section = report["metrics"]
    assert (section["mixed"], section["unmeasured"]) == ({"mix": mixed}, {})
    assert section.get("mix", {}) == ({"odd": mixed["texts"]} if "texts" in mixed else {})
    assert [name for name in section["intervals"] if name.startswith("mix")] == []


@MODES
def test_texts_alone_and_numbers_that_are_none_are_not_mixed(project: Project, mode: tuple[str, ...]) -> None:
    project.pytester.makeconftest(MIXED.replace("{GIVEN}", "{n: 'odd' if n < 7 else None for n in range(9)}"))
    project.cases(good_cases(COUNT))
    project.run(*mode)
    section = project.report()["metrics"]
    assert (section["mix"], section.get("mixed")) == ({"odd": 6}, None)


@pytest.mark.parametrize("name", ["n", "counts", "intervals", "mixed", "warnings", "metric_errors"])
def test_a_metric_cannot_have_a_name_of_the_report(project: Project, name: str) -> None:
    project.write("mine.py", f"def {name}(case, outputs):\n    return True\n")
    project.cases(good_cases(2))
    result = project.run("--memeval-metric", f"mine:{name}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*the name '{name}' is taken: reports use it themselves; give the metric another*"])
