"""``memeval doctor`` on chat models, matchers, judges and evaluators."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_memeval.cli.main import main

PARTS = """
import asyncio
import itertools
import json
import time

from pytest_memeval import Verdict
from pytest_memeval.rag import BaseEvaluator

counter = itertools.count()
number = 7


# chat models: (name, whether it passes, words)
class Model:
    name = "good"
    async def complete(self, messages, *, stage, **rest):
        return "yes"

class NoSchema(Model):
    async def complete(self, messages, *, stage, response_format=None):
        if response_format:
            raise ValueError("no schemas here")
        return "yes"

class OneAtATime(Model):
    busy = False
    async def complete(self, messages, *, stage, **rest):
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        await asyncio.sleep(0.01)
        self.busy = False
        return "yes"

class Braces(Model):
    async def complete(self, messages, *, stage, **rest):
        return messages[0]["content"].format()

class Sleeps(Model):
    async def complete(self, messages, *, stage, **rest):
        await asyncio.sleep(60)

class SelfCancel(Model):
    async def complete(self, messages, *, stage, **rest):
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

class Blocks(Model):
    async def complete(self, messages, *, stage, **rest):
        time.sleep(20)

class Impatient(Model):
    async def complete(self, messages, *, stage, **rest):
        raise TimeoutError("the server was too slow")


# matchers
def match(predicted, truth):
    pairs, taken = [], set()
    for t, text in enumerate(truth):
        for p, other in enumerate(predicted):
            if text == other and p not in taken:
                pairs.append((t, p, 1.0))
                taken.add(p)
                break
    return pairs

def twice(predicted, truth):
    return [(t, p, 1.0) for t, a in enumerate(truth) for p, b in enumerate(predicted) if a == b]

def beyond(predicted, truth):
    return [(0, 0, 1.0)]

def nan(predicted, truth):
    return [(0, 0, float("nan"))] if predicted and truth else []

def by_chance(predicted, truth):
    return [(0, 0, 1.0)] if predicted and truth and next(counter) % 2 else []

def never(predicted, truth):
    return []

def divides(predicted, truth):
    return [(0, 0, 1 / len(predicted))] if truth else []


# judges
def judge(question, truth, prediction, mode):
    return truth in prediction

def upside_down(question, truth, prediction, mode):
    return Verdict(0.0 if truth in prediction else 1.0, mode)

def percent(question, truth, prediction, mode):
    return 100

async def slow(question, truth, prediction, mode):
    time.sleep(20)

async def self_cancel(question, truth, prediction, mode):
    asyncio.current_task().cancel()
    await asyncio.sleep(1)

def three(question, truth, prediction):
    return True


# evaluators
def words(sample):
    return len((sample.response or "").split())

def raises(sample):
    return len(sample.answer)

def a_list(sample):
    return [1, 2]

class Misnamed(BaseEvaluator):
    metrics = ("tone",)
    async def evaluate_sample(self, sample):
        return {"tune": 1.0}

class Slow(BaseEvaluator):
    async def evaluate_sample(self, sample):
        time.sleep(20)

class Cancels(BaseEvaluator):
    async def evaluate_sample(self, sample):
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

class Lacks(BaseEvaluator):
    metrics = ("tone", "mood")
    async def evaluate_sample(self, sample):
        return {"tone": 1.0}

class LacksOfBare(BaseEvaluator):
    metrics = ("tone",)
    async def evaluate_sample(self, sample):
        return {"tone": 1.0} if sample.response else {}

class OneText(Misnamed):
    metrics = "tune"
"""


#: What does not come back in time.
SLOW = ("Sleeps", "Blocks", "slow", "Slow")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doctored.py").write_text(PARTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "doctored", raising=False)


@pytest.mark.parametrize(
    ("option", "name", "failed", "words"),
    [
        ("llm", "Model", "", "three questions at once"),
        ("llm", "NoSchema", "llm schema", "no schemas here"),
        ("llm", "OneAtATime", "llm concurrency", "RuntimeError: busy"),
        ("llm", "Braces", "llm, llm schema, llm concurrency", "KeyError"),
        ("llm", "Sleeps", "llm, llm schema, llm concurrency", "no answer within 2 s\n"),
        ("llm", "Blocks", "llm, llm schema, llm concurrency", "no answer within 2 s: it holds the event loop"),
        ("llm", "Impatient", "llm, llm schema, llm concurrency", "TimeoutError: the server was too slow"),
        ("llm", "SelfCancel", "llm, llm schema, llm concurrency", "chat model good: CancelledError"),
        ("matcher", "match", "", "one to one, equal texts found"),
        ("matcher", "twice", "matcher", "twice"),
        ("matcher", "beyond", "matcher", "paired truth 0 with prediction 0, but there are"),
        ("matcher", "nan", "matcher", "the similarity nan"),
        ("matcher", "by_chance", "matcher", "gives another answer the second time"),
        ("matcher", "never", "", "warning matcher          it does not match texts that are equal"),
        ("matcher", "divides", "matcher", "ZeroDivisionError"),
        ("judge", "judge", "", "right above wrong"),
        ("judge", "upside_down", "", "a right answer is no better than a wrong one"),
        ("judge", "percent", "judge", "not a Verdict, a score from 0 to 1, or a boolean"),
        ("judge", "three", "judge", "TypeError"),
        ("judge", "self_cancel", "judge", "self_cancel: CancelledError"),
        ("judge", "slow", "judge", "no answer within 2 s"),
        ("evaluator", "words", "", "words 2"),
        ("evaluator", "raises", "evaluator doctored:raises", "no attribute 'answer'"),
        ("evaluator", "Slow", "evaluator doctored:Slow", "no answer within 2 s"),
        ("evaluator", "Cancels", "evaluator doctored:Cancels", "cancelled: CancelledError (doctored.py:"),
        ("evaluator", "a_list", "", "it measured nothing of a whole sample"),
        ("evaluator", "Lacks", "evaluator doctored:Lacks", "mood: the evaluator declares it, and the result lacks it"),
        ("evaluator", "LacksOfBare", "", "tone, of a sample without an answer: the evaluator declares it"),
        ("evaluator", "OneText", "", "tune 1.0"),
        (
            "evaluator",
            "Misnamed",
            "evaluator doctored:Misnamed",
            "it gives 'tune', none of its metrics ['tone']; did you mean 'tone'?",
        ),
    ],
)
@pytest.mark.usefixtures("parts")
def test_each_part_is_checked_and_fails_in_the_right_place(
    option: str, name: str, failed: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["doctor", f"--{option}", f"doctored:{name}", "--timeout", "2" if name in SLOW else "30"])
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == (f"failed: {failed}" if failed else "the parts keep to their protocols")
    assert words in out
    assert status == (1 if failed else 0)


@pytest.mark.usefixtures("parts")
def test_several_parts_and_an_engine_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--engine", "reference", "--matcher", "hybrid", "--judge", "doctored:judge"]
    assert main(["doctor", *arguments, "--evaluator", "doctored:words"]) == 0
    out = capsys.readouterr().out
    for item in ("isolation", "matcher", "judge", "evaluator doctored:words"):
        assert f"ok      {item}" in out


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("option", ["--engine", "--llm", "--matcher", "--judge", "--evaluator"])
@pytest.mark.parametrize("name", ["doctored:nobody", "doctored:number", "nowhere:nobody"])
def test_the_option_is_named_as_it_was_written(option: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor", option, name])
    said = "".join(capsys.readouterr())
    assert status != 0
    assert "--memeval-" not in said
    assert "a int" not in said
    # An object without methods is an engine that supports nothing, which the check itself says.
    assert option in said or (option, name) == ("--engine", "doctored:number")


@pytest.mark.usefixtures("parts")
def test_a_wrong_name_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--matcher", "doctored:mach"]) != 0
    assert "has no attribute 'mach'; did you mean 'match'?" in capsys.readouterr().err
