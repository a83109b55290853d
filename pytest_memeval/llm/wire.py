"""Requests and answers of the chat completions interface, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_memeval.llm.protocol import ChatReply, ModelEmpty, ModelRefused, ModelTruncated, Usage
from pytest_memeval.llm.structured import FormatLevel, needs_wrapping, unwrap, wire_format

TokenCap = Literal["max_tokens", "max_completion_tokens"]


class JunkBody(ValueError):
    """An answer that is no chat completion (or no list of embeddings)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """How a server wants to be asked, as far as is known: learnt from its rejections, one parameter at a time."""

    token_cap: TokenCap = "max_tokens"
    token_cap_renamed: bool = False
    temperature: bool = True
    format_level: FormatLevel = "json_schema"

    def without(self, parameter: str, sent: Mapping[str, Any]) -> Accepted | None:
        """The next way to ask after ``parameter`` of the request ``sent`` was rejected; ``None`` if there is none.

        Where another call learnt the same in the meantime, that is the next way already.
        """
        if parameter in ("max_tokens", "max_completion_tokens"):
            if self.token_cap != parameter:
                return self
            if self.token_cap_renamed:
                return None
            other: TokenCap = "max_completion_tokens" if parameter == "max_tokens" else "max_tokens"
            return replace(self, token_cap=other, token_cap_renamed=True)
        if parameter == "temperature":
            return replace(self, temperature=False)
        if parameter == "response_format":
            level = sent["response_format"]["type"]
            if level != self.format_level:
                return self
            return replace(self, format_level="json_object" if level == "json_schema" else "none")
        return None


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced by U+FFFD, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def chat_body(
    model: str,
    messages: Sequence[Mapping[str, str]],
    *,
    response_format: Mapping[str, Any] | None,
    temperature: float,
    max_tokens: int | None,
    accepted: Accepted,
) -> dict[str, Any]:
    """The body of a chat completions request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{name: well_formed(value) for name, value in message.items()} for message in messages],
    }
    if accepted.temperature:
        body["temperature"] = temperature
    if max_tokens is not None:
        body[accepted.token_cap] = max_tokens
    if (wire := wire_format(response_format, accepted.format_level)) is not None:
        body["response_format"] = wire
    return body


def read_usage(data: Mapping[str, Any]) -> Usage:
    """The tokens of an answer; ``None`` for what the server does not tell."""
    usage = data.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()

    def count(name: str) -> int | None:
        value = usage.get(name)
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None

    return Usage(count("prompt_tokens"), count("completion_tokens"))


def read_completion(
    data: Any,
    *,
    response_format: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
    attempts: int = 1,
    latency: float = 0.0,
) -> ChatReply:
    """The reply in a decoded chat completion.

    Raises :class:`ModelRefused`, :class:`ModelTruncated` or :class:`ModelEmpty` for a completion without a usable
    answer (with its tokens), :class:`JunkBody` for anything that is no completion.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("choices"), list) or not data["choices"]:
        raise JunkBody("the answer is no chat completion")
    choice = data["choices"][0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise JunkBody("the answer's first choice has no message")
    finish = choice.get("finish_reason")
    finish_reason = finish if isinstance(finish, str) else None
    model = data.get("model") if isinstance(data.get("model"), str) else None
    usage = read_usage(data)
    facts: dict[str, Any] = {"attempts": attempts, "usage": usage, "latency": latency, "model": model}
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        raise ModelRefused(f"the model refused: {well_formed(refusal.strip())[:300]}", **facts)
    if finish_reason == "content_filter":
        raise ModelRefused("the server's content filter withheld the answer", **facts)
    if finish_reason == "length":
        if max_tokens is None:
            raise ModelTruncated(
                "the answer was cut off at the server's own token cap; set a higher max_tokens", **facts
            )
        raise ModelTruncated(
            f"the answer was cut off at the token cap (max_tokens {max_tokens}); raise the cap", **facts
        )
    text = _content_text(message.get("content"))
    if not text.strip():
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        hint = ", only reasoning" if isinstance(reasoning, str) and reasoning.strip() else ""
        raise ModelEmpty(f"the answer has no text{hint} (finish_reason {finish_reason!r})", **facts)
    text = well_formed(text)
    if response_format is not None and needs_wrapping(response_format):
        text = unwrap(text, response_format)
    return ChatReply(text, finish_reason, usage, model, latency, attempts=attempts)


def _content_text(content: Any) -> str:
    """A message's text: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""
