"""A small HTTP/1.1 server for programs on this machine: it listens on loopback and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

_LARGEST_HEAD = 64 * 1024
_LARGEST_BODY = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``path`` is without its query; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(slots=True)
class HttpResponse:
    """``body``, or ``stream``: pieces that are sent as they come."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes, None] | None = None

    @classmethod
    def of_json(cls, data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
        body = json.dumps(data, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return cls(status, body, {"Content-Type": "application/json", **(headers or {})})

    @classmethod
    def of_error(cls, status: int, message: str, code: str) -> HttpResponse:
        """An error in the notation of the chat completions interface."""
        return cls.of_json(
            {"error": {"message": message, "type": "memeval_proxy", "param": None, "code": code}}, status
        )


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class NotLoopback(ValueError):
    """An address that other machines could reach."""


def check_loopback(host: str) -> str:
    """The host if it is this machine's own address. Raises :class:`NotLoopback` for any other; looks nothing up."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        if ipaddress.ip_address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise NotLoopback(f"{host!r} is not a loopback address: the proxy can only listen on 127.0.0.1, ::1 or localhost")


def _is_local(authority: str) -> bool:
    """Whether a Host header, or an Origin's authority, names this machine."""
    name = (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    try:
        check_loopback(name)
    except NotLoopback:
        return name.endswith(".localhost")
    return True


class _BadRequest(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LoopbackServer:
    """Serves ``handler`` on an event loop in a thread of its own, from ``start`` to ``close``.

    Raises :class:`NotLoopback` for a host that is not this machine's own, ``OSError`` where the port is taken.
    """

    def __init__(self, handler: Handler, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = check_loopback(host)
        self.port = port
        self._handler = handler
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, name="memeval-proxy", daemon=True)
        self._thread.start()
        try:
            self.run(self._listen())
        except BaseException:
            self.close()
            raise

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._server = await asyncio.start_server(
            self._accept, self.host, self.port, family=family, limit=_LARGEST_HEAD, backlog=512
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self, finish: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop listening, drop open connections, run ``finish`` on the loop, stop. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with contextlib.suppress(Exception):
            self.run(self._stop(finish))
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join(5)
        if not thread.is_alive():
            self._loop.close()

    async def _stop(self, finish: Callable[[], Awaitable[None]] | None) -> None:
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if finish is not None:
            await finish()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; false if the connection ends with it."""
        try:
            request = await _read_request(reader, writer)
        except _BadRequest as bad:
            await _send(writer, HttpResponse.of_error(bad.status, str(bad), "bad_request"), keep=False)
            return False
        keep = request.headers.get("connection", "").lower() != "close"
        origin = request.headers.get("origin")
        if not _is_local(request.headers.get("host", "")) or (origin and not _is_local(urlsplit(origin).netloc)):
            # A web page may send requests to this machine by a name of its own; it is not who this serves.
            response = HttpResponse.of_error(403, "only programs on this machine are served", "not_local")
        else:
            try:
                response = await self._handler(request)
            except Exception as error:  # the connection must get an answer; the text may quote anything
                response = HttpResponse.of_error(500, f"the proxy failed ({type(error).__name__})", "proxy_error")
        return await _send(writer, response, keep=keep)


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        raise _BadRequest(400, "this is no HTTP request")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name
    }
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _read_chunks(reader)
    else:
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError:
            length = -1
        if not 0 <= length <= _LARGEST_BODY:
            raise _BadRequest(413 if length > 0 else 400, "the request's length cannot be served")
        body = await reader.readexactly(length)
    return HttpRequest(parts[0].upper(), urlsplit(parts[1]).path, headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        try:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        except ValueError:
            raise _BadRequest(400, "a chunk of the request has no length") from None
        if size < 0 or len(body) + size > _LARGEST_BODY:
            raise _BadRequest(413, "the request is too long")
        body += await reader.readexactly(size)
        while (await reader.readuntil(b"\r\n")) != b"\r\n" and size == 0:
            pass  # trailers
        if size == 0:
            return bytes(body)


async def _send(writer: asyncio.StreamWriter, response: HttpResponse, *, keep: bool) -> bool:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = "Upstream"
    headers = dict(response.headers)
    if response.stream is None:
        headers["Content-Length"] = str(len(response.body))
    else:
        headers["Transfer-Encoding"] = "chunked"
    headers["Connection"] = "keep-alive" if keep else "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {response.status} {phrase}\r\n{lines}\r\n".encode("latin-1", "replace") + response.body)
    await writer.drain()
    if response.stream is None:
        return keep
    try:
        async for piece in response.stream:
            if piece:
                writer.write(f"{len(piece):x}\r\n".encode("ascii") + piece + b"\r\n")
                await writer.drain()
    except ConnectionError:
        raise
    except Exception:  # whatever the stream's source does
        # The answer has begun: an end without its last chunk is all that can still say that it is not whole.
        return False
    finally:
        await response.stream.aclose()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return keep
