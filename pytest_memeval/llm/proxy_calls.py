"""What the proxy keeps of the calls that it serves, case by case."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.llm.cache_entry import ChatRequest
from pytest_memeval.llm.protocol import ChatReply
from pytest_memeval.llm.redaction import redact
from pytest_memeval.results import CallRecord

#: What can be done about what a replay does not hold.
RECORD_IT = "run once with the proxy in mode auto or record"
#: What clients send where they have no key to send.
_PLACEHOLDERS = frozenset({"dummy", "not-needed", "no-key", "no-key-required", "placeholder", "memeval", "unused"})
_SHORTEST_KEY = 6


def is_key(token: str) -> bool:
    """Whether a token that a client sent is a key, and not what stands for none."""
    token = token.strip()
    return len(token) >= _SHORTEST_KEY and token.lower() not in _PLACEHOLDERS


@dataclass(slots=True)
class CaseLine:
    """The calls made for one case, in the order of their end. ``label`` begins their ids."""

    token: str
    label: str
    calls: list[CallRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came: where it belongs and what must not be shown of it."""

    line: CaseLine | None
    stage: str
    trial: int
    headers: Mapping[str, str]
    secrets: tuple[str, ...]


class CallLog:
    """Counts calls, and keeps those of the cases that are open."""

    def __init__(self) -> None:
        self._lines: dict[str, CaseLine] = {}
        #: Requests answered from the cache, and those without a usable answer.
        self.cached = self.failed = 0

    def open(self, label: str) -> CaseLine:
        line = CaseLine(secrets.token_hex(8), label)
        self._lines[line.token] = line
        return line

    def find(self, token: str) -> CaseLine | None:
        return self._lines.get(token)

    def close(self, line: CaseLine) -> None:
        self._lines.pop(line.token, None)

    def note(
        self,
        asked: Asked,
        request: ChatRequest | None = None,
        reply: ChatReply | None = None,
        *,
        error: str | None = None,
        attempts: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Count a call, for its case if it has one. One without an ``error`` has a ``reply``."""
        self.failed += error is not None
        self.cached += reply is not None and reply.cached
        line = asked.line
        if line is None:
            return
        reply = reply or ChatReply("", latency=seconds, attempts=attempts)
        line.calls.append(
            CallRecord(
                id=f"{line.label}/proxy/{len(line.calls)}",
                stage=asked.stage,
                provider="openai",
                model=reply.model,
                request=() if request is None else tuple(text_messages(request.body()["messages"])),
                answer=None if error is not None or request is None else reply.text,
                finish_reason=reply.finish_reason,
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                latency=reply.latency or seconds,
                error=None if error is None else redact(error, asked.secrets),
                cached=reply.cached,
                attempts=attempts if error is not None else reply.attempts,
            )
        )


def text_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Messages whose values are all texts: lists of parts, tool calls and their like as JSON."""
    return [
        {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in message.items()
            if value is not None
        }
        for message in messages
    ]


def decoded(text: str) -> Any:
    """A body's JSON value; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
