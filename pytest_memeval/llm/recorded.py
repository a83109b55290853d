"""A chat model that reads its answers from a committed file."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_memeval.llm.cache_entry import CacheEntry, canonical_json, request_hash
from pytest_memeval.llm.cached_model import WAYS_ON
from pytest_memeval.llm.export import read_jsonl
from pytest_memeval.llm.protocol import ChatReply, NotRecorded
from pytest_memeval.llm.structured import plain
from pytest_memeval.llm.sync import SyncCompletion

_CONVERSATION = re.compile(r"<conversation>(.*?)</conversation>", re.DOTALL)


class RecordedChatModel(SyncCompletion):
    """Replays the answers of a cache export (``path``); no key, no network, no other file.

    A request is matched by its messages and its trial alone: whoever replays names neither the server nor the model
    that answered once, nor how it was asked; those are the answer's provenance (``ChatReply.model``). Where the file
    holds several answers to a request, those of ``model`` count if it is given, then those with the same parameters
    and response format, then the newest, then the one with the smallest key.

    The file is read on the first question (:class:`DocumentError` if it is bad). A request that it does not hold
    raises :class:`NotRecorded`.
    """

    name = "recorded"

    def __init__(self, path: Path, *, model: str | None = None) -> None:
        self.path = Path(path)
        self._wanted = model
        self._lock = threading.Lock()
        self._answers: dict[str, list[CacheEntry]] | None = None
        self._conversations: set[str] = set()

    def load(self) -> int:
        """Read the file now; the number of answers of the wanted model (of all, if none is)."""
        return sum(len(entries) for entries in self._load().values())

    @property
    def models(self) -> tuple[str, ...]:
        """The models whose answers are replayed, as the servers named them, else as they were asked for; sorted."""
        entries = (entry for group in self._load().values() for entry in group)
        return tuple(sorted({entry.server_model or entry.model or "" for entry in entries} - {""}))

    @property
    def model(self) -> str | None:
        """The one model that the file holds answers of, or ``None`` if there are several."""
        models = self.models
        return models[0] if len(models) == 1 else None

    def _load(self) -> dict[str, list[CacheEntry]]:
        with self._lock:
            if self._answers is None:
                answers: dict[str, list[CacheEntry]] = {}
                for _, entry in read_jsonl(self.path):
                    if self._wanted in (None, entry.model, entry.server_model):
                        answers.setdefault(entry.request_hash, []).append(entry)
                        self._conversations |= _conversations(entry.request["messages"])
                for group in answers.values():
                    group.sort(key=lambda entry: entry.key)
                    group.sort(key=lambda entry: entry.created, reverse=True)
                self._answers = answers
            return self._answers

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        group = self._load().get(request_hash(messages, trial))
        if not group:
            raise NotRecorded(self._miss(messages, stage, trial))
        wanted = canonical_json([{"temperature": float(temperature), "max_tokens": max_tokens}, plain(response_format)])

        def differs(entry: CacheEntry) -> bool:
            parameters = dict(entry.request.get("parameters") or {})
            if max_tokens is None:  # the recording model's own default stands there
                parameters["max_tokens"] = None
            return canonical_json([parameters, entry.request.get("response_format")]) != wanted

        return min(group, key=differs).reply()

    def _miss(self, messages: Sequence[Mapping[str, str]], stage: str, trial: int) -> str:
        of_model = f" of {self._wanted}" if self._wanted else ""
        what = f"stage {stage}: {self.path} holds no answer{of_model} to this request"
        if trial:
            what += f" (trial {trial})"
        if _conversations(messages) & self._conversations:
            what += "; it holds one for the same conversation under another prompt or trial"
        return f"{what}; {WAYS_ON}"


def _conversations(messages: Sequence[Mapping[str, str]]) -> set[str]:
    """Hashes of the conversations quoted in a request."""
    return {
        hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()
        for message in messages
        for text in _CONVERSATION.findall(message.get("content") or "")
        if text.strip()
    }
