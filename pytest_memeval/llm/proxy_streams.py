"""Streamed answers: passed on as they come, recorded when they are complete, and made of what is recorded."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_memeval.llm.completions import StreamedCompletion, chunks_of, completion_of
from pytest_memeval.llm.http_server import HttpResponse
from pytest_memeval.llm.redaction import redact_known
from pytest_memeval.llm.wire import JunkBody

if TYPE_CHECKING:
    from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
    from pytest_memeval.llm.proxy import Proxy
    from pytest_memeval.llm.proxy_calls import Asked
    from pytest_memeval.llm.rate import Permit


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent on: whose it is, its permit, when it was sent and how many times."""

    asked: Asked
    request: ChatRequest
    permit: Permit | None
    began: float
    attempts: int

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


async def pass_stream(proxy: Proxy, response: Any, sent: Sent, hides_usage: bool) -> AsyncGenerator[bytes, None]:
    """The upstream's events as they come; the assembled answer is recorded before the last one is passed on."""
    assembled = StreamedCompletion()
    taken = False
    secrets = sent.asked.secrets
    try:
        event: list[str] = []
        async for text in response.aiter_lines():
            if text:
                event.append(text)
                continue
            chunk = assembled.add("\n".join(line[5:].lstrip(" ") for line in event if line.startswith("data:")))
            if assembled.done and not taken:
                taken = True
                await _take_stream(proxy, assembled, sent)
            if not (hides_usage and isinstance(chunk, Mapping) and not chunk.get("choices") and chunk.get("usage")):
                yield redact_known("\n".join(event) + "\n\n", secrets).encode("utf-8")
            event = []
        if event:
            assembled.add("\n".join(line[5:].lstrip(" ") for line in event if line.startswith("data:")))
            yield redact_known("\n".join(event) + "\n\n", secrets).encode("utf-8")
        if not taken:
            taken = True
            await _take_stream(proxy, assembled, sent)
    finally:
        await response.aclose()
        if not taken:
            error = "model_unavailable: the stream was cut off"
            proxy.log.note(sent.asked, sent.request, error=error, attempts=sent.attempts, seconds=sent.seconds)


async def _take_stream(proxy: Proxy, assembled: StreamedCompletion, sent: Sent) -> None:
    try:
        data: Any = assembled.completion()
    except JunkBody as junk:
        proxy.log.note(sent.asked, sent.request, error=f"junk: {junk}", attempts=sent.attempts, seconds=sent.seconds)
        return
    await proxy.take(data, sent.asked, sent.request, sent.permit, sent.seconds, sent.attempts)


def replayed(entry: CacheEntry, body: Mapping[str, Any]) -> HttpResponse:
    """A recorded answer, whole or as a stream, as the request asks for."""
    if not body.get("stream"):
        return HttpResponse.of_json(completion_of(entry))
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    async def events() -> AsyncGenerator[bytes, None]:
        for data in chunks_of(entry, with_usage=with_usage):
            yield f"data: {data}\n\n".encode()

    return HttpResponse(200, headers={"Content-Type": "text/event-stream"}, stream=events())
