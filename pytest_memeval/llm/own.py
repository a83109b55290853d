"""A chat model of the project's own, named ``module:attribute``, in the shape that the pipeline asks."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_memeval.copies import copied
from pytest_memeval.llm.protocol import ChatModelError, ChatReply, ModelEmpty
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.loop_time import apart, is_cancelled
from pytest_memeval.loops import in_daemon_thread
from pytest_memeval.own_code import named, place_of


class OwnChatModel(SyncCompletion):
    """``target`` as a :class:`ChatModel`: an object with a method ``complete``, or the function itself.

    The method may be sync or async, takes the keywords of the protocol that it names (all of them with ``**rest``), and
    returns a :class:`ChatReply` or the answer's text. A plain one is called in a thread, one call at a time unless
    ``target.concurrent`` is true. ``identity`` says what tells the model from another one (``None``: nothing does); it
    is the model's ``endpoint`` in cache and reports. Raises what the method raises, and ChatModelError for a reply that
    is neither, or empty.
    """

    def __init__(self, target: Any, *, identity: str | None) -> None:
        self.target = target
        self._function: Callable[..., Any] = target if inspect.isroutine(target) else target.complete
        self._one_at_a_time = None if getattr(target, "concurrent", False) else threading.Lock()
        self._taken = keywords_of(self._function)
        self.endpoint = identity
        self.model = None if getattr(target, "model", None) is None else str(target.model)

    @property
    def name(self) -> str:
        return name_of(self.target)

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        asked = {
            "stage": stage,
            "response_format": response_format,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "trial": trial,
        }
        given = asked if self._taken is None else {key: value for key, value in asked.items() if key in self._taken}
        # Cache and record are of what was asked, whatever the model does to it.
        messages, given = copied(messages), copied(given)
        started = time.perf_counter()
        try:
            if inspect.iscoroutinefunction(self._function):
                reply = await apart(partial(self._function, messages, **given))
            else:
                reply = await self._in_thread(messages, given)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            # Nobody cancelled the call: something inside of the model was.
            raise ChatModelError(f"chat model {self.name}: {named(error)}{place_of(error)}") from error
        return self._reply(reply, time.perf_counter() - started)

    async def _in_thread(self, messages: Sequence[Mapping[str, str]], given: Mapping[str, Any]) -> Any:
        given_up = threading.Event()

        def ask() -> Any:
            if self._one_at_a_time is None:
                return self._function(messages, **given)
            with self._one_at_a_time:
                # A case that ran out of time while it waited for its turn asks no more.
                return None if given_up.is_set() else self._function(messages, **given)

        try:
            reply = await in_daemon_thread(ask)
        except asyncio.CancelledError:
            given_up.set()
            raise
        return await apart(lambda: reply) if inspect.isawaitable(reply) else reply

    def _reply(self, reply: Any, seconds: float) -> ChatReply:
        if isinstance(reply, str):
            reply = ChatReply(reply, latency=seconds)
        if not isinstance(reply, ChatReply) or not isinstance(reply.text, str):
            what = (
                f"a ChatReply with {type(reply.text).__name__}"
                if isinstance(reply, ChatReply)
                else type(reply).__name__
            )
            raise ChatModelError(f"chat model {self.name} gave {what}, not a ChatReply or a text", latency=seconds)
        if not reply.text.strip():
            raise ModelEmpty(f"chat model {self.name} gave an empty answer", latency=seconds, usage=reply.usage)
        return reply


def keywords_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keywords that a function takes; ``None`` where it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters if one.kind is not inspect.Parameter.POSITIONAL_ONLY)


def name_of(target: Any) -> str:
    """The ``name`` of an object of the project's, else the function's or its class's."""
    return str(getattr(target, "name", None) or getattr(target, "__name__", None) or type(target).__name__)


def projects_own(llm: object) -> object | None:
    """The project's own object behind a chat model, also behind its cache; ``None`` for one of the package's."""
    llm = getattr(llm, "inner", llm)
    return llm.target if isinstance(llm, OwnChatModel) else None
