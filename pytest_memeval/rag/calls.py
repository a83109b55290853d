"""A chat model shared by all cases, whose calls are recorded with the case that they are made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Unpack

from pytest_memeval.llm.protocol import CallOptions, ChatModel, ChatReply
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.recording import StageChatModel, model_name
from pytest_memeval.results import CallRecord

#: Prefix of the call ids, the calls and the trial of the case that the running code works for.
_CASE: ContextVar[tuple[str, list[CallRecord], int] | None] = ContextVar("memeval_rag_case", default=None)


@contextmanager
def calls_of_case(prefix: str, calls: list[CallRecord], trial: int = 0) -> Iterator[None]:
    """Record in ``calls`` what the code inside, its tasks and its threads ask :class:`CaseChatModel` objects, and have
    it asked as that of a ``trial``."""
    token = _CASE.set((prefix, calls, trial))
    try:
        yield
    finally:
        _CASE.reset(token)


class CaseChatModel(SyncCompletion):
    """Passes every call on to ``inner``. ``versions`` are those of prompts by stage."""

    def __init__(self, inner: ChatModel, versions: Mapping[str, str] | None = None) -> None:
        self.inner = inner
        self.versions: dict[str, str] = dict(versions or {})

    @property
    def name(self) -> str:
        return model_name(self.inner)

    @property
    def model(self) -> str | None:
        return getattr(self.inner, "model", None)

    @property
    def endpoint(self) -> str | None:
        return getattr(self.inner, "endpoint", None)

    async def complete(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        case = _CASE.get()
        # An object a call: several evaluators may ask for the same case at once.
        model = self.inner if case is None else StageChatModel(self.inner, self.versions, *case)
        return await model.complete(messages, **asked)

    async def forget(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> None:
        """Have an answer that could not be used asked anew by later runs."""
        forget = getattr(self.inner, "forget", None)
        if forget is not None:
            case = _CASE.get()
            asked["trial"] = asked.get("trial") or (0 if case is None else case[2])
            await forget(messages, **asked)
