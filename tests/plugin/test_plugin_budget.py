"""``--memeval-max-cost``: a run that stops at its budget, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_project import ChatProject, good_answer, simple_case
from chat_server import Answer, Request
from plugin_project import MODES

#: Each call of this project costs a cent: 2 dollars per million input tokens.
PRICES = "models:\n  gpt-4o-mini: {input: 2.0, output: 0}\n"


def dear(request: Request) -> Answer:
    return Answer(good_answer(request), usage=(5000, 10))


@pytest.fixture
def dear_chat(chat: ChatProject) -> ChatProject:
    chat.server.script = dear
    chat.write("prices.yaml", PRICES)
    chat.cases([simple_case(number) for number in range(1, 41)], gates=["P0 l1.dimension_micro_f1 >= 0.5"])
    return chat


def budgeted(chat: ChatProject, limit: str, *args: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    result = chat.chat("--memeval-prices", "prices.yaml", "--memeval-max-cost", limit, *args, fresh=True)
    return result, chat.report()


@MODES
@pytest.mark.parametrize("at_once", [1, 2])
def test_no_case_is_started_once_the_budget_is_reached(
    dear_chat: ChatProject, mode: tuple[str, ...], at_once: int
) -> None:
    dear_chat.server.latency = 0.02
    result, report = budgeted(dear_chat, "0.10", "--memeval-concurrency", str(at_once), *mode)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    asked = dear_chat.server.count
    # 10 calls reach it, and cases under way go on. In one process these are at most the limit and the one at hand. With
    # two, each prepares up to twice the limit before its calls are recorded, and one more until it sees the sign.
    assert 10 <= asked <= (10 + 2 * (2 * at_once + 2) if mode else 10 + at_once * (at_once > 1) + 1)
    counts = report["counts"]
    assert counts["scored"] == asked  # what was running was paid for, and is recorded
    assert counts["not_run"] == 40 - asked
    assert counts["errored"] == 0
    assert report["partial"] == "aborted"
    assert report["gates"][0]["status"] == "unmeasured"
    assert report["summary"]["passed_p0"] is False
    note = next(note for note in report["notes"] if "budget" in note)
    assert f"${asked / 100:.4f} spent" in note
    assert f"{40 - asked} case(s) were not started" in note
    result.stdout.fnmatch_lines(["*--memeval-max-cost is $0.1*"])
    assert report["timings"]["calls"]["spent_usd"] == pytest.approx(asked / 100)


@MODES
def test_what_is_in_the_cache_costs_nothing(dear_chat: ChatProject, mode: tuple[str, ...]) -> None:
    budgeted(dear_chat, "0.10", *mode)
    first = dear_chat.server.count
    result, report = budgeted(dear_chat, "5", *mode)
    assert result.ret == 0
    assert dear_chat.server.count == 40
    assert report["partial"] is None
    assert report["gates"][0]["status"] == "passed"
    assert report["usage"]["cost_usd"] == pytest.approx(0.40)
    assert report["timings"]["calls"]["spent_usd"] == pytest.approx((40 - first) / 100)


def test_a_budget_reached_by_the_last_case_cuts_nothing(dear_chat: ChatProject) -> None:
    result, report = budgeted(dear_chat, "0.40")
    assert result.ret == 0
    assert report["partial"] is None
    assert not any("budget" in note for note in report["notes"])


def test_failed_calls_are_paid_for_too(dear_chat: ChatProject) -> None:
    dear_chat.server.script = lambda request: Answer("[", finish_reason="length", usage=(5000, 10))
    result, report = budgeted(dear_chat, "0.05", "--memeval-concurrency", "1")
    assert dear_chat.server.count == 5
    assert report["counts"]["errored"] == 5
    assert report["partial"] == "aborted"
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_a_server_that_answers_under_another_name_is_priced_by_the_name_asked_for(dear_chat: ChatProject) -> None:
    dear_chat.server.script = lambda request: Answer(good_answer(request), usage=(5000, 10), model="/weights/q4.gguf")
    _, report = budgeted(dear_chat, "0.03", "--memeval-concurrency", "1")
    assert dear_chat.server.count == 3
    assert report["model"]["served_model"] == "/weights/q4.gguf"


def test_a_budget_without_a_price_is_refused(chat: ChatProject) -> None:
    chat.cases([simple_case(1)])
    result = chat.chat("--memeval-max-cost", "1", "--memeval-model", "my-own", fresh=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--memeval-max-cost: the price of model 'my-own' is not known*--memeval-prices"])
    assert chat.server.count == 0


#: A model of the project's own: each answer is said to take 5,000 tokens, or nothing is said.
OWN = """
import re

from chat_project import answer_to
from pytest_memeval import ChatReply, Usage


class House:
    name = "house"
    model = MODEL

    async def complete(self, messages, *, stage, **options):
        return ChatReply(answer_to(messages[0]["content"], stage), usage=USAGE, model=self.model)
"""


@MODES
@pytest.mark.parametrize("as_option", [True, False], ids=["option", "fixture"])
@pytest.mark.parametrize(
    ("model", "usage", "counted"),
    [
        ("'gpt-4o-mini'", "Usage(5000, 10)", True),
        ("'unheard-of'", "Usage(5000, 10)", False),
        ("None", "Usage()", False),
    ],
    ids=["priced", "no-price", "no-usage"],
)
def test_a_model_of_the_projects_own_is_paid_for_or_told_of(
    dear_chat: ChatProject, mode: tuple[str, ...], as_option: bool, model: str, usage: str, counted: bool
) -> None:
    head = "import sys\nsys.path.insert(0, " + repr(str(Path(__file__).parent)) + ")\n"
    dear_chat.write("house.py", head + OWN.replace("MODEL", model).replace("USAGE", usage))
    fixture = (
        "import house, pytest\n\n\n@pytest.fixture(scope='session')\ndef memeval_llm():\n    return house.House()\n"
    )
    dear_chat.write("conftest.py", "" if as_option else fixture)
    named = ("--memeval-llm", "house:House") if as_option else ()
    budget = ("--memeval-prices", "prices.yaml", "--memeval-max-cost", "0.10")
    result = dear_chat.run(*named, *budget, "--memeval-concurrency", "1", *mode, fresh=True)
    report = dear_chat.report()
    notes = [note for note in report["notes"] if "max-cost" in note]
    assert len(notes) == 1
    if counted:
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert 10 <= report["counts"]["scored"] < 40
        assert report["timings"]["calls"]["spent_usd"] == pytest.approx(report["counts"]["scored"] / 100)
        assert "Stopped at the budget" in notes[0]
    else:
        assert report["counts"]["scored"] == 40
        who = "house" if model == "None" else "unheard-of"
        assert f"--memeval-max-cost did not count requests whose cost is not known: {who} (40)." in notes[0]
