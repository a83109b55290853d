"""A judge of the project's own, named ``module:attribute``, in the shape that a run asks."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_memeval.judge.protocol import text_of
from pytest_memeval.judge.verdict import JudgeError, Verdict
from pytest_memeval.llm.own import keywords_of, name_of
from pytest_memeval.llm.protocol import ChatModelError
from pytest_memeval.llm.redaction import redact
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.loop_time import apart, is_cancelled
from pytest_memeval.loops import in_daemon_thread
from pytest_memeval.own_code import named, own_ends, without_addresses


class OwnJudge:
    """``target`` as a :class:`Judge`: an object with a method ``judge``, or the function itself.

    It is called as ``judge(question, truth, prediction, mode)``, all texts, with ``question_date`` and ``trial`` where
    it names those; it may be sync (called in a thread) or async. It returns a :class:`Verdict`, a score from 0 to 1, or
    a boolean. Whatever else it gives or raises is a JudgeError: no verdict, and never a 0. ``identity`` says what tells
    it from another judge; ``None``: nothing does.
    """

    def __init__(self, target: Any, *, identity: str | None) -> None:
        self.target = target
        self._function: Callable[..., Any] = target if inspect.isroutine(target) else target.judge
        self._taken = keywords_of(self._function)
        self._identity = identity

    @property
    def name(self) -> str:
        return name_of(self.target)

    @property
    def model(self) -> Any:
        """The chat model that it asks, where it has one as ``model``; RAG evaluators ask that, too."""
        model = getattr(self.target, "model", None)
        return model if callable(getattr(model, "complete", None)) else None

    def identity(self) -> dict[str, Any]:
        """``{model, endpoint, prompt_versions, prompt_hashes}`` as of the package's judge: its name, what it is, and no
        prompts of this package."""
        return {"model": self.name, "endpoint": self._identity, "prompt_versions": {}, "prompt_hashes": {}}

    async def judge(
        self,
        question: str,
        truth: Any,
        prediction: Any,
        mode: str = "default_binary",
        *,
        question_date: Any = None,
        trial: int = 0,
    ) -> Verdict:
        """The verdict on one answer. Raises JudgeError where none can be had."""
        arguments = (question, text_of(truth), text_of(prediction), mode)
        known = {"question_date": question_date, "trial": trial}
        more = known if self._taken is None else {key: value for key, value in known.items() if key in self._taken}
        try:
            if inspect.iscoroutinefunction(self._function):
                given = await apart(partial(self._function, *arguments, **more))
            else:
                given = await in_daemon_thread(lambda: self._function(*arguments, **more))
                given = await apart(lambda: given) if inspect.isawaitable(given) else given
        except JudgeError:
            raise
        except ChatModelError as error:
            raise JudgeError(redact(without_addresses(str(error))), kind=error.kind) from error
        except own_ends() as error:  # whatever the project's judge does
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            raise JudgeError(redact(without_addresses(f"{self.name}: {named(error)}"))) from error
        return self._verdict(given, mode)

    def judge_sync(
        self, question: str, truth: Any, prediction: Any, mode: str = "default_binary", **rest: Any
    ) -> Verdict:
        """:meth:`judge` for synchronous code; blocks the calling thread."""
        return run_sync(self.judge(question, truth, prediction, mode, **rest))

    def _verdict(self, given: Any, mode: str) -> Verdict:
        score = given.score if isinstance(given, Verdict) else given
        if isinstance(score, bool):
            score = float(score)
        if not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
            wanted = "a Verdict, a score from 0 to 1, or a boolean"
            raise JudgeError(f"judge {self.name} gave {str(score)[:80]!r} ({type(given).__name__}), not {wanted}")
        return given if isinstance(given, Verdict) else Verdict(float(score), mode, by="rule")
