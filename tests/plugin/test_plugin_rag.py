"""RAG samples as test items: files, evaluators, gates, pipelines, saved contexts; serial and in two processes."""

from __future__ import annotations

import json
from typing import Any

import chat_server as fake
import pytest
from chat_project import MODEL, ChatProject
from plugin_project import MODES, Project, good_cases, stable

ROWS: list[dict[str, Any]] = [
    {
        "id": "paris",
        "question": "Where is the tower?",
        "contexts": ["The tower is in Paris."],
        "answer": "In Paris [1].",
        "ground_truth": "In Paris",
    },
    {
        "id": "height",
        "question": "How high is it?",
        "contexts": ["It is 330 metres high."],
        "answer": "300 metres",
        "ground_truth": "330 metres",
    },
    {"id": "bare", "question": "What is it?", "ground_truth": "a tower"},
]
EVALUATORS = """
import asyncio
from pytest_memeval.rag import BaseEvaluator, EvalResult


class Words(BaseEvaluator):
    metrics = ("words", "short")

    async def evaluate_sample(self, sample):
        await asyncio.sleep(0.01)
        count = len(sample.response.split())
        return EvalResult(sample, {"words": count, "short": count < 4, "kind": "brief" if count < 3 else "long"})


class Picky(BaseEvaluator):
    metrics = ("picky",)
    retries = 0

    async def evaluate_sample(self, sample):
        if "300" in sample.response:
            raise RuntimeError("cannot take numbers")
        return {"picky": 1.0}


class Nan(BaseEvaluator):
    metrics = ("nan",)

    async def evaluate_sample(self, sample):
        return {"nan": float("nan") if "300" in sample.response else 1}


class Same(Words):
    pass


NOT_ONE = 5
"""
PIPELINE = """
import asyncio
from pytest_memeval.rag import PipelineAnswer


class Store:
    name, version = "store", "2"
    facts = {"tower": "The tower is in Paris.", "high": "It is 330 metres high."}

    async def __call__(self, query):
        await asyncio.sleep(0.01)
        if "What" in query:
            raise ConnectionError("the index is gone")
        found = [text for word, text in self.facts.items() if word in query]
        return PipelineAnswer("In Paris" if "tower" in query else "330 metres", found)

    async def answer(self, query, contexts):
        return "I read: " + " ".join(contexts)


def plain(query):
    return "In Paris", ["somewhere"]


def wrong(query):
    return "In Paris"
"""


@pytest.fixture
def rag(project: Project) -> Project:
    project.pytester.makepyfile(rag_evaluators=EVALUATORS, rag_pipeline=PIPELINE)
    write(project, ROWS)
    return project


def write(project: Project, rows: list[dict[str, Any]], name: str = "tower.memeval.jsonl") -> None:
    project.write(name, "".join(json.dumps(row) + "\n" for row in rows))


def entries(project: Project) -> dict[str, dict[str, Any]]:
    return {entry["case_id"]: entry for entry in project.report()["per_case"]}


WORDS = ("--memeval-evaluator", "rag_evaluators:Words")


def test_recorded_answers_are_evaluated_without_any_option(rag: Project) -> None:
    result = rag.run("tower.memeval.jsonl", "-v")
    result.assert_outcomes(passed=2, errors=1)
    report = rag.report()
    assert report["rag"]["answer_exact_match"] == 0
    assert report["rag"]["answer_f1"] == pytest.approx((0.8 + 0.5) / 2)
    assert report["rag"]["citation_validity"] == 1
    assert report["rag"]["n"]["citation_validity"]["cases"] == 1
    assert report["rag"]["counts"]["errored"] == 1
    assert report["engine"]["name"] == "recorded answers"
    error = entries(rag)["bare"]["error"]
    assert (error["stage"], error["kind"]) == ("rag", "nothing_to_evaluate")
    assert "--memeval-rag-pipeline" in error["message"]


QUESTIONS = """
    kind: qa
    cases:
      - case_id: ann
        conversation: "[msg#1] user: I keep a cat."
        questions: [{id: q1, question: What do I keep?, answer: a cat}]
"""


@MODES
@pytest.mark.parametrize(
    ("files", "pipeline", "engine", "shown"),
    [
        ("rag", False, "recorded answers", "recorded answers"),
        ("rag", True, "store", "store 2"),
        ("distill rag", False, "lines", "lines 1"),
        ("qa rag", False, None, "-"),
        ("distill qa rag", False, "lines", "lines 1"),
        ("distill qa rag", True, "lines", "lines 1, store 2"),
    ],
)
def test_the_head_of_a_run_of_several_kinds_names_what_was_asked(
    rag: Project, mode: tuple[str, ...], files: str, pipeline: bool, engine: str | None, shown: str
) -> None:
    """Recorded answers of samples are no engine of the other files' cases."""
    rag.cases(good_cases(1))
    rag.write("qa.memeval.yaml", QUESTIONS)
    paths = {"distill": "cases/v001.yaml", "qa": "qa.memeval.yaml", "rag": "tower.memeval.jsonl"}
    more = ("--memeval-rag-pipeline", "rag_pipeline:Store") if pipeline else ()
    result = rag.run(*(paths[kind] for kind in files.split()), *more, *mode)
    report = rag.report()
    assert report["engine"].get("name") == engine
    page = (rag.path / "out/report.md").read_text("utf-8")
    assert f"- engine: {shown}\n" in page
    result.stdout.fnmatch_lines([f"*| engine {shown} | prompts *"])
    # A stage has one row, whatever sections it has.
    stages = page.partition("| stage |")[2].partition("## ")[0]
    rows = [line.split("|")[1].strip() for line in stages.splitlines() if line.startswith("| `")]
    assert len(rows) == len(set(rows))


def test_a_yaml_set_its_gates_and_thresholds(rag: Project) -> None:
    rag.write(
        "cases/tower.yaml",
        """\
        kind: rag
        meta: {version: t1, gates: [P0 rag.answer_f1 >= 0.6, P1 rag.answer_f1 >= 0.9]}
        cases:
          - {case_id: a, query: q, response: In Paris, ground_truth: In Paris, expect: {rag.answer_f1: ">= 0.9"}}
          - {case_id: b, query: q, response: Rome, ground_truth: In Paris, expect: {rag.answer_f1: ">= 0.9"}}
          - {case_id: c, query: q, response: In Paris, ground_truth: In Paris, difficulty: hrad}
        """,
    )
    result = rag.run("cases")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*cases/tower.yaml:5: [[]expect[]] rag.answer_f1 is 0.000, expected >= 0.9"])
    report = rag.report()
    # An invalid sample is errored, so no gate on it stands.
    assert {gate["status"] for gate in report["gates"]} == {"unmeasured"}
    result = rag.run("cases", "--memeval-max-error-rate", "0.5")
    assert [gate["status"] for gate in rag.report()["gates"]] == ["missed", "missed"]


def test_evaluators_of_ones_own(rag: Project) -> None:
    write(rag, ROWS[:2])
    evaluators = (*WORDS, "--memeval-evaluator", "rag_evaluators:Picky", "--memeval-evaluator", "rag_evaluators:Nan")
    gates = [word for name in ("words", "picky", "nan") for word in ("--memeval-gate", f"P0 rag.{name} >= 1")]
    result = rag.run("tower.memeval.jsonl", *evaluators, *gates)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 1
    section = rag.report()["rag"]
    assert (section["words"], section["short"], section["picky"]) == (2.5, 1, 1)
    assert section["kind"] == {"brief": 1, "long": 1}
    assert section["metric_errors"] == {"nan": 1, "picky": 1}
    # One evaluator's failure is not another's.
    assert {gate["metric"]: gate["status"] for gate in rag.report()["gates"]} == {
        "rag.words": "passed",
        "rag.picky": "unmeasured",
        "rag.nan": "unmeasured",
    }
    errors = {error["kind"]: error["message"].partition(" (")[0] for error in entries(rag)["height"]["errors"]}
    assert errors == {
        "evaluator_exception": "Picky: RuntimeError: cannot take numbers",
        "unmeasured": "Nan: nan: 'nan' is no finite number",
    }


def test_a_false_assertion_fails_the_test(rag: Project) -> None:
    write(rag, [{**ROWS[0], "answer": "it is in the middle of Paris"}])
    result = rag.run("tower.memeval.jsonl", *WORDS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*[[]expect[]] short is false"])
    assert rag.report()["summary"]["missed_own_thresholds"] == 1


@MODES
def test_a_pipeline_answers_and_its_failure_is_no_answer(rag: Project, mode: tuple[str, ...]) -> None:
    result = rag.run("tower.memeval.jsonl", "--memeval-rag-pipeline", "rag_pipeline:Store", *mode)
    result.assert_outcomes(passed=2, errors=1)
    report = rag.report()
    assert report["engine"] == {"name": "store", "version": "2"}
    assert report["rag"]["answer_f1"] == 1
    assert entries(rag)["height"]["outputs"]["rag"] == {
        "query": "How high is it?",
        "contexts": ["It is 330 metres high."],
        "response": "330 metres",
        "reference": "330 metres",
    }
    failed = entries(rag)["bare"]
    assert (failed["outputs"], failed.get("rag")) == ({}, None)
    assert failed["error"] == {
        "stage": "rag",
        "kind": "generation_error",
        "message": "pipeline store: ConnectionError: the index is gone (rag_pipeline.py:12 in __call__)",
    }


def test_a_bad_pipeline_is_told(rag: Project) -> None:
    write(rag, ROWS[:1])
    result = rag.run("tower.memeval.jsonl", "--memeval-rag-pipeline", "rag_pipeline:wrong")
    result.assert_outcomes(errors=1)
    said = "must return a PipelineAnswer, (response, contexts) or a mapping with both, not str"
    assert said in result.stdout.str()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["rag_evaluators:NOT_ONE"], "is no evaluator: a subclass of BaseEvaluator, or a function of a sample"),
        (["rag_evaluators:Words", "rag_evaluators:Same"], "both give 'words'"),
        (["pytest_memeval.rag:Faithfulness"], "the offline one is never a judge"),
    ],
)
def test_a_bad_evaluator_is_told(rag: Project, names: list[str], said: str) -> None:
    write(rag, ROWS[:1])
    options = [word for name in names for word in ("--memeval-evaluator", name)]
    result = rag.run("tower.memeval.jsonl", *options)
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()


@MODES
def test_saved_contexts_are_played_back(rag: Project, mode: tuple[str, ...]) -> None:
    write(rag, ROWS[:2])
    store = ("--memeval-rag-pipeline", "rag_pipeline:Store")
    rag.run("tower.memeval.jsonl", *store, "--memeval-save-contexts", "kept/contexts.jsonl", *mode)
    kept = [json.loads(line) for line in (rag.path / "kept/contexts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["case_id"] for row in kept] == ["height", "paris"]
    assert kept[1] == {
        "set": "tower.memeval.jsonl",
        "case_id": "paris",
        "query": "Where is the tower?",
        "contexts": ["The tower is in Paris."],
        "response": "In Paris",
    }
    kept[0]["contexts"] = ["It is tall."]
    rag.write("kept/contexts.jsonl", "".join(json.dumps(row) + "\n" for row in kept))
    # A second answerer gets the saved contexts and retrieves nothing.
    result = rag.run("tower.memeval.jsonl", *store, "--memeval-contexts", "kept/contexts.jsonl", *mode)
    result.assert_outcomes(passed=2)
    assert entries(rag)["height"]["outputs"]["rag"]["response"] == "I read: It is tall."
    # A second judge of the recorded answers gets them, too.
    rag.run("tower.memeval.jsonl", "--memeval-contexts", "kept/contexts.jsonl")
    assert entries(rag)["height"]["outputs"]["rag"] == {
        "query": "How high is it?",
        "contexts": ["It is tall."],
        "response": "300 metres",
        "reference": "330 metres",
    }


def test_saved_contexts_of_other_samples_are_refused(rag: Project) -> None:
    write(rag, ROWS[:2])
    rows = [{"case_id": "paris", "query": "another question", "contexts": ["x"]}]
    rag.write("contexts.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    rag.run("tower.memeval.jsonl", "--memeval-contexts", "contexts.jsonl").assert_outcomes(errors=2)
    messages = {name: entry["error"]["message"] for name, entry in entries(rag).items()}
    assert "for another query: 'another question'" in messages["paris"]
    assert "holds no contexts of case 'height'" in messages["height"]
    result = rag.run("tower.memeval.jsonl", "--memeval-contexts", "contexts.jsonl", "--memeval-rag-pipeline",
                     "rag_pipeline:plain")  # fmt: skip
    result.assert_outcomes(errors=2)
    assert rag.run("tower.memeval.jsonl", "--memeval-contexts", "none.jsonl").ret == 4


def test_fixtures_of_the_project_take_the_options_place(rag: Project) -> None:
    write(rag, ROWS[:2])
    rag.write(
        "conftest.py",
        """\
        import pytest
        from rag_evaluators import Words
        from rag_pipeline import Store

        @pytest.fixture(scope="session")
        def memeval_evaluators():
            return [Words()]

        @pytest.fixture(scope="session")
        def memeval_rag_pipeline():
            return Store()
        """,
    )
    rag.run("tower.memeval.jsonl").assert_outcomes(passed=2)
    assert rag.report()["rag"]["words"] == 2


def test_every_way_of_running_reports_the_same(rag: Project) -> None:
    rows = [{**ROWS[n % 2], "id": f"s{n}", "group": n % 4} for n in range(12)]
    write(rag, [*rows, ROWS[2]])
    options = ("tower.memeval.jsonl", *WORDS, "--memeval-evaluator", "rag_evaluators:Picky")
    rag.run(*options, "--memeval-concurrency", "1")
    serial = stable(rag.report())
    assert serial["rag"]["n"]["words"] == {"units": 12, "cases": 12, "clusters": 4}
    for given in ((), ("-n", "2")):
        rag.run(*options, *given)
        assert stable(rag.report()) == serial


def test_validate_and_rescore(rag: Project) -> None:
    import sys

    write(rag, ROWS[:2])
    rag.run("tower.memeval.jsonl")
    memeval = (sys.executable, "-m", "pytest_memeval")
    good = rag.pytester.run(*memeval, "validate", "tower.memeval.jsonl")
    assert (good.ret, good.outlines[-1]) == (0, "tower.memeval.jsonl: 2 cases, 0 problems (kind rag)")
    again = rag.pytester.run(*memeval, "rescore", "out", "--gate", "P0 rag.answer_f1 >= 0.99")
    assert again.ret == 1
    assert rag.report("out/rescored")["rag"] == rag.report()["rag"]


# -- with a model ----------------------------------------------------------------------------------------------------


def verdict(request: fake.Request) -> str:
    """Supports what is said of Paris and nothing else; of the height it says nothing that can be read."""
    if "300 metres" in request.prompt:
        return "I would say it is faithful."
    key = "attributed" if "<right_answer>" in request.prompt else "supported"
    return json.dumps({"statements": [{"statement": "in Paris", "reason": "said", key: True}]})


@MODES
def test_a_judge_is_asked_and_its_calls_are_recorded(chat: ChatProject, mode: tuple[str, ...]) -> None:
    chat.server.script = verdict
    write(chat, ROWS[:2])
    names = ("Faithfulness", "ContextRecall")
    options = [word for name in names for word in ("--memeval-evaluator", f"pytest_memeval.rag:{name}")]
    judge = ("--memeval-judge-model", MODEL, "--memeval-judge-base-url", chat.server.base_url)
    cache = ("--memeval-cache-dir", str(chat.cache))
    result = chat.run("tower.memeval.jsonl", *options, *judge, *cache, *mode)
    result.assert_outcomes(passed=1, errors=1)
    report = chat.report()
    assert (report["rag"]["faithfulness"], report["rag"]["context_recall"]) == (1, 1)
    assert report["rag"]["n"]["context_recall"]["cases"] == 2
    assert report["rag"]["metric_errors"] == {"faithfulness": 1}
    assert report["usage"]["calls"] == 4
    assert (report["judge"]["model"], report["judge"]["served_model"]) == (MODEL, MODEL)
    assert set(report["judge"]["prompt_versions"]) == {"rag_context_recall", "rag_faithfulness"}
    assert report["prompt_versions"] == {"rag_context_recall": "v001", "rag_faithfulness": "v001"}
    assert entries(chat)["height"]["error"]["kind"] == "unusable_answer"
    asked = chat.server.count
    assert asked == 4
    # What was usable is in the cache; what was not is asked again.
    chat.run("tower.memeval.jsonl", *options, *judge, *cache, *mode)
    assert chat.server.count == asked + 1
