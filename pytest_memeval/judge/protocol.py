"""What judging asks of a judge, and of what is judged."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pytest_memeval.judge.verdict import Verdict


@runtime_checkable
class Judge(Protocol):
    """Says whether a prediction answers a question as the truth does. Raises JudgeError where it cannot tell."""

    async def judge(self, question: str, truth: str, prediction: str, mode: str) -> Verdict: ...


class NamedJudge(Judge, Protocol):
    """A judge that says who it is, and takes a question's date: the package's own, and one that an option names."""

    @property
    def name(self) -> str: ...

    def identity(self) -> dict[str, Any]: ...

    async def judge(
        self, question: str, truth: Any, prediction: Any, mode: str = ..., *, question_date: Any = None
    ) -> Verdict: ...


class Answered(Protocol):
    """One answered question. A ``question_date`` (text or date), where there is one, reaches the judge."""

    @property
    def question_id(self) -> str: ...
    @property
    def question_type(self) -> Any: ...
    @property
    def question(self) -> str: ...
    @property
    def ground_truth(self) -> Any: ...
    @property
    def prediction(self) -> Any: ...


def text_of(value: Any) -> str:
    """A truth or a prediction as text: published truths are numbers and lists, too."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return "; ".join(text_of(item) for item in value)
    return str(value)
