"""What a judge says, and how it is read out of a model's reply.

A reply counts where it says one thing: JSON with a score or a verdict, or plain words at a place where verdicts stand
(the whole reply, behind "verdict:", its first or its last clause). A word that merely occurs counts nothing: "correct"
stands in "incorrect" and in "not correct", "yes" in "yesterday". What says nothing, or two things, is unusable.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_memeval.llm.payload import PayloadError, parse_payload

#: Scores from here on count as right where a graded verdict is taken for right or wrong.
RIGHT_FROM = 0.5


class JudgeError(Exception):
    """No verdict came: of the judge nothing is known, least of all a 0. ``kind`` is a short stable word for reports:
    ``judge_error`` for a reply that cannot be used, else the chat model's own (``model_unavailable`` …)."""

    def __init__(self, message: str, *, kind: str = "judge_error") -> None:
        super().__init__(message)
        self.kind = kind


class UnusableVerdict(ValueError):
    """A reply says neither right nor wrong nor a score; the text says what it says instead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged answer. ``score`` is from 0 to 1 (0 or 1 in the binary modes).

    ``by`` is ``rule`` or ``model``; ``model`` the name under which the server answered; ``cached`` whether the reply
    had been recorded before; ``prompt_version`` and ``prompt_sha256`` name the text that was asked.
    """

    score: float
    mode: str
    reason: str = ""
    by: str = "model"
    model: str | None = None
    cached: bool = False
    prompt_version: str | None = None
    prompt_sha256: str | None = None

    @property
    def right(self) -> bool:
        """Whether the answer counts as right: a score of at least 0.5."""
        return self.score >= RIGHT_FROM


_RIGHT = frozenset("yes correct right true accurate 是 对 正确 是的 对的 正確".split())  # noqa: SIM905  # read as a line
_WRONG = frozenset("no incorrect wrong false inaccurate 否 错 错误 不对 不正确 不是 不 錯誤".split())  # noqa: SIM905  # as above
_NEGATION = frozenset({"not", "isn't", "isnt", "wasn't", "aren't"})
_DEGREE = frozenset({"entirely", "fully", "completely", "quite", "really", "at", "all", "exactly"})
_PADDING = frozenset(
    {
        "it", "is", "it's", "that", "that's", "this", "the", "an", "a", "answer", "given", "response", "reply", "was",
        "prediction", "predicted", "model's", "system's", "so", "therefore", "thus", "hence", "then", "i'd", "say", "i",
        "would", "my", "verdict", "label", "final", "judgment", "judgement", "and", "must", "be", "as", "judged",
        "result",
    }
)  # fmt: skip
_LABEL_KEYS = ("verdict", "label", "judgment", "judgement", "correct", "is_correct", "result", "decision", "answer")
_SCORE_KEYS = ("score", "rating", "grade")
_THINKING = re.compile(r"<(think|thinking|thought|reasoning)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSED = re.compile(r"^.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_LABELLED = re.compile(
    r"(?:^|[\n.!?;,。!?;,(]\s*)(?:the |my |so |final |overall )*(?:verdict|label|judge?ment|decision|conclusion|grade"
    r"|answer|final answer|判定|结论|判断)(?: is| =|:|=| -)\s*([^\n.;,。;,)]{1,60})"
)
_SCORED = re.compile(
    r"(?:score|rating|grade|评分|分数|得分)(?: is| of|:|=| =)\s*([+-]?[0-9.]+(?:\s*(?:/|%|out of|分)\s*[0-9]*)?)"
)
_CLAUSE = re.compile(r"[.!?;:,\n。!?;:,()]+(?=\s|$|[\u3400-\u9fff])|(?<=[\u3400-\u9fff])[.!?;:,。()]|\s[-–—]+\s")
_CHINESE = re.compile(r"(?:所以|因此|该|这个|这|判定|结论|答案|回答|预测|结果|为|是)*(不正确|不对|错误|错|正确|对)的?")
_WORD = re.compile(r"[\u3400-\u9fff]+|[\w']+")
_SHOWN = 120


def read_verdict(text: str | None, *, graded: bool) -> tuple[float, str]:
    """(score, reason) of a judge's reply. ``graded`` modes take a score from 0 to 1, or right and wrong as 1 and 0; the
    others right and wrong, or the numbers 1 and 0.

    Raises UnusableVerdict for anything else: nothing, a number out of range, several verdicts that differ, prose.
    """
    stripped = (text or "").strip()
    if not stripped:
        raise UnusableVerdict("the reply is empty")
    try:
        payload = parse_payload(stripped)
    except PayloadError as error:
        if "never closed" in str(error) or "broken" in str(error):
            raise UnusableVerdict(str(error)) from None
        return _of_text(stripped, graded), ""
    if isinstance(payload, list) and len(payload) == 1 and isinstance(payload[0], Mapping):
        payload = payload[0]
    if isinstance(payload, Mapping):
        return _of_object(payload, graded)
    # A list in the middle of prose is a foot note, not the verdict.
    return (_of_text(stripped, graded) if isinstance(payload, list) else _of_value(payload, graded)), ""


def _of_object(payload: Mapping[str, Any], graded: bool) -> tuple[float, str]:
    named = {str(key).strip().lower().replace(" ", "_"): value for key, value in payload.items()}
    reason = next(
        (value for key in ("reason", "reasoning", "explanation") if isinstance(value := named.get(key), str)), ""
    )
    scores = [_of_value(named[key], graded) for key in _SCORE_KEYS if key in named]
    labels = [_of_value(named[key], graded) for key in _LABEL_KEYS if key in named]
    # A score beside a verdict refines it; in the binary modes both are the same thing said twice.
    if graded and scores:
        if any((label >= RIGHT_FROM) != (scores[0] >= RIGHT_FROM) for label in labels):
            raise UnusableVerdict(f"verdict and score contradict each other: {_shown(payload)}")
        labels = []
    found = set(scores + labels)
    if not found:
        raise UnusableVerdict(f"the reply's JSON has neither a score nor a verdict: {_shown(payload)}")
    if len(found) > 1:
        raise UnusableVerdict(f"the reply holds several verdicts: {_shown(payload)}")
    return found.pop(), reason


def _of_value(value: Any, graded: bool) -> float:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _of_text(value, graded)
    if isinstance(value, int | float) and math.isfinite(value):
        return _in_range(float(value), graded)
    raise UnusableVerdict(f"{_shown(value)} is neither a score nor a verdict")


def _in_range(value: float, graded: bool) -> float:
    if not 0 <= value <= 1:
        raise UnusableVerdict(f"the score {value:g} is not between 0 and 1")
    if not graded and value not in (0, 1):
        raise UnusableVerdict(f"the score {value:g} is neither 0 nor 1, where right or wrong was asked for")
    return value


def _of_text(text: str, graded: bool) -> float:
    plain = unicodedata.normalize("NFKC", _without_thoughts(text)).casefold().replace("’", "'")
    plain = re.sub(r"[*_`#\"“”<>\[\]{}]", " ", plain).strip()
    try:
        return _in_range(float(plain.rstrip(".")), graded)
    except UnusableVerdict:
        raise
    except ValueError:
        pass
    if numbers := {number.strip() for number in _SCORED.findall(plain)}:
        return _of_numbers(numbers, text, graded)
    found = {value for part in _LABELLED.findall(plain) if (value := _phrase(part)) is not None}
    if not found and (clauses := _clauses(plain)):
        found = {value for part in (clauses[0], clauses[-1]) if (value := _phrase(part)) is not None}
    if len(found) > 1:
        raise UnusableVerdict(f"the reply says right and wrong: {_shown(text)}")
    if not found:
        raise UnusableVerdict(f"the reply holds no verdict: {_shown(text)}")
    return found.pop()


def _clauses(text: str) -> list[str]:
    """The clauses that state something: no question, and nothing that only announces what follows it."""
    ends = [*((match.start(), match.end(), match[0]) for match in _CLAUSE.finditer(text)), (len(text), len(text), ".")]
    found, begin = [], 0
    for start, end, mark in ends:
        clause = text[begin:start].strip()
        begin = end
        # An empty place is kept where it was, so that what follows it is not taken for the first clause.
        if clause:
            announces = "?" in mark or (":" in mark and " " in clause)
            found.append("" if announces else clause)
    return found


def _of_numbers(numbers: set[str], text: str, graded: bool) -> float:
    try:
        values = {float(number.rstrip(".")) for number in numbers}
    except ValueError:
        raise UnusableVerdict(f"the reply's score is not a number from 0 to 1: {_shown(text)}") from None
    if len(values) > 1:
        raise UnusableVerdict(f"the reply holds several scores: {_shown(text)}")
    return _in_range(values.pop(), graded)


def _without_thoughts(text: str) -> str:
    text = _THINKING.sub(" ", text)
    if _OPENED.search(text):
        raise UnusableVerdict("the reply's reasoning block is never closed, so no verdict follows it")
    return _CLOSED.sub(" ", text)


def _phrase(clause: str) -> float | None:
    """1 or 0 for a clause that says nothing but right or wrong, negated or not; else ``None``."""
    words = [word for word in _WORD.findall(clause) if word not in _PADDING]
    negated = bool(words) and words[0] in _NEGATION
    if negated:
        words = [word for word in words[1:] if word not in _DEGREE]
    if len(words) != 1:
        return None
    if (chinese := _CHINESE.fullmatch(words[0])) is not None:
        words = [chinese[1]]
    if words[0] in _RIGHT:
        return 0.0 if negated else 1.0
    return 0.0 if words[0] in _WRONG and not negated else None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
