"""One recorded answer: what was asked, what came back, and the two hashes by which it is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pytest_memeval.llm.protocol import ChatReply, Usage
from pytest_memeval.llm.redaction import REDACTED, redact, redact_known
from pytest_memeval.llm.structured import plain
from pytest_memeval.llm.wire import well_formed


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _sha256(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A question to a chat model with all that changes the answer. ``stage`` does not: it only says what it is for.

    ``max_tokens`` is the cap in force, a model's default included. Temperatures equal as numbers are the same.
    """

    endpoint: str
    model: str | None
    messages: tuple[Mapping[str, str], ...]
    temperature: float = 0.0
    max_tokens: int | None = None
    response_format: Mapping[str, Any] | None = None
    trial: int = 0
    stage: str = ""
    #: The rest of a request that another program wrote, word for word; its temperature and cap are in there too.
    extra: Mapping[str, Any] | None = None
    #: Keys besides the environment's that must not be written, such as another program's own.
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def key(self) -> str:
        """SHA-256 (hex) over endpoint, model, messages, parameters, response format and trial: the cache's key."""
        return _sha256(
            {
                "v": 1,
                "endpoint": self.endpoint,
                "model": self.model,
                "messages": _well_formed(self.messages),
                "parameters": {"temperature": float(self.temperature), "max_tokens": self.max_tokens},
                "response_format": self.response_format,
                "trial": self.trial,
                **({} if self.extra is None else {"extra": self.extra}),
            }
        )

    @property
    def request_hash(self) -> str:
        """SHA-256 (hex) over messages and trial alone: the same question to whatever model, however it was sent."""
        return request_hash(self.messages, self.trial)

    def body(self) -> dict[str, Any]:
        """The request's JSON form without endpoint, model, stage and trial. The known keys are cut out."""

        def safe(text: str) -> str:
            return redact_known(text, self.secrets)

        return {
            "messages": _texts(_well_formed(self.messages), safe),
            "parameters": {"temperature": float(self.temperature), "max_tokens": self.max_tokens},
            "response_format": plain(self.response_format),
            **({} if self.extra is None else {"extra": _texts(plain(self.extra), safe)}),
        }


def request_hash(messages: Sequence[Mapping[str, str]], trial: int = 0) -> str:
    """See :attr:`ChatRequest.request_hash`."""
    return _sha256({"v": 1, "messages": _well_formed(messages), "trial": trial})


def _well_formed(messages: Sequence[Mapping[str, Any]]) -> Any:
    """The messages as they can be written to a file."""
    return _texts(messages, well_formed)


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed; another program's messages may hold lists and objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _texts(item, change) for name, item in value.items()}
    return [_texts(item, change) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A recorded answer. ``request`` is :meth:`ChatRequest.body`, ``created`` an ISO time, ``latency`` in seconds."""

    key: str
    request_hash: str
    endpoint: str
    model: str | None
    stage: str
    trial: int
    request: Mapping[str, Any]
    text: str
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    server_model: str | None = None
    latency: float = 0.0
    created: str = ""

    @staticmethod
    def of(request: ChatRequest, reply: ChatReply, *, created: datetime | None = None) -> CacheEntry:
        """The entry for an answered request, now."""
        return CacheEntry(
            key=request.key,
            request_hash=request.request_hash,
            endpoint=redact(request.endpoint),
            model=request.model,
            stage=request.stage,
            trial=request.trial,
            request=request.body(),
            text=redact_known(well_formed(reply.text)),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            server_model=None if reply.model is None else redact(reply.model),
            latency=round(reply.latency, 6),
            created=(created or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        )

    def reply(self) -> ChatReply:
        """The answer as a reply that cost no request (``cached``, 0 attempts), with the recorded latency."""
        return ChatReply(
            self.text, self.finish_reason, self.usage, self.server_model, self.latency, cached=True, attempts=0
        )

    def to_json(self) -> dict[str, Any]:
        """The entry as an export holds it, in a fixed order of names: equal entries give equal text."""
        return {
            "key": self.key,
            "request_hash": self.request_hash,
            "stage": self.stage,
            "endpoint": self.endpoint,
            "model": self.model,
            "trial": self.trial,
            "request": json.loads(json.dumps(plain(self.request), sort_keys=True)),
            "answer": {"text": self.text, "finish_reason": self.finish_reason},
            "provenance": {
                "created": self.created,
                "latency": self.latency,
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "server_model": self.server_model,
            },
        }

    @staticmethod
    def from_json(data: Any) -> CacheEntry:
        """The entry in a decoded line. Raises ``ValueError`` naming what is wrong; the hashes must fit the request."""
        if not isinstance(data, Mapping):
            raise ValueError("is no JSON object")
        request, answer, provenance = (data.get(name) for name in ("request", "answer", "provenance"))
        if not isinstance(request, Mapping) or not isinstance(request.get("messages"), list):
            raise ValueError("has no `request` with `messages`")
        if not isinstance(answer, Mapping) or not isinstance(answer.get("text"), str):
            raise ValueError("has no `answer` with a `text`")
        source: Mapping[str, Any] = provenance if isinstance(provenance, Mapping) else {}
        raw_parameters = request.get("parameters")
        parameters: Mapping[str, Any] = raw_parameters if isinstance(raw_parameters, Mapping) else {}
        trial = data.get("trial", 0)
        if not isinstance(trial, int) or isinstance(trial, bool):
            raise ValueError(f"`trial` is {trial!r}, not a whole number")
        try:
            asked = ChatRequest(
                endpoint=str(data.get("endpoint") or ""),
                model=None if data.get("model") is None else str(data["model"]),
                messages=tuple(dict(message) for message in request["messages"]),
                temperature=float(parameters.get("temperature", 0.0)),
                max_tokens=parameters.get("max_tokens"),
                response_format=request.get("response_format"),
                trial=trial,
                stage=str(data.get("stage") or ""),
                extra=_typed(request.get("extra"), dict),
            )
        except (TypeError, ValueError):
            raise ValueError("has a `request` that cannot be read") from None
        hashes = {"key": asked.key, "request_hash": asked.request_hash}
        # What was cut out of a request can no longer be hashed.
        whole = REDACTED not in canonical_json(request) and REDACTED not in asked.endpoint
        for name, own in hashes.items():
            if (given := data.get(name, own)) != own:
                if whole or not isinstance(given, str):
                    raise ValueError(f"has the {name} {str(given)[:12]}, not its request's: the request was changed")
                hashes[name] = given
        return CacheEntry(
            **hashes,
            endpoint=asked.endpoint,
            model=asked.model,
            stage=asked.stage,
            trial=trial,
            request=dict(request),
            text=answer["text"],
            finish_reason=_typed(answer.get("finish_reason"), str),
            usage=Usage(_typed(source.get("input_tokens"), int), _typed(source.get("output_tokens"), int)),
            server_model=_typed(source.get("server_model"), str),
            latency=float(_typed(source.get("latency"), int, float) or 0.0),
            created=str(source.get("created") or ""),
        )


def _typed(value: Any, *kinds: type) -> Any:
    """The value if it is of one of the kinds, else ``None``: provenance is worth keeping, not worth refusing a line."""
    return value if isinstance(value, kinds) and not isinstance(value, bool) else None
