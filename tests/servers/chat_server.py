"""A real HTTP server on loopback that speaks chat completions and embeddings, with scripted answers and faults.

::

    with ChatServer() as server:
        server.script = lambda request: Answer(request.prompt.upper())
        server.then(status(500), rate_limited(retry_after="0"))     # the next two requests fail
        ... server.base_url ...
        assert server.count == 3

One event loop in a thread of its own serves any number of keep-alive connections. Each request takes the first of:
a planned answer (``then``), what ``script`` returns for it, ``Answer("[]")``.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

#: Seconds; or drawn for each request.
Latency = float | Callable[[], float]


def log_normal(median: float, sigma: float = 0.5, *, seed: int = 0) -> Callable[[], float]:
    """A seeded latency: log-normal around ``median`` seconds."""
    drawn = random.Random(seed)
    return lambda: drawn.lognormvariate(math.log(median), sigma)


@dataclass(frozen=True)
class Request:
    """What the server received. ``number`` counts from 1 over all requests."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: str = ""

    @property
    def prompt(self) -> str:
        """The last message's text."""
        messages = self.body.get("messages") or [{}]
        return str(messages[-1].get("content", ""))


@dataclass(frozen=True)
class Answer:
    """A chat completion. ``usage`` counts white-space words unless given; ``None`` leaves it out."""

    text: str | None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    usage: tuple[int, int] | str | None = "words"
    model: str | None = None
    latency: float | None = None


@dataclass(frozen=True)
class Raw:
    """Any other answer: status, headers, body; or none at all (``action`` ``hang``, ``drop``, ``cut``, ``trickle``)."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    action: str = "send"
    latency: float | None = None


Reply = Answer | Raw | str
Script = Callable[[Request], Reply]


# -- faults -----------------------------------------------------------------------------------------------------------


def error(status: int, message: str, *, headers: dict[str, str] | None = None, **fields: Any) -> Raw:
    """An error answer in OpenAI's notation."""
    body = {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}
    return Raw(status, json.dumps(body).encode(), headers or {})


def status(code: int, message: str = "the server had an error") -> Raw:
    return error(code, message, type="server_error")


def rate_limited(retry_after: str | None = None) -> Raw:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return error(429, "Rate limit reached for requests", headers=headers, code="rate_limit_exceeded", type="requests")


def insufficient_quota() -> Raw:
    return error(
        429, "You exceeded your current quota", headers={"Retry-After": "1"}, code="insufficient_quota",
        type="insufficient_quota",
    )  # fmt: skip


def unauthorized(message: str = "Incorrect API key provided") -> Raw:
    return error(401, message, code="invalid_api_key", type="invalid_request_error")


def hang() -> Raw:
    """Never answers; the connection stays open."""
    return Raw(action="hang")


def dropped() -> Raw:
    """Closes the connection without an answer."""
    return Raw(action="drop")


def cut() -> Raw:
    """Closes the connection in the middle of the answer's body."""
    return Raw(action="cut", body=b'{"choices": [{"message": {"content": "half')


def trickle() -> Raw:
    """Sends a byte now and then and never ends."""
    return Raw(action="trickle")


def junk(body: bytes = b"<html>Bad gateway</html>", content_type: str = "application/json") -> Raw:
    """A 200 whose body is no chat completion."""
    return Raw(200, body, {"Content-Type": content_type})


def truncated(text: str | None = '[{"content": "half a li') -> Answer:
    return Answer(text, finish_reason="length")


def refused(text: str = "I can't help with that.") -> Answer:
    return Answer(None, refusal=text)


def filtered() -> Answer:
    return Answer(None, finish_reason="content_filter")


def empty(text: str | None = None) -> Answer:
    return Answer(text)


def thinking(text: str, thought: str = "let me see") -> Answer:
    """A reasoning block before the answer proper."""
    return Answer(f"<think>{thought}</think>{text}")


def overflow() -> Raw:
    """llama.cpp's answer to a request longer than its context."""
    return Raw(
        400,
        json.dumps(
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9000,
                    "n_ctx": 8192,
                }
            }
        ).encode(),
    )


def _rejection(request: Request, rejects: set[str]) -> Raw | None:
    """The 400 for the first parameter of the request that the server does not take, in OpenAI's words."""
    body = request.body
    for name in ("max_tokens", "max_completion_tokens", "temperature"):
        if name in rejects and name in body:
            if name == "temperature":
                return error(
                    400, "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1)"
                    " value is supported.", type="invalid_request_error", param=name, code="unsupported_value",
                )  # fmt: skip
            other = "max_completion_tokens" if name == "max_tokens" else "max_tokens"
            return error(
                400, f"Unsupported parameter: '{name}' is not supported with this model. Use '{other}' instead.",
                type="invalid_request_error", param=name, code="unsupported_parameter",
            )  # fmt: skip
    wanted = (body.get("response_format") or {}).get("type")
    if wanted is not None and wanted in rejects:
        return error(
            400, f"Invalid parameter: 'response_format' of type '{wanted}' is not supported with this model.",
            type="invalid_request_error", param=None, code=None,
        )  # fmt: skip
    return None


# -- the server -------------------------------------------------------------------------------------------------------


class ChatServer:
    """See the module. ``rejects`` names what the server answers 400 to: ``max_tokens``, ``max_completion_tokens``,
    ``temperature``, ``json_schema``, ``json_object``. ``requests`` holds everything received; ``most_in_flight`` the
    largest number of requests served at once."""

    def __init__(self, script: Script | None = None, *, latency: Latency = 0.0, dimension: int = 8) -> None:
        self.script = script
        self.latency = latency
        self.dimension = dimension
        self.rejects: set[str] = set()
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.connections = 0
        self._planned: deque[Reply] = deque()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def count(self) -> int:
        """How many requests came in, whatever became of them."""
        return len(self.requests)

    def then(self, *replies: Reply) -> None:
        """Plan the next requests' answers, before the script's turn."""
        with self._lock:
            self._planned.extend(replies)

    def forget(self) -> None:
        """Drop the answers that are still planned."""
        with self._lock:
            self._planned.clear()

    def __enter__(self) -> ChatServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; false if the connection ends with it."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        target = lines[0].split(" ")[1]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path, _, query = target.partition("?")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            body = json.loads(raw) if raw else {}
            with self._lock:
                request = Request(len(self.requests) + 1, path, headers, body, query)
                self.requests.append(request)
            reply = self._reply(request)
            delay = reply.latency
            if delay is None:
                delay = self.latency() if callable(self.latency) else self.latency
            if delay:
                await asyncio.sleep(delay)
            return await self._send(request, reply, writer)
        finally:
            self.in_flight -= 1

    def _reply(self, request: Request) -> Answer | Raw:
        if (rejection := _rejection(request, self.rejects)) is not None:
            return rejection
        with self._lock:
            planned = self._planned.popleft() if self._planned else None
        if planned is None:
            if request.path.endswith("/embeddings"):
                return self._embeddings(request)
            if not request.path.endswith("/chat/completions"):
                return error(404, f"no such path: {request.path}")
            planned = self.script(request) if self.script is not None else "[]"
        return Answer(planned) if isinstance(planned, str) else planned

    def _embeddings(self, request: Request) -> Raw:
        """A vector for each text, drawn from the text itself."""
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        rows = []
        for index, text in enumerate(texts):
            drawn = random.Random(text)
            rows.append(
                {"object": "embedding", "index": index, "embedding": [drawn.gauss(0, 1) for _ in range(self.dimension)]}
            )
        tokens = sum(len(text.split()) for text in texts)
        data = {"object": "list", "data": rows, "model": request.body.get("model"), "usage": {"prompt_tokens": tokens}}
        return Raw(200, json.dumps(data).encode())

    async def _send(self, request: Request, reply: Answer | Raw, writer: asyncio.StreamWriter) -> bool:
        if isinstance(reply, Answer):
            if request.body.get("stream"):
                return await self._stream(request, reply, writer)
            reply = Raw(200, json.dumps(self._completion(request, reply)).encode(), latency=reply.latency)
        match reply.action:
            case "hang":
                await asyncio.sleep(3600)
            case "drop":
                return False
            case "trickle":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)
        length = len(reply.body) + (1000 if reply.action == "cut" else 0)
        headers = {"Content-Type": "application/json", **reply.headers, "Content-Length": str(length)}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{head}\r\n".encode("latin-1") + reply.body)
        await writer.drain()
        return reply.action == "send"

    def _completion(self, request: Request, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text}
        if answer.refusal is not None:
            message["refusal"] = answer.refusal
        if answer.reasoning is not None:
            message["reasoning_content"] = answer.reasoning
        data: dict[str, Any] = {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion",
            "created": 0,
            "model": answer.model or request.body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
        }
        if answer.usage == "words":
            words = sum(len(str(m.get("content", "")).split()) for m in request.body.get("messages", []))
            answer = replace(answer, usage=(words, len((answer.text or "").split())))
        if isinstance(answer.usage, tuple):
            given, taken = answer.usage
            data["usage"] = {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}
        return data

    async def _stream(self, request: Request, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        """Server-sent events: one word a chunk, then the finish reason, then the usage if it was asked for."""
        whole = self._completion(request, answer)
        base = {**{name: whole[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk"}
        writer.write(b"HTTP/1.1 200 Scripted\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

        async def event(data: str) -> None:
            block = f"data: {data}\n\n".encode()
            writer.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
            await writer.drain()

        def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
            return json.dumps({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        await event(chunk({"role": "assistant", "content": ""}))
        for place, word in enumerate((answer.text or "").split(" ")):
            await event(chunk({"content": word if place == 0 else f" {word}"}))
        await event(chunk({}, answer.finish_reason))
        if (request.body.get("stream_options") or {}).get("include_usage"):
            await event(json.dumps({**base, "choices": [], "usage": whole.get("usage")}))
        await event("[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
