"""What a benchmark file holds, whichever benchmark it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, overload

from pytest_memeval.values import Message


class QuestionType(StrEnum):
    """What a question asks of a memory. The first five are LoCoMo's, the others LongMemEval's.

    Members are strings: ``QuestionType("multi_hop") == "multi_hop"``. Each has a second name in capitals.
    """

    single_hop = "single_hop"
    multi_hop = "multi_hop"
    temporal = "temporal"
    open_domain = "open_domain"
    adversarial = "adversarial"
    single_session_user = "single_session_user"
    single_session_assistant = "single_session_assistant"
    single_session_preference = "single_session_preference"
    multi_session = "multi_session"
    temporal_reasoning = "temporal_reasoning"
    knowledge_update = "knowledge_update"

    SINGLE_HOP = "single_hop"
    MULTI_HOP = "multi_hop"
    TEMPORAL = "temporal"
    OPEN_DOMAIN = "open_domain"
    ADVERSARIAL = "adversarial"
    SINGLE_SESSION_USER = "single_session_user"
    SINGLE_SESSION_ASSISTANT = "single_session_assistant"
    SINGLE_SESSION_PREFERENCE = "single_session_preference"
    MULTI_SESSION = "multi_session"
    TEMPORAL_REASONING = "temporal_reasoning"
    KNOWLEDGE_UPDATE = "knowledge_update"


@dataclass(frozen=True, slots=True)
class Session:
    """One sitting of a conversation. ``id`` is unique in its sample, ``time`` is when it began (``None``: unknown)
    and ``time_text`` that time as the file writes it."""

    id: str
    messages: tuple[Message, ...]
    time: datetime | None = None
    time_text: str = ""


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question with its truth.

    - ``index``: its place in its sample as published, from 0 (what an errata file counts by)
    - ``answer``: the truth as text; empty where the right reply is a refusal (``unanswerable``)
    - ``trap``: what an adversarial question wants to hear; never a truth
    - ``evidence``: ids of the messages, ``evidence_sessions``: ids of the sessions that hold the answer
    - ``raw_evidence``: the evidence as published
    - ``category``: LoCoMo's number, ``None`` elsewhere
    - ``corrected_answer``, ``corrected_evidence``: an errata file's labels, ``None`` where it has none
    """

    question_id: str
    question: str
    answer: str
    question_type: QuestionType
    index: int = 0
    evidence: tuple[str, ...] = ()
    evidence_sessions: tuple[str, ...] = ()
    raw_evidence: tuple[str, ...] = ()
    category: int | None = None
    unanswerable: bool = False
    trap: str | None = None
    question_time: datetime | None = None
    question_date: str = ""
    corrected_answer: str | None = None
    corrected_evidence: tuple[str, ...] | None = None
    error_type: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation with its questions: what a memory reads once and is then asked about."""

    sample_id: str
    sessions: tuple[Session, ...]
    qa_pairs: tuple[QAPair, ...]
    speakers: tuple[str, ...] = ()

    @property
    def messages(self) -> Iterator[Message]:
        """Every message in the order in which it was said."""
        return (message for session in self.sessions for message in session.messages)


@dataclass(frozen=True, slots=True)
class Repair:
    """Something that the published file gets wrong, and what was made of it."""

    kind: str
    where: str
    value: str
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """A sample without its sessions: what collecting tests needs of it. ``haystack`` is a hash of what the sessions
    say: samples with the same one ask about the same text, whatever their ids and dates. ``content`` is one of all that
    a memory is given of them, in its order."""

    sample_id: str
    qa_pairs: tuple[QAPair, ...]
    haystack: str = ""
    content: str = ""

    @classmethod
    def of(cls, sample: Sample) -> Outline:
        """The sample's outline."""
        return cls(sample.sample_id, sample.qa_pairs, haystack_hash(sample.sessions), sessions_hash(sample.sessions))


def haystack_hash(sessions: Sequence[Session]) -> str:
    """SHA-256 of who says what in the sessions, in the order of the sessions' own hashes: neither ids, nor dates, nor
    the order in which a file lists the sessions tell two haystacks apart."""
    digests: list[bytes] = []
    for session in sessions:
        said = hashlib.sha256()
        for message in session.messages:
            for part in (message.role, message.name or "", message.content):
                raw = part.encode("utf-8", "surrogatepass")
                said.update(b"%d:" % len(raw))
                said.update(raw)
        digests.append(said.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def sessions_hash(sessions: Sequence[Session]) -> str:
    """SHA-256 of everything in the sessions: texts, speakers, ids, times, extras, and their order."""
    digest = hashlib.sha256()
    for session in sessions:
        parts: list[Any] = [session.id, session.time_text, session.time]
        for message in session.messages:
            parts += [message.id, message.role, message.name, message.content, message.time, dict(message.extra or {})]
        digest.update(json.dumps(parts, ensure_ascii=True, sort_keys=True, default=str).encode())
    return digest.hexdigest()


@dataclass(slots=True)
class Dataset(Sequence[Sample]):
    """A loaded benchmark file: a sequence of samples.

    A large file is streamed: ``dataset[i]`` and iteration read samples when they are asked for, and few are kept.
    ``outlines`` are always in memory. ``repairs`` lists what was mended or flagged, ``sha256`` pins the file and
    ``revision`` says which published one it is (``None``: none that is known).
    """

    format: str
    path: Path
    outlines: tuple[Outline, ...]
    read: Callable[[int], Sample]
    sha256: str = ""
    revision: str | None = None
    repairs: tuple[Repair, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.outlines)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self.read(one) for one in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.read(index % len(self))

    def __iter__(self) -> Iterator[Sample]:
        return (self.read(index) for index in range(len(self)))

    @property
    def repair_counts(self) -> dict[str, int]:
        """Repairs by kind, kinds in sorted order."""
        counts: dict[str, int] = {}
        for repair in self.repairs:
            counts[repair.kind] = counts.get(repair.kind, 0) + 1
        return dict(sorted(counts.items()))
