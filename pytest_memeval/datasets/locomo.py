"""LoCoMo (Maharana et al., *Evaluating very long-term conversational memory of LLM agents*, ACL 2024)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_memeval.datasets.models import Dataset, Outline, QAPair, QuestionType, Repair, Sample, Session
from pytest_memeval.datasets.records import fault, read_records
from pytest_memeval.datasets.revisions import file_sha256, known_revision
from pytest_memeval.datasets.times import parse_time
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.values import Message

#: The benchmark's category numbers.
CATEGORIES: Mapping[int, QuestionType] = {
    1: QuestionType.multi_hop,
    2: QuestionType.temporal,
    3: QuestionType.open_domain,
    4: QuestionType.single_hop,
    5: QuestionType.adversarial,
}
_SESSION = re.compile(r"session_(\d+)")
_DATE = re.compile(r"session_(\d+)_date_time")
#: An evidence id as it should be, and with the slips that the published file has (``D:11:26``, ``D30:05``).
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(slots=True)
class _Reading:
    """One file while it is read."""

    path: Path
    repairs: list[Repair] = field(default_factory=list)

    def repaired(self, kind: str, where: str, value: object, result: str | None = None) -> None:
        self.repairs.append(Repair(kind, where, str(value), result))

    def fault(self, where: str, message: str) -> DocumentError:
        return fault(self.path, f"{where}: {message}")


def load_locomo(path: str | Path, *, captions: bool = True) -> Dataset:
    """The samples of a LoCoMo file, in either published layout (nested ``conversation`` or flat ``session_N`` keys).

    A turn with an image is its text with the image's caption behind it, ``[shares an image: …]``; without ``captions``
    its text alone. What the published file gets wrong is mended or flagged, and listed in ``Dataset.repairs``: answers
    that are numbers, evidence ids that are run together, misspelt or of no turn, sessions with a date and no turns,
    sessions out of order. Category 5's truth is a refusal: its ``answer`` is empty (unless the file has one), and what
    the file calls ``adversarial_answer`` is ``trap``. Message ids are the file's ``D1:3``, session ids ``D1``.
    Raises DocumentError with the sample, the place and the value for what cannot be used.
    """
    reading = _Reading(Path(path))
    samples: list[Sample] = []
    for position, record in enumerate(read_records(reading.path)):
        sample = _sample(record, position, reading, captions)
        if any(sample.sample_id == earlier.sample_id for earlier in samples):
            raise reading.fault(f"record {position}", f"the sample id {sample.sample_id!r} is there twice")
        samples.append(sample)
    if not samples:
        raise fault(reading.path, "the file holds no conversation")
    digest = file_sha256(reading.path)
    return Dataset(
        format="locomo",
        path=reading.path,
        outlines=tuple(map(Outline.of, samples)),
        read=samples.__getitem__,
        sha256=digest,
        revision=known_revision(digest),
        repairs=tuple(reading.repairs),
        extra={"captions": captions},
    )


def _sample(record: Any, position: int, reading: _Reading, captions: bool) -> Sample:
    if not isinstance(record, dict):
        raise reading.fault(f"record {position}", f"an object is expected, not {type(record).__name__}")
    sample_id = str(record.get("sample_id") or f"sample-{position}")
    nested = record.get("conversation")
    conversation: Mapping[str, Any] = nested if isinstance(nested, dict) else record
    sessions = _sessions(conversation, sample_id, reading, captions)
    if not sessions:
        raise reading.fault(sample_id, "no session_N with turns, neither in the record nor in its 'conversation'")
    questions = record.get("qa")
    if not isinstance(questions, list):
        raise reading.fault(sample_id, f"'qa' must be a list of questions, not {type(questions).__name__}")
    turns = {message.id for session in sessions for message in session.messages}
    pairs = tuple(_question(one, index, sample_id, turns, reading) for index, one in enumerate(questions))
    speakers = tuple(str(conversation[key]) for key in ("speaker_a", "speaker_b") if conversation.get(key))
    return Sample(sample_id, sessions, pairs, speakers)


def _sessions(
    conversation: Mapping[str, Any], sample_id: str, reading: _Reading, captions: bool
) -> tuple[Session, ...]:
    numbered = {int(found[1]): key for key in conversation if (found := _SESSION.fullmatch(key))}
    for key in conversation:
        found = _DATE.fullmatch(key)
        if found and not conversation.get(f"session_{int(found[1])}"):
            reading.repaired("session_without_turns", f"{sample_id} {key}", conversation[key], "left out")
    sessions: list[Session] = []
    seen: set[str] = set()
    for number in sorted(numbered):
        turns = conversation[numbered[number]]
        if not turns:
            continue
        where = f"{sample_id} session_{number}"
        if not isinstance(turns, list):
            raise reading.fault(where, f"a list of turns is expected, not {type(turns).__name__}")
        text = str(conversation.get(f"session_{number}_date_time") or "")
        if not text:
            reading.repaired("session_without_date", where, "", "no time")
        try:
            time = parse_time(text) if text else None
        except ValueError as error:
            raise reading.fault(where, str(error)) from None
        messages = []
        for place, turn in enumerate(turns, 1):
            if not isinstance(turn, dict) or not isinstance(turn.get("text", ""), str):
                raise reading.fault(f"{where} turn {place}", "a turn is an object with speaker, dia_id and text")
            identifier = str(turn.get("dia_id") or "")
            if not identifier or identifier in seen:
                mended = f"D{number}:{place}"
                if mended in seen:
                    raise reading.fault(f"{where} turn {place}", f"the turn id {identifier or mended!r} is there twice")
                reading.repaired("turn_id", f"{where} turn {place}", identifier, mended)
                identifier = mended
            seen.add(identifier)
            speaker = str(turn.get("speaker") or "")
            content = _content(turn, captions)
            extra = {"caption": str(turn["blip_caption"])} if turn.get("blip_caption") else {}
            messages.append(Message(identifier, "user", content, speaker or None, time, extra))
        sessions.append(Session(f"D{number}", tuple(messages), time, text))
    ordered = sorted(sessions, key=lambda one: (one.time is None, one.time.timestamp() if one.time else 0.0))
    if ordered != sessions:
        reading.repaired("sessions_out_of_order", sample_id, [one.id for one in sessions], "sorted by time")
    return tuple(ordered)


def _content(turn: Mapping[str, Any], captions: bool) -> str:
    text = turn.get("text", "").strip()
    caption = turn.get("blip_caption")
    return f"{text} [shares an image: {str(caption).strip()}]".lstrip() if captions and caption else text


def _question(record: Any, index: int, sample_id: str, turns: set[str], reading: _Reading) -> QAPair:
    where = f"{sample_id} question {index}"
    if not isinstance(record, dict) or not isinstance(record.get("question"), str):
        raise reading.fault(where, "a question is an object with question, answer, evidence and category")
    category = record.get("category")
    if isinstance(category, bool) or not isinstance(category, int) or category not in CATEGORIES:
        raise reading.fault(where, f"category {category!r} is none of {', '.join(map(str, CATEGORIES))}")
    adversarial = category == 5
    answer = record.get("answer")
    if answer is None and not adversarial:
        raise reading.fault(where, "no 'answer'")
    if adversarial and answer is None:
        reading.repaired(
            "adversarial_without_answer", where, record.get("adversarial_answer"), "the truth is a refusal"
        )
    if answer is not None and not isinstance(answer, str):
        reading.repaired("answer_not_text", where, answer, _text(answer))
    trap = record.get("adversarial_answer")
    raw, evidence = _evidence(record.get("evidence"), where, turns, reading)
    return QAPair(
        question_id=f"{sample_id}-q{index}",
        question=record["question"].strip(),
        answer="" if answer is None else _text(answer),
        question_type=CATEGORIES[category],
        index=index,
        evidence=evidence,
        evidence_sessions=tuple(dict.fromkeys(one.partition(":")[0] for one in evidence)),
        raw_evidence=raw,
        category=category,
        unanswerable=adversarial,
        trap=None if trap is None else _text(trap),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _evidence(value: Any, where: str, turns: set[str], reading: _Reading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The evidence as published, and the ids of turns in it."""
    listed: Sequence[Any] = value if isinstance(value, list) else [] if value is None else [value]
    raw = tuple(str(one) for one in listed)
    if not raw:
        reading.repaired("no_evidence", where, value, "no retrieval figure")
    evidence: list[str] = []
    for text in raw:
        found = mend_evidence(text)
        if not found:
            reading.repaired("evidence_unreadable", where, text, "left out")
        elif found != [text]:
            reading.repaired("evidence_mended", where, text, " ".join(found))
        for one in found:
            if one in turns:
                evidence.append(one)
            else:
                reading.repaired("evidence_of_no_turn", where, one, "left out")
    return raw, tuple(dict.fromkeys(evidence))


def mend_evidence(text: str) -> list[str]:
    """The turn ids in an evidence entry: ``D8:6; D9:17`` are two, ``D:11:26`` is ``D11:26``, ``D`` is none."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(text)]
