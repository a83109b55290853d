"""A server for pipelines that have a client of their own: it records what they ask, and replays it.

Set the pipeline's base URL to the proxy's; its calls then go through the answer cache and the rate limits, and are
counted. ``/case/<token>/v1`` in the place of ``/v1`` says which case they are for (:meth:`Proxy.open_case`).

- The key of an answer is made of the whole request but ``stream`` and ``stream_options``. Header ``x-memeval-trial``
  tells repeated questions apart, ``x-memeval-stage`` names the prompt stage.
- A request is sent once: the caller's client has retries of its own. Errors have the upstream's status and text.
- The caller's own authorization is passed on; where it has none or a placeholder, the environment's key is used.
- Streamed answers are passed on as they come and recorded when they are complete. Failures are never recorded.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Mapping
from typing import Any

from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.cached_model import check_mode
from pytest_memeval.llm.completions import answer_text
from pytest_memeval.llm.faults import fault_of_answer
from pytest_memeval.llm.http_server import HttpRequest, HttpResponse
from pytest_memeval.llm.protocol import ChatModelError, ChatReply, Usage
from pytest_memeval.llm.proxy_calls import RECORD_IT, Asked, CallLog, CaseLine, decoded, is_key, text_messages
from pytest_memeval.llm.proxy_embeddings import embed_texts, list_models
from pytest_memeval.llm.proxy_streams import Sent, pass_stream, replayed
from pytest_memeval.llm.proxy_upstream import Upstream, error_text, returned_headers
from pytest_memeval.llm.rate import Permit, RateLimiter, estimate_tokens
from pytest_memeval.llm.redaction import redact, redact_known
from pytest_memeval.llm.settings import ModelSettings
from pytest_memeval.llm.wire import JunkBody, read_usage


class Proxy:
    """The proxy without its server: requests in, responses out.

    ``mode`` is a cache mode; ``batch`` needs ``requests``. ``settings`` name the upstream server; their ``model`` plays
    no part, requests name their own.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        cache: AnswerCache | None = None,
        mode: str = "auto",
        requests: BatchRequests | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.settings = settings
        self.mode = check_mode(mode)
        if cache is None and self.mode != "off":
            raise ValueError(f"cache mode {mode!r} needs a cache")
        if requests is None and self.mode == "batch":
            raise ValueError("cache mode 'batch' needs a file for the requests")
        self.cache = cache
        self._requests = requests
        self._limiter = limiter
        self.upstream = Upstream(settings)
        self.log = CallLog()
        self._refreshed: set[str] = set()
        self._plain_streams = False

    @property
    def endpoint(self) -> str:
        """The upstream's name in the cache."""
        return self.upstream.endpoint

    # -- cases --------------------------------------------------------------------------------------------------------

    def open_case(self, label: str) -> CaseLine:
        """A line of its own for a case: requests to ``/case/<token>/v1`` are its calls."""
        return self.log.open(label)

    def close_case(self, line: CaseLine) -> None:
        """Requests for the case are refused from now on."""
        self.log.close(line)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer one request."""
        parts = [part for part in request.path.split("/") if part]
        line = None
        if parts[:1] == ["case"]:
            line = self.log.find(parts[1]) if len(parts) > 1 else None
            if line is None:
                return HttpResponse.of_error(404, "no running case has this address", "unknown_case")
            parts = parts[2:]
        route = "/".join(parts[1:] if parts[:1] == ["v1"] else parts)
        if (request.method, route) == ("GET", "models"):
            return await list_models(self, self._asked(request, line, "models"))
        if request.method != "POST" or route not in ("chat/completions", "embeddings"):
            return HttpResponse.of_error(
                404, f"the proxy serves chat/completions, embeddings and models, not {request.path}", "not_served"
            )
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return HttpResponse.of_error(400, "the request's body is no JSON object", "bad_request")
        chat = route == "chat/completions"
        asked = self._asked(request, line, "proxy" if chat else "embeddings")
        try:
            return await (self._chat(body, asked) if chat else embed_texts(self, body, asked))
        except CacheError as error:
            self.log.note(asked, error=f"cache: {error}")
            return HttpResponse.of_error(500, str(error), "cache")

    def _asked(self, request: HttpRequest, line: CaseLine | None, stage: str) -> Asked:
        given = request.headers
        trial = given.get("x-memeval-trial", "0")
        own = (given.get("authorization", "").partition(" ")[2].strip(), given.get("api-key", "").strip())
        return Asked(
            line,
            given.get("x-memeval-stage") or stage,
            int(trial) if trial.isdigit() else 0,
            given,
            (*filter(is_key, own), *self.settings.secrets),
        )

    # -- chat ---------------------------------------------------------------------------------------------------------

    async def _chat(self, body: dict[str, Any], asked: Asked) -> HttpResponse:
        messages = body.get("messages")
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            return HttpResponse.of_error(400, "the request has no list of messages", "bad_request")
        extra = {
            key: value for key, value in body.items() if key not in ("model", "messages", "stream", "stream_options")
        }
        request = ChatRequest(
            self.endpoint,
            None if body.get("model") is None else str(body["model"]),
            tuple(messages),
            trial=asked.trial,
            stage=asked.stage,
            extra=extra,
            secrets=asked.secrets,
        )
        entry = self._held(request)
        if entry is not None:
            self.log.note(asked, request, entry.reply())
            return replayed(entry, body)
        if self.mode == "replay":
            what = (
                f"stage {asked.stage}: the cache holds no answer of {request.model} on {self.endpoint} to this request"
            )
            return self.refused(
                asked, request, 404, "not_recorded", f"{what}; {RECORD_IT}, or collect the request with mode batch"
            )
        if self.mode == "batch":
            assert self._requests is not None
            assert self.cache is not None
            await asyncio.to_thread(self._requests.add, request, self.cache)
            what = f"stage {asked.stage}: waits for its answer; the request is in {self._requests.path}"
            return self.refused(asked, request, 424, "pending", what)
        return await self._send_chat(body, asked, request)

    def _held(self, request: ChatRequest) -> CacheEntry | None:
        if self.cache is None or self.mode == "off":
            return None
        if self.mode == "refresh" and request.key not in self._refreshed:
            return None
        try:
            return self.cache.get(request.key)
        except CacheError as error:
            if self.mode != "auto":
                raise
            warnings.warn(f"{error}; the answer is asked for", CacheWarning, stacklevel=2)
            return None

    async def _send_chat(self, body: dict[str, Any], asked: Asked, request: ChatRequest) -> HttpResponse:
        permit = await self.permit(estimate_tokens(text_messages(request.messages)))
        streams = bool(body.get("stream"))
        hides_usage = streams and not (body.get("stream_options") or {}).get("include_usage")
        began = time.perf_counter()
        attempts = 1
        response = await self.upstream.request("POST", "chat/completions", self._with_usage(body, hides_usage), asked)
        if not isinstance(response, HttpResponse) and hides_usage and not self._plain_streams:
            text = (await response.aread()).decode("utf-8", "replace") if response.status_code in (400, 422) else ""
            if "stream_options" in text or "include_usage" in text:
                # The caller did not ask for it, so a server that does not know it must not be the caller's trouble.
                self._plain_streams = True
                attempts = 2
                response = await self.upstream.request("POST", "chat/completions", body, asked)
        if isinstance(response, HttpResponse):
            self.log.note(
                asked, request, error=error_text(response), attempts=attempts, seconds=time.perf_counter() - began
            )
            return response
        if response.status_code == 200 and "text/event-stream" in response.headers.get("content-type", ""):
            stream = pass_stream(self, response, Sent(asked, request, permit, began, attempts), hides_usage)
            return HttpResponse(200, headers=returned_headers(response), stream=stream)
        return await self.whole(response, asked, request, permit, began, attempts)

    def _with_usage(self, body: dict[str, Any], hides_usage: bool) -> dict[str, Any]:
        if not hides_usage or self._plain_streams:
            return body
        return {**body, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}

    async def whole(
        self,
        response: Any,
        asked: Asked,
        request: ChatRequest,
        permit: Permit | None,
        began: float,
        attempts: int,
    ) -> HttpResponse:
        """An answer that comes in one piece, good or bad."""
        try:
            raw = (await response.aread()).decode("utf-8", "replace")
        except Exception as error:  # however the server broke off
            broken = self.upstream.unreachable(error, asked)
            self.log.note(
                asked, request, error=error_text(broken), attempts=attempts, seconds=time.perf_counter() - began
            )
            return broken
        finally:
            await response.aclose()
        seconds = time.perf_counter() - began
        status = response.status_code
        if status >= 400:
            text = redact(raw, asked.secrets)
            fault = fault_of_answer(status, decoded(text))
            said = " ".join(fault.message.split())[:300]
            self.log.note(
                asked, request, error=f"{fault.kind}: {self.endpoint} answered {status}: {said}", attempts=attempts,
                seconds=seconds,
            )  # fmt: skip
            return HttpResponse(status, text.encode("utf-8"), returned_headers(response))
        data = decoded(raw)
        await self.take(data, asked, request, permit, seconds, attempts)
        return HttpResponse(status, redact_known(raw, asked.secrets).encode("utf-8"), returned_headers(response))

    async def take(
        self,
        data: Any,
        asked: Asked,
        request: ChatRequest,
        permit: Permit | None,
        seconds: float,
        attempts: int,
    ) -> None:
        """Count an answer, and record it if it is one worth keeping."""
        usage = read_usage(data) if isinstance(data, Mapping) else Usage()
        model = data.get("model") if isinstance(data, Mapping) else None
        self.settle(permit, usage)
        try:
            text = redact_known(answer_text(data), asked.secrets)
        except (JunkBody, ChatModelError) as error:
            kind = error.kind if isinstance(error, ChatModelError) else "junk"
            self.log.note(
                asked, request, error=f"{kind}: {error}", attempts=attempts, seconds=seconds,
                reply=ChatReply("", usage=usage, model=model if isinstance(model, str) else None),
            )  # fmt: skip
            return
        finish = data["choices"][0].get("finish_reason")
        reply = ChatReply(
            text,
            finish if isinstance(finish, str) else None,
            usage,
            redact_known(model, asked.secrets) if isinstance(model, str) else None,
            seconds,
            attempts=attempts,
        )
        self.log.note(asked, request, reply)
        await self._store(request, reply)

    async def _store(self, request: ChatRequest, reply: ChatReply) -> None:
        if self.cache is None or self.mode == "off":
            return
        entry = CacheEntry.of(request, reply)
        try:
            await asyncio.to_thread(self.cache.put, entry, replace=self.mode == "refresh")
        except CacheError as error:
            if self.mode != "auto":
                raise
            warnings.warn(f"{error}; the answer is not stored", CacheWarning, stacklevel=2)
        self._refreshed.add(request.key)

    # -- counting -----------------------------------------------------------------------------------------------------

    async def permit(self, tokens: int) -> Permit | None:
        if self._limiter is None or not self._limiter.limited:
            return None
        return await self._limiter.acquire(tokens)

    def settle(self, permit: Permit | None, usage: Usage) -> None:
        if permit is not None and self._limiter is not None:
            self._limiter.settle(permit, usage.input_tokens, usage.output_tokens)

    def refused(
        self, asked: Asked, request: ChatRequest | None, status: int, code: str, text: str, *, attempts: int = 0
    ) -> HttpResponse:
        self.log.note(asked, request, error=f"{code}: {text}", attempts=attempts)
        return HttpResponse.of_error(status, text, code)

    async def aclose(self) -> None:
        """Close the connections to the upstream."""
        await self.upstream.aclose()
