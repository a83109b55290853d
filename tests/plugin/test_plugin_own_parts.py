"""Chat models, matchers, judges and evaluators of a project's own, named ``module:attribute`` by options."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_project import simple_case
from plugin_project import MODES, Project, case, stable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_samples import locomo_record, write_json

#: A model that answers as the project's cases want it, in every shape that an option can name.
MODELS = """
import asyncio
import json
import re

from pytest_memeval import ChatReply
from pytest_memeval.llm.protocol import ModelUnavailable


def answer(prompt):
    conversation = prompt.split("<conversation>")[-1].split("</conversation>")[0]
    open("asked.txt", "a", encoding="utf-8").write("x")
    return json.dumps(
        [
            {"content": content, "dimensions": [dimension], "memory_type": "persona", "priority": 80,
             "time_velocity": "static"}
            for dimension, content in re.findall(r"user: (\\w+): ([^\\n]+)", conversation)
        ]
    )


class Async:
    name = "async-model"
    model = "tiny"
    version = "1"

    async def complete(self, messages, *, stage, response_format=None, temperature=0.0, max_tokens=None, trial=0):
        await asyncio.sleep(0)
        return ChatReply(answer(messages[0]["content"]), model="tiny-0613")


class Plain:
    name = "plain-model"

    def complete(self, messages, **rest):
        assert rest["stage"] == "l1_extraction"
        return answer(messages[0]["content"])


class Mute(Plain):
    name = "mute"

    def complete(self, messages):
        return "" if "number 1 " in messages[0]["content"] else answer(messages[0]["content"])


class Down(Plain):
    name = "down"

    async def complete(self, messages, *, stage):
        raise ModelUnavailable("the model's machine is asleep")


class Odd(Plain):
    name = "odd"

    def complete(self, messages):
        return 7


def ask(messages, stage):
    return answer(messages[0]["content"])


def build():
    return Plain()


instance = Plain()


class Impostor(Plain):
    name = "openai"


class Nothing:
    pass


class Broken:
    def __init__(self):
        raise RuntimeError("no weights here")
"""
GOOD = ["Async", "Plain", "ask", "build", "instance"]


@pytest.fixture
def models(project: Project) -> Project:
    project.write("conftest.py", "")
    project.write("models.py", MODELS)
    project.cases([simple_case(1), simple_case(2)])
    return project


def asked(project: Project) -> int:
    file = project.path / "asked.txt"
    return len(file.read_text(encoding="utf-8")) if file.exists() else 0


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, ()) for name in GOOD), ("Async", ("-n", "2")), ("ask", ("-n", "2"))]
)
def test_a_chat_model_is_asked_and_the_report_says_which(models: Project, name: str, mode: tuple[str, ...]) -> None:
    models.run("--memeval-llm", f"models:{name}", *mode).assert_outcomes(passed=2)
    report = models.report()
    assert report["l1"]["dimension_micro_f1"] == 1.0
    assert asked(models) == 2
    model = report["model"]
    wanted = {"Async": "async-model", "ask": "ask"}.get(name, "plain-model")
    assert model["provider"] == wanted
    assert model["endpoint"].startswith("models:")
    assert "sha256:" in model["endpoint"]
    if name == "Async":
        assert (model["name"], model["served_model"]) == ("tiny", "tiny-0613")
    calls = gzip.decompress((models.path / "out" / "calls.jsonl.gz").read_bytes()).decode("utf-8").splitlines()
    assert {json.loads(line)["provider"] for line in calls} == {wanted}


def test_serial_and_parallel_reports_are_the_same(models: Project) -> None:
    models.write("matchers.py", MATCHERS)
    reports = []
    for mode in ((), ("-n", "2")):
        own = ("--memeval-llm", "models:Plain", "--memeval-matcher", "matchers:match")
        models.run(*own, *mode).assert_outcomes(passed=2)
        reports.append(stable(models.report()))
    assert reports[0] == reports[1]


def test_only_a_model_with_a_version_is_answered_from_the_cache(models: Project) -> None:
    for count, name in ((2, "Async"), (2, "Async"), (4, "Plain"), (6, "Plain")):
        models.run("--memeval-llm", f"models:{name}").assert_outcomes(passed=2)
        assert asked(models) == count, name
    models.run("--memeval-llm", "models:Async", "--memeval-cache", "replay").assert_outcomes(passed=2)
    # Another text of its module, or another version, is another model.
    models.write("models.py", MODELS + "\n# changed\n")
    models.run("--memeval-llm", "models:Async").assert_outcomes(passed=2)
    assert asked(models) == 8
    models.write("models.py", MODELS.replace('version = "1"', 'version = "2"'))
    models.run("--memeval-llm", "models:Async").assert_outcomes(passed=2)
    assert asked(models) == 10


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("Down", "model_unavailable", "the model's machine is asleep"),
        ("Odd", "model_error", "chat model odd gave int, not a ChatReply or a text"),
        ("Mute", "empty_answer", "chat model mute gave an empty answer"),
    ],
)
def test_a_model_that_fails_is_an_error_of_the_stage(models: Project, name: str, kind: str, words: str) -> None:
    result = models.run("--memeval-llm", f"models:{name}")
    errors = [entry["error"] for entry in models.report()["per_case"] if entry["error"]]
    assert len(errors) == (1 if name == "Mute" else 2)
    assert {(error["stage"], error["kind"]) for error in errors} == {("l1", kind)}
    assert words in result.stdout.str()


@MODES
def test_a_model_can_be_a_variant(models: Project, mode: tuple[str, ...]) -> None:
    variants = ("--memeval-variant", "one=llm:models:Async", "--memeval-variant", "two=llm:models:Mute")
    models.run(*variants, *mode).assert_outcomes(passed=3, errors=1)
    one, two = (models.report(f"out/{name}") for name in ("one", "two"))
    assert (one["model"]["provider"], two["model"]["provider"]) == ("async-model", "mute")
    assert (one["counts"]["errored"], two["counts"]["errored"]) == (0, 1)


@MODES
def test_resume_takes_cases_of_the_same_model_alone(models: Project, mode: tuple[str, ...]) -> None:
    again = ("--memeval-resume", "out", "--memeval-output", "next")
    models.run("--memeval-llm", "models:Plain", *mode).assert_outcomes(passed=2)
    models.run("--memeval-llm", "models:Plain", *again, *mode).assert_outcomes(passed=2)
    assert asked(models) == 2
    models.write("models.py", MODELS + "\n# changed\n")
    models.run("--memeval-llm", "models:Plain", *again, *mode).assert_outcomes(passed=2)
    assert asked(models) == 4


def test_a_plan_asks_nobody(models: Project) -> None:
    result = models.run("--memeval-llm", "models:Plain", "--memeval-plan")
    assert "2 model calls" in result.stdout.str()
    assert asked(models) == 0


def as_fixture(models: Project, name: str) -> tuple[str, ...]:
    models.write(
        "conftest.py",
        f"import models\nimport pytest\n\n\n@pytest.fixture(scope='session')\ndef memeval_llm():\n"
        f"    return models.{name}()\n",
    )
    return ()


def as_option(models: Project, name: str) -> tuple[str, ...]:
    return ("--memeval-llm", f"models:{name}")


@pytest.mark.parametrize("given", [as_fixture, as_option])
def test_a_plan_knows_the_price_of_the_model_that_answers_or_says_which_one_tells_none(
    models: Project, given: Any
) -> None:
    def cost(name: str, *more: str) -> str:
        result = models.run(*given(models, name), "--memeval-plan", *more)
        (line,) = [line for line in result.outlines if line.startswith("estimated cost")]
        return str(line)

    assert cost("Plain") == (
        "estimated cost: unknown, chat model plain-model does not say which model it asks; give it an attribute `model`"
    )
    assert cost("Async") == (
        "estimated cost: unknown, the price of model tiny is not known; add it with --memeval-prices"
    )
    models.write("prices.yaml", "models: {tiny: {input: 1000000, output: 0}}\n")
    line = cost("Async", "--memeval-prices", "prices.yaml")
    assert line.endswith("(model tiny)")
    assert float(line.partition("$")[2].partition(" ")[0]) > 1000
    assert asked(models) == 0


# -- what cannot be used -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["llm", "modls:Plain"], "'modls:Plain' cannot be imported: No module named 'modls'; did you mean 'models'?"),
        (["llm", "models:Plan"], "has no attribute 'Plan'; did you mean 'Plain'?"),
        (["llm", "models:"], "--memeval-llm: 'models:' is not of the form module:attribute"),
        (["llm", "embeded"], "unknown chat model 'embeded' (your own is named module:attribute); did you mean 'emb"),
        (["llm", "models:Nothing"], "gives a Nothing, which has no method complete(messages, *, stage)"),
        (["llm", "models:Broken"], "'models:Broken' cannot be made: RuntimeError: no weights here"),
        (["llm", "models:Impostor"], "calls itself 'openai', which is a name of a model of this package"),
        (["llm", "models:Plain", "cache", "replay"], "--memeval-cache replay has no answers of 'models:Plain'"),
        (["llm", "models:Async", "cache", "batch"], "cannot be asked in batches"),
        (["matcher", "hybird"], "unknown matcher 'hybird' (your own is named module:attribute); did you mean 'hyb"),
        (["matcher", "models:Plain"], "gives a Plain, which has no method match(predicted, truth)"),
        (["matcher", "models:ask", "match-threshold", "0.4"], "-match-threshold: matcher 'models:ask' decides"),
        (["judge", "gpt-4o"], "--memeval-judge: 'gpt-4o' is not of the form module:attribute"),
        (["judge", "models:ask", "judge-model", "m"], "there is --memeval-judge-model, too: a run has one judge"),
        (["judge", "models:aks"], "has no attribute 'aks'; did you mean 'ask'?"),
        (["variant", "a=llm:embedded", "variant", "b=llm:recordd"], "unknown chat model 'recordd'"),
    ],
)  # fmt: skip
def test_one_sentence_says_what_is_wrong(models: Project, arguments: list[str], words: str) -> None:
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    options = [text for name, value in pairs for text in (f"--memeval-{name}", value)]
    result = models.run(*options)
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert words in text
    assert "INTERNALERROR" not in text
    assert asked(models) == 0


@pytest.mark.parametrize("option", ["judge", "rag-pipeline", "evaluator"])
def test_a_name_without_an_attribute_ends_the_run_before_its_first_case(models: Project, option: str) -> None:
    result = models.run(f"--memeval-{option}", "models")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--memeval-{option}: 'models' is not of the form module:attribute" in result.stderr.str()


@MODES
@pytest.mark.parametrize("option", ["engine", "llm", "judge", "memory", "embedder", "rag-pipeline", "evaluator"])
@pytest.mark.parametrize(
    ("name", "words"),
    [("models:Plian", "has no attribute 'Plian'; did you mean 'Plain'?"), ("modls:x", "did you mean 'models'?")],
)
def test_a_name_that_leads_nowhere_ends_the_run_before_its_first_case(
    models: Project, option: str, name: str, words: str, mode: tuple[str, ...]
) -> None:
    result = models.run(f"--memeval-{option}", name, *mode)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--memeval-{option}: '{name}' cannot be imported" in result.stderr.str()
    assert words in result.stderr.str()
    assert asked(models) == 0


@pytest.mark.parametrize("version", ['"9.0"', '"0.1"', '"newest"'])
def test_an_engine_for_another_protocol_ends_the_run_before_its_first_case(models: Project, version: str) -> None:
    models.write(
        "engines.py", f"class Engine:\n    protocol = {version}\n    def extract(self, conversation, ctx): pass"
    )
    result = models.run("--memeval-engine", "engines:Engine", fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--memeval-engine: engine Engine " in result.stderr.str()


# -- matchers ------------------------------------------------------------------------------------------------------

MATCHERS = """
def match(predicted, truth):
    numbers = [text.split()[1] for text in truth]
    return [(numbers.index(text.split()[1]), p, 0.9) for p, text in enumerate(predicted) if text.split()[1] in numbers]


class ByLength:
    version = "3"

    def match(self, predicted, truth):
        return match(predicted, truth)


class Greedy:
    def match(self, predicted, truth):
        return [(0, 0, 1.0), (0, 1, 1.0)] if len(predicted) > 1 else []


class Raises:
    def match(self, predicted, truth):
        raise LookupError("no such word vector")
"""


@pytest.fixture
def matchers(project: Project) -> Project:
    project.write("matchers.py", MATCHERS)
    said = "identity: number 1 is somebody entirely different from that"
    truth = [("identity", "number 1 goes by zzzzz")]
    project.cases([simple_case(2), case("eval-001", said, truth=truth)])
    return project


@pytest.mark.parametrize(("name", "mode"), [("match", ()), ("match", ("-n", "2")), ("ByLength", ())])
def test_a_matcher_decides_what_is_found(matchers: Project, name: str, mode: tuple[str, ...]) -> None:
    matchers.run(*mode).assert_outcomes(passed=2)
    assert matchers.report()["l1"]["memory_recall"] == 0.5
    matchers.run("--memeval-matcher", f"matchers:{name}", *mode).assert_outcomes(passed=2)
    report = matchers.report()
    assert report["l1"]["memory_recall"] == 1.0
    described = report["matcher"]
    assert (described["kind"], described["name"]) == ("own", f"matchers:{name}")
    assert described["identity"].endswith(" 3") if name == "ByLength" else "sha256:" in described["identity"]


@MODES
@pytest.mark.parametrize(("name", "words"), [("Greedy", "twice"), ("Raises", "LookupError: no such word vector")])
def test_a_matcher_that_cannot_match_is_an_error_and_no_zero(
    matchers: Project, name: str, words: str, mode: tuple[str, ...]
) -> None:
    matchers.cases([simple_case(2), case("eval-003", "identity: number 3 is here", "identity: number 4 is there")])
    result = matchers.run("--memeval-matcher", f"matchers:{name}", *mode)
    report = matchers.report()
    errored = [entry["case_id"] for entry in report["per_case"] if entry["outcome"] == "errored"]
    assert errored == (["eval-003"] if name == "Greedy" else ["eval-002", "eval-003"])
    assert words in result.stdout.str()
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_run_is_scored_again_with_a_matcher(matchers: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_memeval.cli.main import main

    matchers.run(fresh=True).assert_outcomes(passed=2)
    monkeypatch.chdir(matchers.path)
    assert main(["rescore", "out", "--output", "again", "--matcher", "matchers:match"]) == 0
    assert matchers.report("again")["l1"]["memory_recall"] == 1.0


def test_a_report_does_not_name_the_code_that_rescore_runs(
    matchers: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_memeval.cli.main import main

    matchers.run("--memeval-matcher", "matchers:match").assert_outcomes(passed=2)
    monkeypatch.chdir(matchers.path)
    matchers.write("matchers.py", "open('imported.txt', 'w').close()\n" + MATCHERS)
    assert main(["rescore", "out", "--output", "again"]) != 0
    assert "name that, or another, with --matcher" in capsys.readouterr().err
    assert not (matchers.path / "imported.txt").exists()


# -- judges --------------------------------------------------------------------------------------------------------

JUDGES = """
from pytest_memeval import Verdict


def judge(question, truth, prediction, mode):
    open("judged.txt", "a", encoding="utf-8").write("x")
    return truth.lower() in prediction.lower()


class Async:
    name = "async-judge"
    version = "1"

    async def judge(self, question, truth, prediction, mode, question_date=None):
        return Verdict(0.25, mode, reason="a quarter")


class TooMuch:
    def judge(self, *answer):
        return 3


class Fails:
    name = "fails"

    def judge(self, *answer):
        raise RuntimeError("out of ink")
"""


@pytest.fixture
def judges(project: Project) -> Project:
    project.write("conftest.py", "")
    project.write("judges.py", JUDGES)
    write_json(project.path / "locomo.json", [locomo_record()])
    return project


def judged(project: Project, name: str, *arguments: str) -> tuple[Any, dict[str, Any]]:
    result = project.run("locomo.json", "--memeval-judge", f"judges:{name}", *arguments)
    return result, project.report()


@MODES
@pytest.mark.parametrize("name", ["judge", "Async"])
def test_a_judge_gives_the_verdicts(judges: Project, name: str, mode: tuple[str, ...]) -> None:
    result, report = judged(judges, name, *mode)
    assert "errors" not in result.parseoutcomes()
    assert report["judge"]["model"] == ("async-judge" if name == "Async" else "judge")
    assert report["judge"]["endpoint"].startswith(f"judges:{name}")
    if name == "Async":
        assert report["qa"]["judge_score"] == 0.25
    else:
        assert 0 <= report["qa"]["judge_score"] <= 1


@MODES
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TooMuch", "judge TooMuch gave '3' (int), not a Verdict, a score from 0 to 1, or a boolean"),
        ("Fails", "fails: RuntimeError: out of ink"),
    ],
)
def test_a_judge_without_a_verdict_is_an_error_and_no_zero(
    judges: Project, name: str, words: str, mode: tuple[str, ...]
) -> None:
    result, report = judged(judges, name, *mode)
    assert words in result.stdout.str()
    assert report["qa"].get("judge_score") is None
    assert report["counts"]["errored"] > 0


def test_a_judge_of_ones_own_is_checked_with_controls(judges: Project) -> None:
    _, report = judged(judges, "judge", "--memeval-judge-controls", "3")
    assert report["judge"]["controls"]["sensitivity"]["value"] == 1.0


def test_resume_asks_another_judge_anew(judges: Project) -> None:
    judged(judges, "judge")
    file = judges.path / "judged.txt"
    count = len(file.read_text(encoding="utf-8"))
    assert count
    again = ("--memeval-resume", "out", "--memeval-output", "next")
    judged(judges, "judge", *again)
    assert len(file.read_text(encoding="utf-8")) == count
    judges.write("judges.py", JUDGES + "\n# changed\n")
    judged(judges, "judge", *again)
    assert len(file.read_text(encoding="utf-8")) == 2 * count


def test_the_fixture_judges_from_plain_code(judges: Project) -> None:
    judges.write(
        "test_it.py",
        """
        def test_answer(memeval_judge):
            assert memeval_judge.judge_sync("Where?", "Lisbon", "In Lisbon.", "default_binary").right
            assert not memeval_judge.judge_sync("Where?", "Lisbon", "In Porto.", "default_binary").right
        """,
    )
    judges.run("test_it.py", "--memeval-judge", "judges:judge").assert_outcomes(passed=1)


# -- evaluators ----------------------------------------------------------------------------------------------------

SAMPLES = """
{"kind": "rag", "case_id": "a", "query": "Where?", "response": "In Paris."}
{"kind": "rag", "case_id": "b", "query": "When?", "response": "Long ago it was."}
"""
EVALUATORS = """
def words(sample):
    return len(sample.response.split())


async def polite(sample):
    return "please" not in sample.response
"""


@MODES
def test_a_function_of_a_sample_is_an_evaluator(project: Project, mode: tuple[str, ...]) -> None:
    project.write("evaluators.py", EVALUATORS)
    project.write("s.memeval.jsonl", SAMPLES)
    named = ("--memeval-evaluator", "evaluators:words", "--memeval-evaluator", "evaluators:polite")
    project.run("s.memeval.jsonl", *named, *mode).assert_outcomes(passed=2)
    report = project.report()
    assert report["rag"]["words"] == 3.0
    assert report["rag"]["polite"] == 1.0
    again = ("--memeval-resume", "out", "--memeval-output", "next")
    result = project.run("s.memeval.jsonl", *named, *again, *mode)
    assert "2 of 2 case(s) taken from run" in result.stdout.str()
    project.write("evaluators.py", EVALUATORS + "\n# changed\n")
    result = project.run("s.memeval.jsonl", *named, *again, *mode)
    assert "0 of 2 case(s) taken from run" in result.stdout.str()
