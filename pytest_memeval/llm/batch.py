"""Batch mode: questions without an answer are collected in a file, and answers come back in another.

The files are in the format of OpenAI's Batch interface, which other providers share; any other way to get answers
only has to write ``{"custom_id": …, "text": …}`` lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import Problem
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.export import ImportResult, decode_line, import_jsonl, numbered_lines
from pytest_memeval.llm.faults import fault_of_answer
from pytest_memeval.llm.filelock import file_lock
from pytest_memeval.llm.protocol import ChatModelError, Usage
from pytest_memeval.llm.redaction import redact, redact_known
from pytest_memeval.llm.wire import Accepted, JunkBody, chat_body, read_completion, well_formed

REQUESTS_FILE_NAME = "requests.jsonl"


class BatchRequests:
    """The file of open requests. Several processes may add to it; a request stands in it once."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._known: set[str] = set()
        self._read_to = 0
        self._inode = -1

    def add(self, request: ChatRequest, cache: AnswerCache, *, accepted: Accepted | None = None) -> bool:
        """Write a request, unless it is there; true if it was written. The cache keeps what the answer belongs to."""
        key = request.key
        cache.add_pending(request)
        line = json.dumps(
            {
                "custom_id": key,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": _body_of(request, accepted or Accepted()),
            },
            ensure_ascii=False,
        )
        with file_lock(self.path):
            self._catch_up()
            if key in self._known:
                return False
            with self.path.open("ab") as file:
                file.write(line.encode("utf-8") + b"\n")
                self._read_to = file.tell()
            self._known.add(key)
            return True

    def _catch_up(self) -> None:
        """Read what others added since the last look. A line cut off by a killed process is removed. Holds the lock."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            self._known, self._read_to, self._inode = set(), 0, -1
            return
        if state.st_ino != self._inode or state.st_size < self._read_to:
            self._known, self._read_to, self._inode = set(), 0, state.st_ino
        with self.path.open("r+b") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(self._read_to)
                    break
                self._read_to += len(line)
                if (key := _custom_id(line)) is not None:
                    self._known.add(key)

    def drop_answered(self, cache: AnswerCache) -> int:
        """Rewrite the file without the requests that the cache can answer by now; how many are left."""
        with file_lock(self.path):
            if not self.path.exists():
                return 0
            self._catch_up()
            lines = [line for line in self.path.read_bytes().split(b"\n") if line]
            kept = [line for line in lines if (key := _custom_id(line)) is None or cache.get(key) is None]
            if len(kept) != len(lines):
                temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
                temporary.write_bytes(b"".join(line + b"\n" for line in kept))
                os.replace(temporary, self.path)
            return len(kept)


def _body_of(request: ChatRequest, accepted: Accepted) -> dict[str, Any]:
    held = request.body()
    if request.extra is not None:
        return {"model": request.model, "messages": held["messages"], **held["extra"]}
    return chat_body(
        request.model or "",
        held["messages"],
        response_format=request.response_format,
        temperature=request.temperature,
        max_tokens=request.max_tokens,
        accepted=accepted,
    )


def _custom_id(line: bytes) -> str | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = data.get("custom_id") if isinstance(data, dict) else None
    return key if isinstance(key, str) else None


def import_batch_results(path: Path, cache: AnswerCache, *, requests: BatchRequests | None = None) -> ImportResult:
    """Take the results of a batch into the cache, in whatever order they come.

    A line is a Batch result (``custom_id``, ``response`` with ``status_code`` and ``body``, ``error``) or the short
    form ``{"custom_id", "text"}``. Failed, truncated, refused and empty answers, answers to requests that this cache
    does not wait for, and lines that cannot be read are skipped and listed; failures are never stored. Answered
    requests leave the ``requests`` file. Raises :class:`DocumentError` only if the file cannot be read.
    """
    entries: dict[str, CacheEntry] = {}
    skipped: list[Problem] = []
    present = 0
    for number, line in numbered_lines(path):
        key = ""
        try:
            data = decode_line(line)
            found = data.get("custom_id") if isinstance(data, Mapping) else None
            if not isinstance(found, str):
                raise ValueError("has no `custom_id`")
            key = found
            waiting = cache.pending(key)
            if waiting is None:
                if cache.get(key) is None:
                    raise ValueError("answers a request that this cache does not wait for")
                present += 1
                continue
            entries[key] = _answered(waiting, data)
        except (ValueError, ChatModelError) as error:
            label = f"{key[:12]}…: " if key else ""
            skipped.append(Problem(path, number, 0, redact(f"{label}{error}")))
    added = cache.put_many(list(entries.values()))
    if requests is not None:
        requests.drop_answered(cache)
    return ImportResult(added, present + len(entries) - added, tuple(skipped))


def import_answers(path: Path, cache: AnswerCache, *, requests: BatchRequests | None = None) -> ImportResult:
    """Import a file of either kind, told by its first line: batch results (``custom_id``) or a cache export.

    Raises :class:`DocumentError` as :func:`import_batch_results` and :func:`import_jsonl` do.
    """
    for _, line in numbered_lines(path):
        if _custom_id(line.encode("utf-8")) is not None:
            return import_batch_results(path, cache, requests=requests)
        break
    result = import_jsonl(cache, path)
    if requests is not None:
        requests.drop_answered(cache)
    return result


def _answered(waiting: CacheEntry, data: Mapping[str, Any]) -> CacheEntry:
    """The pending entry with its answer. Raises ``ValueError`` or :class:`ChatModelError` if there is none."""
    response = data.get("response")
    if isinstance(data.get("text"), str) and response is None:
        if not data["text"].strip():
            raise ValueError("the answer has no text")
        model = data.get("model")
        return replace(
            waiting,
            text=redact_known(well_formed(data["text"])),
            finish_reason="stop",
            usage=Usage(),
            server_model=redact(model) if isinstance(model, str) else None,
        )
    if data.get("error"):
        raise ValueError(f"the request failed: {fault_of_answer(500, dict(data)).message[:300]}")
    if not isinstance(response, Mapping):
        raise ValueError("has neither `response` nor `text`")
    status, body = response.get("status_code", 200), response.get("body")
    if status != 200:
        raise ValueError(f"the request failed with {status}: {fault_of_answer(500, body).message[:300]}")
    try:
        reply = read_completion(
            body,
            response_format=waiting.request.get("response_format"),
            max_tokens=waiting.request.get("parameters", {}).get("max_tokens"),
        )
    except JunkBody as junk:
        raise ValueError(str(junk)) from None
    return replace(
        waiting,
        text=redact_known(reply.text),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        server_model=None if reply.model is None else redact(reply.model),
    )
