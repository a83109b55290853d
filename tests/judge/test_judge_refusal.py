"""The refusal detector: on its committed set, on published answers, and on what its rules are about."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_memeval.judge.refusal import is_unanswerable

REPLIES = [
    json.loads(line) for line in (Path(__file__).with_name("refusals.jsonl")).read_text(encoding="utf-8").splitlines()
]
HALVES = ("dev", "held_out")


def share(rows: list[dict[str, object]], wanted: bool) -> float:
    return sum(is_unanswerable(str(row["text"])) is wanted for row in rows) / len(rows)


def test_the_set_is_what_it_says() -> None:
    assert len({row["text"] for row in REPLIES}) == 200
    for half in HALVES:
        for lang in ("en", "zh"):
            for refusal in (True, False):
                found = [r for r in REPLIES if (r["half"], r["lang"], r["refusal"]) == (half, lang, refusal)]
                assert len(found) == 25


@pytest.mark.parametrize("half", HALVES)
def test_sensitivity_and_specificity(half: str) -> None:
    rows = [row for row in REPLIES if row["half"] == half]
    sensitivity = share([row for row in rows if row["refusal"]], True)
    specificity = share([row for row in rows if not row["refusal"]], False)
    print(f"{half}: sensitivity {sensitivity:.3f}, specificity {specificity:.3f}")
    assert sensitivity >= 0.95
    assert specificity >= 0.98


def test_replies_written_after_the_rules() -> None:
    """130 replies written by somebody who had not seen the rules. On first sight 50 of the 65 refusals and 60 of the 65
    answers were told right; the rules have been mended by them since, so that these figures are no longer held out."""
    text = Path(__file__).with_name("refusals_review.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    refusals, answers = ([row for row in rows if row["refusal"] is wanted] for wanted in (True, False))
    assert (len(refusals), len(answers)) == (65, 65)
    print(f"review: sensitivity {share(refusals, True):.3f}, specificity {share(answers, False):.3f}")
    assert share(refusals, True) >= 0.95
    assert share(answers, False) >= 0.98


def test_a_second_part_written_before_the_rules_were_looked_at() -> None:
    """60 replies, half of each in English and in Chinese, written by somebody who then first read the rules. On first
    sight 23 of the 30 refusals and 25 of the 30 answers were told right; what failed has been mended since."""
    text = Path(__file__).with_name("refusals_second.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    for lang in ("en", "zh"):
        refusals, answers = (
            [row for row in rows if row["lang"] == lang and row["refusal"] is wanted] for wanted in (True, False)
        )
        assert (len(refusals), len(answers)) == (15, 15)
        assert share(refusals, True) >= 0.95
        assert share(answers, False) >= 0.98


def test_published_answers_are_no_refusals() -> None:
    data = Path(os.environ.get("MEMEVAL_GOLDEN_DIR", "")).parent / "locomo10.json"
    if not data.is_file():
        pytest.skip("needs LoCoMo beside MEMEVAL_GOLDEN_DIR")
    pairs = [pair for sample in json.loads(data.read_text(encoding="utf-8")) for pair in sample["qa"]]
    answers = [str(pair[key]) for pair in pairs for key in ("answer", "adversarial_answer") if key in pair]
    assert len(answers) > 1900
    assert {answer for answer in answers if is_unanswerable(answer)} == {"Not mentioned"}


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", None, "n/a", "NA", "None", "null", "Unanswerable", "'unanswerable'", "“None.”", "**Not mentioned**",
        "Answer: Not mentioned.", "Information not found.", "The answer to this question isn't in the conversation.",
        "You did not mention this information. You mentioned your cat Luna but not your hamster.",
        "I don't know, but I can help you find out.", "The notes don't say, however they only mention a dog.",
        "Caroline did not mention any symbol.", "Ｎ／Ａ", "答案:未提及", "很抱歉，我不清楚这个问题的答案",
        "It isn't clear from the context which school Ben attended.", "She did not say.",
        "That detail is missing from the conversation.", "聊天记录里没有这方面的内容。",
        "The chat log is silent on this point.", "It was never brought up.", "We don't have that information.",
        "I am not aware of any such trip.", "Based on the conversation, this cannot be answered.",
        "None of the messages mention what she paid.", "No one says where they met.", "Hard to say.", "Couldn't tell.",
        "Her sister didn't come up.", "The question rests on a mistaken premise.", "The premise is wrong.",
        "I read everything and there is no word about a dog.", "The date was left out of the notes.",
        "你之前没有说过这件事", "推断不出他的年龄", "我没看到相关的内容", "这个问题的前提不成立", "后来的事我也不清楚",
        "因为对话没有提到价格,所以无法回答", "没有足够的信息就无法判断", '"Not mentioned"', '"I don\'t know."',
    ],
)  # fmt: skip
def test_refusals(text: str | None) -> None:
    assert is_unanswerable(text)


@pytest.mark.parametrize(
    "text",
    [
        "not mentioned, but it is X", "未提及，但应该是金毛", "No", "没有", "2022", "She is not married.",
        "He has no idea who sent it.", "I don't know; my best guess is Rome.", 'She answered "I don\'t know".',
        "没人知道她在巴黎，她告诉了弟弟", "Nonefield", "annull", "无锡", "The unknown soldier",
        "No information was lost because Ben kept a backup.", "It isn't clear water.", "She did not say yes.",
        "There was no milk left.", "Not enough salt", "That is not enough.",
        "The key was missing from the drawer.", "The page is missing from the book of records.",
        "They did not give a date and eventually met in June.", "The sun didn't come up until eight.",
        '"No idea" is the title of her first song.', "“不知道”是他当时的回答。", "Nobody tells her about the party.",
        "他没说再见就走了", "由于不知道密码,他重装了系统", "找不到钥匙,她只好打电话给房东",
        "Can't tell the twins apart.", "他回答说“我不知道”。", 'His answer was "no idea".',
    ],
)  # fmt: skip
def test_answers(text: str) -> None:
    assert not is_unanswerable(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120))
def test_any_text_has_a_verdict_that_quotes_and_case_do_not_change(text: str) -> None:
    verdict = is_unanswerable(text)
    assert isinstance(verdict, bool)
    assert is_unanswerable(f'  "{text}"  ') == is_unanswerable(f"  “{text}”  ")


@pytest.mark.parametrize("text", [row["text"] for row in REPLIES if row["refusal"]][::7])
def test_case_and_quotes_do_not_matter(text: str) -> None:
    assert is_unanswerable(text.upper())
    assert is_unanswerable(f'"{text}"')


def test_a_long_text_is_read_in_linear_time() -> None:
    assert not is_unanswerable("the notes of the meeting " * 40_000)
    assert not is_unanswerable("没" * 100_000)
