"""The judge inside a run: fixture, report, faults, secrets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import chat_server as fake
import pytest
from chat_project import ChatProject, good_answer, simple_case
from plugin_project import MODES, stable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "judge"))

from judge_rig import fair_judge

from pytest_memeval.assets.prompts import JUDGE_STAGES
from pytest_memeval.report.json_report import dumps

KEY = "sk-judge-9876543210fedcba"
HOSTILE = "<img src=x onerror=alert(1)></script>"
TESTS = """
    import pytest
    from pytest_memeval import EvalCase, Judge, JudgeError


    @pytest.mark.parametrize("number", range(1, 4))
    @pytest.mark.memeval(case="cases/v001.yaml::eval-001", gate=True)
    def test_judged(memeval_judge, memeval_l1, number):
        assert isinstance(memeval_judge, Judge)
        content = memeval_l1.output[0].content
        verdict = memeval_judge.judge_sync(f"Who is number {number}?", content, content, "default_binary")
        assert verdict.score == 1.0
"""


def script(request: fake.Request) -> fake.Reply:
    if "<given_answer>" in request.prompt:
        return fake.Answer(str(fair_judge(request)), model="judge-1-0613")
    return good_answer(request)


@pytest.fixture
def judged(chat: ChatProject) -> ChatProject:
    chat.cases([simple_case(1)])
    chat.write("test_judged.py", TESTS)
    chat.server.script = script
    return chat


@MODES
def test_the_fixture_is_the_judge_and_the_report_names_it(judged: ChatProject, mode: tuple[str, ...]) -> None:
    result = judged.chat("--memeval-judge-model", "judge-1", "test_judged.py", *mode, fresh=True)
    result.assert_outcomes(passed=3)
    report = judged.report()
    judge = report["judge"]
    assert (judge["model"], judge["served_model"], judge["controls"]) == ("judge-1", "judge-1-0613", None)
    assert judge["endpoint"] == judged.server.base_url
    assert set(judge["prompt_hashes"]) == set(JUDGE_STAGES)
    # The judge is not the model under test.
    assert report["model"]["served_model"] == "gpt-4o-mini"
    assert report["usage"]["by_stage"]["judge_default_binary"]["calls"] == 3
    ids = [call["id"] for call in judged.calls() if call["stage"].startswith("judge")]
    assert sorted(ids) == [f"test_judged.py::test_judged[{number}]/judge/0" for number in (1, 2, 3)]
    # A second run asks nobody, and reports the same.
    count = judged.server.count
    judged.chat("--memeval-judge-model", "judge-1", "test_judged.py", "--memeval-cache", "replay", *mode, fresh=True)
    assert judged.server.count == count
    assert dumps(stable(judged.report())["judge"]) == dumps(judge)


def test_without_a_judge_model_there_is_no_judge(judged: ChatProject) -> None:
    judged.write(
        "test_none.py",
        """
        def test_none(memeval_judge):
            assert memeval_judge is None
        """,
    )
    judged.run("test_none.py", fresh=True).assert_outcomes(passed=1)
    judged.chat("cases", fresh=True).assert_outcomes(passed=1)
    assert judged.report()["judge"] is None


def test_own_judge_prompts_are_used_and_named(judged: ChatProject) -> None:
    text = "<question>{{question}}</question> <given_answer>{{prediction}}</given_answer> {{truth}}: yes or no?"
    judged.write("prompts/judge_default_binary.txt", text)
    judged.write("prompts/manifest.yaml", 'active: {judge_default_binary: "@working"}\n')
    judged.server.script = lambda request: "Yes." if "yes or no?" in request.prompt else good_answer(request)
    own = ("--memeval-judge-model", "judge-1", "--memeval-prompts", "prompts", "-k", "judged and 1")
    result = judged.chat(*own, "test_judged.py", fresh=True)
    result.assert_outcomes(passed=1, deselected=2)
    judge = judged.report()["judge"]
    assert judge["prompt_versions"]["judge_default_binary"].startswith("working-")
    assert judge["prompt_versions"]["judge_continuous"] == "v001"


@pytest.mark.parametrize("fault", [fake.status(500, f"key {KEY}"), "junk"])
def test_a_judge_that_fails_is_an_error_with_its_cause_and_without_the_key(
    judged: ChatProject, monkeypatch: pytest.MonkeyPatch, fault: fake.Reply
) -> None:
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", KEY)
    judged.server.script = lambda request: fault if "<given_answer>" in request.prompt else good_answer(request)
    own = ("--memeval-judge-model", "judge-1", "--memeval-max-attempts", "1", "--memeval-request-timeout", "0.5")
    result = judged.chat(*own, "-k", "judged and 1", "test_judged.py", fresh=True)
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["*JudgeError: *"])
    report = judged.report()
    assert report["judge"]["served_model"] in (None, "judge-1")
    for file in (judged.path / "out").iterdir():
        assert KEY.encode() not in file.read_bytes()
    assert KEY not in result.stdout.str() + result.stderr.str()
    assert any(request.headers.get("authorization") == f"Bearer {KEY}" for request in judged.server.requests)
    # Nothing of it is kept: a healthy server is asked, and answers.
    judged.server.script = script
    judged.chat(*own, "-k", "judged and 1", "test_judged.py", fresh=True).assert_outcomes(passed=1, deselected=2)


def test_a_hostile_reason_is_text(judged: ChatProject) -> None:
    def hostile(request: fake.Request) -> fake.Reply:
        if "<given_answer>" in request.prompt:
            return json.dumps({"reason": HOSTILE, "verdict": "correct"})
        return good_answer(request)

    judged.server.script = hostile
    own = ("--memeval-judge-model", "j", "--html", "page.html", "-k", "judged and 1")
    judged.chat(*own, "test_judged.py", fresh=True).assert_outcomes(passed=1, deselected=2)
    assert "<img src=x" not in (judged.path / "page.html").read_text(encoding="utf-8")
    assert HOSTILE not in (judged.path / "out" / "report.md").read_text(encoding="utf-8")
