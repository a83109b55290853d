"""One model server: its connection pool, its retries, its share of the rate limits."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pytest_memeval.llm.faults import Fault, fault_of_answer
from pytest_memeval.llm.protocol import (
    ChatModelError,
    ModelOverflow,
    ModelQuota,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
)
from pytest_memeval.llm.rate import Permit, RateLimiter
from pytest_memeval.llm.redaction import protect_http_logs, redact
from pytest_memeval.llm.retry import CircuitBreaker, RetryPolicy, parse_retry_after
from pytest_memeval.llm.settings import NO_KEY, ModelSettings
from pytest_memeval.llm.wire import JunkBody, read_usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
Path = Literal["chat", "embeddings"]

CHAT_PATH = "/chat/completions"
_LONGEST_QUOTE = 300
_NO_JSON = "the answer is no JSON"


class Attempts:
    """Requests sent for one call so far, and the last one's time in seconds."""

    def __init__(self) -> None:
        self.sent = 0
        self.latency = 0.0


class ServerConnection:
    """Sends requests through the ``openai`` client, which is imported on the first one.

    The client's own retries are off, so that attempts are counted and bounded in one place. Each event loop has its
    own client and pool: a pool's connections cannot be used from another loop than the one that opened them.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        policy: RetryPolicy | None = None,
        limiter: RateLimiter | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        self.settings = settings
        self.policy = policy or RetryPolicy(max_attempts=settings.max_attempts)
        self.limiter = limiter
        self.breaker = breaker or CircuitBreaker()
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def redacted(self, text: str) -> str:
        return redact(text, self.settings.secrets)

    def open(self) -> None:
        """Have the running loop's client ready; sends nothing. What is wrong with it is told by the first call."""
        with contextlib.suppress(Exception):
            self._client()

    def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = self._new_client()
            return client

    def _new_client(self) -> AsyncOpenAI:
        import openai

        protect_http_logs()
        settings = self.settings
        # A read time-out of the pool would count the wait for a free connection, which is ours and not the server's.
        timeout = openai.Timeout(settings.read_timeout, connect=settings.connect_timeout, pool=None)
        headers: dict[str, str] = {}
        if settings.userinfo is not None:
            token = base64.b64encode(":".join(settings.userinfo).encode("utf-8")).decode("ascii")
            headers["Authorization"] = f"Basic {token}"
        options: dict[str, Any] = {}
        if settings.is_loopback:
            # A proxy from the environment cannot reach this machine's own servers.
            options["http_client"] = openai.DefaultAsyncHttpxClient(
                base_url=settings.address, timeout=timeout, trust_env=False
            )
        return openai.AsyncOpenAI(
            api_key=settings.api_key or NO_KEY,
            base_url=settings.address,
            default_query=settings.query or None,
            default_headers=headers or None,
            timeout=timeout,
            max_retries=0,
            **options,
        )

    async def aclose(self) -> None:
        """Close the running loop's connections. Further calls open new ones."""
        with self._lock:
            client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def call(
        self,
        path: Path,
        body: Callable[[], Mapping[str, Any]],
        read: Callable[[Any, Attempts], T],
        *,
        adapt: Callable[[Fault, Mapping[str, Any]], bool] = lambda fault, sent: False,
        input_tokens: Callable[[], int] = lambda: 0,
    ) -> T:
        """Send ``body()`` until ``read`` takes the answer, retries are used up or the fault is final.

        ``adapt`` is asked about a rejected request: true if the next ``body()`` avoids the cause; such a request is
        counted as sent but uses up no retry. ``input_tokens`` is asked for where a limit counts them. Raises
        :class:`ChatModelError` with redacted texts.
        """
        attempts = Attempts()
        limit = self.settings.call_timeout
        error: ChatModelError | None = None
        try:
            async with asyncio.timeout(limit):
                return await self._call(path, body, read, adapt, input_tokens, attempts)
        except TimeoutError:
            error = ModelUnavailable(
                f"no answer from {self._who()} within {limit:g} s ({_count(attempts.sent)})",
                attempts=attempts.sent,
                latency=attempts.latency,
            )
        # Raised outside the handler: the cause's frames and texts may hold headers.
        raise error

    async def _call(
        self,
        path: Path,
        body: Callable[[], Mapping[str, Any]],
        read: Callable[[Any, Attempts], T],
        adapt: Callable[[Fault, Mapping[str, Any]], bool],
        input_tokens: Callable[[], int],
        attempts: Attempts,
    ) -> T:
        import openai  # noqa: F401  # takes longer than many an answer: the first one's latency must not hold it

        failures = timeouts = 0
        while True:
            self.breaker.check(attempts.sent)
            permit = None
            if self.limiter is not None and self.limiter.limited:
                permit = await self.limiter.acquire(input_tokens(), answers=path == "chat")
                self.breaker.check(attempts.sent)
            sent = body()
            attempts.sent += 1
            began = time.perf_counter()
            answer = await self._send(path, sent)
            attempts.latency = time.perf_counter() - began
            fault: Fault
            if isinstance(answer, Fault):
                fault = answer
            else:
                self._settle(permit, answer)
                try:
                    return read(answer, attempts)
                except JunkBody as junk:
                    fault = _fault_in_body(answer, junk)
                except ChatModelError as error:
                    error.args = (self.redacted(str(error)),)
                    raise
            if fault.kind == "rejected" and adapt(fault, sent):
                continue
            if fault.kind not in ("retry", "timeout"):
                break
            failures += 1
            timeouts += fault.kind == "timeout"
            if failures >= self.policy.max_attempts or timeouts >= self.policy.timeout_attempts:
                break
            await asyncio.sleep(self.policy.delay(failures, fault.retry_after))
        raise self._error(fault, attempts)

    def _settle(self, permit: Permit | None, answer: Any) -> None:
        if permit is not None and self.limiter is not None and isinstance(answer, Mapping):
            usage = read_usage(answer)
            self.limiter.settle(permit, usage.input_tokens, usage.output_tokens)

    async def _send(self, path: Path, body: Mapping[str, Any]) -> Any:
        """One request: the decoded JSON answer, or a :class:`Fault`. Raises nothing but a cancellation."""
        import openai
        from openai._constants import RAW_RESPONSE_HEADER

        # The client's own read time-out starts anew with every byte; this one bounds a server that trickles.
        bound = self.settings.connect_timeout + self.settings.read_timeout
        try:
            client: Any = self._client()
            async with asyncio.timeout(bound):
                if path == "chat":
                    # What completions.create sends, without its walk through every message: a third of a call's work.
                    header = {RAW_RESPONSE_HEADER: "true"}
                    raw = await client.post(CHAT_PATH, body=dict(body), cast_to=object, options={"headers": header})
                else:
                    raw = await client.embeddings.with_raw_response.create(**body)
            return json.loads(raw.http_response.content)
        except openai.APITimeoutError as error:
            if type(error.__cause__).__name__ == "ConnectTimeout":
                return Fault("timeout", f"no connection within {self.settings.connect_timeout:g} s")
            return Fault("timeout", f"no answer within {self.settings.read_timeout:g} s")
        except TimeoutError:
            return Fault("timeout", f"no whole answer within {bound:g} s")
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            # What the HTTP library itself will not send (a key with a line end) fails the same way every time.
            lasting = type(cause).__name__ in ("LocalProtocolError", "UnsupportedProtocol")
            return Fault("rejected" if lasting else "retry", f"connection failed ({type(cause).__name__}: {cause})")
        except openai.APIStatusError as error:
            return fault_of_answer(error.status_code, error.body, _retry_after(error.response.headers))
        except (ValueError, RecursionError, openai.APIResponseValidationError):
            return Fault("retry", _NO_JSON, 200)
        except Exception as error:  # whatever else: named, redacted, and not tried again
            return Fault("rejected", f"the request could not be sent ({type(error).__name__}: {error})")

    def _who(self) -> str:
        model = f" (model {self.settings.model})" if self.settings.model else ""
        return self.redacted(f"{self.settings.endpoint}{model}")

    def _error(self, fault: Fault, attempts: Attempts) -> ChatModelError:
        """The exception for a final fault; trips the breaker where no further call can succeed."""
        quote = " ".join(self.redacted(fault.message).split())
        if len(quote) > _LONGEST_QUOTE:
            quote = quote[: _LONGEST_QUOTE - 1] + "…"
        said = f": {quote}" if quote else ""
        answered = f"{self._who()} answered {fault.status}" if fault.status else f"{self._who()}"
        facts: dict[str, Any] = {"attempts": attempts.sent, "latency": attempts.latency}
        match fault.kind:
            case "auth":
                text = f"{answered}, the key is not accepted{said}; no further call is made in this run"
                return ModelQuota(self.breaker.trip(text), **facts)
            case "quota":
                text = f"{answered}, the quota is used up{said}; no further call is made in this run"
                return ModelQuota(self.breaker.trip(text), **facts)
            case "overflow":
                return ModelOverflow(f"{answered}, the request is longer than the model's context{said}", **facts)
            case "refused":
                return ModelRefused(f"{answered}, the request was refused{said}", **facts)
            case "rejected":
                return ModelRejected(f"{answered}, the request was rejected{said}{_hint(fault)}", **facts)
            case _:
                return ModelUnavailable(f"{answered}{said} ({_count(attempts.sent)}){_hint(fault)}", **facts)


def _hint(fault: Fault) -> str:
    """What to look at where another address than a model's seems to have answered."""
    unknown = fault.status in (404, 405) and "model" not in f"{fault.code} {fault.message}".casefold()
    if not unknown and fault.message != _NO_JSON:
        return ""
    return "; is the base URL right? It ends before /chat/completions or /embeddings, mostly in /v1"


def _fault_in_body(answer: Any, junk: JunkBody) -> Fault:
    """Some servers answer 200 with an error inside; without one, the answer is junk and tried again."""
    if isinstance(answer, Mapping) and answer.get("error"):
        inner = answer["error"]
        code: Any = inner.get("code") if isinstance(inner, Mapping) else None
        try:
            status = int(code)
        except (TypeError, ValueError):
            status = 500
        return fault_of_answer(status if 400 <= status <= 599 else 500, answer)
    return Fault("retry", str(junk), 200)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the answer's headers; the one in milliseconds is the finer of the two."""
    milliseconds = parse_retry_after(headers.get("retry-after-ms"))
    return parse_retry_after(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000


def _count(requests: int) -> str:
    return f"{requests} request{'' if requests == 1 else 's'} sent"
