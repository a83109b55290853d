"""``memeval judge-check`` against a real server on loopback."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "servers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "judge"))

import chat_server as fake
from chat_server import ChatServer
from judge_rig import fair_judge

from pytest_memeval.cli.main import main
from pytest_memeval.judge.human import read_labels
from pytest_memeval.judge.questions import read_questions
from pytest_memeval.owned_files import is_replaceable

KEY = "sk-check-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(fair_judge) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MEMEVAL_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question_id": f"q{n}", "question_type": "temporal" if n % 3 else "multi_hop", "question": f"What of {n}?",
         "ground_truth": f"{chr(97 + n) * 5} {n * 7 + 100}"}
        for n in range(20)
    ]  # fmt: skip
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def table(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows]), encoding="utf-8")


def run(server: ChatServer, *args: str) -> int:
    return main(["judge-check", "--model", "judge-1", "--base-url", server.base_url, "--cache-dir", "cache", *args])


def test_a_fair_judge(server: ChatServer, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "q.jsonl", "--controls", "20", "--json", "out/f.json") == 0
    text = capsys.readouterr().out
    assert "sensitivity 1.000 [0.839, 1.000]: 20 of 20 right answers taken for right" in text
    assert "specificity 1.000" in text
    assert "The judge can be trusted" in text
    figures = json.loads((project / "out" / "f.json").read_text(encoding="utf-8"))
    assert is_replaceable(project / "out" / "f.json", "judge")
    assert figures["judge"]["model"] == "judge-1"
    assert figures["controls"]["by_type"]["multi_hop"]["right"]["judged"] == 7
    count = server.count
    assert count == 40
    # What was answered is not asked again.
    assert run(server, "q.jsonl", "--controls", "20", "--cache", "replay") == 0
    assert server.count == count
    assert KEY not in text + (project / "out" / "f.json").read_text(encoding="utf-8")


def test_a_judge_that_says_yes_to_all(server: ChatServer, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.script = lambda request: "yes"
    assert run(server, "q.jsonl", "--controls", "10") == 1
    assert "not trustworthy" in capsys.readouterr().out


def test_a_server_that_fails(server: ChatServer, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.script = lambda request: fake.unauthorized(f"no {KEY}")
    assert run(server, "q.jsonl", "--controls", "5") == 1
    captured = capsys.readouterr()
    assert "could not be checked: quota_or_auth" in captured.out
    assert KEY not in captured.out + captured.err


def test_agreement_with_people(server: ChatServer, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"q{n},Q{n}?,t{n},{'t' if n % 2 else 'x'}{n},{int(n % 4 > 0)}" for n in range(40)]
    table(project / "labels.csv", "question_id,question,truth,prediction,human", rows)
    assert run(server, "--human", "labels.csv") == 0
    text = capsys.readouterr().out
    assert "40 answers with people's labels" in text
    assert "kappa 0.500 [" in text
    assert "of 30 that people call right it takes 20 for right, of 10 that they call wrong 10 for wrong" in text
    assert server.count == 40
    # A file with the judge's own verdicts asks nobody.
    rows = [f"{row},{int('t' in row.split(',')[3])}" for row in rows]
    table(project / "own.csv", "question_id,question,truth,prediction,human,judge", rows)
    assert main(["judge-check", "--human", "own.csv"]) == 0
    assert "kappa 0.500 [" in capsys.readouterr().out


def test_a_run_s_answers_become_a_sheet_to_label(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a real run's report to kappa, with answers that a spreadsheet would calculate."""
    text = """
    kind: qa
    cases:
      - case_id: talk
        conversation: |
          [msg#1] 2026-01-01T10:00:00Z user: =1+2 is what the sheet says of the total.
          [msg#2] 2026-01-01T10:01:00Z user: I moved to "Oslo, Norway" in May.
        questions:
          - {id: total, question: "What does the sheet say of the total?", answer: "=1+2"}
          - {id: where, question: Where did I move in May?, answer: Oslo}
          - {id: pet, question: What is the parrot called?, type: adversarial}
    """
    (project / "talk.memeval.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "talk.memeval.yaml"]
    subprocess.run([*command, "--memeval-output", "out"], cwd=project, check=True, capture_output=True)
    assert main(["judge-check", "--sheet", "sheet.csv", "out"]) == 0
    assert "3 answers in sheet.csv" in capsys.readouterr().out
    with (project / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["question_id"] for row in rows] == ["pet", "total", "where"]
    assert rows[1]["prediction"].startswith("'=1+2")
    # Labels are never written over.
    assert main(["judge-check", "--sheet", "sheet.csv", "out"]) != 0
    assert "sheet.csv exists" in capsys.readouterr().err
    assert main(["judge-check", "--sheet", "other.csv"]) != 0
    assert main(["judge-check", "--sheet", "other.csv", "nowhere"]) != 0
    for row, human, judge in zip(rows, ("", "yes", "no"), ("1", "1", "0.2"), strict=True):
        row.update(human=human, judge=judge)
    with (project / "sheet.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    labels = read_labels(project / "sheet.csv")
    assert labels.blank == 1
    assert labels.rows[0].prediction.startswith("=1+2")
    assert main(["judge-check", "--human", "sheet.csv"]) == 0
    assert "2 answers with people's labels, 1 rows without a label" in capsys.readouterr().out


def test_settings_come_from_the_projects_ini(server: ChatServer, project: Path) -> None:
    prompts = project / "own-prompts"
    prompts.mkdir()
    text = "<question>\n{{question}}\n</question>\nmine {{truth}} {{prediction}}"
    (prompts / "judge_continuous.txt").write_text(text, encoding="utf-8")
    (prompts / "manifest.yaml").write_text('active: {judge_continuous: "@working"}\n', encoding="utf-8")
    (project / "pytest.ini").write_text(
        f"[pytest]\nmemeval_judge_model = from-ini\nmemeval_base_url = {server.base_url}\n"
        "memeval_prompts = own-prompts\nmemeval_cache_dir = cache\n",
        encoding="utf-8",
    )
    server.script = lambda request: "1"
    assert main(["judge-check", "q.jsonl", "--controls", "2"]) == 1
    assert {request.body["model"] for request in server.requests} == {"from-ini"}
    assert all("mine " in request.prompt for request in server.requests)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a file of questions, or labels"),
        (("none.jsonl",), "none.jsonl: no such file"),
        (("q.jsonl", "--controls", "0"), "--controls: 0 is less than 1"),
        (("q.jsonl", "--mode", "continous"), "did you mean 'continuous'"),
        (("q.jsonl", "--cache", "reply"), "unknown cache mode 'reply'"),
        (("q.jsonl", "--base-url", "ftp://x"), "no http"),
        (("bad.jsonl",), "bad.jsonl:2: a question needs 'question' and 'ground_truth'"),
        (("empty.jsonl",), "holds no question"),
        (("junk.jsonl",), "junk.jsonl:1: no JSON object"),
    ],
)
def test_bad_input_is_one_sentence_and_asks_nothing(
    server: ChatServer, project: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    (project / "bad.jsonl").write_text('{"question": "q", "ground_truth": 3}\n{"question": "q"}\n', encoding="utf-8")
    (project / "empty.jsonl").write_text("\n", encoding="utf-8")
    (project / "junk.jsonl").write_text("cases:\n  - x\n", encoding="utf-8")
    assert run(server, *args) == 2
    assert said in capsys.readouterr().err
    assert server.count == 0


def test_without_a_model(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge-check", "q.jsonl"]) == 2
    assert "--model" in capsys.readouterr().err


def test_benchmark_files_are_read(tmp_path: Path) -> None:
    locomo = [
        {
            "sample_id": "c1",
            "conversation": {
                "speaker_a": "A", "speaker_b": "B", "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hi"}],
            },
            "qa": [
                {"question": "When?", "answer": 2022, "evidence": ["D1:1"], "category": 2},
                {"question": "Trap?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5},
            ],
        }
    ]  # fmt: skip
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(locomo), encoding="utf-8")
    found = read_questions(path)
    assert [(q.truth, str(q.question_type)) for q in found] == [("2022", "temporal"), ("", "adversarial")]


def test_a_foreign_file_is_not_replaced_by_the_figures(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "mine.json").write_text('{"name": "web"}', encoding="utf-8")
    assert main(["judge-check", "q.jsonl", "--json", "mine.json"]) == 2
    assert "--json: mine.json is no file of an earlier run and would be replaced" in capsys.readouterr().err
    assert (project / "mine.json").read_text(encoding="utf-8") == '{"name": "web"}'
