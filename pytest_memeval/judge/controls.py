"""Answers of which it is known whether they are right: what a judge says of them tells what its verdicts are worth."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_memeval.judge.alteration import altered, unlike
from pytest_memeval.judge.modes import RULE_MODE, Mode, mode_for, type_name
from pytest_memeval.judge.protocol import text_of
from pytest_memeval.judge.refusal import is_unanswerable

RIGHT, WRONG = "right", "wrong"
#: How a control answer was made.
RIGHT_VARIANTS = ("truth", "sentence", "verbose")
WRONG_VARIANTS = ("other_truth", "vague", "specific", "verbose")

_CJK = re.compile(r"[\u3400-\u9fff]")
_REFUSALS = {
    False: (
        "That was never mentioned in our conversations.",
        "I have no information about that.",
        "I looked through everything that was said, and while the topic came up, this particular detail did not, so I"
        " cannot answer the question.",
    ),
    True: (
        "我们的对话里没有提到过这一点。",
        "我没有这方面的信息。",
        "我查看了所有的对话，虽然聊到过这个话题，但没有提到这个细节，所以无法回答。",
    ),
}
_SENTENCE = {False: "The answer is: {core}", True: "答案是：{core}"}
_VERBOSE = {
    False: (
        "Let me go through what I remember. The two of you have talked about many things over the past weeks, some of"
        " them more than once, and this came up as well. Putting the pieces together, and leaving aside what belongs"
        " to other topics, my answer to your question is: {core}. I hope that helps; tell me if you want to go into"
        " more detail."
    ),
    True: (
        "让我回忆一下。过去几周里你们聊了很多事情，有些还不止聊过一次，这件事也谈到过。把这些内容放在一起，撇开属于别的话题的部分，"
        "我对你的问题的回答是：{core}。希望对你有帮助，如果想了解更多细节请告诉我。"
    ),
}
_VAGUE = {
    False: "Yes, this came up in our conversations, and there was quite a bit to it. Several things played a part, some"
    " more than others, and it changed a little over time, as such things do.",
    True: "是的，我们聊到过这件事，内容还不少。有好几个方面，有的重要一些，有的次要一些，随着时间也有一些变化。",
}


@dataclass(frozen=True, slots=True)
class ControlQuestion:
    """A question with its truth, from which controls are made."""

    question_id: str
    question_type: Any
    question: str
    truth: str
    question_date: str | None = None
    mode: str = "auto"


@dataclass(frozen=True, slots=True)
class Control:
    """One control answer. ``kind`` is ``right`` or ``wrong``, ``variant`` how it was made."""

    kind: str
    variant: str
    question_id: str
    question_type: str
    mode: Mode
    question: str
    truth: str
    prediction: str
    question_date: str | None = None


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Controls, and how many questions none could be made of, by reason."""

    controls: tuple[Control, ...]
    skipped: dict[str, int]
    wanted: int
    seed: int


def can_be_controlled(mode: str) -> bool:
    """Whether right answers can be made from a truth judged by ``mode``: the truth of ``preference`` is a rubric and no
    answer, and ``adversarial`` is no model's verdict."""
    return mode not in (RULE_MODE, "preference")


def questions_of(pairs: Iterable[Any]) -> list[ControlQuestion]:
    """Questions of a data set's pairs (``answer``) or of answered questions (``ground_truth``)."""
    return [
        ControlQuestion(
            str(pair.question_id),
            pair.question_type,
            str(pair.question),
            text_of(getattr(pair, "answer", None) if hasattr(pair, "answer") else pair.ground_truth),
            text_of(getattr(pair, "question_date", None)) or None,
        )
        for pair in pairs
    ]


def make_controls(questions: Sequence[ControlQuestion], wanted: int, *, seed: int = 0) -> ControlSet:
    """``wanted`` right and ``wanted`` wrong answers, spread over the question types as the questions are.

    Each question is used once before any is used again, in another variant. There are fewer controls where the
    questions do not give as many. The same questions and seed give the same controls, whatever the questions' order.
    Raises ValueError for ``wanted`` below 1.
    """
    if wanted < 1:
        raise ValueError(f"the number of controls must be at least 1, not {wanted}")
    ordered = sorted(questions, key=lambda q: (q.question_id, q.question))
    skipped: Counter[str] = Counter()
    by_type: dict[str, list[tuple[ControlQuestion, Mode]]] = {}
    for question in ordered:
        mode = mode_for(question.question_type, question.question_id, question.mode)
        why = _why_not(question, mode)
        if why is None:
            group = "abstention" if mode == "abstention" else type_name(question.question_type)
            by_type.setdefault(group, []).append((question, mode))
        else:
            skipped[why] += 1
    truths = [q for pairs in by_type.values() for q, mode in pairs if mode != "abstention"]
    if not by_type:
        return ControlSet((), dict(sorted(skipped.items())), wanted, seed)
    shares = _shares({name: len(pairs) for name, pairs in by_type.items()}, wanted)
    controls: list[Control] = []
    for name in sorted(by_type):
        maker = _Maker(by_type[name], truths, random.Random(f"{seed}:{name}"))
        for kind in (RIGHT, WRONG):
            # Going on where the type before ended: few controls of many types are not all made in the same way.
            controls += maker.draw(kind, shares[name], sum(control.kind == kind for control in controls))
    return ControlSet(tuple(controls), dict(sorted(skipped.items())), wanted, seed)


def _why_not(question: ControlQuestion, mode: Mode) -> str | None:
    if not can_be_controlled(mode):
        return "judged by rule" if mode == RULE_MODE else "the truth is a rubric"
    if mode != "abstention" and (not question.truth.strip() or is_unanswerable(question.truth)):
        return "no truth"
    return None


def _shares(sizes: dict[str, int], wanted: int) -> dict[str, int]:
    """How many controls of a kind each type gets: by its share of the questions, at least one if there are enough."""
    total = sum(sizes.values())
    exact = {name: wanted * size / total for name, size in sizes.items()}
    shares = {name: max(int(value), 1 if wanted >= len(sizes) else 0) for name, value in exact.items()}
    by_need = sorted(sizes, key=lambda name: (shares[name] - exact[name], name))
    while by_need and sum(shares.values()) < wanted:
        for name in by_need[: wanted - sum(shares.values())]:
            shares[name] += 1
    while sum(shares.values()) > wanted:
        shares[max(shares, key=lambda name: (shares[name] - exact[name], name))] -= 1
    return shares


class _Maker:
    """Makes the controls of one question type."""

    def __init__(
        self, pairs: list[tuple[ControlQuestion, Mode]], truths: list[ControlQuestion], rng: random.Random
    ) -> None:
        self._pairs, self._truths, self._rng = pairs, truths, rng
        rng.shuffle(self._pairs)
        own = {id(question) for question, _ in pairs}
        # The truth of a question of the same type is the harder one to tell from the right answer.
        self._others = [t for t in truths if id(t) in own] or truths

    def draw(self, kind: str, count: int, start: int = 0) -> list[Control]:
        variants = RIGHT_VARIANTS if kind == RIGHT else WRONG_VARIANTS
        found: list[Control] = []
        for turn in range(len(variants)):
            for place, (question, mode) in enumerate(self._pairs):
                if len(found) == count:
                    return found
                variant = variants[(start + place + turn) % len(variants)]
                prediction = self._answer(kind, variant, question, mode)
                if prediction is not None:
                    found.append(
                        Control(
                            kind, variant, question.question_id, type_name(question.question_type), mode,
                            question.question, question.truth, prediction, question.question_date,
                        )
                    )  # fmt: skip
        return found

    def _answer(self, kind: str, variant: str, question: ControlQuestion, mode: Mode) -> str | None:
        chinese = bool(_CJK.search(question.question))
        if mode == "abstention":
            if kind == RIGHT:
                return _REFUSALS[chinese][RIGHT_VARIANTS.index(variant)]
            core = self._other(question)
            return None if core is None else _dressed("sentence" if variant == "vague" else variant, core, chinese)
        if kind == RIGHT:
            return _dressed(variant, question.truth, chinese)
        if variant == "vague":
            return _VAGUE[chinese]
        core = altered(question.truth, self._rng) if variant == "specific" else None
        core = core or self._other(question)
        return None if core is None else _dressed("sentence" if variant == "specific" else variant, core, chinese)

    def _other(self, question: ControlQuestion) -> str | None:
        """The truth of another question that says something else; ``None`` where there is none."""
        for pool in (self._others, self._truths):
            start = self._rng.randrange(len(pool)) if pool else 0
            for other in (*pool[start:], *pool[:start]):
                if other is not question and unlike(question.truth, other.truth, question.question):
                    return other.truth
        return None


def _dressed(variant: str, core: str, chinese: bool) -> str:
    core = core.strip()
    if variant in ("sentence", "specific"):
        return _SENTENCE[chinese].format(core=core)
    return _VERBOSE[chinese].format(core=core.rstrip(".。")) if variant == "verbose" else core
