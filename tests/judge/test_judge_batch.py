"""Many answers at once, and scores that are kept."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import chat_server as fake
import pytest
from chat_server import ChatServer
from judge_rig import Answer, asked, cached, chat_model, fair_judge

from pytest_memeval.judge.batch import batch_judge, batch_verdicts
from pytest_memeval.judge.score_file import ScoreFile
from pytest_memeval.judge.verdict import JudgeError, Verdict
from pytest_memeval.llm.cache_file import CacheError, CacheWarning


def answers(count: int = 6) -> list[Answer]:
    return [Answer(f"q{n}", f"question {n}?", f"truth {n}", f"truth {n}" if n % 2 else "other") for n in range(count)]


def test_scores_come_in_order(chat_server: ChatServer) -> None:
    chat_server.script = fair_judge
    chat_server.latency = 0.02
    rows = [*answers(), Answer("a1", "q?", "trap", "Not mentioned.", "adversarial"), Answer("n", "q?", "t", None)]
    assert batch_judge(rows, llm=chat_model(chat_server)) == [0, 1, 0, 1, 0, 1, 1, None]
    assert chat_server.count == 6
    assert chat_server.most_in_flight > 1
    assert batch_judge([], llm=None) == []
    assert batch_judge(rows[6:7], llm=None) == [1.0]
    with pytest.raises(ValueError, match="continuous need a chat model"):
        batch_judge(rows, llm=None)
    with pytest.raises(ValueError, match="concurrency"):
        batch_judge(rows, llm=None, concurrency=0)


def test_the_date_of_the_question_reaches_the_judge(chat_server: ChatServer) -> None:
    chat_server.script = fair_judge
    row = Answer("t1", "when?", "19 May", "19 May", "temporal_reasoning", question_date="2023/05/20 (Sat) 02:21")
    assert batch_judge([row], llm=chat_model(chat_server)) == [1.0]
    assert asked(chat_server.requests[0])["question_date"] == "2023/05/20 (Sat) 02:21"


def test_what_fails_is_none_and_the_others_stand(chat_server: ChatServer, tmp_path: Path) -> None:
    def script(request: fake.Request) -> fake.Reply:
        return "well" if "question 3?" in request.prompt else fair_judge(request)

    chat_server.script = script
    path = tmp_path / "scores.json"
    outcomes = batch_verdicts(answers(), llm=chat_model(chat_server), cache_path=path)
    assert [isinstance(outcome, Verdict) for outcome in outcomes] == [True, True, True, False, True, True]
    assert isinstance(outcomes[3], JudgeError)
    assert "q3" not in json.loads(path.read_text(encoding="utf-8"))["questions"]
    count = chat_server.count
    chat_server.script = fair_judge
    assert batch_judge(answers(), llm=chat_model(chat_server), cache_path=path) == [0, 1, 0, 1, 0, 1]
    assert chat_server.count == count + 1


def test_a_second_call_asks_nothing_and_new_answers_cost_only_themselves(
    chat_server: ChatServer, tmp_path: Path
) -> None:
    chat_server.script = fair_judge
    path = tmp_path / "deep" / "scores.json"
    first = batch_judge(answers(), llm=chat_model(chat_server), cache_path=path)
    assert batch_judge(answers(), llm=chat_model(chat_server), cache_path=str(path)) == first
    assert chat_server.count == 6
    batch_judge(answers(8), llm=chat_model(chat_server), cache_path=path)
    assert chat_server.count == 8


@pytest.mark.parametrize("field", ["question", "ground_truth", "prediction", "question_date"])
def test_the_id_alone_serves_no_stale_score(chat_server: ChatServer, tmp_path: Path, field: str) -> None:
    chat_server.script = fair_judge
    path = tmp_path / "scores.json"
    row = answers(1)[0]
    batch_judge([row], llm=chat_model(chat_server), cache_path=path)
    changed = replace(row, **{field: "truth 0 and more"})
    batch_judge([changed], llm=chat_model(chat_server), cache_path=path)
    assert chat_server.count == 2
    # Neither displaces the other: two conversations may share their questions' ids.
    batch_judge([row, changed], llm=chat_model(chat_server), cache_path=path)
    assert chat_server.count == 2
    batch_judge([row], llm=chat_model(chat_server), mode="default_binary", cache_path=path)
    assert chat_server.count == 3


def test_the_answer_cache_is_enough(chat_server: ChatServer, tmp_path: Path) -> None:
    chat_server.script = fair_judge
    first = batch_judge(answers(), llm=cached(chat_server, tmp_path))
    assert batch_judge(answers(), llm=cached(chat_server, tmp_path, "replay")) == first
    assert batch_judge(answers(7), llm=cached(chat_server, tmp_path, "replay"))[6] is None
    assert chat_server.count == 6


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b'{"q1": 1}', b'{"version": 1}', b'{"version": 1, "questions": {"q": {"h": 1}}}',
        b'{"version": 1, "questions": {"q": {"h": {"score": NaN}}}}',
        b'{"version": 1, "questions": {"q": {"h": {"score": 7}}}}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_set_aside(chat_server: ChatServer, tmp_path: Path, content: bytes) -> None:
    chat_server.script = fair_judge
    path = tmp_path / "scores.json"
    path.write_bytes(content)
    with pytest.warns(CacheWarning, match=r"set aside as scores\.json\.damaged-1"):
        assert batch_judge(answers(2), llm=chat_model(chat_server), cache_path=path) == [0, 1]
    assert (tmp_path / "scores.json.damaged-1").read_bytes() == content
    assert len(json.loads(path.read_text(encoding="utf-8"))["questions"]) == 2


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(CacheError, match="newer version"):
        ScoreFile(path)
    assert path.exists()


def _write(path: Path, start: int) -> None:
    for n in range(start, start + 20):
        scores = ScoreFile(path)
        scores.add(f"q{n}", "h", 0.5, "continuous")
        scores.save()


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(path, start)) for start in (0, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert all(ScoreFile(path).get(f"q{n}", "h") == 0.5 for n in range(40))
    assert ScoreFile(path).get("q1", "other") is None
    assert not list(tmp_path.glob(".scores*"))
