"""A chat model that answers from the cache first."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack, get_args

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.protocol import (
    CallOptions,
    ChatModel,
    ChatModelError,
    ChatReply,
    ModelPending,
    NotRecorded,
    Usage,
)
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.llm.wire import Accepted
from pytest_memeval.loop_time import hidden
from pytest_memeval.loops import is_left_behind

#: - ``auto``: answer from the cache, else ask and store. A cache that cannot be written is a warning.
#: - ``record``: the same, but an answer that cannot be stored is an error: the recording is meant to be whole.
#: - ``refresh``: ask anew (each question once a run) and replace what is stored.
#: - ``replay``: answer from the cache only; a miss is an error, nothing is asked and nothing written.
#: - ``batch``: answer from the cache; a miss is written to the batch file and is pending.
#: - ``off``: neither read nor write.
CacheMode = Literal["auto", "record", "replay", "refresh", "batch", "off"]
CACHE_MODES: tuple[CacheMode, ...] = get_args(CacheMode)

#: What can be done about an answer that the cache does not hold in replay.
REPLAY_WAYS_ON = (
    "ask the model (`--memeval-cache auto`), collect the request (`--memeval-cache batch`) or use the offline model"
    " (`--memeval-llm embedded`)"
)
WAYS_ON = "ask a model (`--memeval-llm openai`, `--memeval-llm embedded`) or collect it (`--memeval-cache batch`)"


def check_mode(mode: str) -> CacheMode:
    """The cache mode of this name. Raises ``ValueError`` naming the nearest one."""
    for known in CACHE_MODES:
        if mode == known:
            return known
    raise ValueError(f"unknown cache mode {mode!r}{did_you_mean(mode, CACHE_MODES)}")


@dataclass(slots=True, eq=False)
class _Flight:
    """A question that is being asked, and how many wait for its answer."""

    future: concurrent.futures.Future[ChatReply]
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None] | None = None
    waiting: int = 0


class _Abandoned(Exception):
    """The asking call ended without an outcome (its event loop closed); whoever still waits asks again."""


class CachedChatModel(SyncCompletion):
    """``inner`` behind a cache. Failures are never stored.

    Answers are found by the inner model's ``endpoint`` and ``model`` (its ``name`` where it has none), messages,
    parameters, response format and trial. The same question asked twice at once is sent once; the second reply, like
    every reply from the cache, says ``cached`` and 0 attempts. Raises what ``inner`` raises, :class:`NotRecorded` for
    a miss in ``replay`` and :class:`ModelPending` for one in ``batch`` (which needs ``requests``).
    """

    def __init__(
        self, inner: ChatModel, cache: AnswerCache, mode: str = "auto", *, requests: BatchRequests | None = None
    ) -> None:
        self.inner = inner
        self.cache = cache
        self.mode = check_mode(mode)
        self.requests = requests
        if self.mode == "batch" and requests is None:
            raise ValueError("cache mode 'batch' needs a file for the requests")
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}
        self._refreshed: set[str] = set()
        self._warned = False
        self.hits = 0
        self.misses = 0

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def endpoint(self) -> str:
        return str(getattr(self.inner, "endpoint", self.inner.name))

    @property
    def model(self) -> str | None:
        model = getattr(self.inner, "model", None)
        return None if model is None else str(model)

    def request(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatRequest:
        """The request as the cache knows it, for asking whether it is held (``cache.get(request.key)``)."""
        cap = getattr(self.inner, "default_max_tokens", None) if max_tokens is None else max_tokens
        return ChatRequest(
            self.endpoint,
            self.model,
            tuple(dict(message) for message in messages),
            temperature,
            cap,
            response_format,
            trial,
            stage,
        )

    async def complete(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        request = self.request(messages, **asked)
        if self.mode == "off":
            return await self._ask(request)
        key = request.key
        if (held := self._look_up(key)) is not None:
            self.hits += 1
            return held.reply()
        self.misses += 1
        if self.mode == "replay":
            missing = "" if self.cache.path.exists() else f" (there is no file {self.cache.path})"
            raise NotRecorded(
                f"stage {request.stage}: the cache holds no answer of {self.model or self.name} on {self.endpoint}"
                f" to this request{_trial(request.trial)}{missing}; {REPLAY_WAYS_ON}"
            )
        if self.mode == "batch":
            assert self.requests is not None
            accepted = getattr(self.inner, "accepted", None)
            await asyncio.to_thread(
                self.requests.add, request, self.cache, accepted=accepted if isinstance(accepted, Accepted) else None
            )
            raise ModelPending(f"stage {request.stage}: waits for its answer; the request is in {self.requests.path}")
        return await self._ask_once(key, request)

    async def forget(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> None:
        """Remove a recorded answer that turned out to be unusable. Replay, which writes nothing, keeps it."""
        if self.mode in ("off", "replay"):
            return
        request = self.request(messages, **asked)
        try:
            await asyncio.to_thread(self.cache.remove, request.key)
        except CacheError as error:
            self._warn(error)

    def _look_up(self, key: str) -> CacheEntry | None:
        if self.mode == "refresh" and key not in self._refreshed:
            return None
        try:
            return self.cache.get(key)
        except CacheError as error:
            if self.mode != "auto":
                raise
            self._warn(error)
            return None

    async def _ask(self, request: ChatRequest) -> ChatReply:
        return await self.inner.complete(
            request.messages,
            stage=request.stage,
            response_format=request.response_format,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            trial=request.trial,
        )

    async def _ask_once(self, key: str, request: ChatRequest) -> ChatReply:
        """Ask, or wait for the call that asks the same already. The asking ends when nobody waits any more."""
        loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is not None and is_left_behind(flight.loop):
                    flight = None  # its answer may never come
                leads = flight is None
                if flight is None:
                    flight = self._flights[key] = _Flight(concurrent.futures.Future(), loop)
                    # A task of its own: a caller that gives up must not take the others' answer with it.
                    flight.task = hidden(loop.create_task(self._fly(key, request, flight)))
                    flight.task.add_done_callback(partial(self._land, key, flight))
                flight.waiting += 1
            answer = asyncio.wrap_future(flight.future)
            answer.add_done_callback(_looked_at)
            try:
                reply = await asyncio.shield(answer)
            except _Abandoned:
                continue
            except ChatModelError as error:
                if leads:
                    raise
                raise _without_costs(error) from None
            finally:
                self._leave(key, flight)
            return reply if leads else replace(reply, cached=True, attempts=0)

    async def _fly(self, key: str, request: ChatRequest, flight: _Flight) -> None:
        try:
            reply = await self._ask(request)
            await self._store(key, request, reply)
        except Exception as error:  # raised by whoever waits for the answer
            flight.future.set_exception(error)
        else:
            flight.future.set_result(reply)

    def _land(self, key: str, flight: _Flight, task: asyncio.Task[None]) -> None:
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
        if not flight.future.done():
            flight.future.set_exception(_Abandoned())

    def _leave(self, key: str, flight: _Flight) -> None:
        with self._lock:
            flight.waiting -= 1
            if flight.waiting or flight.future.done():
                return
            if self._flights.get(key) is flight:
                del self._flights[key]
        if flight.task is not None and not flight.loop.is_closed():
            flight.loop.call_soon_threadsafe(flight.task.cancel)

    async def _store(self, key: str, request: ChatRequest, reply: ChatReply) -> None:
        entry = CacheEntry.of(request, reply)
        try:
            # In a thread, since the wait for another process's write would hold up every case of this one.
            await asyncio.to_thread(self.cache.put, entry, replace=self.mode == "refresh")
        except CacheError as error:
            if self.mode != "auto":
                raise
            self._warn(error)
        if self.mode == "refresh":
            self._refreshed.add(key)

    def _warn(self, error: CacheError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"{error}; the run goes on without storing answers", CacheWarning, stacklevel=2)


def _looked_at(answer: asyncio.Future[ChatReply]) -> None:
    """The event loop need not complain of an error for which nobody waits any more."""
    if not answer.cancelled():
        answer.exception()


def _without_costs(error: ChatModelError) -> ChatModelError:
    """A copy of another call's error: the requests and tokens that it cost are that call's."""
    try:
        copied = copy.copy(error)
    except Exception:  # an exception class of a user's own model may not be copyable
        return error
    copied.attempts, copied.usage = 0, Usage()
    return copied


def _trial(trial: int) -> str:
    return f" (trial {trial})" if trial else ""
