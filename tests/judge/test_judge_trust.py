"""What control answers say of a judge, and of an accuracy by its verdicts."""

from __future__ import annotations

import asyncio
import json
import random

import chat_server as fake
import pytest
from chat_server import ChatServer
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_rig import asked, chat_model, fair_judge

from pytest_memeval.judge.chat_judge import ChatJudge
from pytest_memeval.judge.controls import RIGHT, WRONG, Control, ControlQuestion, make_controls
from pytest_memeval.judge.trust import ControlOutcome, Trust, ask_controls, check_judge, corrected_accuracy, trust_of
from pytest_memeval.metrics.distributions import wilson


def outcomes(kind: str, hits: int, misses: int, errors: int = 0) -> list[ControlOutcome]:
    right = kind == RIGHT
    said = [right] * hits + [not right] * misses + [None] * errors
    return [
        ControlOutcome(Control(kind, "truth", f"{kind}{n}", "t", "continuous", f"q{n}", "t", "p"), accepted)
        for n, accepted in enumerate(said)
    ]


def trust(sensitivity: tuple[int, int], specificity: tuple[int, int], errors: int = 0) -> Trust:
    rows = [*outcomes(RIGHT, *sensitivity, errors), *outcomes(WRONG, *specificity)]
    return Trust(tuple(rows), {}, 100, 0)


def test_rates_have_wilsons_interval() -> None:
    found = trust((90, 10), (99, 1), errors=3)
    assert found.sensitivity == {
        "value": 0.9, "interval": list(wilson(90, 100) or ()), "n": 100, "questions": 100, "errors": 3
    }  # fmt: skip
    assert found.specificity["value"] == 0.99
    assert found.trustworthy is True
    assert json.loads(json.dumps(found.to_json()))["by_type"]["t"]["right"] == {
        "judged": 100, "as_expected": 90, "errors": 3
    }  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [
        ((90, 10), (90, 10), True), ((85, 15), (90, 10), False), ((100, 0), (50, 50), False),
        ((15, 0), (100, 0), False),
        ((16, 0), (16, 0), True), ((0, 0), (100, 0), None), ((100, 0), (0, 0), None),
    ],
)  # fmt: skip
def test_the_lower_bounds_decide(right: tuple[int, int], wrong: tuple[int, int], verdict: bool | None) -> None:
    assert trust(right, wrong).trustworthy is verdict


def test_answers_to_one_question_do_not_narrow_the_interval() -> None:
    control = Control(RIGHT, "truth", "q", "t", "continuous", "q", "t", "p")
    found = Trust(tuple(ControlOutcome(control, True) for _ in range(100)), {}, 100, 0)
    assert found.sensitivity["n"] == 100
    assert found.sensitivity["interval"] == list(wilson(1, 1) or ())
    assert found.trustworthy is None


def test_a_correction_by_hand() -> None:
    scores = [1.0] * 60 + [0.0] * 40 + [None] * 5
    found = corrected_accuracy(scores, trust((90, 10), (80, 20)))
    assert (found.raw, found.n) == (0.6, 100)
    assert found.value == pytest.approx((0.6 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert found.interval is not None
    assert found.interval[0] < 0.571 < found.interval[1]
    assert found.to_json()["interval"] == list(found.interval)


@pytest.mark.parametrize(
    ("scores", "sensitivity", "specificity", "reason"),
    [
        ([1.0] * 9, (49, 0), (60, 0), "fewer than 50 right controls"),
        ([1.0] * 9, (50, 0), (40, 9), "fewer than 50 wrong controls"),
        ([1.0] * 9, (10, 0), (9, 0), "fewer than 50 right and wrong controls"),
        ([1.0] * 9, (60, 40), (50, 50), "add up to 1.1 or less"),
        ([None], (60, 40), (50, 50), "nothing was judged"),
        ([], (60, 0), (60, 0), "nothing was judged"),
    ],
)
def test_no_value_without_ground(
    scores: list[float | None], sensitivity: tuple[int, int], specificity: tuple[int, int], reason: str
) -> None:
    found = corrected_accuracy(scores, trust(sensitivity, specificity))
    assert found.value is None
    assert found.interval is None
    assert reason in str(found.reason)


def test_it_is_clipped() -> None:
    assert corrected_accuracy([1.0] * 10, trust((80, 20), (95, 5))).value == 1.0
    assert corrected_accuracy([0.0] * 10, trust((95, 5), (80, 20))).value == 0.0


def test_few_clusters_have_no_interval() -> None:
    found = corrected_accuracy([1.0, 0.0] * 10, trust((95, 5), (95, 5)), clusters=["a", "b"] * 10)
    assert found.value == pytest.approx(0.5)
    assert (found.interval, found.reason) == (None, "fewer than 5 clusters")
    with pytest.raises(ValueError, match="2 scores and 1 clusters"):
        corrected_accuracy([1.0, 0.0], trust((95, 5), (95, 5)), clusters=["a"])


@given(st.floats(0, 1), st.integers(50, 99), st.integers(70, 100))
@settings(max_examples=40, deadline=None)
def test_a_perfectly_known_judge_gives_the_truth_back(share: float, sensitivity: int, specificity: int) -> None:
    right = round(share * 1000)
    taken = right * sensitivity / 100 + (1000 - right) * (100 - specificity) / 100
    scores: list[float | None] = [1.0] * round(taken) + [0.0] * (1000 - round(taken))
    found = corrected_accuracy(
        scores, trust((sensitivity, 100 - sensitivity), (specificity, 100 - specificity)), resamples=200
    )
    assert found.value == pytest.approx(right / 1000, abs=0.01)
    assert found.interval is not None
    assert found.interval[0] - 1e-9 <= found.value <= found.interval[1] + 1e-9


def test_the_interval_covers_the_truth() -> None:
    drawn = random.Random(7)
    covered = 0
    for _ in range(100):
        scores = [float(drawn.random() < (0.9 if drawn.random() < 0.6 else 0.15)) for _ in range(200)]
        hits = sum(drawn.random() < 0.9 for _ in range(100))
        rejected = sum(drawn.random() < 0.85 for _ in range(100))
        found = corrected_accuracy(scores, trust((hits, 100 - hits), (rejected, 100 - rejected)), resamples=500)
        assert found.interval is not None
        covered += found.interval[0] <= 0.6 <= found.interval[1]
    assert covered >= 88


# -- over a real server

ROWS = [
    ControlQuestion(f"q{n}", "multi_session", f"What of {n}?", f"{chr(97 + n % 26) * 5} {n * 7 + 100}")
    for n in range(60)
]


def check(server: ChatServer, script: fake.Script) -> Trust:
    server.script = script
    controls = make_controls(ROWS, 60)
    return trust_of(controls, asyncio.run(ask_controls(ChatJudge(chat_model(server)), controls.controls)))


def test_a_fair_judge_is_trusted(chat_server: ChatServer) -> None:
    found = check(chat_server, fair_judge)
    assert found.trustworthy is True
    assert (found.sensitivity["value"], found.specificity["value"]) == (1.0, 1.0)
    assert found.sensitivity["n"] == found.specificity["n"] == 60


def test_a_judge_that_is_taken_in_by_length_is_not(chat_server: ChatServer) -> None:
    def script(request: fake.Request) -> fake.Reply:
        if len(asked(request)["given_answer"]) > 100:
            return '{"reason": "so thorough", "verdict": "correct"}'
        return fair_judge(request)

    found = check(chat_server, script)
    assert found.trustworthy is False
    assert found.sensitivity["value"] == 1.0
    by_variant = found.to_json()["by_variant"]
    assert by_variant["verbose"]["wrong"]["as_expected"] == 0
    assert by_variant["vague"]["wrong"]["as_expected"] == 0
    assert by_variant["other_truth"]["wrong"]["as_expected"] == by_variant["other_truth"]["wrong"]["judged"] > 0


def test_judge_errors_are_counted_and_are_no_verdicts(chat_server: ChatServer) -> None:
    def script(request: fake.Request) -> fake.Reply:
        return "hm" if "What of 7?" in request.prompt else fair_judge(request)

    found = check(chat_server, script)
    assert found.sensitivity["errors"] == found.specificity["errors"] == 1
    assert found.sensitivity["n"] == 59
    assert found.sensitivity["value"] == 1.0


def test_checking_in_one_call(chat_server: ChatServer) -> None:
    chat_server.script = fair_judge
    found = check_judge(ChatJudge(chat_model(chat_server)), ROWS, 20)
    assert (found.trustworthy, found.wanted, found.sensitivity["n"]) == (True, 20, 20)
    assert check_judge(ChatJudge(chat_model(chat_server)), [], 20).trustworthy is None
    assert chat_server.count == 40
