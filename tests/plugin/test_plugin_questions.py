"""Questions as tests: LoCoMo and LongMemEval files, sets of one's own, memories of every make."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chat_project import ChatProject
from dataset_samples import locomo_record, longmemeval_record
from plugin_project import MODES, Project, stable

#: Notes in a file what is done with it, and does it wrong on request.
MEMORY = """
import os
from pathlib import Path
from pytest_memeval.qa import BaseMemory
from pytest_memeval.values import Hit


def note(text):
    with open("diary.txt", "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {text}\\n")


class Diary(BaseMemory):
    name = "diary"

    def __init__(self):
        self.messages = []

    def ingest(self, message):
        if os.environ.get("DIARY_BREAKS") and message.content == os.environ["DIARY_BREAKS"]:
            raise RuntimeError("no ink")
        if not self.messages:
            note(f"read {message.content}")
        self.messages.append(message)

    def retrieve(self, query):
        if "boat" in query and self.messages[0].content == os.environ.get("DIARY_DIES"):
            os._exit(3)
        if "boat" in query and os.environ.get("DIARY_SINKS"):
            raise RuntimeError("sank")
        if "boat" in query and os.environ.get("DIARY_FORGETS"):
            return {"None": None, "number": 3, "in a list": ["a text", None]}[os.environ["DIARY_FORGETS"]]
        return [Hit(m.id, 1.0, f"{m.name}: {m.content}", (m.id,)) for m in self.messages]

    def reset(self):
        self.messages = []


class Engine:
    name = "shelf"
    version = "7"
    concurrent = os.environ.get("SHELF_CONCURRENT") == "1"

    def __init__(self):
        self.shelf = []

    def reset(self, ctx):
        self.shelf = []
        note("reset")

    def ingest_session(self, messages, ctx):
        note(f"session {ctx.case_id} {len(messages)}")
        self.shelf += messages

    async def retrieve(self, query, ctx):
        return [{"id": m.id, "content": m.content, "source_ids": [m.id]} for m in self.shelf]


SHARED = Diary()
"""


@pytest.fixture
def questions(project: Project) -> Project:
    project.pytester.makepyfile(diary=MEMORY)
    (project.path / "conftest.py").write_text("", encoding="utf-8")
    return project


def put(project: Project, name: str, data: Any) -> Path:
    return project.write(name, json.dumps(data, ensure_ascii=False, indent=1))


def locomo(project: Project, *names: str) -> None:
    records = [locomo_record(name) for name in names]
    for number, record in enumerate(records):
        record["conversation"]["session_1"][0]["text"] = f"I adopted a cat called Miso{number}."
    put(project, "locomo.json", records)


def diary(project: Project) -> list[str]:
    return [line.partition(" ")[2] for line in (project.path / "diary.txt").read_text("utf-8").splitlines()]


@MODES
def test_locomo_becomes_tests(questions: Project, mode: tuple[str, ...]) -> None:
    locomo(questions, "conv-1", "conv-2")
    result = questions.run("locomo.json", "-v", *mode)
    result.assert_outcomes(passed=12)
    report = questions.report()
    assert [entry["node_id"] for entry in report["per_case"]][:2] == [
        "locomo.json::conv-1::q0",
        "locomo.json::conv-1::q1",
    ]
    entry = report["per_case"][3]
    assert entry["cluster"] == "conv-1"
    assert entry["tags"] == ["single_hop"]
    assert (
        '"question": "What colour'
        in (questions.path / "locomo.json").read_text("utf-8").splitlines()[entry["line"] - 1]
    )
    assert report["qa"]["n"]["f1"] == {"units": 10, "cases": 10, "clusters": 2}
    assert report["locomo"]["n"]["f1_official"]["units"] == 12
    assert report["qa"]["counts"]["scored"] == 12
    scope = report["case_sets"]["locomo.json"]
    assert scope["kind"] == "qa"
    protocol = scope["protocol"]
    assert (protocol["memory"], protocol["answerer"], protocol["judge"], protocol["captions"]) == (
        "bm25",
        "extractive",
        None,
        "as text",
    )
    assert protocol["sha256"] == report["case_sets"]["locomo.json"]["protocol"]["sha256"]
    assert protocol["repairs"]["answer_not_text"] == 2
    facts = scope["questions"]
    assert facts["headline"]["metric"] == "f1"
    assert facts["headline"]["basis"] == "measured"
    assert facts["always_refuse"] == {"qa.adversarial_accuracy": 1.0, "locomo.f1_official": pytest.approx(2 / 12)}
    assert {row["type"]: row["n"] for row in facts["categories"]} == {
        "single_hop": 4,
        "multi_hop": 2,
        "temporal": 2,
        "open_domain": 2,
        "adversarial": 2,
    }
    assert facts["by_conversation"]["conv-2"]["n"] == 6
    assert set(report["timings"]["questions"]) == {"ingest", "search", "answer"}
    assert report["timings"]["questions"]["ingest"]["n"] == 2
    result.stdout.fnmatch_lines(["*memory bm25 (k 10), answerer extractive, no judge*single run*"])
    result.stdout.fnmatch_lines(["*headline: qa.f1 * over 10 questions of categories 1, 2, 3, 4, 0 error(s)*"])
    result.stdout.fnmatch_lines(["*locomo.f1_official * over 12 questions of categories 1, 2, 3, 4, 5; errors as*"])
    # Without errors there is nothing that they could hide.
    result.stdout.no_fnmatch_line("*type *errors as wrong*")


def test_only_the_categories_that_were_asked_are_named(questions: Project) -> None:
    locomo(questions, "conv-1")
    for name, wanted, more, shown, official in (
        ("some", "[2, 4]", (), "2, 4", "2, 4"),
        ("refusals", "[4, 5]", (), "4", "4, 5"),
        ("refusals", "[4, 5]", ("--memeval-adversarial-in-headline",), "4, 5", "4, 5"),
    ):
        questions.write(f"{name}.memeval.yaml", f"dataset: {{path: locomo.json, categories: {wanted}}}\n")
        result = questions.run(f"{name}.memeval.yaml", *more)
        result.stdout.fnmatch_lines([f"*headline: qa.f1 * questions of categories {shown}, 0 error(s)*"])
        result.stdout.fnmatch_lines([f"*locomo.f1_official * questions of categories {official}; *"])


def test_serial_parallel_and_shuffled_runs_report_the_same(questions: Project) -> None:
    locomo(questions, "a", "b", "c")
    questions.run("locomo.json", "--memeval-concurrency", "1")
    serial = stable(questions.report())
    questions.run("locomo.json", "-n", "2")
    assert stable(questions.report()) == serial
    questions.write(
        "conftest.py",
        """
        import random

        def pytest_collection_modifyitems(items):
            random.Random(3).shuffle(items)
        """,
    )
    questions.run("locomo.json")
    assert stable(questions.report()) == serial


@MODES
def test_a_conversation_is_read_once_and_alone(questions: Project, mode: tuple[str, ...]) -> None:
    locomo(questions, "a", "b", "c")
    questions.run("locomo.json", "--memeval-memory", "diary:Diary", *mode).assert_outcomes(passed=18)
    read = [line for line in diary(questions) if line.startswith("read")]
    # … by one worker, whichever, which then answers all of its questions.
    assert sorted(read) == [f"read I adopted a cat called Miso{n}." for n in range(3)]
    assert questions.report()["case_sets"]["locomo.json"]["protocol"]["memory"] == "diary"
    # Whatever a conversation's questions were given was its own.
    answers = {entry["cluster"]: entry["outputs"]["qa"] for entry in questions.report()["per_case"]}
    assert all(output["sources_in_all"] == 4 for output in answers.values())


@pytest.mark.parametrize("target", ["diary:SHARED", "diary:Engine"])
def test_a_memory_for_one_conversation_at_a_time(questions: Project, target: str) -> None:
    locomo(questions, "a", "b")
    questions.run("locomo.json", "--memeval-memory", target, "--memeval-concurrency", "8").assert_outcomes(passed=12)
    entries = questions.report()["per_case"]
    # Never the other conversation's messages, which have the same ids.
    assert {entry["outputs"]["qa"]["sources_in_all"] for entry in entries} == {4}
    said = diary(questions)
    assert sum(line.startswith(("read", "session a", "session b")) for line in said) == (2 if "SHARED" in target else 4)


def test_an_engine_that_can_answer_is_the_memory(questions: Project) -> None:
    locomo(questions, "a", "b")
    questions.run("locomo.json", "--memeval-engine", "diary:Engine").assert_outcomes(passed=12)
    report = questions.report()
    assert report["engine"] == {"name": "shelf", "version": "7"}
    assert report["case_sets"]["locomo.json"]["protocol"]["memory"] == "shelf"
    assert diary(questions).count("reset") == 2
    questions.run("locomo.json", "--memeval-engine", "diary:Engine", "--memeval-memory", "bm25")
    assert questions.report()["case_sets"]["locomo.json"]["protocol"]["memory"] == "bm25"


def table_of(page: str, row: str) -> list[str]:
    """The cells of a row of the Markdown table by type."""
    (line,) = (line for line in page.splitlines() if line.startswith((f"| {row} |", f"| `{row}` |")))
    return [cell.strip() for cell in line.strip("|").split("|")]


@MODES
@pytest.mark.parametrize(
    ("lang", "adversarial", "every", "name"),
    [
        ("en", False, ["10", "5"], "all with an answer"),
        ("zh", False, ["10", "5"], "有答案的全部问题"),
        ("en", True, ["12", "6"], "all with an answer"),
    ],
)
def test_a_number_of_questions_is_that_in_every_row_and_rendering(
    questions: Project,
    monkeypatch: pytest.MonkeyPatch,
    lang: str,
    adversarial: bool,
    every: list[str],
    name: str,
    mode: tuple[str, ...],
) -> None:
    monkeypatch.setenv("DIARY_BREAKS", "I adopted a cat called Miso1.")
    locomo(questions, "a", "b")
    flags = ["--memeval-adversarial-in-headline"] if adversarial else []
    options = ("--memeval-memory", "diary:Diary", "--memeval-lang", lang, "--html", "page.html", *flags)
    text = questions.run("locomo.json", *options, *mode).stdout.str()
    rows = questions.report()["case_sets"]["locomo.json"]["questions"]["categories"]
    wanted = {row["type"]: [str(row["n"]), str(row["errors"])] for row in rows} | {name: every}
    assert sum(
        int(n) for kind, (n, _) in wanted.items() if kind != name and (adversarial or kind != "adversarial")
    ) == (int(every[0]))
    page = (questions.path / "out/report.md").read_text("utf-8")
    html = (questions.path / "page.html").read_text("utf-8")
    for kind, cells in wanted.items():
        assert table_of(page, kind)[1:3] == cells
        (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith(f"{kind} "))
        assert line.removeprefix(kind).split()[:2] == cells
        row_of_page = rf"<tr>\s*<t[dh][^>]*>(<code>)?{kind}(</code>)?</t[dh]>"
        assert re.search(row_of_page + "".join(rf"\s*<td[^>]*>{cell}</td>" for cell in cells), html)


@MODES
def test_a_failed_ingestion_errors_all_its_questions(
    questions: Project, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DIARY_BREAKS", "I adopted a cat called Miso1.")
    locomo(questions, "a", "b")
    result = questions.run("locomo.json", "--memeval-memory", "diary:Diary", *mode)
    result.assert_outcomes(passed=6, errors=6)
    report = questions.report()
    errors = {entry["cluster"]: entry["error"] for entry in report["per_case"] if entry["error"]}
    assert list(errors) == ["b"]
    assert errors["b"]["kind"] == "ingest_failed"
    assert "no ink" in errors["b"]["message"]
    # Its questions share one failure, and each says where in the memory's code it was.
    messages = {error["message"] for entry in report["per_case"] for error in entry["errors"]}
    line = next(n for n, text in enumerate(MEMORY.splitlines(), 1) if "no ink" in text) - 1
    assert {message.rpartition(" (")[2] for message in messages} == {f"diary.py:{line} in ingest)"}
    assert diary(questions).count("read I adopted a cat called Miso1.") == 0
    section = report["qa"]
    assert section["counts"]["errored"] == 6
    assert section["n"]["f1"]["units"] == 5
    assert section["errors_as_wrong"]["f1"] == pytest.approx(section["f1"] / 2)
    headline = report["case_sets"]["locomo.json"]["questions"]["headline"]
    assert (headline["basis"], headline["errors"]) == ("errors_as_wrong", 5)
    assert headline["value"] == section["errors_as_wrong"]["f1"]
    result.stdout.fnmatch_lines(["*errors counted as wrong, since 5 of 10 questions could not be measured*"])
    result.stdout.fnmatch_lines(["*headline: qa.f1 * of categories 1, 2, 3, 4, errors*"])
    # Each type has the bound beside its figure, and so has the benchmark's own.
    rows = {row["type"]: row for row in report["case_sets"]["locomo.json"]["questions"]["categories"]}
    for name, row in rows.items():
        value = row["refused"] if name == "adversarial" else row["f1"]
        assert (row["errors"], row["errors_as_wrong"]) == (row["n"] / 2, pytest.approx(value / 2)), name
    page = (questions.path / "out/report.md").read_text("utf-8")
    assert "| type | n | errored | F1 | errors as wrong |" in page
    assert table_of(page, "all with an answer")[1:3] == ["10", "5"]
    official = report["locomo"]["errors_as_wrong"]["f1_official"]
    assert f"over 6 questions of categories 1, 2, 3, 4, 5; errors as wrong {official:.3f}" in page


@MODES
def test_errors_count_as_wrong_among_all_questions_that_the_headline_is_about(
    questions: Project, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DIARY_BREAKS", "I adopted a cat called Miso1.")
    locomo(questions, "a", "b")
    result = questions.run("locomo.json", "--memeval-memory", "diary:Diary", "--memeval-adversarial-in-headline", *mode)
    result.assert_outcomes(passed=6, errors=6)
    section, facts = questions.report()["qa"], questions.report()["case_sets"]["locomo.json"]["questions"]
    assert section["n"]["f1"]["units"] == 6
    assert section["errors_as_wrong"]["f1"] == pytest.approx(section["f1"] / 2)
    assert (facts["headline"]["errors"], facts["headline"]["value"]) == (6, section["errors_as_wrong"]["f1"])
    assert facts["answerable"] == {"n": 12, "errors": 6}
    result.stdout.fnmatch_lines(["*errors counted as wrong, since 6 of 12 questions could not be measured*"])
    for row in facts["categories"]:
        assert (row["errors"], row["errors_as_wrong"]) == (row["n"] / 2, pytest.approx(row["f1"] / 2)), row["type"]


def test_a_failed_question_leaves_the_others(questions: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIARY_SINKS", "1")
    locomo(questions, "a")
    questions.run("locomo.json", "--memeval-memory", "diary:Diary").assert_outcomes(passed=5, errors=1)
    assert questions.report()["locomo"]["n"]["f1_official"]["units"] == 5
    assert questions.report()["locomo"]["errors_as_wrong"]["f1_official"] == pytest.approx(
        questions.report()["locomo"]["f1_official"] * 5 / 6
    )


@MODES
@pytest.mark.parametrize(
    ("what", "said"), [("None", "retrieve returned None"), ("number", "returned int"), ("in a list", "at place 1")]
)
def test_what_is_no_context_is_an_error_of_the_question(
    questions: Project, monkeypatch: pytest.MonkeyPatch, what: str, said: str, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DIARY_FORGETS", what)
    locomo(questions, "a")
    questions.run("locomo.json", "--memeval-memory", "diary:Diary", *mode).assert_outcomes(passed=5, errors=1)
    report = questions.report()
    assert (report["counts"]["scored"], report["counts"]["errored"]) == (5, 1)
    (error,) = [error for entry in report["per_case"] for error in entry["errors"]]
    assert error["kind"] == "bad_output"
    assert said in error["message"]


def test_longmemeval_has_a_test_a_question(questions: Project) -> None:
    rows = [
        longmemeval_record("q1"),
        longmemeval_record("q2_abs", kind="multi-session", question="Where is my dog's key?"),
        longmemeval_record("q3", kind="temporal-reasoning", answer=3),
    ]
    put(questions, "lme.json", rows)
    result = questions.run("lme.json", "-v")
    result.assert_outcomes(passed=3)
    report = questions.report()
    assert [entry["node_id"] for entry in report["per_case"]] == ["lme.json::q1", "lme.json::q2_abs", "lme.json::q3"]
    assert report["longmemeval"]["recall_any@1"] == 1.0
    assert report["longmemeval"]["n"]["ndcg_any@5"]["cases"] == 2
    assert report["qa"]["n"]["abstention_accuracy"]["units"] == 1
    # Without a judge there is no accuracy, and none is made up.
    assert report["longmemeval"]["accuracy"] is None
    assert report["qa"]["judge_score"] is None
    assert report["locomo"] is None
    lines = (questions.path / "out" / "hypotheses.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["question_id"] for line in lines] == ["q1", "q2_abs", "q3"]
    assert json.loads(lines[0])["hypothesis"] == "My spare key lies under the fern."
    assert not (questions.path / "out" / "locomo_predictions.json").exists()


def test_questions_about_one_text_are_one_cluster(questions: Project) -> None:
    """LongMemEval gives every question a haystack of its own; where several are the same text, whatever their ids and
    dates, an interval is over texts."""
    rows = [longmemeval_record(f"q{number}") for number in range(12)]
    for number, row in enumerate(rows):
        row["haystack_sessions"][0][0]["content"] = f"My spare key lies under the fern {number // 2}."
        row["haystack_dates"] = [f"2023/05/{number + 10} (Sun) 10:00", "2023/04/20 (Sat) 02:21"]
        row["haystack_session_ids"] = [f"answer_{number}", "noise_1"]
        row["answer_session_ids"] = [f"answer_{number}"]
    put(questions, "lme.json", rows)
    result = questions.run("lme.json")
    result.assert_outcomes(passed=12)
    report = questions.report()
    clusters = [entry["cluster"] for entry in report["per_case"]]
    assert len(set(clusters)) == 6
    assert clusters == [cluster for cluster in dict.fromkeys(clusters) for _ in range(2)]
    assert report["qa"]["n"]["f1"] == {"units": 12, "cases": 12, "clusters": 6}
    scope = report["case_sets"]["lme.json"]
    assert scope["protocol"]["haystacks"] == 6
    assert scope["questions"]["headline"]["clusters"] == 6
    assert {row["n"] for row in scope["questions"]["by_conversation"].values()} == {2}
    result.stdout.fnmatch_lines(["*over 12 questions*interval from 6 haystack(s)*"])
    text = (questions.path / "out" / "report.md").read_text("utf-8")
    assert "### By haystack" in text


def test_a_conversation_twice_is_one_cluster_and_two_samples(questions: Project) -> None:
    put(questions, "locomo.json", [locomo_record("a"), locomo_record("b")])
    questions.run("locomo.json").assert_outcomes(passed=12)
    assert questions.report()["qa"]["n"]["f1"]["clusters"] == 1
    predictions = json.loads((questions.path / "out" / "locomo_predictions.json").read_text("utf-8"))
    assert [(one["sample_id"], len(one["qa"])) for one in predictions] == [("a", 6), ("b", 6)]


def test_predictions_in_locomo_s_format(questions: Project) -> None:
    locomo(questions, "a", "b")
    questions.run("locomo.json")
    samples = json.loads((questions.path / "out" / "locomo_predictions.json").read_text("utf-8"))
    assert [sample["sample_id"] for sample in samples] == ["a", "b"]
    question = samples[0]["qa"][3]
    assert question["question"] == "What colour is Ben's boat?"
    assert (question["answer"], question["evidence"], question["category"]) == ("red", ["D1:2", "D"], 4)
    assert question["memeval_prediction"]
    assert "D1:2" in question["memeval_prediction_context"]
    assert "answer" not in samples[0]["qa"][4]
    assert samples[0]["qa"][4]["adversarial_answer"] == "Leeds"


def test_predictions_are_in_the_published_order(questions: Project) -> None:
    """Reports list q10 before q2; whoever lays the predictions beside the data counts."""
    record = locomo_record("a")
    record["qa"] = [{**record["qa"][3], "question": f"What colour is boat {number}?"} for number in range(12)]
    put(questions, "locomo.json", [record])
    put(questions, "again.json", [record])
    questions.run("locomo.json", "again.json").assert_outcomes(passed=24)
    samples = json.loads((questions.path / "out" / "locomo_predictions.json").read_text("utf-8"))
    wanted = [f"What colour is boat {number}?" for number in range(12)]
    # The same sample out of two files is two: neither's answers are laid over the other's.
    assert [[one["question"] for one in sample["qa"]] for sample in samples] == [wanted, wanted]


def test_a_yaml_file_names_a_part_of_a_data_set(questions: Project) -> None:
    locomo(questions, "a", "b")
    put(
        questions,
        "fixes.json",
        {"entries": [{"sample_id": "a", "qa_index": 3, "error_type": "WRONG", "corrected_answer": "dark red"}]},
    )
    questions.write(
        "part.memeval.yaml",
        """
        # A part, in another file's format: json
        meta: {gates: ["P0 qa.f1 >= 0.01", "P1 locomo.f1_official_by_category.4 >= 0.0"]}
        dataset:
          format: locomo
          path: locomo.json
          limit: 5
          categories: [single_hop, 1]
          errata: fixes.json
          captions: off
        """,
    )
    result = questions.run("part.memeval.yaml")
    result.assert_outcomes(passed=5)
    report = questions.report()
    ids = [entry["case_id"] for entry in report["per_case"]]
    assert ids == ["a::q0", "a::q3", "a::q5", "b::q0", "b::q3"]
    assert [gate["status"] for gate in report["gates"]] == ["passed", "passed"]
    scope = report["case_sets"]["part.memeval.yaml"]
    assert scope["protocol"]["captions"] == "off"
    assert scope["protocol"]["errata"]["file"] == "fixes.json"
    assert scope["questions"]["ceiling"] == {"n": 5, "wrong_labels": 1, "value": 0.8}
    assert {"f1_corrected", "exact_match_corrected"} <= report["qa"].keys()
    assert "f1_official_corrected" in report["locomo"]
    result.stdout.fnmatch_lines(["*captions off*", "*1 of 5 published answers are wrong*"])


OWN = """
kind: qa
meta: {timezone: Asia/Shanghai}
cases:
  - case_id: trip
    conversation: |
      [msg#1] 2026-01-01T10:00:00 user:
        I fly to Oslo on Monday.
      [msg#2] 2026-01-01T10:01:00 assistant: Have a good flight!
    questions:
      - {id: q1, question: Where do I fly to?, answer: Oslo, evidence: [msg_1], expect: {qa.f1: ">= 0.2"}}
      - {id: q2, question: Which hotel did I book?, type: adversarial}
  - case_id: 搬家
    sessions:
      - id: s1
        time: 2026-01-02T10:00:00
        conversation: [{id: a, role: user, content: 我上周搬到了深圳。}]
    questions:
      - {id: q1, question: 我搬到了哪里？, answer: 深圳, type: knowledge_update, evidence: [s1_a]}
"""


@MODES
def test_a_set_of_one_s_own(questions: Project, mode: tuple[str, ...]) -> None:
    questions.write("own.memeval.yaml", OWN)
    questions.run("own.memeval.yaml", *mode).assert_outcomes(passed=3)
    report = questions.report()
    entries = {entry["case_id"]: entry for entry in report["per_case"]}
    assert list(entries) == ["trip::q1", "trip::q2", "搬家::q1"]
    assert entries["搬家::q1"]["outputs"]["qa"]["answer"] == "我上周搬到了深圳。"
    assert entries["trip::q1"]["line"] == 11
    assert report["qa"]["n"]["adversarial_accuracy"]["units"] == 1
    assert report["qa"]["turn_recall@1"] == 1.0


def test_a_missed_threshold_fails_the_question(questions: Project) -> None:
    questions.write("own.memeval.yaml", OWN.replace(">= 0.2", ">= 0.9"))
    result = questions.run("own.memeval.yaml")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*own.memeval.yaml:11: [[]expect[]]*qa.f1*"])


EMPTY = """\
kind: qa
cases:
  - {case_id: a, conversation: I am Ada., questions: [
      {id: q1, answer: Ada, question: QUESTION},
    ]}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.replace("[msg_1]", "[msg_9]"), "no message 'msg_9' in this case; did you mean 'msg_1'?"),
        (OWN.replace("id: q2", "id: q1"), "duplicate question id 'q1'"),
        (OWN.replace("type: adversarial", "type: adverserial"), "did you mean 'adversarial'?"),
        (OWN.replace("questions:", "qestions:", 1), "unknown key 'qestions' in a case; did you mean 'questions'?"),
        (OWN.replace("qa.f1:", "qq.f1:"), "unknown section 'qq'"),
        (EMPTY.replace("QUESTION", '""'), "bad.memeval.yaml:4:39: [a] question 'q1' is empty: there is nothing to ask"),
        (EMPTY.replace("QUESTION", '" \\t"'), "question 'q1' is empty: there is nothing to ask"),
        (EMPTY.replace("QUESTION", "null"), "a question needs 'question'"),
        (OWN.replace("Asia/Shanghai", "Asia/Shangai"), "did you mean 'Asia/Shanghai'?"),
        (OWN.replace("id: q2", 'id: "q::2"'), "contains '::'"),
        ("kind: qa\n", "needs 'cases' or a 'dataset'"),
        ("dataset: {format: locomo, path: gone.json}\n", "gone.json"),
        ("dataset: {format: lokomo, path: locomo.json}\n", "did you mean 'locomo'?"),
        ("dataset: {path: locomo.json, categories: [7]}\n", "unknown category '7'"),
        ("dataset: {path: locomo.json, pathh: x}\n", "unknown key 'pathh' in dataset"),
        ("dataset: {path: locomo.json, errata: gone.json}\n", "gone.json"),
        ("dataset: {path: locomo.json, limit: 0}\n", "must be at least 1"),
    ],
)
def test_a_bad_file_is_one_collection_error(questions: Project, text: str, words: str) -> None:
    locomo(questions, "a")
    questions.write("bad.memeval.yaml", text)
    result = questions.run("bad.memeval.yaml")
    assert result.ret == 2
    assert words in result.stdout.str()
    assert "bad.memeval.yaml:" in result.stdout.str()


def test_a_bad_data_file_names_place_and_value(questions: Project) -> None:
    record = locomo_record("a")
    record["conversation"]["session_1_date_time"] = "soon"
    put(questions, "locomo.json", [record])
    result = questions.run("locomo.json")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*locomo.json: a session_1: not a time: 'soon'*"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--memeval-memory", "bm52"), "unknown memory 'bm52'; did you mean 'bm25'?"),
        (("--memeval-arms", "no-memory,fullcontext"), "unknown arm 'fullcontext'; did you mean 'full-context'?"),
        (("--memeval-retrieval-k", "0"), "at least 1 is needed, not 0"),
        (("--memeval-answerer", "chatty"), "--memeval-answerer"),
    ],
)
def test_bad_options_end_the_run_before_it_starts(questions: Project, option: tuple[str, ...], words: str) -> None:
    locomo(questions, "a")
    result = questions.run("locomo.json", *option)
    assert result.ret == 4
    assert words in result.stderr.str()


def test_an_engine_without_the_stage_is_told(questions: Project) -> None:
    locomo(questions, "a")
    result = questions.run("locomo.json", "--memeval-engine", "line_engine:LineEngine", "--memeval-memory", "engine")
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines(["*engine lines does not support stage qa*"])


def test_only_files_that_are_named_are_looked_at(questions: Project) -> None:
    locomo(questions, "a")
    questions.write("test_x.py", "def test_x(): pass\n")
    questions.run().assert_outcomes(passed=1)
    put(questions, "other.json", {"name": "package"})
    assert questions.run("other.json").ret != 0


def test_stages_leave_questions_out(questions: Project) -> None:
    locomo(questions, "a")
    questions.run("locomo.json", "--memeval-stages", "l1").assert_outcomes(skipped=6)
    questions.run("locomo.json", "--memeval-stages", "qa").assert_outcomes(passed=6)


def test_types_are_marks(questions: Project) -> None:
    locomo(questions, "a")
    questions.run("locomo.json", "--strict-markers", "-m", "adversarial or temporal").assert_outcomes(
        passed=2, deselected=4
    )


def test_arms_are_asked_too(questions: Project) -> None:
    locomo(questions, "a", "b")
    result = questions.run("locomo.json", "--memeval-arms", "full-context,no-memory")
    section = questions.report()["qa"]
    assert set(section["f1_by_arm"]) == set(section["f1_lift_over"]) == {"full_context", "no_memory"}
    assert section["f1_lift_over"]["no_memory"] == pytest.approx(section["f1"] - section["f1_by_arm"]["no_memory"])
    result.stdout.fnmatch_lines(["*F1 of other arms: *"])


def test_the_summary_in_chinese(questions: Project) -> None:
    locomo(questions, "a")
    result = questions.run("locomo.json", "--memeval-lang", "zh")
    result.stdout.fnmatch_lines(["*记忆 bm25*无裁判*单次运行*", "*主指标：qa.f1*"])
    page = (questions.path / "out" / "report.md").read_text("utf-8")
    assert "测量协议" in page
    assert "按对话" in page


@pytest.mark.parametrize("chosen", [(), ("--dist", "loadscope")], ids=["ours", "loadscope"])
def test_a_question_whose_worker_dies_leaves_the_others(
    questions: Project, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...]
) -> None:
    locomo(questions, "a", "b", "c", "d")
    monkeypatch.setenv("DIARY_DIES", "I adopted a cat called Miso1.")
    result = questions.run("locomo.json", "--memeval-memory", "diary:Diary", "-n", "2", *chosen)
    result.assert_outcomes(passed=23, errors=1)
    assert "INTERNALERROR" not in result.stdout.str()
    report = questions.report()
    assert report["counts"] == {"scored": 23, "errored": 1, "skipped": 0, "not_run": 0, "total": 24}
    (dead,) = (entry for entry in report["per_case"] if entry["outcome"] == "errored")
    assert dead["case_id"] == "b::q3"
    assert dead["error"]["kind"] == "worker_crashed"


def test_a_killed_run_goes_on_without_reading_again(questions: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    locomo(questions, "a", "b")
    whole = ("locomo.json", "--memeval-memory", "diary:Diary", "--memeval-concurrency", "1")
    questions.run(*whole)
    uninterrupted = stable(questions.report())
    (questions.path / "diary.txt").unlink()
    with monkeypatch.context() as context:
        context.setenv("DIARY_DIES", "I adopted a cat called Miso1.")
        assert questions.run(*whole, "--memeval-output", "cut", fresh=True).ret == 3
    result = questions.run(*whole, "--memeval-resume", "cut")
    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["9 of 12 case(s) taken from run*"])
    # Conversation a was done, b was not: only b is read a second time.
    assert [line.split()[-1] for line in diary(questions)] == ["Miso0.", "Miso1.", "Miso1."]
    assert stable(questions.report()) == uninterrupted
    # Another answerer's answers are others.
    result = questions.run("locomo.json", "--memeval-memory", "recent", "--memeval-resume", "out")
    result.stdout.fnmatch_lines(["0 of 12 case(s) taken from run*what changed: engine*"])


def test_an_edit_of_the_file_concerns_what_it_changes(questions: Project) -> None:
    """Other questions, and other conversations, are what they were: for a run that goes on, and for a comparison."""
    locomo(questions, "a", "b")
    questions.run("locomo.json", "--memeval-output", "before")
    data = json.loads((questions.path / "locomo.json").read_text("utf-8"))
    edits: list[tuple[Any, int]] = [
        (lambda: data[0]["qa"][3].update(answer="blue"), 1),
        (lambda: data[0]["qa"].append({**data[0]["qa"][5], "question": "And what else does Ben play?"}), 0),
        (lambda: data[1]["qa"][0].update(evidence=["D1:2"]), 1),
        (lambda: data[1]["conversation"]["session_2"][0].update(text="I moved to York."), 6),
        (lambda: data[0]["conversation"].update(session_1_date_time="2:56 pm on 9 May, 2023"), 7),
    ]
    for edit, changed in edits:
        edit()
        put(questions, "locomo.json", data)
        asked = sum(len(record["qa"]) for record in data)
        questions.run("locomo.json", "--memeval-resume", "before", "--memeval-output", "after")
        before = questions.report("before")["per_case"]
        after = {entry["node_id"]: entry["content_hash"] for entry in questions.report("after")["per_case"]}
        assert sum(after[entry["node_id"]] != entry["content_hash"] for entry in before) == changed
        assert len(after) == asked
        result = questions.pytester.run(sys.executable, "-m", "pytest_memeval", "compare", "before", "after")
        assert "sha256" in result.stdout.str()
        result = questions.run("locomo.json", "--memeval-resume", "before", "--memeval-output", "before")
        result.stdout.fnmatch_lines([f"{len(before) - changed} of {asked} case(s) taken from run*"])


def answers(request: Any) -> str:
    """A model that reads the context, and a judge that looks for the truth in the answer."""
    if "<context>" in request.prompt and "Question:" in request.prompt and "truth" not in request.prompt.lower():
        return "red" if "boat" in request.prompt.partition("Question:")[2] else "No information available"
    return json.dumps({"reason": "because", "score": 1.0, "verdict": "correct"})


@pytest.fixture
def asked(chat: ChatProject, monkeypatch: pytest.MonkeyPatch) -> ChatProject:
    monkeypatch.setenv("MEMEVAL_API_KEY", "sk-test-key-1234567890")
    chat.server.script = answers
    locomo(chat, "a")
    return chat


def test_a_chat_model_answers_and_a_judge_judges(asked: ChatProject) -> None:
    result = asked.chat("locomo.json", "--memeval-answerer", "chat", "--memeval-judge-model", "judge-1")
    result.assert_outcomes(passed=6)
    report = asked.report()
    entries = {entry["case_id"]: entry for entry in report["per_case"]}
    assert entries["a::q3"]["outputs"]["qa"]["answer"] == "red"
    assert report["qa"]["judge_score"] == 1.0
    assert report["qa"]["n"]["judge_score"]["units"] == 5
    # By rule, without a call: the refusal is right.
    assert report["qa"]["judge_score_by_type"]["adversarial"] == 1.0
    protocol = report["case_sets"]["locomo.json"]["protocol"]
    assert protocol["answer"]["model"] == "gpt-4o-mini"
    assert protocol["answer"]["prompt_version"] == "v001"
    assert protocol["judge"]["model"] == "judge-1"
    assert report["usage"]["by_stage"]["qa_answer"]["calls"] == 6
    assert sum(n["calls"] for name, n in report["usage"]["by_stage"].items() if name.startswith("judge_")) == 5
    sent = asked.server.count
    asked.chat("locomo.json", "--memeval-answerer", "chat", "--memeval-judge-model", "judge-1")
    assert asked.server.count == sent


def test_a_judge_that_cannot_tell_is_an_error_of_the_score_alone(asked: ChatProject) -> None:
    asked.server.script = lambda request: "hm, hard to say" if "boat" in request.prompt else answers(request)
    result = asked.chat("locomo.json", "--memeval-judge-model", "judge-1")
    result.assert_outcomes(passed=5, errors=1)
    section = asked.report()["qa"]
    assert section["n"]["judge_score"]["units"] == 4
    assert section["n"]["f1"]["units"] == 5
    assert section["metric_errors"]["judge_score"] == 1
    assert section["errors_as_wrong"]["judge_score"] == pytest.approx(4 / 5)
    headline = asked.report()["case_sets"]["locomo.json"]["questions"]["headline"]
    assert (headline["metric"], headline["basis"], headline["value"]) == ("judge_score", "errors_as_wrong", 0.8)
    rows = {row["type"]: row for row in asked.report()["case_sets"]["locomo.json"]["questions"]["categories"]}
    single = rows["single_hop"]
    assert (single["judge_score"], single["errors_as_wrong"]) == (1.0, 0.5)
    assert all(row["errors_as_wrong"] == row["judge_score"] for name, row in rows.items() if name != "single_hop")


def test_two_memories_are_compared(questions: Project) -> None:
    locomo(questions, *"abcdef")
    questions.run("locomo.json", "--memeval-output", "one")
    questions.run("locomo.json", "--memeval-output", "two", "--memeval-memory", "full-context")
    result = questions.pytester.run(sys.executable, "-m", "pytest_memeval", "compare", "one", "two")
    result.stdout.fnmatch_lines(["*protocol memory: bm25 → full-context*"])
    assert "qa.f1" in result.stdout.str()


def test_controls_say_what_the_judge_is_worth(asked: ChatProject) -> None:
    """A judge that takes everything for right has no specificity: its gates decide nothing."""
    gate = ("--memeval-gate", "P0 qa.judge_score >= 0.5", "--memeval-judge-model", "judge-1")
    assert asked.chat("locomo.json", *gate).ret == 0
    result = asked.chat("locomo.json", *gate, "--memeval-judge-controls", "4")
    assert result.ret == 1
    report = asked.report()
    controls = report["judge"]["controls"]
    assert (controls["sensitivity"]["value"], controls["specificity"]["value"]) == (1.0, 0.0)
    assert controls["trustworthy"] is False
    assert controls["accuracy"]["raw"] == 1.0
    assert controls["accuracy"]["value"] is None
    assert report["gates"][0]["status"] == "unmeasured"
    result.stdout.fnmatch_lines(["*judge: sensitivity 1.000, specificity 0.000*", "*judge not trustworthy*"])
