"""An engine in another process or language, asked by JSON over HTTP.

``GET /`` describes the engine; ``POST /<method>`` carries out one method of the protocol. ``memeval schema
engine-http`` prints the JSON Schema of every message.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pytest_memeval.engine.protocol import EngineSetupError, StageContext, StageError
from pytest_memeval.llm.redaction import redact
from pytest_memeval.outputs import memory_to_json, scene_to_json
from pytest_memeval.values import Memory, Message, Scene, kind_of_value

#: Environment variable with a bearer token for the server.
TOKEN = "MEMEVAL_ENGINE_TOKEN"
STAGES: tuple[str, ...] = ("l1", "l15", "l2", "template", "inject", "search", "qa")
#: Methods that a server may have without a stage of their own.
OPTIONAL: tuple[str, ...] = ("load", "normalize", "await_indexed", "reset", "release", "flush")
#: Seconds before each further attempt where no connection could be made, or the server said 503.
PAUSES: tuple[float, ...] = (0.2, 1.0)
_LARGEST = 64_000_000


class HttpEngine:
    """The engine behind an address. Raises EngineSetupError where it cannot be asked what it is."""

    #: Whose system this drives: it has to be there before the engine can be checked.
    needs = "an engine server"

    def __init__(self, address: str, *, timeout: float = 180.0, token: str | None = None) -> None:
        self._client = _Client(address, timeout, token if token is not None else os.environ.get(TOKEN))
        described = self._describe()
        self.name: str = described["name"]
        self.version: str | None = described.get("version")
        self.protocol: str = described["protocol"]
        self.concurrent: bool = described.get("concurrent", False)
        self.stages: tuple[str, ...] = tuple(described["stages"])
        methods: dict[str, Callable[..., Any]] = {}
        if "qa" in self.stages:
            methods.update(ingest_session=self._ingest_session, retrieve=self._retrieve)
        own: dict[str, Callable[..., Any]] = {"load": self._load, "normalize": self._normalize}
        for name in described.get("methods", ()):
            methods[name] = own.get(name) or self._plain(name)
        # What the server does not have this object has not either: so the harness sees what is supported.
        for name, method in methods.items():
            setattr(self, name, method)

    def _describe(self) -> dict[str, Any]:
        try:
            found = self._client.send("GET", "", None)
        except StageError as error:
            raise EngineSetupError(f"{self._client.shown}: {error}") from None
        problem = _description_problem(found)
        if problem is not None:
            raise EngineSetupError(f"{self._client.shown}: {problem}")
        return dict(found)

    def supported_stages(self) -> tuple[str, ...]:
        return tuple(stage for stage in self.stages if stage != "qa")

    # -- the methods of the protocol -------------------------------------------------------------------------------

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> Any:
        return self._call("extract", ctx, conversation=[_message(one) for one in conversation])

    def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> Any:
        return self._call("resolve", ctx, memories=[memory_to_json(memory) for memory in memories])

    def aggregate(self, memories: Sequence[Memory], ctx: StageContext) -> Any:
        return self._call("aggregate", ctx, memories=[memory_to_json(memory) for memory in memories])

    def query_template(self, mode: str, ctx: StageContext) -> Any:
        return self._call("query_template", ctx, mode=mode)

    def inject(self, mode: str, conversation: Sequence[Message], ctx: StageContext) -> Any:
        return self._call("inject", ctx, mode=mode, conversation=[_message(one) for one in conversation])

    def search(self, query: str, params: Mapping[str, Any], ctx: StageContext) -> Any:
        return self._call("search", ctx, query=query, params=dict(params))

    def _load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        self._call(
            "load",
            ctx,
            memories=[memory_to_json(memory) for memory in memories],
            scenes=[scene_to_json(scene) for scene in scenes],
        )

    def _normalize(self, memories: Sequence[Memory], ctx: StageContext) -> Any:
        return self._call("normalize", ctx, memories=[memory_to_json(memory) for memory in memories])

    def _ingest_session(self, messages: Sequence[Message], ctx: StageContext) -> None:
        self._call("ingest_session", ctx, messages=[_message(one) for one in messages])

    def _retrieve(self, query: str, ctx: StageContext) -> Any:
        return self._call("retrieve", ctx, query=query)

    def _plain(self, name: str) -> Callable[[StageContext], None]:
        def call(ctx: StageContext) -> None:
            self._call(name, ctx)

        return call

    def _call(self, method: str, ctx: StageContext, **given: Any) -> Any:
        body = {"store": store_of(ctx), "case_id": ctx.case_id, "now": ctx.clock.isoformat(), **given}
        answer = self._client.send("POST", method, body)
        if not isinstance(answer, Mapping):
            raise StageError(f"{method}: a JSON object is expected, not {type(answer).__name__}", kind="bad_answer")
        for fact in answer.get("facts") or ():
            if isinstance(fact, Mapping) and isinstance(fact.get("kind"), str):
                ctx.record(str(fact["kind"]), **{str(k): v for k, v in fact.items() if k not in ("kind", "stage")})
        return answer.get("result")


def store_of(ctx: StageContext) -> str:
    """A name for the store of a case that no other store of any run has."""
    return hashlib.sha256(str(ctx.folder).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _message(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "role": message.role,
        "name": message.name,
        "content": message.content,
        "time": None if message.time is None else message.time.isoformat(),
    }


def _description_problem(found: object) -> str | None:
    """What is wrong with the answer to ``GET /``."""
    if not isinstance(found, Mapping):
        return f"GET / gives {kind_of_value(found)}, and a JSON object is expected"
    for key in ("name", "protocol"):
        if not isinstance(found.get(key), str) or not found[key]:
            return f"GET / gives no {key}, a text"
    stages, methods = found.get("stages"), found.get("methods", [])
    if not isinstance(stages, list) or not stages:
        return "GET / gives no stages, a list"
    for word, known, key in (
        *((stage, STAGES, "stages") for stage in stages),
        *((method, OPTIONAL, "methods") for method in methods),
    ):
        if word not in known:
            return f"GET / has {word!r} among its {key}, which may be {', '.join(known)}"
    return None


class _Client:
    """Sends JSON; each thread keeps its connection open. Redirects and proxies are not followed."""

    def __init__(self, address: str, timeout: float, token: str | None) -> None:
        self.shown = redact(address)
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            raise EngineSetupError(f"{self.shown}: the port is no number below 65536") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise EngineSetupError(f"{self.shown} is no plain http:// or https:// address")
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._timeout = parts.hostname, port, timeout
        self._base = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._local = threading.local()

    def send(self, verb: str, method: str, body: Mapping[str, Any] | None) -> Any:
        """The JSON that the server answers. Raises StageError."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        for pause in (*PAUSES, None):
            try:
                status, content = self._once(verb, f"{self._base}/{method}", data)
            except TimeoutError:
                raise StageError(f"no answer from {self.shown} within {self._timeout:g} s", kind="timeout") from None
            except (ConnectionRefusedError, OSError) as error:
                # Only what surely never reached the server is sent again: a call may have changed something there.
                if pause is None or not isinstance(error, ConnectionRefusedError):
                    raise StageError(f"cannot be reached: {error}", kind="unreachable") from None
            else:
                if status != 503 or pause is None:
                    return _answer(status, content, method)
            time.sleep(pause)
        raise AssertionError  # pragma: no cover

    def _once(self, verb: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        kept = getattr(self._local, "open", None)
        if kept is not None:
            try:
                return self._ask(kept, verb, path, data)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # a server may close an idle connection: a new one is asked once
        return self._ask(self._connection(self._host, self._port, timeout=self._timeout), verb, path, data)

    def _ask(
        self, connection: http.client.HTTPConnection, verb: str, path: str, data: bytes | None
    ) -> tuple[int, bytes]:
        self._local.open = None
        try:
            connection.request(verb, path or "/", body=data, headers=self._headers)
            response = connection.getresponse()
            content = response.read(_LARGEST + 1)
        except http.client.HTTPException as error:
            connection.close()
            if isinstance(error, http.client.RemoteDisconnected):
                raise
            raise StageError(f"{self.shown} does not speak HTTP: {type(error).__name__}", kind="bad_answer") from None
        except BaseException:
            connection.close()
            raise
        if len(content) > _LARGEST:
            connection.close()
            raise StageError(f"an answer of more than {_LARGEST} bytes", kind="bad_answer")
        if not response.will_close:
            self._local.open = connection
        return response.status, content


def _answer(status: int, content: bytes, method: str) -> Any:
    try:
        found = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if 200 <= status < 300:
        if found is None:
            raise StageError(f"{method or '/'}: the answer is no JSON", kind="bad_answer")
        return found
    told = found.get("error") if isinstance(found, Mapping) else None
    if isinstance(told, Mapping):
        kind = str(told.get("kind") or "engine_error")
        raise StageError(str(told.get("message") or f"status {status}"), kind=kind)
    raise StageError(f"{method or '/'}: status {status}", kind="http_status")
