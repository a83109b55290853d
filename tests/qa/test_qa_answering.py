"""Answerers: the best sentence, and the chat model's prompt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.prompts import ANSWER_STAGES, load_prompts
from pytest_memeval.judge.refusal import is_unanswerable
from pytest_memeval.qa.agent import BaseLLMClient
from pytest_memeval.qa.answering import REFUSAL, ChatAnswerer, ExtractiveAnswerer, context_text, estimated_tokens
from pytest_memeval.values import Hit

CONTEXT = [
    Hit("1", 2.0, "[2023-05-08 13:56] Ann: Hi Ben! I adopted a cat called Miso. How are you?"),
    Hit("2", 1.0, "Ben: What is your cat called, Ann?\nBen: My boat is red."),
    Hit("3", 0.5, "安: 我最近养了一只猫。它叫米索！"),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Ann's cat called?", "I adopted a cat called Miso."),
        ("What colour is the boat of Ben?", "My boat is red."),
        ("养了什么？", "我最近养了一只猫。"),
        ("Who won the tournament?", REFUSAL),
        ("", REFUSAL),
    ],
)
def test_the_sentence_that_shares_most(question: str, answer: str) -> None:
    assert ExtractiveAnswerer().answer_sync(question, CONTEXT) == answer


def test_nothing_found_is_a_refusal() -> None:
    assert ExtractiveAnswerer().answer_sync("Anything?", []) == REFUSAL
    assert is_unanswerable(REFUSAL)


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
def test_it_only_ever_quotes_or_refuses(question: str, lines: list[str]) -> None:
    answer = ExtractiveAnswerer().answer_sync(question, [Hit(str(n), 0, line) for n, line in enumerate(lines)])
    assert answer == REFUSAL or any(answer in line for line in lines)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("我爱你", 3), ("我ab", 2)])
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


class Echo(BaseLLMClient):
    name = "echo"

    def chat(self, messages: Any) -> str:
        self.prompt = messages[-1]["content"]
        return "  Miso \n"


def test_the_chat_answerer_shows_context_question_and_date() -> None:
    echo = Echo()
    answerer = ChatAnswerer(echo, load_prompts().resolve(None, ANSWER_STAGES))
    question = "What is the {{cat}} called?"
    assert asyncio.run(answerer.answer(question, CONTEXT, "2023/05/30 (Tue) 23:40")) == "Miso"
    assert context_text(CONTEXT) in echo.prompt
    assert question in echo.prompt
    assert "2023/05/30 (Tue) 23:40" in echo.prompt
    assert answerer.protocol["prompt_version"] == "v001"
    assert len(answerer.protocol["prompt_sha256"]) == 64
