"""Several models in one run, each on its server: whose key is sent, what is learnt, priced and replayed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import chat_server as fake
import pytest
from chat_project import ChatProject, good_answer, simple_case
from chat_server import ChatServer
from plugin_project import MODES, stable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "judge"))

from judge_rig import fair_judge

from pytest_memeval.report.json_report import dumps

MODEL_KEY, JUDGE_KEY = "key-of-the-model-123", "key-of-the-judge-456"
OPENAI = "https://api.openai.com/v1"
TESTS = """
    import pytest


    @pytest.mark.parametrize("number", range(4))
    @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
    def test_judged(memeval_judge, memeval_l1, number):
        content = memeval_l1.output[0].content
        assert memeval_judge.judge_sync(f"Who is number {number}?", content, content).score == 1.0
"""


def is_judged(request: fake.Request) -> bool:
    return "<given_answer>" in request.prompt


@pytest.fixture
def judging() -> Iterator[ChatServer]:
    with ChatServer() as server:
        server.script = lambda request: fake.Answer(str(fair_judge(request)), model="judge-1-0613", usage=(1000, 10))
        yield server


@pytest.fixture
def judged(chat: ChatProject) -> ChatProject:
    chat.cases([simple_case(1)])
    chat.write("test_judged.py", TESTS)
    chat.server.script = lambda request: str(fair_judge(request)) if is_judged(request) else good_answer(request)
    return chat


@MODES
def test_the_judge_has_a_server_and_a_key_of_its_own(
    judged: ChatProject, judging: ChatServer, monkeypatch: pytest.MonkeyPatch, mode: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", MODEL_KEY)
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", JUDGE_KEY)
    own = ("--memeval-judge-model", "judge-1", "--memeval-judge-base-url", judging.base_url, "test_judged.py", *mode)
    result = judged.chat(*own, fresh=True)
    result.assert_outcomes(passed=4)
    assert {request.headers["authorization"] for request in judged.server.requests} == {f"Bearer {MODEL_KEY}"}
    assert {request.headers["authorization"] for request in judging.requests} == {f"Bearer {JUDGE_KEY}"}
    assert not any(is_judged(request) for request in judged.server.requests)
    assert judging.count == 4
    report = judged.report()
    assert (report["model"]["endpoint"], report["judge"]["endpoint"]) == (judged.server.base_url, judging.base_url)
    for key in (MODEL_KEY, JUDGE_KEY):
        assert key not in result.stdout.str() + result.stderr.str()
        for file in [path for folder in ("out", "cache") for path in (judged.path / folder).rglob("*")]:
            assert not file.is_file() or key.encode() not in file.read_bytes()


def test_a_judges_answers_are_replayed_by_its_servers_name(judged: ChatProject, judging: ChatServer) -> None:
    names = ("--memeval-endpoint", "team", "--memeval-judge-endpoint", "jury", "--memeval-judge-model", "judge-1")
    own = ("--memeval-judge-base-url", judging.base_url, "test_judged.py")
    judged.chat(*names, *own).assert_outcomes(passed=4)
    first = judged.report()
    assert (first["model"]["endpoint"], first["judge"]["endpoint"]) == ("team", "jury")
    # Neither address is known any more.
    replay = ("--memeval-llm", "openai", "--memeval-model", "gpt-4o-mini", "--memeval-cache", "replay")
    folder = ("--memeval-cache-dir", str(judged.cache))
    judged.run(*replay, *folder, *names, "test_judged.py", "-n", "2", fresh=True).assert_outcomes(passed=4)
    assert dumps(stable(judged.report())) == dumps(stable(first))
    assert judging.count == 4


@MODES
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--memeval-judge-model", "j", "--memeval-judge-base-url", OPENAI),
            "the judge on https://api.openai.com/v1 needs a key: set MEMEVAL_JUDGE_API_KEY or MEMEVAL_API_KEY or",
        ),
        (
            ("--memeval-embedder", "openai", "--memeval-embedding-model", "e", "--memeval-embedding-base-url", OPENAI),
            "on https://api.openai.com/v1 needs a key: set MEMEVAL_API_KEY or OPENAI_API_KEY",
        ),
    ],
    ids=["judge", "embedder"],
)
def test_no_key_for_judge_or_embedder_is_one_error_before_any_case(
    chat: ChatProject, options: tuple[str, ...], text: str, mode: tuple[str, ...]
) -> None:
    chat.cases([simple_case(number) for number in range(1, 4)])
    result = chat.chat(*options, *mode, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count(text) == 1
    assert len(result.stderr.str().strip().splitlines()) == 1
    assert "eval-001" not in result.stderr.str() + result.stdout.str()
    assert chat.server.count == 0


def test_a_replay_needs_no_key_for_the_judge_either(chat: ChatProject) -> None:
    chat.cases([simple_case(1)])
    chat.chat().assert_outcomes(passed=1)
    own = ("--memeval-judge-model", "j", "--memeval-judge-base-url", OPENAI, "--memeval-cache", "replay")
    chat.chat(*own).assert_outcomes(passed=1)


def test_variants_and_judge_learn_together_how_a_server_wants_to_be_asked(judged: ChatProject) -> None:
    judged.server.rejects = {"json_schema", "json_object", "temperature", "max_tokens"}
    both = ("--memeval-prompt-version", "v001", "--memeval-prompt-version", "v002")
    judged.cases([simple_case(number) for number in range(1, 5)])
    judged.chat(*both, "--memeval-judge-model", "gpt-4o-mini", "cases", fresh=True).assert_outcomes(passed=8)
    # The list of memories has no plain JSON mode, so three rejections teach all; the second variant needs none.
    assert judged.server.count == 8 + 3


def test_a_judge_whose_price_is_not_known_cannot_be_held_to_a_budget(judged: ChatProject) -> None:
    own = ("--memeval-judge-model", "own-judge", "--memeval-max-cost", "1", "test_judged.py")
    result = judged.chat(*own, fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--memeval-max-cost: the price of model 'own-judge' is not known*"])
    assert judged.server.count == 0


def test_a_judges_calls_have_the_judges_price(judged: ChatProject, judging: ChatServer) -> None:
    judged.write(
        "prices.yaml", "models:\n  gpt-4o-mini: {input: 0, output: 0}\n  own-judge: {input: 20.0, output: 0}\n"
    )
    judging.script = lambda request: fake.Answer(str(fair_judge(request)), model="renamed", usage=(1000, 10))
    place = ("--memeval-judge-model", "own-judge", "--memeval-judge-base-url", judging.base_url)
    own = (*place, "--memeval-prices", "prices.yaml", "test_judged.py")
    judged.chat(*own, "--junitxml", "out.xml", fresh=True).assert_outcomes(passed=4)
    report = judged.report()
    assert report["usage"]["by_stage"]["judge_default_binary"]["cost_usd"] == pytest.approx(0.08)
    assert report["timings"]["calls"]["spent_usd"] == pytest.approx(0.08)
    assert 'name="memeval.usage.cost_usd" value="0.08"' in (judged.path / "out.xml").read_text(encoding="utf-8")


def test_the_run_ends_when_the_judge_has_used_the_budget_up(judged: ChatProject, judging: ChatServer) -> None:
    judged.write(
        "prices.yaml", "models:\n  gpt-4o-mini: {input: 0, output: 0}\n  own-judge: {input: 20.0, output: 0}\n"
    )
    place = ("--memeval-judge-model", "own-judge", "--memeval-judge-base-url", judging.base_url)
    own = (*place, "--memeval-prices", "prices.yaml", "--memeval-max-cost", "0.04", "test_judged.py")
    result = judged.chat(*own, "--memeval-concurrency", "1", fresh=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert judging.count == 2
    counts = judged.report()["counts"]
    assert (counts["scored"], counts["not_run"]) == (2, 2)


def test_refresh_asks_each_question_again_and_replaces_the_answer(chat: ChatProject) -> None:
    chat.cases([simple_case(number) for number in range(1, 5)])
    chat.server.script = lambda request: "[]"
    chat.chat(fresh=True).assert_outcomes(passed=4)
    assert {entry["l1_f1"] for entry in chat.entries().values()} == {0.0}
    chat.server.script = good_answer
    chat.chat("--memeval-cache", "refresh", "-n", "2", fresh=True).assert_outcomes(passed=4)
    assert chat.server.count == 8
    assert {entry["l1_f1"] for entry in chat.entries().values()} == {1.0}
    # A failure in place of an answer takes nothing away.
    chat.server.script = lambda request: fake.status(500)
    chat.chat("--memeval-cache", "refresh", "--memeval-max-attempts", "1", "-n", "2", fresh=True).assert_outcomes(
        errors=4
    )
    chat.chat("--memeval-cache", "replay", "-n", "2", fresh=True).assert_outcomes(passed=4)
    assert {entry["l1_f1"] for entry in chat.entries().values()} == {1.0}


@MODES
def test_the_workers_of_a_run_share_its_rate_limit(chat: ChatProject, mode: tuple[str, ...]) -> None:
    """Two requests a minute are two for the whole run: in one process, and one for each of two workers."""
    chat.cases([simple_case(number) for number in range(1, 7)], gates=[])
    chat.chat("--memeval-rpm", "2", "--memeval-timeout", "8", *mode)
    assert 0 < chat.server.count <= 2
    outcomes = [entry["outcome"] for entry in chat.entries().values()]
    assert outcomes.count("scored") <= 2
    assert {entry["errors"][0]["kind"] for entry in chat.entries().values() if entry["errors"]} == {"timeout"}
