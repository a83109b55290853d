"""Reading a judge's reply: one clear verdict, or none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.judge.verdict import UnusableVerdict, Verdict, read_verdict


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("INCORRECT", 0), ("Not correct.", 0), ("Yesterday is missing, so no.", 0), ("CORRECT", 1), ("yes", 1),
        ("No, because it's wrong", 0), ("Yes. The answer names Paris.", 1), ("It isn't correct", 0),
        ("The answer is not entirely correct.", 0), ('```json\n{"label": "WRONG"}\n```', 0),
        ("<think>yes</think>no", 0),
        ("hm, yes</think>no", 0), ("Verdict: correct", 1), ("Both are fine. Final verdict: **CORRECT**", 1),
        ("正确", 1), ("不正确。", 0), ("答案是错误的", 0), ("1", 1), ("0.0", 0), ("true", 1), ("Is it correct? No.", 0),
        ('{"reason": "the answer is wrong", "verdict": "correct"}', 1), ('{"correct": false}', 0),
        ("See [0]. Correct.", 1),
        ('Here you are: {"Verdict": "Incorrect."} [end]', 0), ('"yes"', 1), ('[{"verdict": "wrong"}]', 0),
        ("Incorrect: the dog is a beagle", 0), ('{"verdict": "wrong", "score": 0}', 0),
    ],
)  # fmt: skip
def test_a_binary_verdict(reply: str, score: float) -> None:
    assert read_verdict(reply, graded=False)[0] == score


@pytest.mark.parametrize(
    "reply",
    [
        "", "  ", None, "null", "[]", "{}", "The answer is partially correct", "correct or wrong", "yes and no",
        '{"verdict": "correct", "correct": false}', "0.5", "2", '{"verdict": "maybe"}', "Incorrectly stated",
        "The correct answer is Paris, not Rome.", "Correct answer: Paris. Given: Rome.",
        "<think>yes", '{"verdict": "corr',
        "The answer [1] is fine", "label: CORRECT. label: WRONG", "It is not wrong.", '{"verdict": {"is": "correct"}}',
        "Yes, it names Paris, so no.", "I cannot judge this.", '{"a": 1}', "notcorrect",
    ],
)  # fmt: skip
def test_no_binary_verdict(reply: str | None) -> None:
    with pytest.raises(UnusableVerdict):
        read_verdict(reply, graded=False)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("0.7", 0.7), ("Score: 0.8", 0.8), ("Score: 0.75.", 0.75), ('{"score": "0.25", "reason": "r"}', 0.25),
        ('{"score": 1}', 1), ("CORRECT", 1), ("wrong", 0), ('{"score": 0.8, "verdict": "correct"}', 0.8),
    ],
)  # fmt: skip
def test_a_graded_verdict(reply: str, score: float) -> None:
    assert read_verdict(reply, graded=True)[0] == score


@pytest.mark.parametrize(
    "reply",
    [
        "score: 7/10", '{"score": 85}', '{"score": NaN}', '{"score": null}', "score is 80%", "score: 0.2 or score: 0.3",
        '{"score": 0.2, "verdict": "correct"}', "-0.5", '{"score": -1}', "1e400", "nan", "good",
        "score: .", "Score: 1.2.3",
    ],
)  # fmt: skip
def test_no_graded_verdict(reply: str) -> None:
    with pytest.raises(UnusableVerdict):
        read_verdict(reply, graded=True)


def test_the_reason_is_kept() -> None:
    assert read_verdict('{"reason": "<b>", "score": 0.5}', graded=True) == (0.5, "<b>")


@pytest.mark.parametrize(("score", "right"), [(0.0, False), (0.49, False), (0.5, True), (1.0, True)])
def test_right_from_one_half_on(score: float, right: bool) -> None:
    assert Verdict(score, "continuous").right is right


@given(st.text(max_size=200), st.booleans())
def test_any_reply_is_a_score_or_unusable(reply: str, graded: bool) -> None:
    try:
        score, _ = read_verdict(reply, graded=graded)
    except UnusableVerdict:
        return
    assert 0 <= score <= 1
    assert graded or score in (0, 1)


@given(st.floats(0, 1), st.text(max_size=50))
def test_a_score_in_json_is_read_as_written(score: float, reason: str) -> None:
    assert read_verdict(json.dumps({"reason": reason, "score": score}), graded=True) == (score, reason)
