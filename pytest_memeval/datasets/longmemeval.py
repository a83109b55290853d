"""LongMemEval (Wu et al., *LongMemEval: benchmarking chat assistants on long-term interactive memory*, ICLR 2025)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_memeval.datasets.models import Dataset, Outline, QAPair, QuestionType, Repair, Sample, Session
from pytest_memeval.datasets.records import fault, is_streamed, read_records
from pytest_memeval.datasets.revisions import file_sha256, known_revision
from pytest_memeval.datasets.times import parse_time
from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.values import Message

#: The benchmark's names of question types.
TYPES: Mapping[str, QuestionType] = {
    "single-session-user": QuestionType.single_session_user,
    "single-session-assistant": QuestionType.single_session_assistant,
    "single-session-preference": QuestionType.single_session_preference,
    "multi-session": QuestionType.multi_session,
    "temporal-reasoning": QuestionType.temporal_reasoning,
    "knowledge-update": QuestionType.knowledge_update,
}
ABSTENTION = "_abs"
#: So many samples of a streamed file are kept, since cases that overlap ask for them in a slightly different order.
_KEPT = 4


def load_longmemeval(path: str | Path) -> Dataset:
    """The samples of a LongMemEval file: one haystack with one question each.

    A file above 64 MB is streamed (with ``ijson``): the questions are kept, haystacks are read again when they are
    asked for. Sessions are sorted by time; session ids are the file's, message ids ``<session id>_<turn>`` with turns
    counted from 1. ``answer`` is text whatever the file has; a question whose id ends ``_abs`` is ``unanswerable``.
    What was mended is listed in ``Dataset.repairs``. Raises DocumentError with the question's id for what cannot be
    used.
    """
    path = Path(path)
    repairs: list[Repair] = []
    streamed = is_streamed(path) if path.is_file() else False
    samples: list[Sample] = []
    outlines: list[Outline] = []
    seen: set[str] = set()
    for position, record in enumerate(read_records(path)):
        sample = _sample(record, position, path, repairs)
        if sample.sample_id in seen:
            raise fault(path, f"record {position}: the question id {sample.sample_id!r} is there twice")
        seen.add(sample.sample_id)
        outlines.append(Outline.of(sample))
        if not streamed:
            samples.append(sample)
    if not outlines:
        raise fault(path, "the file holds no question")
    digest = file_sha256(path)
    return Dataset(
        format="longmemeval",
        path=path,
        outlines=tuple(outlines),
        read=StreamedSamples(path) if streamed else samples.__getitem__,
        sha256=digest,
        revision=known_revision(digest),
        repairs=tuple(repairs),
        extra={"streamed": streamed},
    )


class StreamedSamples:
    """Samples of a file by position, read in passes over it: a later one by going on, an earlier one by a new pass."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._records: Iterator[Any] | None = None
        self._next = 0
        self._kept: OrderedDict[int, Sample] = OrderedDict()

    def __call__(self, index: int) -> Sample:
        with self._lock:
            if index in self._kept:
                return self._kept[index]
            if self._records is None or index < self._next:
                self._records, self._next = read_records(self._path), 0
            for record in self._records:
                position, self._next = self._next, self._next + 1
                # The ones just before are likely to be asked for too: cases overlap.
                if position > index - _KEPT:
                    self._kept[position] = _sample(record, position, self._path, [])
                    while len(self._kept) > _KEPT:
                        self._kept.popitem(last=False)
                if position == index:
                    return self._kept[index]
            self._records = None
            raise fault(self._path, f"record {index} is no longer there: the file has changed since it was collected")


def _sample(record: Any, position: int, path: Path, repairs: list[Repair]) -> Sample:
    if not isinstance(record, dict):
        raise fault(path, f"record {position}: an object is expected, not {type(record).__name__}")
    question_id = str(record.get("question_id") or "")
    where = question_id or f"record {position}"
    if not question_id:
        raise fault(path, f"{where}: no 'question_id'")
    kind = str(record.get("question_type"))
    if kind not in TYPES:
        raise fault(path, f"{where}: unknown question_type {kind!r}{did_you_mean(kind, TYPES)}")
    question = record.get("question")
    if not isinstance(question, str):
        raise fault(path, f"{where}: 'question' must be text, not {type(question).__name__}")
    answer = record.get("answer")
    if answer is None:
        raise fault(path, f"{where}: no 'answer'")
    if not isinstance(answer, str):
        repairs.append(Repair("answer_not_text", where, str(answer), str(answer)))
    date = str(record.get("question_date") or "")
    sessions, evidence = _sessions(record, where, path, repairs)
    wanted = tuple(str(one) for one in record.get("answer_session_ids") or ())
    known = {session.id for session in sessions}
    for missing in [one for one in wanted if one not in known]:
        repairs.append(Repair("evidence_of_no_session", where, missing, "left out"))
    pair = QAPair(
        question_id=question_id,
        question=question.strip(),
        answer=str(answer),
        question_type=TYPES[kind],
        evidence=evidence,
        evidence_sessions=tuple(dict.fromkeys(one for one in wanted if one in known)),
        raw_evidence=wanted,
        unanswerable=question_id.endswith(ABSTENTION),
        question_time=_time(date, where, path) if date else None,
        question_date=date,
    )
    return Sample(question_id, sessions, (pair,))


def _sessions(
    record: Mapping[str, Any], where: str, path: Path, repairs: list[Repair]
) -> tuple[tuple[Session, ...], tuple[str, ...]]:
    """The haystack's sessions by time, and the ids of the turns that hold the answer."""
    columns = [record.get(f"haystack_{name}") for name in ("session_ids", "dates", "sessions")]
    lists: list[list[Any]] = []
    for name, column in zip(("session_ids", "dates", "sessions"), columns, strict=True):
        if not isinstance(column, list):
            raise fault(path, f"{where}: 'haystack_{name}' must be a list, not {type(column).__name__}")
        lists.append(column)
    identifiers, dates, haystack = lists
    if not len(identifiers) == len(dates) == len(haystack):
        sizes = f"{len(identifiers)} ids, {len(dates)} dates, {len(haystack)} sessions"
        raise fault(path, f"{where}: the haystack's lists differ in length: {sizes}")
    sessions: list[Session] = []
    evidence: list[str] = []
    seen: dict[str, int] = {}
    for raw, date, turns in zip(identifiers, dates, haystack, strict=True):
        identifier = str(raw)
        seen[identifier] = seen.get(identifier, 0) + 1
        if seen[identifier] > 1:
            mended = f"{identifier}#{seen[identifier]}"
            repairs.append(Repair("session_id_twice", where, identifier, mended))
            identifier = mended
        if not turns:
            repairs.append(Repair("session_without_turns", where, identifier, "left out"))
            continue
        time = _time(str(date), f"{where} session {identifier}", path)
        messages: list[Message] = []
        for place, turn in enumerate(turns, 1):
            message_id = f"{identifier}_{place}"
            if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
                raise fault(path, f"{where} session {identifier} turn {place}: a turn has a role and a text as content")
            if turn.get("has_answer"):
                evidence.append(message_id)
            messages.append(Message(message_id, str(turn.get("role") or "user"), turn["content"], None, time))
        sessions.append(Session(identifier, tuple(messages), time, str(date)))
    ordered = sorted(sessions, key=lambda one: one.time.timestamp() if one.time else 0.0)
    if ordered != sessions:
        repairs.append(Repair("sessions_out_of_order", where, f"{len(sessions)} sessions", "sorted by time"))
    return tuple(ordered), tuple(evidence)


def _time(text: str, where: str, path: Path) -> datetime:
    try:
        return parse_time(text)
    except ValueError as error:
        raise fault(path, f"{where}: {error}") from None
