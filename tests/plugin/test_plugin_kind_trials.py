"""``--memeval-trials`` for questions and RAG samples: averages, errors, one reading, going on, scoring again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import chat_server as fake
from chat_project import MODEL, ChatProject
from dataset_samples import locomo_record
from plugin_project import MODES, Project, stable

#: Notes what is read and what is asked; breaks or ends the process on request.
MEMORY = """
import os
from pytest_memeval.qa import BaseMemory
from pytest_memeval.values import Hit


def note(text):
    with open("diary.txt", "a", encoding="utf-8") as file:
        file.write(text + "\\n")


class Diary(BaseMemory):
    name = "diary"

    def __init__(self):
        self.messages = []

    def ingest(self, message):
        if not self.messages:
            note("read")
        self.messages.append(message)

    def retrieve(self, query):
        note(f"asked {query}")
        if os.environ.get("DIARY_DIES") and "boat" in query:
            os._exit(3)
        return [Hit(m.id, 1.0, f"{m.name}: {m.content}", (m.id,)) for m in self.messages]

    def reset(self):
        self.messages = []
"""
TRIALS = ("--memeval-trials", "3")
ASKING = ("locomo.json", "--memeval-answerer", "chat", "--memeval-judge-model", "judge-1")


class Unsteady:
    """A model whose answer about the boat depends on how often it has been asked the same; a lenient judge."""

    def __init__(self, *boats: fake.Reply, verdicts: tuple[fake.Reply, ...] = ()) -> None:
        self.boats, self.verdicts = boats, verdicts
        self.times: Counter[str] = Counter()

    def __call__(self, request: fake.Request) -> fake.Reply:
        boat = "boat" in request.prompt.partition("Question:")[2] or "boat" in request.prompt.partition("</context>")[2]
        if "<context>" in request.prompt and "truth" not in request.prompt.lower():
            if not boat:
                return "No information available"
            self.times["boat"] += 1
            return self.boats[(self.times["boat"] - 1) % len(self.boats)]
        if self.verdicts and "boat" in request.prompt:
            self.times["verdict"] += 1
            return self.verdicts[(self.times["verdict"] - 1) % len(self.verdicts)]
        return json.dumps({"reason": "because", "score": 1.0, "verdict": "correct"})


@pytest.fixture
def asked(chat: ChatProject, monkeypatch: pytest.MonkeyPatch) -> ChatProject:
    monkeypatch.setenv("MEMEVAL_API_KEY", "sk-test-key-1234567890")
    chat.server.script = Unsteady("red", "blue", "red")
    chat.write("locomo.json", json.dumps([locomo_record("a")], indent=1))
    return chat


@pytest.fixture
def questions(project: Project) -> Project:
    project.pytester.makepyfile(diary=MEMORY)
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    project.write("locomo.json", json.dumps([locomo_record("a"), locomo_record("b")], indent=1))
    return project


def diary(project: Project) -> Counter[str]:
    path = project.path / "diary.txt"
    found = Counter(path.read_text("utf-8").splitlines()) if path.exists() else Counter()
    path.unlink(missing_ok=True)
    return found


def boat(project: Project) -> dict[str, Any]:
    """The entry of the question about the boat."""
    found: dict[str, Any] = next(
        entry for entry in project.report()["per_case"] if "boat" in entry["outputs"]["qa"]["question"]
    )
    return found


@MODES
def test_a_question_s_answers_and_verdicts_are_averaged(asked: ChatProject, mode: tuple[str, ...]) -> None:
    result = asked.chat(*ASKING, *TRIALS, "-v", *mode)
    result.assert_outcomes(passed=6)
    # Six answers and five verdicts, three times each, though two of the boat's answers are the same.
    assert asked.server.count == 33
    report, one = asked.report(), boat(asked)
    assert report["qa"]["n"]["f1"]["units"] == 5
    assert one["qa"]["ratios"]["f1"] == [pytest.approx(2 / 3), 1.0]
    assert sorted(trial["ratios"]["qa"]["f1"][0] for trial in one["trials"]) == [0, 1, 1]
    answers = [one["outputs"]["qa"]["answer"], *(trial["outputs"]["qa"]["answer"] for trial in one["trials"][1:])]
    assert sorted(answers) == ["blue", "red", "red"]
    assert one["spread"]["qa.f1"]["sd"] == pytest.approx(3**-0.5)
    assert one["spread"]["qa.judge_score"]["sd"] == 0
    assert report["trials"]["count"] == 3
    assert report["case_sets"]["locomo.json"]["protocol"]["trials"] == 3
    assert report["case_sets"]["locomo.json"]["questions"]["single_run"] is False
    assert "measured once" not in " ".join(report["notes"])
    page = (asked.path / "out/report.md").read_text("utf-8")
    assert "3 trials" in page
    assert "single run" not in page
    # A second run asks nothing: every trial's answers and verdicts were kept apart.
    first = stable(report)
    asked.chat(*ASKING, *TRIALS, *mode)
    assert asked.server.count == 33
    assert stable(asked.report())["qa"] == first["qa"]
    # One more trial costs only itself.
    asked.chat(*ASKING, "--memeval-trials", "4", *mode)
    assert asked.server.count == 44


def test_two_trials_are_still_a_single_run(asked: ChatProject) -> None:
    asked.chat(*ASKING, "--memeval-trials", "2")
    assert asked.report()["case_sets"]["locomo.json"]["questions"]["single_run"] is True
    assert "single run" in (asked.path / "out/report.md").read_text("utf-8")


@MODES
def test_a_failed_trial_makes_the_question_errored(asked: ChatProject, mode: tuple[str, ...]) -> None:
    asked.server.script = Unsteady("red", fake.error(400, "no such colour"), "red")
    # One at a time: the second request to arrive is the second trial's.
    result = asked.chat(*ASKING, *TRIALS, "--memeval-concurrency", "1", *mode)
    result.assert_outcomes(passed=5, errors=1)
    report, one = asked.report(), boat(asked)
    assert report["qa"]["n"]["f1"]["units"] == 4
    assert report["qa"]["errors_as_wrong"]["f1"] == pytest.approx(report["qa"]["f1"] * 4 / 5)
    assert report["trials"]["errored_cases"] == 1
    assert one.get("qa") is None
    assert one["error"]["message"].startswith("trial 2 of 3: ")
    assert [trial["outcome"] for trial in one["trials"]] == ["scored", "errored", "scored"]
    assert one["trials"][2]["ratios"]["qa"]["f1"] == [1.0, 1.0]
    # What failed was not kept, and is all that is asked again: its answer and the verdict on it.
    before = asked.server.count
    asked.server.script = Unsteady("blue")
    asked.chat(*ASKING, *TRIALS, *mode).assert_outcomes(passed=6)
    assert asked.server.count == before + 2


def test_a_verdict_missing_in_a_trial_leaves_the_other_figures(asked: ChatProject) -> None:
    good = json.dumps({"reason": "because", "score": 1.0, "verdict": "correct"})
    asked.server.script = Unsteady("red", verdicts=(good, "hm", "hm", good))
    result = asked.chat(*ASKING, *TRIALS, "--memeval-concurrency", "1")
    result.assert_outcomes(passed=5, errors=1)
    section = asked.report()["qa"]
    assert section["n"]["f1"]["units"] == 5
    assert section["n"]["judge_score"]["units"] == 4
    assert section["metric_errors"]["judge_score"] == 1
    assert section["errors_as_wrong"]["judge_score"] == pytest.approx(4 / 5)
    one = boat(asked)
    assert "judge_score" not in one["qa"]["ratios"]
    assert one["trials"][2]["ratios"]["qa"]["judge_score"] == [1.0, 1.0]
    asked.memeval("rescore", "out", "--output", "again")
    rescored = json.loads((asked.path / "again/report.json").read_text("utf-8"))
    assert rescored["qa"] == section


@MODES
def test_a_conversation_is_read_once_and_asked_once(questions: Project, mode: tuple[str, ...]) -> None:
    """Also where no conversation is kept, and with arms, which need the conversation, too."""
    options = ("locomo.json", "--memeval-memory", "diary:Diary", "--memeval-arms", "no-memory,full-context")
    questions.run(*options)
    once, report = diary(questions), questions.report()
    result = questions.run(*options, *TRIALS, *mode)
    result.assert_outcomes(passed=12)
    assert once["read"] == 2
    if not mode:
        assert diary(questions) == once
    else:
        # A question that one worker had prepared when another took it over was asked by both.
        assert diary(questions)["read"] <= 3
    # An answerer that always says the same gives the same figures.
    again = questions.report()
    assert {name: again["qa"][name] for name in ("f1", "turn_recall", "f1_by_arm", "context_tokens")} == {
        name: pytest.approx(report["qa"][name]) for name in ("f1", "turn_recall", "f1_by_arm", "context_tokens")
    }
    assert again["locomo"]["f1_official"] == pytest.approx(report["locomo"]["f1_official"])
    assert again["qa"]["n"] == report["qa"]["n"]


def test_every_way_of_running_reports_the_same(questions: Project) -> None:
    reports = []
    for options in ((), ("-n", "2"), ("--memeval-concurrency", "1")):
        questions.run("locomo.json", *TRIALS, *options)
        reports.append(stable(questions.report()))
    assert reports[0] == reports[1] == reports[2]


def test_a_killed_run_goes_on(questions: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("locomo.json", "--memeval-memory", "diary:Diary", "--memeval-concurrency", "1", *TRIALS)
    questions.run(*options)
    whole = stable(questions.report())
    diary(questions)
    with monkeypatch.context() as context:
        context.setenv("DIARY_DIES", "1")
        assert questions.run(*options, "--memeval-output", "cut", fresh=True).ret == 3
    before = diary(questions)
    result = questions.run(*options, "--memeval-resume", "cut")
    result.assert_outcomes(passed=12)
    taken = sum(before[line] for line in before if line.startswith("asked")) - 1
    result.stdout.fnmatch_lines([f"{taken} of 12 case(s) taken from run*"])
    after = diary(questions)
    assert sum(after[line] for line in after if line.startswith("asked")) == 12 - taken
    assert stable(questions.report()) == whole
    # Other numbers of trials are other answers.
    result = questions.run(*options[:-1], "2", "--memeval-resume", "out")
    result.stdout.fnmatch_lines(["0 of 12 case(s) taken from run*what changed: options*"])


def test_a_run_is_scored_again_trial_by_trial(asked: ChatProject) -> None:
    asked.chat(*ASKING, *TRIALS)
    report = asked.report()
    assert asked.memeval("rescore", "out", "--output", "again").ret == 0
    again = json.loads((asked.path / "again/report.json").read_text("utf-8"))
    assert again["qa"] == report["qa"]
    assert [entry["trials"] for entry in again["per_case"]] == [entry["trials"] for entry in report["per_case"]]
    assert [entry["calls"] for entry in again["per_case"]] == [entry["calls"] for entry in report["per_case"]]
    # With another truth each trial's own answer is compared with it; verdicts on the old one are missing.
    record = locomo_record("a")
    for pair in record["qa"]:
        pair["answer"] = "blue" if "boat" in pair["question"] else pair.get("answer", "")
    asked.write("locomo.json", json.dumps([record], indent=1))
    asked.memeval("rescore", "out", "--output", "blue")
    blue = json.loads((asked.path / "blue/report.json").read_text("utf-8"))
    one = next(entry for entry in blue["per_case"] if "boat" in entry["outputs"]["qa"]["question"])
    assert one["qa"]["ratios"]["f1"] == [pytest.approx(1 / 3), 1.0]
    assert "judge_score" not in one["qa"]["ratios"]


def test_thresholds_hold_for_the_average(asked: ChatProject) -> None:
    asked.write(
        "own.memeval.yaml",
        """
        kind: qa
        cases:
          - case_id: trip
            conversation: |
              [msg#1] 2026-01-01T10:00:00Z user: The boat is red.
            questions:
              - {id: low, question: What colour is the boat?, answer: red, expect: {qa.f1: ">= 0.6"}}
              - {id: high, question: "What colour is the boat, say?", answer: red, expect: {qa.f1: ">= 0.7"}}
        """,
    )
    options = ("own.memeval.yaml", "--memeval-answerer", "chat", "--memeval-concurrency", "1", *TRIALS)
    result = asked.chat(*options)
    result.assert_outcomes(passed=1, failed=1)
    expect = asked.report()["trials"]["expect"]
    assert expect["cases"] == 2
    assert expect["pass_hat"]["1"] == pytest.approx(2 / 3)


def test_a_plan_counts_every_trial(asked: ChatProject) -> None:
    result = asked.chat(*ASKING, *TRIALS, "--memeval-plan")
    result.stdout.fnmatch_lines(["6 cases: 33 model calls, 0 need no request*, 33 to be asked"])
    assert asked.server.count == 0
    asked.chat(*ASKING, "--memeval-trials", "2")
    assert asked.server.count == 22
    result = asked.chat(*ASKING, *TRIALS, "--memeval-plan")
    # The verdicts of the third trial are on answers that nobody has given yet.
    result.stdout.fnmatch_lines(["6 cases: 33 model calls, * need no request*"])


def test_texts_of_trials_follow_the_policy(asked: ChatProject) -> None:
    asked.chat(*ASKING, *TRIALS, "-o", "memeval_report_text=none")
    page = (asked.path / "out/report.json").read_text("utf-8")
    assert '"blue"' not in page
    assert '"trials"' in page


# -- RAG samples -----------------------------------------------------------------------------------------------------

ROWS = [
    {"id": "paris", "question": "Where is the tower?", "contexts": ["In Paris."], "answer": "In Paris."},
    {"id": "height", "question": "How high is it?", "contexts": ["It is 330 metres."], "answer": "300 metres"},
]
EVALUATORS = """
import os
from pytest_memeval.rag import BaseEvaluator, EvalResult

seen = {}


class Noted(BaseEvaluator):
    metrics = ("even", "share")
    retries = 0

    async def evaluate_sample(self, sample):
        with open("diary.txt", "a", encoding="utf-8") as file:
            file.write(f"asked {sample.query}\\n")
        time = seen[sample.query] = seen.get(sample.query, 0) + 1
        if os.environ.get("BREAKS") and "high" in sample.query and time == 2:
            raise RuntimeError("broke here")
        even = not ("high" in sample.query and time == 3)
        return EvalResult(sample, {"even": even, "share": time / 10, "word": "odd" if time % 2 else "even"})
"""


@pytest.fixture
def rag(project: Project) -> Project:
    project.pytester.makepyfile(noted=EVALUATORS)
    project.write("tower.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    return project


NOTED = ("tower.memeval.jsonl", "--memeval-evaluator", "noted:Noted", *TRIALS)


@MODES
def test_samples_are_measured_several_times(rag: Project, mode: tuple[str, ...]) -> None:
    result = rag.run(*NOTED, *mode)
    # Asserted in every trial: the third one's is false.
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*[[]expect[]] trial 3 of 3: even is false*"])
    entry = {one["case_id"]: one for one in rag.report()["per_case"]}
    assert entry["paris"]["rag"]["ratios"]["share"] == [pytest.approx(0.2), 1.0]
    assert entry["paris"]["rag"]["tables"]["word"] == {"odd": pytest.approx(2 / 3), "even": pytest.approx(1 / 3)}
    assert entry["height"]["rag"]["ratios"]["even"] == [pytest.approx(2 / 3), 1.0]
    assert [trial["passed"] for trial in entry["height"]["trials"]] == [True, True, False]
    assert rag.report()["rag"]["share"] == pytest.approx(0.2)
    # What was found out is taken by a run that goes on, and stays what it was where it is scored again.
    diary(rag)
    whole = stable(rag.report())
    rag.run(*NOTED, *mode, "--memeval-resume", "out").assert_outcomes(passed=1, failed=1)
    assert not diary(rag)
    assert stable(rag.report()) == whole
    rag.pytester.run(sys.executable, "-m", "pytest_memeval", "rescore", "out", "--output", "again")
    again = json.loads((rag.path / "again/report.json").read_text("utf-8"))
    assert again["rag"] == whole["rag"]
    assert [one["missed_expectations"] for one in again["per_case"]] == [
        one["missed_expectations"] for one in whole["per_case"]
    ]


@MODES
def test_a_failed_trial_of_a_sample(rag: Project, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]) -> None:
    monkeypatch.setenv("BREAKS", "1")
    result = rag.run(*NOTED, *mode)
    result.assert_outcomes(passed=1, errors=1)
    report = rag.report()
    entry = {one["case_id"]: one for one in report["per_case"]}
    assert entry["height"]["error"]["message"].startswith("trial 2 of 3: ")
    assert [trial["outcome"] for trial in entry["height"]["trials"]] == ["scored", "errored", "scored"]
    assert report["rag"]["n"]["share"]["cases"] == 1
    assert report["rag"]["metric_errors"] == {"even": 1, "share": 1}


def test_a_judge_of_samples_is_asked_in_every_trial(chat: ChatProject) -> None:
    chat.write("tower.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    chat.server.script = lambda request: json.dumps(
        {"statements": [{"statement": "here", "reason": "said", "supported": True}]}
    )
    judge = ("--memeval-judge-model", MODEL, "--memeval-judge-base-url", chat.server.base_url)
    cache = ("--memeval-cache-dir", str(chat.cache))
    options = ("tower.memeval.jsonl", "--memeval-evaluator", "pytest_memeval.rag:Faithfulness", *judge, *cache, *TRIALS)
    result = chat.run(*options, "--memeval-plan")
    result.stdout.fnmatch_lines(["2 cases: 6 model calls, 0 need no request*, 6 to be asked"])
    for _ in range(2):
        chat.run(*options).assert_outcomes(passed=2)
        assert chat.server.count == 6
    # An answer that cannot be used is forgotten under its own trial.
    chat.server.script = lambda request: "no"
    chat.run(*options, "--memeval-cache", "refresh").assert_outcomes(errors=2)
    chat.run(*options).assert_outcomes(errors=2)
    assert chat.server.count == 6 + 2 * 6
