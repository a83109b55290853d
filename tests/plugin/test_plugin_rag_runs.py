"""Runs over RAG samples: planned, gone on with, with default thresholds; what evaluators may and may not give."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

import chat_server as fake
import pytest
from chat_project import MODEL, ChatProject
from plugin_project import MODES, Project, stable

ROWS: list[dict[str, Any]] = [
    {"id": f"s{n}", "query": f"Where is {n}?", "contexts": [f"{n} is here."], "response": f"Here {n}.",
     "ground_truth": f"here {n}", "group": n // 2}
    for n in range(6)
]  # fmt: skip
EVALUATORS = """
import asyncio
import os
import pathlib
import sys
from pytest_memeval.rag import BaseEvaluator, EvalResult, Faithfulness


def note(what):
    with open("asked.txt", "a", encoding="utf-8") as file:
        file.write(what + "\\n")


class Noted(BaseEvaluator):
    metrics = ("words", "even")
    bound = 3
    retries = 0

    async def evaluate_sample(self, sample):
        note(sample.id)
        if sample.id == os.environ.get("RAG_DIES"):
            os._exit(3)
        if sample.id == os.environ.get("RAG_RAISES"):
            raise RuntimeError("out of order")
        await asyncio.sleep(0.01)
        even = int(sample.id[1:]) % 2 == 0
        return EvalResult(sample, {"words": len(sample.response.split()), "even": even, "first": sample.response[0]})


class Other(Noted):
    bound = 4


class Given(BaseEvaluator):
    async def evaluate_sample(self, sample):
        return eval(sample.response)


class Queue(BaseEvaluator):
    metrics, max_concurrency = ("queued",), 1

    async def evaluate_sample(self, sample):
        await asyncio.sleep(0.3)
        return {"queued": 1}


class Waits(BaseEvaluator):
    async def evaluate_sample(self, sample):
        note(sample.id)
        await asyncio.sleep(60)


class Loaded(BaseEvaluator):
    metrics, retries = ("loaded",), 0

    async def evaluate_sample(self, sample):
        known = set(sys.modules)
        for _ in range(50):  # the others begin, and those without anything to wait for end
            await asyncio.sleep(0)
        mine = "nltk", "rapidfuzz", "rouge_score", "pytest_memeval"
        if more := {name for name in set(sys.modules) - known if name.startswith(mine)}:
            raise RuntimeError(f"loaded in a sample's time: {sorted(more)}")
        return {"loaded": True}


class Broken(BaseEvaluator):
    def __init__(self):
        raise LookupError("no index here")

    async def evaluate_sample(self, sample):
        return {}


class Mine(Faithfulness):
    pass


class MineAlone(Faithfulness):
    async def evaluate_sample(self, sample):
        note("asked somebody")
        return {"faithfulness": 1}


class Pipe:
    version = "1"
    concurrent = True

    def __call__(self, query):
        note("piped")
        return query, ["a passage"]
"""
PIPE = ("--memeval-rag-pipeline", "noted:Pipe")


def by(*names: str) -> list[str]:
    return [word for name in names for word in ("--memeval-evaluator", name if ":" in name else f"noted:{name}")]


def write(project: Project, rows: list[dict[str, Any]], name: str = "a.memeval.jsonl") -> None:
    project.write(name, "".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def rag(project: Project) -> Project:
    project.pytester.makepyfile(noted=EVALUATORS)
    write(project, ROWS)
    return project


@pytest.fixture
def judged(chat: ChatProject) -> ChatProject:
    chat.pytester.makepyfile(noted=EVALUATORS)
    chat.server.script = supported
    write(chat, ROWS)
    return chat


def supported(request: fake.Request) -> str:
    key = "attributed" if "<right_answer>" in request.prompt else "supported"
    return json.dumps({"statements": [{"statement": "here", "reason": "said", key: True}]})


def asked(project: Project) -> list[str]:
    path = project.path / "asked.txt"
    found = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


# -- going on with an earlier run ------------------------------------------------------------------------------------


@MODES
def test_a_killed_run_goes_on(rag: Project, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]) -> None:
    options = ("a.memeval.jsonl", *by("Noted"))
    rag.run(*options)
    whole = stable(rag.report())
    asked(rag)
    with monkeypatch.context() as context:
        context.setenv("RAG_DIES", "s3")
        first = rag.run(*options, "--memeval-output", "cut", "--memeval-concurrency", "1", fresh=True)
        assert first.ret == 3
    assert asked(rag) == ["s0", "s1", "s2", "s3"]
    result = rag.run(*options, "--memeval-resume", "cut", *mode)
    # Of what was taken, too, assertions hold or fail as they did.
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(["a.memeval.jsonl:2: [[]expect[]] even is false", "3 of 6 case(s) taken from run*"])
    again = sorted(asked(rag))
    assert sorted(set(again)) == ["s3", "s4", "s5"]
    # A sample that one worker had prepared when another took it over was asked by both; the report counts them.
    assert len(again) - 3 <= rag.report()["environment"].get("prepared_in_vain", 0)
    assert stable(rag.report()) == whole


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (by("Noted"), None),
        (by("Other"), "options"),
        ([*by("Noted"), *PIPE], "engine"),
        ([*by("Noted"), "--memeval-contexts", "kept.jsonl"], "case"),
        ([*by("Noted", "pytest_memeval.rag:ContextLength")], "prompts, model, options"),
    ],
)
def test_what_a_taken_sample_depends_on(rag: Project, options: list[str], changed: str | None) -> None:
    write(rag, ROWS[:2])
    rag.run("a.memeval.jsonl", *by("Noted"), "--memeval-save-contexts", "kept.jsonl")
    result = rag.run("a.memeval.jsonl", *options, "--memeval-resume", "out")
    taken = 2 if changed is None else 0
    result.stdout.fnmatch_lines([f"{taken} of 2 case(s) taken from run*"])
    if changed is not None:
        result.stdout.fnmatch_lines([f"*what changed: {changed}*"])


@MODES
def test_a_pipeline_with_other_arguments_is_another_one(rag: Project, mode: tuple[str, ...]) -> None:
    rag.write("answers.py", "def answer(query, k):\n    return f'answer {k}', [query]\n")
    rag.write("chosen.py", "import functools\nfrom answers import answer\n\nmade = functools.partial(answer, k=1)\n")
    write(rag, [{"id": f"s{n}", "query": "Which?", "ground_truth": "answer 22"} for n in range(2)])
    options = ("a.memeval.jsonl", *by("Noted"), "--memeval-rag-pipeline", "chosen:made", *mode)
    rag.run(*options, "--memeval-output", "first")
    result = rag.run(*options, "--memeval-resume", "first", fresh=True)
    result.stdout.fnmatch_lines(["2 of 2 case(s) taken from run*"])
    rag.write("chosen.py", "import functools\nfrom answers import answer\n\nmade = functools.partial(answer, k=22)\n")
    result = rag.run(*options, "--memeval-resume", "first", fresh=True)
    result.stdout.fnmatch_lines(["0 of 2 case(s) taken from run*what changed: engine"])
    assert {one["outputs"]["rag"]["response"] for one in rag.report()["per_case"]} == {"answer 22"}
    assert rag.report()["engine"]["name"] == "answer"


def test_errored_and_changed_samples_run_again(rag: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setenv("RAG_RAISES", "s1")
        rag.run("a.memeval.jsonl", *by("Noted"))
    asked(rag)
    write(rag, [*ROWS[:4], {**ROWS[4], "response": "Elsewhere."}, ROWS[5]])
    result = rag.run("a.memeval.jsonl", *by("Noted"), "--memeval-resume", "out")
    result.stdout.fnmatch_lines(
        ["4 of 6 case(s) taken from run out, 2 run anew (1 changed, 1 errored there, 0 not in*"]
    )
    assert sorted(asked(rag)) == ["s1", "s4"]


# -- a plan ----------------------------------------------------------------------------------------------------------


def judge_of(project: ChatProject) -> tuple[str, ...]:
    server = ("--memeval-judge-model", MODEL, "--memeval-judge-base-url", project.server.base_url)
    return ("a.memeval.jsonl", *server, "--memeval-cache-dir", str(project.cache))


def table(result: pytest.RunResult) -> dict[str, list[str]]:
    rows = [re.split(r"\s{2,}", line.strip()) for line in result.outlines]
    return {row[0]: row[1:] for row in rows if len(row) == 5 and row[0].startswith("rag_")}


def test_a_plan_counts_what_judges_would_be_asked(judged: ChatProject) -> None:
    write(judged, [*ROWS[:5], {"id": "no truth", "query": "q", "contexts": ["c"], "response": "r"}])
    options = (*judge_of(judged), *by("pytest_memeval.rag:Faithfulness", "pytest_memeval.rag:ContextRecall"))
    result = judged.run(*options, "--memeval-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["6 cases: 11 model calls, 0 need no request*, 11 to be asked", f"estimated cost: $0.00* (model {MODEL})"]
    )
    assert {stage: cells[:2] for stage, cells in table(result).items()} == {
        "rag_faithfulness": ["0", "6"],
        "rag_context_recall": ["0", "5"],
    }
    assert judged.server.count == 0
    judged.run(*options, "-k", "s1 or s2").assert_outcomes(passed=2)
    assert judged.server.count == 4
    result = judged.run(*options, "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 11 model calls, 4 need no request*, 7 to be asked"])
    # A run that goes on with that one has two cases less to ask about.
    result = judged.run(*options, "--memeval-plan", "--memeval-resume", "out")
    result.stdout.fnmatch_lines(["6 cases: 7 model calls, 0 need no request*, 7 to be asked"])
    judged.run(*options).assert_outcomes(passed=6)
    assert judged.server.count == 11


def test_a_plan_says_what_it_cannot_tell(judged: ChatProject) -> None:
    options = (*judge_of(judged), "--memeval-plan")
    result = judged.run(*options, *by("Noted", "MineAlone"))
    result.stdout.fnmatch_lines(
        [
            "6 cases: 0 model calls*",
            "not planned, 6 case(s): evaluator MineAlone is not run for a plan*plannable = True",
            "not planned, 6 case(s): evaluator Noted is not run for a plan*plannable = True",
        ]
    )
    result = judged.run(*options, *by("Mine"))
    result.stdout.fnmatch_lines(["6 cases: 6 model calls, 0 need no request*, 6 to be asked"])
    # Behind a pipeline nobody knows the answers: each judge is asked, or not.
    result = judged.run(*options, *by("Mine"), *PIPE)
    result.stdout.fnmatch_lines(
        [
            "6 cases: 0–6 model calls, 0 need no request*",
            "not planned, 6 case(s): pipeline Pipe may ask models by itself*",
        ]
    )
    assert asked(judged) == []
    assert judged.server.count == 0


def test_a_pipeline_that_asks_no_model_is_run_for_a_plan(judged: ChatProject) -> None:
    judged.write("plannable.py", "from noted import Pipe\n\n\nclass Free(Pipe):\n    plannable = True\n")
    options = (*judge_of(judged), *by("Mine"), "--memeval-rag-pipeline", "plannable:Free")
    result = judged.run(*options, "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 6 model calls, 0 need no request*, 6 to be asked"])
    assert asked(judged) == ["piped"] * 6
    judged.run(*options).assert_outcomes(passed=6)
    assert judged.server.count == 6


# -- thresholds ------------------------------------------------------------------------------------------------------


@MODES
def test_default_thresholds_count_for_samples(rag: Project, mode: tuple[str, ...]) -> None:
    rag.write(
        "pytest.ini", "[pytest]\nmemeval_expect =\n    rag.answer_f1 >= 0.9\n    rag.citation_validity >= 1\n"
        "    l1.memory_recall >= 0.5\n",
    )  # fmt: skip
    rows = [
        {"id": "right", "query": "q", "contexts": ["c"], "response": "here", "ground_truth": "here"},
        {"id": "wrong", "query": "q", "contexts": ["c"], "response": "there", "ground_truth": "here"},
        {"id": "own", "query": "q", "contexts": ["c"], "response": "x", "ground_truth": "y",
         "expect": {"rag.answer_f1": "<= 0.5"}},
    ]  # fmt: skip
    write(rag, rows)
    result = rag.run("a.memeval.jsonl", *mode)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*a.memeval.jsonl:2: [[]expect[]] rag.answer_f1 is 0.000, expected >= 0.9"])
    assert rag.report()["summary"]["missed_own_thresholds"] == 1


# -- what evaluators give --------------------------------------------------------------------------------------------


def given(rag: Project, *responses: str) -> dict[str, Any]:
    write(rag, [{"id": f"s{n}", "query": "q", "contexts": ["c"], "response": text} for n, text in enumerate(responses)])
    rag.run("a.memeval.jsonl", *by("Given"))
    entries: dict[str, Any] = {entry["case_id"]: entry for entry in rag.report()["per_case"]}
    return entries


@pytest.mark.parametrize(
    "name", ["n", "counts", "intervals", "metric_errors", "mixed", "warnings", "_hidden", "a b", "a.b", ""]
)
def test_a_metric_cannot_have_a_name_of_the_report(rag: Project, name: str) -> None:
    entry = given(rag, repr({name: 1, "fine": 1}))["s0"]
    assert (entry["error"]["kind"], rag.report()["rag"]["fine"]) == ("bad_metric", 1)
    assert repr(name) in entry["error"]["message"]


def test_scores_of_any_type_are_a_figure_or_an_error(rag: Project) -> None:
    entries = given(
        rag,
        "{'x': __import__('decimal').Decimal('0.5'), 'ok': True}",
        "{'x': {'nested': 1}}",
        "{'x': [1]}",
        "{'x': float('inf')}",
        "{'x': __import__('datetime').date(2020, 1, 1)}",
        "EvalResult(sample, None)",
        "[1]",
        "None",
        "EvalResult(sample, {'x': 1}, feedback={'why': set()})",
    )
    kinds = [entry["error"]["kind"] if entry["error"] else None for _, entry in sorted(entries.items())]
    assert kinds == [None, *["unmeasured"] * 4, *["bad_result"] * 3, None]
    assert (rag.report()["rag"]["x"], rag.report()["rag"]["n"]["x"]["cases"]) == (0.75, 2)


def test_a_text_here_and_a_number_there_are_labels(rag: Project) -> None:
    given(rag, "{'tone': 'calm'}", "{'tone': 3}", "{'tone': 'calm'}")
    section = rag.report()["rag"]
    assert (section["tone"], section["unmeasured"], section["mixed"]) == (
        {"calm": 2},
        {},
        {"tone": {"numbers": 1, "texts": 2}},
    )
    result = rag.run("a.memeval.jsonl", *by("Given"), "--memeval-gate", "P0 rag.tone >= 1")
    assert (result.ret, rag.report()["gates"][0]["status"]) == (1, "unmeasured")


def test_an_evaluator_that_cannot_be_made_is_told_in_a_sentence(rag: Project) -> None:
    result = rag.run("a.memeval.jsonl", *by("Broken"))
    result.assert_outcomes(errors=6)
    assert "--memeval-evaluator: 'noted:Broken' cannot be made: LookupError: no index here" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


# -- time ------------------------------------------------------------------------------------------------------------


@MODES
def test_waiting_for_others_is_no_time_of_the_sample(rag: Project, mode: tuple[str, ...]) -> None:
    # Six samples of 0.3 s, one after the other: the last waits longer than its own limit.
    result = rag.run("a.memeval.jsonl", *by("Queue"), "--memeval-timeout", "1", *mode)
    result.assert_outcomes(passed=6)
    rag.run("a.memeval.jsonl", *by("Queue"), "--memeval-timeout", "0.1").assert_outcomes(errors=6)
    assert {entry["error"]["kind"] for entry in rag.report()["per_case"]} == {"timeout"}


def test_an_interrupt_leaves_a_report_of_what_is_done(rag: Project) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "a.memeval.jsonl", *by("Waits")]
    with subprocess.Popen(command, cwd=rag.path, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (rag.path / "asked.txt").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "The run was cut short" in said


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        {"query": "q", "ground_truth": "t"},
        {"user_input": "q", "reference": "t"},
        {"question": "q", "reference_contexts": ["c"]},
        {"question": "q", "answer": "a", "contexts": ["long " * 20_000]},
    ],
)
def test_questions_for_a_pipeline_are_a_file_of_samples(rag: Project, row: dict[str, Any]) -> None:
    write(rag, [row, row])
    rag.run("a.memeval.jsonl", *PIPE, *by("pytest_memeval.rag:ContextLength")).assert_outcomes(passed=2)
    (rag.path / "b.json").write_text(json.dumps([row]), encoding="utf-8")
    rag.run("b.json", *PIPE, *by("pytest_memeval.rag:ContextLength")).assert_outcomes(passed=1)


# -- variants --------------------------------------------------------------------------------------------------------


@MODES
def test_each_variant_is_judged_by_its_own_model(judged: ChatProject, mode: tuple[str, ...]) -> None:
    models: list[str] = []

    def script(request: fake.Request) -> str:
        models.append(request.body["model"])
        return supported(request)

    judged.server.script = script
    write(judged, ROWS[:2])
    variants = ("--memeval-variant", "a=model:first", "--memeval-variant", "b=model:second")
    options = ("a.memeval.jsonl", *by("pytest_memeval.rag:Faithfulness"), "--memeval-cache-dir", str(judged.cache))
    judged.run(*options, *variants, "--memeval-llm", "openai", "--memeval-base-url", judged.server.base_url, *mode)
    assert sorted(models) == ["first", "first", "second", "second"]


@MODES
def test_what_the_evaluators_need_is_loaded_in_no_samples_time(rag: Project, mode: tuple[str, ...]) -> None:
    rows = [{**row, "reference_contexts": row["contexts"]} for row in ROWS]
    write(rag, rows)
    options = ["--memeval-output", "out", "-pno:hypothesispytest", *mode]
    for evaluator in ("noted:Loaded", "pytest_memeval.rag:OfflineEvaluator"):
        options += ["--memeval-evaluator", evaluator]
    # A command of its own: in forked processes everything is loaded.
    result = rag.pytester.run(sys.executable, "-m", "pytest", *options)
    result.assert_outcomes(passed=len(rows))
    assert rag.report()["rag"]["loaded"] == 1
    assert rag.report()["rag"]["n"]["answer_rougeL"]["cases"] == len(rows)
