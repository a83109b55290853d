"""A judge over a real HTTP server: what it asks, how it takes faults, what it never shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chat_server as fake
import pytest
from chat_server import Answer, ChatServer
from judge_rig import asked, cached, chat_model, fair_judge

from pytest_memeval.assets.prompts import JUDGE_STAGES, load_prompts
from pytest_memeval.judge.batch import judge_answer
from pytest_memeval.judge.chat_judge import ChatJudge
from pytest_memeval.judge.modes import MODES
from pytest_memeval.judge.protocol import Judge
from pytest_memeval.judge.verdict import JudgeError
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.embedded import EmbeddedChatModel
from pytest_memeval.results import CallRecord

KEY = "sk-judge-0123456789abcdef"


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "adversarial"])
def test_every_mode_asks_by_its_prompt_and_schema(chat_server: ChatServer, mode: str) -> None:
    chat_server.script = fair_judge
    judge = ChatJudge(chat_model(chat_server))
    assert isinstance(judge, Judge)
    verdict = judge.judge_sync("Who {{truth}}?", 12, "it was 12 %s {x}", mode, question_date="2023/05/20 (Sat) 02:21")
    assert (verdict.score, verdict.mode, verdict.by, verdict.reason) == (1.0, mode, "model", "r")
    assert verdict.prompt_version == "v001"
    assert verdict.prompt_sha256 == judge.prompts.hashes[f"judge_{mode}"]
    [request] = chat_server.requests
    parts = asked(request)
    # What is judged reaches the model as it was written, and is not taken for a placeholder.
    assert (parts["question"], parts["reference_answer"], parts["given_answer"]) == (
        "Who {{truth}}?",
        "12",
        "it was 12 %s {x}",
    )
    if mode in ("temporal_reasoning", "knowledge_update"):
        assert parts["question_date"] == "2023/05/20 (Sat) 02:21"
    schema = request.body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert set(schema["schema"]["properties"]) == {
        "reason",
        "score" if mode in ("continuous", "preference") else "verdict",
    }
    assert judge.judge_sync("Who?", "12", "13", mode).score == 0.0


def test_a_server_without_schemas_is_asked_all_the_same(chat_server: ChatServer) -> None:
    chat_server.rejects |= {"json_schema", "json_object"}
    chat_server.script = fair_judge
    assert judge_answer("q", "a", "a", llm=chat_model(chat_server), mode="default_binary") == 1.0


def test_a_prompt_of_ones_own_is_asked_as_it_is(chat_server: ChatServer, tmp_path: Path) -> None:
    text = "Q {{question}} T {{truth}} P {{prediction}}. Answer yes or no only."
    (tmp_path / "judge_default_binary.txt").write_text(text, encoding="utf-8")
    (tmp_path / "manifest.yaml").write_text('active: {judge_default_binary: "@working"}\n', encoding="utf-8")
    prompts = load_prompts(tmp_path).resolve(None, JUDGE_STAGES)
    chat_server.script = lambda request: "Yes."
    assert judge_answer("q", "t", "p", llm=chat_model(chat_server), mode="default_binary", prompts=prompts) == 1.0
    [request] = chat_server.requests
    assert request.prompt == "Q q T t P p. Answer yes or no only."
    assert "response_format" not in request.body


@pytest.mark.parametrize("junk", ["", None, "well …", "The answer is partly right.", '{"verdict": "corr', "{}"])
def test_an_unusable_reply_is_asked_for_once_more_and_never_kept(
    chat_server: ChatServer, tmp_path: Path, junk: str | None
) -> None:
    chat_server.script = lambda request: Answer(junk)
    with pytest.raises(JudgeError) as caught:
        judge_answer("q", "a", "a", llm=cached(chat_server, tmp_path), mode="default_binary")
    assert caught.value.kind == "judge_error"
    assert chat_server.count == 2
    assert len(AnswerCache(tmp_path / "answers.sqlite")) == 0
    # The next run, on a healthy server, asks again.
    chat_server.script = fair_judge
    assert judge_answer("q", "a", "a", llm=cached(chat_server, tmp_path), mode="default_binary") == 1.0
    assert chat_server.count == 3
    assert judge_answer("q", "a", "a", llm=cached(chat_server, tmp_path, "replay"), mode="default_binary") == 1.0
    assert chat_server.count == 3


def test_a_second_reply_that_can_be_used_counts(chat_server: ChatServer) -> None:
    chat_server.script = fair_judge
    chat_server.then("hm", Answer('{"reason": "cut', finish_reason="length"))
    with pytest.raises(JudgeError):
        judge_answer("q", "a", "a", llm=chat_model(chat_server))
    chat_server.then("hm")
    assert judge_answer("q", "a", "a", llm=chat_model(chat_server)) == 1.0


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        ([fake.status(500)] * 2, "model_unavailable"),
        ([fake.Raw(action="hang")] * 2, "model_unavailable"),
        ([fake.Raw(action="drop")] * 2, "model_unavailable"),
        ([fake.Raw(200, b"<html>")] * 4, "model_unavailable"),
        ([fake.insufficient_quota()], "quota_or_auth"),
        ([fake.unauthorized()], "quota_or_auth"),
    ],
)  # fmt: skip
def test_a_server_that_fails_gives_no_score(
    chat_server: ChatServer, tmp_path: Path, faults: list[Any], kind: str
) -> None:
    chat_server.script = fair_judge
    chat_server.then(*faults)
    model = chat_model(chat_server, read_timeout=0.3)
    with pytest.raises(JudgeError) as caught:
        judge_answer("q", "a", "a", llm=model)
    assert caught.value.kind == kind


def test_keys_never_leak(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", KEY)
    chat_server.script = lambda request: f'{{"reason": "the key is {KEY}", "verdict": "correct"}}'
    verdict = ChatJudge(cached(chat_server, tmp_path)).judge_sync("q", "a", "a")
    assert chat_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(verdict)
    assert KEY.encode() not in (tmp_path / "answers.sqlite").read_bytes()
    chat_server.script = lambda request: fake.error(400, f"bad key {KEY}")
    judge = ChatJudge(chat_model(chat_server))
    with pytest.raises(JudgeError) as caught:
        judge.judge_sync("q", "a", "b")
    assert KEY not in str(caught.value)
    assert KEY not in repr(judge.identity())


def test_who_cannot_be_a_judge() -> None:
    with pytest.raises(ValueError, match="never a judge"):
        ChatJudge(EmbeddedChatModel())
    with pytest.raises(ValueError, match="method 'complete'"):
        ChatJudge(object())  # type: ignore[arg-type]  # that is the fault


def test_no_truth_is_no_verdict(chat_server: ChatServer) -> None:
    judge = ChatJudge(chat_model(chat_server))
    with pytest.raises(JudgeError) as caught:
        judge.judge_sync("q", None, "a")
    assert caught.value.kind == "no_truth"
    chat_server.script = lambda request: "Yes"
    assert judge.judge_sync("q", "", "nothing is said of it", "abstention").score == 1.0


def test_adversarial_goes_by_rule() -> None:
    assert judge_answer("q", "a trap", "Not mentioned.", mode="adversarial") == 1.0
    assert judge_answer("q", "a trap", "a trap", mode="adversarial") == 0.0
    for mode in (mode for mode in MODES if mode != "adversarial"):
        with pytest.raises(ValueError, match="needs a chat model"):
            judge_answer("q", "a", "a", mode=mode)
    with pytest.raises(ValueError, match="batch_judge"):
        judge_answer("q", "a", "a", mode="auto")
    with pytest.raises(ValueError, match="unknown judge mode 'contnuous'"):
        judge_answer("q", "a", "a", mode="contnuous")


class OwnClient:
    """A chat model of a user's own: synchronous, answers with texts, knows no server."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)

    def complete(self, messages: Any, **options: Any) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def own(*replies: str | Exception) -> Any:
    return OwnClient(*replies)


def test_a_client_of_ones_own() -> None:
    assert judge_answer("q", "a", "a", llm=own("0.75")) == 0.75
    with pytest.raises(JudgeError, match="RuntimeError: no line"):
        judge_answer("q", "a", "a", llm=own(RuntimeError("no line")))


def test_calls_are_recorded_where_a_list_is_given(chat_server: ChatServer, tmp_path: Path) -> None:
    chat_server.script = fair_judge
    chat_server.then("junk", fake.Raw(200, b"{}"))
    calls: list[CallRecord] = []
    judge = ChatJudge(cached(chat_server, tmp_path)).recording(calls, "case-1/judge/")
    assert judge.judge_sync("q", "a", "a", "default_binary").score == 1.0
    assert [(call.id, call.stage, call.version, call.answer is None) for call in calls] == [
        ("case-1/judge/0", "judge_default_binary", "v001", False),
        ("case-1/judge/1", "judge_default_binary", "v001", False),
    ]
    assert len(AnswerCache(tmp_path / "answers.sqlite")) == 1
