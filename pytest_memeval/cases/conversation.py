"""Conversations as people write them: text with message headers, or lists of chat messages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from pytest_memeval.documents.bounds import calendar_problem
from pytest_memeval.documents.problems import did_you_mean, shown
from pytest_memeval.values import Message

_HEADER = re.compile(r"^\[msg#([^\]\n]*)\](.*)$", re.MULTILINE)
# what was meant for a header, exact or not: [MSG#2], [msg 2], [msg_2]
_LIKE_HEADER = re.compile(r"^\[[ \t]*msg(?![a-z])[^\]\n]*\]", re.MULTILINE | re.IGNORECASE)
_INDENTED_HEADER = re.compile(r"^[ \t]+\[[ \t]*msg(?![a-z])", re.MULTILINE | re.IGNORECASE)
# what follows the id: time and speaker (each may be left out, or stand in brackets), a colon, perhaps text
_HEADER_REST = re.compile(
    r"\s*(?:\[?(?P<time>\d{4}-\d{2}-\d{2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?"
    r"(?: ?(?:Z|z|[+-]\d{2}:?\d{2}))?)\]?"
    r"(?=[\s:：\[]|$))?"
    r"\s*(?:\[(?P<bracketed>[^\]]*)\]|(?P<speaker>[^:：\[]*?))\s*[:：](?P<inline>.*)",
    re.DOTALL,
)
_DATE_LIKE = re.compile(r"\d{4}\s*[-/.年]")
# a speaker that begins with a year, or with digits that are a date or a time stamp
_TIME_LIKE = re.compile(r"(?:19|20)\d{2}(?!\S)|\d{6,}\s")
_INDENT = re.compile(r"[ \t]*")

ROLES: frozenset[str] = frozenset({"user", "assistant", "system", "tool", "developer", "function"})
_ROLE_ALIASES = {
    "human": "user",
    "用户": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "助手": "assistant",
}

#: Keys of a message in a list; those of the second row are kept in ``Message.extra``.
MESSAGE_KEYS = ("id", "role", "name", "content", "time", "from", "value", "extra")
KEPT_KEYS = ("tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "reasoning_content", "weight")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong where: ``message`` indexes a list, ``line`` (from 0) a text; ``key`` is the key concerned.

    ``structural`` faults (an unknown key) are errors of the file, the others of the case.
    """

    text: str
    message: int | None = None
    line: int | None = None
    key: str | None = None
    structural: bool = False


class ConversationError(ValueError):
    """A conversation that cannot be read, with all its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(fault.text for fault in self.faults))


def parse_time(text: str, tz: tzinfo) -> datetime:
    """An ISO 8601 time as an aware datetime; one without a zone is in ``tz``. Raises ValueError."""
    try:
        time = datetime.fromisoformat(text.strip().replace(" Z", "Z"))
    except ValueError:
        raise ValueError(f"{shown(text)} is not an ISO time such as 2026-01-01T10:00:00Z") from None
    if (why := calendar_problem(time)) is not None:
        raise ValueError(f"{shown(text)} is {why}")
    return time if time.tzinfo is not None else time.replace(tzinfo=tz)


def parse_conversation(conversation: str | Sequence[Any], tz: tzinfo) -> tuple[Message, ...]:
    """Read a conversation; empty text or an empty list gives no messages.

    Text: messages start with ``[msg#N] [ISO time] [speaker]:``, time and speaker may be left out, content follows on
    the same line or on the next ones (their common indentation is removed). ``[msg#N]`` has id ``msg_N``. Text without
    any header is one user message ``msg_1``. A line that starts almost like a header (``[msg 2]``) is a fault.
    List: ``{id, role, name, content, time}``, OpenAI messages (content may be a list of parts, of which the text is
    taken), or ShareGPT's ``{from, value}``; without an id the n-th message is ``msg_n``.
    Raises :class:`ConversationError` with every fault found.
    """
    if isinstance(conversation, str):
        messages, faults = _parse_text(conversation, tz)
    else:
        messages, faults = _parse_list(conversation, tz)
    if faults:
        raise ConversationError(faults)
    return tuple(messages)


def _speaker(name: str) -> tuple[str, str | None]:
    """Role and name of a speaker: a known role has no name, anyone else is a user of that name."""
    folded = name.casefold()
    if folded in ROLES:
        return folded, None
    if folded in _ROLE_ALIASES:
        return _ROLE_ALIASES[folded], None
    return "user", name or None


def _parse_text(text: str, tz: tzinfo) -> tuple[list[Message], list[Fault]]:
    headers = list(_HEADER.finditer(text))
    if not headers and _INDENTED_HEADER.search(text):
        dedented = textwrap.dedent(text)
        if _LIKE_HEADER.search(dedented):
            text = dedented
            headers = list(_HEADER.finditer(text))
    starts = {header.start() for header in headers}
    broken = [match for match in _LIKE_HEADER.finditer(text) if match.start() not in starts]
    faults = [
        Fault(
            f"{match[0][:60]!r} looks like a message header, which is written [msg#N]",
            line=text.count("\n", 0, match.start()),
        )
        for match in broken
    ]
    if not headers and not broken:
        content = text.strip("\r\n")
        return ([Message("msg_1", "user", content)] if content.strip() else []), []
    messages: list[Message] = []
    before = text[: min(match.start() for match in (*headers[:1], *broken[:1]))]
    if before.strip():
        line = before[: len(before) - len(before.lstrip())].count("\n")
        faults.append(Fault("text before the first message header [msg#N]", line=line))
    seen: dict[str, int] = {}
    for position, header in enumerate(headers):
        end = headers[position + 1].start() if position + 1 < len(headers) else len(text)
        number = header[1].strip()
        try:
            message = _message_of(number, header[2], text[header.end() + 1 : end], tz)
            if number in seen:
                raise ValueError(f"a second message [msg#{number}]")
        except ValueError as error:
            faults.append(Fault(str(error), line=text.count("\n", 0, header.start())))
            continue
        seen[number] = position
        messages.append(message)
    return messages, faults


def _message_of(number: str, rest: str, body: str, tz: tzinfo) -> Message:
    if not number or any(character.isspace() for character in number):
        raise ValueError(f"a message header needs a number, such as [msg#1], not [msg#{number}]")
    match = _HEADER_REST.match(rest)
    if match is None:
        raise ValueError(f"the header of message [msg#{number}] needs a colon after its speaker")
    stamp, speaker, inline = match["time"], (match["bracketed"] or match["speaker"] or "").strip(), match["inline"]
    if stamp is None and (
        _DATE_LIKE.match(speaker) or _TIME_LIKE.match(speaker) or (speaker[-1:].isdigit() and inline[:2].isdigit())
    ):
        raise ValueError(f"message [msg#{number}]: the time in {rest.strip()[:60]!r} is not an ISO time")
    time = parse_time(stamp, tz) if stamp else None
    role, name = _speaker(speaker)
    inline = inline.strip()
    block = _dedent(body)
    content = f"{inline}\n{block}" if inline and block else inline or block
    return Message(f"msg_{number}", role, content, name, time)


def _dedent(body: str) -> str:
    """Lines without their common indentation and without blank lines at either end."""
    lines = body.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    if len(lines) <= 1:
        return lines[0].strip() if lines else ""
    indents = [match[0] for line in lines if line.strip() and (match := _INDENT.match(line))]
    common = min(indents, key=len)
    while not all(indent.startswith(common) for indent in indents):
        common = common[:-1]
    return "\n".join(line[len(common) :] if line.strip() else "" for line in lines).rstrip()


def _parse_list(entries: Sequence[Any], tz: tzinfo) -> tuple[list[Message], list[Fault]]:
    messages: list[Message] = []
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            faults.append(Fault(f"message {index + 1} is not a mapping such as {{role, content}}", message=index))
            continue
        for key in entry:
            if key not in MESSAGE_KEYS and key not in KEPT_KEYS:
                guess = did_you_mean(str(key), MESSAGE_KEYS)
                faults.append(Fault(f"unknown key {key!r} in a message{guess}", index, key=str(key), structural=True))
        try:
            message = _message_from(entry, index, tz)
        except ConversationError as error:
            faults += error.faults
            continue
        if message.id in seen:
            faults.append(Fault(f"message id {message.id!r} a second time", index, key="id"))
        seen.setdefault(message.id, index)
        messages.append(message)
    return messages, faults


def _message_from(entry: Mapping[str, Any], index: int, tz: tzinfo) -> Message:
    def fail(text: str, key: str | None = None) -> ConversationError:
        return ConversationError([Fault(f"message {index + 1}: {text}", index, key=key)])

    def text_of(key: str) -> str | None:
        value = entry.get(key)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (int, float)):
            return str(value)
        raise fail(f"{key!r} must be text", key)

    share = "value" in entry or "from" in entry
    content_key = "value" if share else "content"
    extra = dict(entry.get("extra") or {}) if isinstance(entry.get("extra"), Mapping) else {}
    extra.update({key: entry[key] for key in KEPT_KEYS if entry.get(key) is not None})
    raw = entry.get(content_key)
    if raw is None and not extra.get("tool_calls") and not extra.get("function_call"):
        raise fail(f"{content_key!r} is missing")
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        content = _text_of_parts(raw, extra)
        if content is None:
            raise fail("a content part must be a mapping with its type", content_key)
    else:
        content = text_of(content_key) or ""
    said_role, said_name = (text_of("from") if share else text_of("role")), text_of("name")
    role, name = _speaker((said_role or "user").strip())
    if name is not None and said_name:  # a role of its own besides the name
        role, name = name, said_name
    time_text = text_of("time")
    try:
        time = parse_time(time_text, tz) if time_text else None
    except ValueError as error:
        raise fail(str(error), "time") from None
    return Message(text_of("id") or f"msg_{index + 1}", role, content, said_name or name, time, extra)


def _text_of_parts(parts: Sequence[Any], extra: dict[str, Any]) -> str | None:
    """The text parts joined by line ends; the others (images, audio) are kept in ``extra["parts"]``."""
    texts: list[str] = []
    others: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
            else:
                others.append(part)
        else:
            return None
    if others:
        extra["parts"] = others
    return "\n".join(texts)
