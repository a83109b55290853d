"""The run's chat model as one stage of one case sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_memeval.copies import copied
from pytest_memeval.llm.protocol import CallOptions, ChatModel, ChatModelError, ChatReply
from pytest_memeval.llm.redaction import redact
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.own_code import named, without_addresses
from pytest_memeval.results import CallRecord


def model_name(model: object) -> str:
    """The model's ``name``, its class's where it has none."""
    return str(getattr(model, "name", type(model).__name__))


class StageChatModel(SyncCompletion):
    """Passes every call on and records it in ``calls``, failures included. Offers ``complete_sync`` for any model."""

    def __init__(
        self,
        inner: ChatModel,
        versions: Mapping[str, str],
        prefix: str,
        calls: list[CallRecord],
        trial: int = 0,
    ) -> None:
        self._inner = inner
        #: The trial that is asked for where the caller names none.
        self._trial = trial
        self._versions = versions
        self._prefix = prefix
        self._lock = threading.Lock()
        self._last: tuple[Sequence[Mapping[str, str]], CallOptions] | None = None
        self.calls = calls

    @property
    def name(self) -> str:
        return model_name(self._inner)

    @property
    def model(self) -> str | None:
        """The name under which the model is asked for, where it has one."""
        return getattr(self._inner, "model", None)

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
        # All of it, also what the caller left out: a model of a user's own need not know the defaults.
        asked: CallOptions = {
            "stage": stage,
            "response_format": response_format,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "trial": trial or self._trial,
        }
        started = time.perf_counter()
        # The place in the list is taken before the call, so that overlapping calls keep the order of their start.
        with self._lock:
            place = len(self.calls)
            record = CallRecord(
                id=f"{self._prefix}{place}",
                stage=stage,
                version=self._versions.get(stage),
                provider=self.name,
                request=tuple(copied(dict(message)) for message in messages),
            )
            self.calls.append(record)
            self._last = (record.request, asked)
        try:
            # A model of a user's own may change what it is given.
            reply = await self._inner.complete(copied(messages), **asked)
        except BaseException as error:
            self.calls[place] = _failed(record, error, time.perf_counter() - started)
            raise
        self.calls[place] = replace(
            record,
            answer=reply.text,
            finish_reason=reply.finish_reason,
            model=reply.model,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            latency=reply.latency or time.perf_counter() - started,
            cached=reply.cached,
            attempts=reply.attempts,
        )
        return reply

    async def forget_last(self) -> None:
        """Let the answer to the last request be asked anew by later runs: it was recorded, but cannot be used."""
        forget = getattr(self._inner, "forget", None)
        if forget is not None and self._last is not None:
            messages, asked = self._last
            await forget(messages, **asked)


def _failed(record: CallRecord, error: BaseException, seconds: float) -> CallRecord:
    """A call that failed may have cost tokens all the same."""
    if not isinstance(error, ChatModelError):
        text = redact(without_addresses(named(error)))
        return replace(record, error=text, latency=seconds)
    return replace(
        record,
        error=redact(without_addresses(f"{error.kind}: {error}")),
        model=error.model,
        input_tokens=error.usage.input_tokens,
        output_tokens=error.usage.output_tokens,
        latency=error.latency or seconds,
        attempts=error.attempts,
    )
