"""Chat completions as other programs see them: kept in a cache entry, built again from it, assembled from a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.llm.cache_entry import CacheEntry
from pytest_memeval.llm.protocol import ModelRefused, ModelTruncated
from pytest_memeval.llm.wire import JunkBody, read_completion

#: A text with this beginning holds the choices of an answer that is more than a text (tool calls, several choices).
_CHOICES = '{"memeval_choices": '
_PLAIN_KEYS = frozenset({"role", "content", "refusal", "annotations"})


def answer_text(data: Any) -> str:
    """What a cache entry keeps of an answered completion: its text, or its choices where that is not all.

    Raises :class:`ModelTruncated`, :class:`ModelRefused`, :class:`ModelEmpty` or :class:`JunkBody` for an answer that
    is not worth keeping.
    """
    choices = data.get("choices") if isinstance(data, Mapping) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, Mapping) for choice in choices):
        raise JunkBody("the answer is no chat completion")
    if len(choices) == 1 and _is_plain(choices[0]):
        return read_completion(data).text
    for choice in choices:
        if not isinstance(choice.get("message"), Mapping):
            raise JunkBody("a choice of the answer has no message")
        if choice.get("finish_reason") == "length":
            raise ModelTruncated("the answer was cut off at the token cap; raise the cap")
        if choice.get("finish_reason") == "content_filter":
            raise ModelRefused("the server's content filter withheld the answer")
    return _CHOICES + json.dumps(choices, ensure_ascii=False, sort_keys=True) + "}"


def _is_plain(choice: Mapping[str, Any]) -> bool:
    message = choice.get("message")
    if not isinstance(message, Mapping) or choice.get("logprobs"):
        return False
    return not any(
        value for key, value in message.items() if key not in _PLAIN_KEYS and not key.startswith("reasoning")
    )


def choices_of(entry: CacheEntry) -> list[dict[str, Any]]:
    """The choices of a recorded answer."""
    if entry.text.startswith(_CHOICES):
        choices: list[dict[str, Any]] = json.loads(entry.text)["memeval_choices"]
        return choices
    message = {"role": "assistant", "content": entry.text, "refusal": None}
    return [{"index": 0, "message": message, "finish_reason": entry.finish_reason or "stop", "logprobs": None}]


def completion_of(entry: CacheEntry) -> dict[str, Any]:
    """A recorded answer as a completion; equal entries give equal ones."""
    data = {**_frame(entry), "object": "chat.completion", "choices": choices_of(entry)}
    usage = _usage(entry)
    return data if usage is None else {**data, "usage": usage}


def chunks_of(entry: CacheEntry, *, with_usage: bool) -> Iterator[str]:
    """A recorded answer as the data of a stream's events, ``[DONE]`` last."""
    frame = {**_frame(entry), "object": "chat.completion.chunk"}

    def chunk(index: int, delta: Mapping[str, Any], finish: Any = None) -> str:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return json.dumps({**frame, "choices": [choice]}, ensure_ascii=False)

    for choice in choices_of(entry):
        index, message = choice.get("index", 0), choice["message"]
        delta = {key: value for key, value in message.items() if value is not None}
        for place, call in enumerate(delta.get("tool_calls") or ()):
            call.setdefault("index", place)
        yield chunk(index, {"role": "assistant", **delta})
        yield chunk(index, {}, choice.get("finish_reason") or "stop")
    usage = _usage(entry)
    if with_usage and usage is not None:
        yield json.dumps({**frame, "choices": [], "usage": usage})
    yield "[DONE]"


def _frame(entry: CacheEntry) -> dict[str, Any]:
    return {"id": f"chatcmpl-memeval-{entry.key[:16]}", "created": 0, "model": entry.server_model or entry.model}


def _usage(entry: CacheEntry) -> dict[str, int] | None:
    given, taken = entry.usage.input_tokens, entry.usage.output_tokens
    if given is None or taken is None:
        return None
    return {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}


class StreamedCompletion:
    """Puts a streamed answer together again, event by event."""

    def __init__(self) -> None:
        self._choices: dict[int, dict[str, Any]] = {}
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self.done = False

    def add(self, data: str) -> Any:
        """Take an event's data; the decoded chunk, or ``None`` for what is none."""
        if data.strip() == "[DONE]":
            self.done = True
            return None
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(chunk, Mapping):
            return None
        self._head |= {key: chunk[key] for key in ("id", "model", "created") if chunk.get(key) is not None}
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            if isinstance(choice, Mapping):
                self._add_choice(choice)
        return chunk

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        index = choice.get("index", 0)
        own = self._choices.setdefault(
            index, {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}
        )
        own["finish_reason"] = choice.get("finish_reason") or own["finish_reason"]
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            _extend(own["message"], delta)

    def completion(self) -> dict[str, Any]:
        """The answer as one completion. Raises :class:`JunkBody` where it did not come to its end."""
        if not self._choices or any(choice["finish_reason"] is None for choice in self._choices.values()):
            raise JunkBody("the stream ended before the answer did")
        choices = [self._choices[index] for index in sorted(self._choices)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": self._usage}


def _extend(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        if key == "role" or value is None:
            continue
        if key == "tool_calls" and isinstance(value, list):
            calls = message.setdefault("tool_calls", [])
            for call in value:
                place = call.get("index", len(calls))
                while len(calls) <= place:
                    calls.append({})
                _extend(calls[place], {name: item for name, item in call.items() if name != "index"})
        elif isinstance(value, Mapping):
            _extend(message.setdefault(key, {}), value)
        elif isinstance(value, str) and key not in ("id", "type"):
            message[key] = (message.get(key) or "") + value
        else:
            message[key] = value
