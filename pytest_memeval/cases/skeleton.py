"""Pasted conversations as skeletons of cases, ready to label."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_memeval.cases.conversation import (
    KEPT_KEYS,
    MESSAGE_KEYS,
    ROLES,
    ConversationError,
    parse_conversation,
)
from pytest_memeval.documents.json_values import NestedTooDeep, json_value
from pytest_memeval.documents.problems import DocumentError, Problem, json_fault
from pytest_memeval.values import Message

#: Time between two messages that have none.
STEP = timedelta(minutes=1)

_TIME_KEYS = ("time", "timestamp", "create_time", "created_at", "date", "ts")
_LIST_KEYS = ("messages", "conversations", "conversation")
#: Speakers as chat pages and people write them.
_SPEAKERS = {
    "you": "user", "you said": "user", "me": "user", "human": "user", "用户": "user", "我": "user", "你": "user",
    "chatgpt said": "assistant", "chatgpt": "assistant", "claude": "assistant", "gpt": "assistant", "ai": "assistant",
    "bot": "assistant", "model": "assistant", "助手": "assistant", "助理": "assistant", "gemini": "assistant",
    "copilot": "assistant", "你说": "user", "deepseek": "assistant", "kimi": "assistant", "豆包": "assistant",
}  # fmt: skip
_STAMP = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?"
_LINE = re.compile(
    rf"(?:[\[(]?(?P<time>{_STAMP})[\])]?[,\s]*)?(?P<who>[^\s:：/][^:：/\n]{{0,29}}?)\s*[:：](?!//)\s*(?P<text>.*)"
)

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:"
    r"(?:\+?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}"  # mobile numbers of China
    r"|0\d{2,3}[ -]\d{7,8}"  # landlines of China
    r"|\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}"  # with a country code
    r"|(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}"  # North America
    r")(?![\w-])"
)
_LONG_NUMBER = re.compile(r"(?<![\w.-])(?:\d[ -]?){14,18}[\dXx](?![\w.-])")  # cards and identity numbers


@dataclass
class Masking:
    """Counts of what was masked, by kind."""

    found: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """``text`` without secrets, e-mail addresses, phone numbers, and card or identity numbers."""
        from pytest_memeval.llm.redaction import REDACTED, redact

        clean = redact(text)
        self._count("secret", clean.count(REDACTED) - text.count(REDACTED))
        for kind, pattern in (("email", _EMAIL), ("number", _LONG_NUMBER), ("phone", _PHONE)):
            clean, count = pattern.subn(f"<{kind}>", clean)
            self._count(kind, count)
        return clean

    def _count(self, kind: str, count: int) -> None:
        if count > 0:
            self.found[kind] = self.found.get(kind, 0) + count

    def sentence(self) -> str:
        """What was masked: ``masked: 2 email, 1 phone``; empty where nothing was."""
        return "masked: " + ", ".join(f"{count} {kind}" for kind, count in self.found.items()) if self.found else ""


def read_conversations(text: str, path: Path) -> list[tuple[Message, ...]]:
    """The conversations of a pasted text, at least one.

    JSON: OpenAI messages (a list, or ``{"messages": …}``), ShareGPT (``{"conversations": [{from, value}]}``), or a list
    of such. Else text: ``[msg#N]`` headers as in case files, or lines ``speaker: text`` with further lines of the
    message below, perhaps with a time before; a text without speakers is one message of the user. Raises DocumentError.
    """
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped:
        raise DocumentError([Problem(path, 0, 0, "there is no conversation in it")])
    if stripped[0] in "[{" and not stripped.startswith("[msg#"):
        try:
            value = json_value(stripped)
        except json.JSONDecodeError as error:
            # Text may begin with a bracket, too; nobody writes a hundred of them.
            if isinstance(error, NestedTooDeep) or stripped[0] == "{" or re.match(r"\[\s*\{", stripped):
                problem = Problem(path, error.lineno, error.colno, f"not JSON: {json_fault(error)}")
                raise DocumentError([problem]) from None
        else:
            return [_read_list(messages, path) for messages in _message_lists(value, path)]
    return [_read_text(text.lstrip("\ufeff").replace("\r\n", "\n"), path)]


def _message_lists(value: Any, path: Path) -> list[list[Any]]:
    if isinstance(value, Mapping):
        for key in _LIST_KEYS:
            if isinstance(value.get(key), list):
                return [value[key]]
        if "role" in value or "from" in value:
            return [[value]]
    elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
        if any("role" in entry or "from" in entry or "content" in entry for entry in value):
            return [value]
        return [messages for entry in value for messages in _message_lists(entry, path)]
    message = "no chat messages: expected a list of {role, content} or {from, value}, or 'messages' or 'conversations'"
    raise DocumentError([Problem(path, 0, 0, message)])


def _read_list(entries: Sequence[Any], path: Path) -> tuple[Message, ...]:
    known = []
    for entry in entries:
        if isinstance(entry, Mapping):
            kept = {key: value for key, value in entry.items() if key in MESSAGE_KEYS or key in KEPT_KEYS}
            time = next((_time_text(entry[key]) for key in _TIME_KEYS if entry.get(key) is not None), None)
            kept.pop("time", None)
            if time is not None:
                kept["time"] = time
            kept.pop("id", None)  # ids of chat servers are long and mean nothing to a reader
            known.append(kept)
        else:
            known.append(entry)
    return _parsed(known, path)


def _time_text(value: Any) -> str | None:
    """A time as ISO text; numbers are seconds, or milliseconds, since 1970."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        return value
    seconds = value / 1000 if value > 1e11 else value
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None


def _parsed(conversation: str | Sequence[Any], path: Path) -> tuple[Message, ...]:
    try:
        messages = parse_conversation(conversation, UTC)
    except ConversationError as error:
        problems = [
            Problem(path, (fault.line or 0) + 1 if fault.line is not None else 0, 0, fault.text)
            for fault in error.faults
        ]
        raise DocumentError(problems) from None
    if not messages:
        raise DocumentError([Problem(path, 0, 0, "there is no message in it")])
    return messages


def _read_text(text: str, path: Path) -> tuple[Message, ...]:
    if re.search(r"^[ \t]*\[msg#", text, re.MULTILINE):
        return _parsed(text, path)
    lines = text.split("\n")
    matches = [None if line[:1].isspace() else _LINE.fullmatch(line.strip()) for line in lines]
    speakers = _speakers(lines, matches)
    entries: list[dict[str, Any]] = []
    for line, match in zip(lines, matches, strict=True):
        who = match["who"].strip() if match is not None else ""
        if match is not None and who in speakers:
            entry: dict[str, Any] = {"role": _SPEAKERS.get(who.casefold(), who), "content": match["text"].strip()}
            if match["time"]:
                entry["time"] = _iso(match["time"])
            entries.append(entry)
        elif entries:
            entries[-1]["content"] += "\n" + line
        elif line.strip():
            entries.append({"role": "user", "content": line})
    for entry in entries:
        entry["content"] = entry["content"].strip("\n").rstrip()
    return _parsed([entry for entry in entries if entry["content"]], path)


def _iso(stamp: str) -> str:
    """``2026/1/5 9:03`` as ISO."""
    date, clock = re.split(r"[T ]", stamp, maxsplit=1)
    year, month, day = re.split(r"[-/]", date)
    return f"{year}-{int(month):02}-{int(day):02}T{clock if clock[1:2] != ':' else '0' + clock}"


def _speakers(lines: Sequence[str], matches: Sequence[re.Match[str] | None]) -> set[str]:
    """Which words before a colon are speakers: all, if every line has one; else known roles, and who comes again."""
    said = [match["who"].strip() for match in matches if match is not None]
    written = [line for line in lines if line.strip()]
    if len(said) == len(written) and len(said) > 1:
        return set(said)
    first = next(
        (match["who"].strip() for line, match in zip(lines, matches, strict=True) if line.strip() and match), ""
    )
    known = {who for who in said if who.casefold() in _SPEAKERS or who.casefold() in ROLES}
    repeated = {who for who in said if said.count(who) > 1}
    starts = {first} if first and lines and matches[_first_line(lines)] is not None and len(said) > 1 else set()
    return known | repeated | starts


def _first_line(lines: Sequence[str]) -> int:
    return next(number for number, line in enumerate(lines) if line.strip())


# -- the skeleton


def prepare(messages: Sequence[Message], start: datetime, mask: Masking | None) -> tuple[Message, ...]:
    """Messages with ids ``msg_1`` …, times (a minute after the one before where there is none), masked if wanted."""
    found: list[Message] = []
    time = start - STEP
    for number, message in enumerate(messages, start=1):
        time = message.time if message.time is not None else time + STEP
        content = mask(message.content) if mask is not None else message.content
        name = mask(message.name) if mask is not None and message.name else message.name
        extra = (
            json.loads(mask(json.dumps(dict(message.extra)))) if mask is not None and message.extra else message.extra
        )
        found.append(replace(message, id=f"msg_{number}", content=content, name=name, time=time, extra=extra))
    return tuple(found)


def case_skeleton(messages: Sequence[Message], case_id: str, dimensions: Sequence[str]) -> str:
    """The YAML of one case (an entry of ``cases``) with an empty memory to fill in.

    It is not valid before a memory has its content and dimensions, or ``memories: []`` says that there is none.
    """
    source = next((message.id for message in messages if message.role == "user"), messages[0].id)
    return (
        f"  - case_id: {json.dumps(case_id, ensure_ascii=False)}\n"
        "    source: unspecified  # real | synthetic | edge\n"
        "    difficulty: unspecified  # easy | medium | hard\n"
        "    tags: []\n"
        f"{_conversation_yaml(messages)}"
        "    expected_l1:\n"
        "      # one entry a memory; memories: [] where nothing is worth keeping\n"
        "      memories:\n"
        '        - content: ""\n'
        f"          dimensions: []  # {', '.join(dimensions)}\n"
        "          memory_type: persona  # persona | episodic | instruction\n"
        "          priority: 50  # 0 to 100\n"
        "          time_velocity: static  # static | dynamic\n"
        f"          source_message_ids: [{json.dumps(source)}]\n"
        '    notes: ""\n'
    )


def skeleton(conversations: Sequence[Sequence[Message]], case_id: str, dimensions: Sequence[str]) -> str:
    """A case file with a skeleton for each conversation; of several the ids are ``case_id-1``, ``case_id-2`` …"""
    ids = [case_id] if len(conversations) == 1 else [f"{case_id}-{number + 1}" for number in range(len(conversations))]
    return "cases:\n" + "".join(
        case_skeleton(messages, one, dimensions) for messages, one in zip(conversations, ids, strict=True)
    )


def _conversation_yaml(messages: Sequence[Message]) -> str:
    """The conversation as text under headers where that reads back as it is, else as a list of messages."""
    blocks = []
    for number, message in enumerate(messages, start=1):
        time = f" {message.time.isoformat()}" if message.time is not None else ""
        body = "".join(f"  {line}\n" if line.strip() else "\n" for line in message.content.split("\n"))
        blocks.append(f"[msg#{number}]{time} {message.name or message.role}:\n{body}")
    text = "".join(blocks)
    if _reads_back(text, messages):
        return "    conversation: |\n" + "".join(f"      {line}\n" if line else "\n" for line in text.split("\n")[:-1])
    entries = []
    for message in messages:
        entry: dict[str, Any] = {"id": message.id, "role": message.role}
        if message.name:
            entry["name"] = message.name
        if message.time is not None:
            entry["time"] = message.time.isoformat()
        entry["content"] = message.content
        if message.extra:
            entry["extra"] = dict(message.extra)
        entries.append(f"      - {json.dumps(entry, ensure_ascii=not _printable(message.content))}\n")
    return "    conversation:\n" + "".join(entries)


def _printable(text: str) -> bool:
    """Whether YAML takes every character as it is."""
    return all(char.isprintable() or char == "\n" for char in text)


def _reads_back(text: str, messages: Sequence[Message]) -> bool:
    if not _printable(text):
        return False
    try:
        return parse_conversation(text, UTC) == tuple(messages)
    except ConversationError:
        return False
