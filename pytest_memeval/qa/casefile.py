"""Files of questions: a published data set, a YAML file that names one, or a YAML file with cases of one's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from pytest_memeval.cases.conversation import ConversationError, parse_conversation, parse_time
from pytest_memeval.cases.fieldtypes import AsNode, Field, ListOf, MapOf, Number, Row, Table, Text
from pytest_memeval.cases.names import check_case_id
from pytest_memeval.cases.reporting import ProblemLog, place_of
from pytest_memeval.cases.sniff import looks_like_case_file
from pytest_memeval.cases.tables import KINDS, META
from pytest_memeval.datasets.errata import load_errata, with_errata
from pytest_memeval.datasets.locomo import load_locomo
from pytest_memeval.datasets.longmemeval import load_longmemeval
from pytest_memeval.datasets.models import Dataset, Outline, QAPair, QuestionType, Sample, Session
from pytest_memeval.datasets.recognise import FORMATS, recognise
from pytest_memeval.datasets.records import WHOLE_BYTES
from pytest_memeval.datasets.revisions import file_sha256
from pytest_memeval.datasets.selection import categories_of, select
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.documents.reader import read_document
from pytest_memeval.documents.tree import Document, Node
from pytest_memeval.metrics.thresholds import Gate, Threshold, ThresholdError, parse_gate, parse_threshold
from pytest_memeval.qa.cases import QASet, cases_of, dataset_protocol
from pytest_memeval.values import Message

DATASET = Table(
    "dataset",
    {
        "format": Field(Text(FORMATS, "format"), "locomo or longmemeval; without it the file is recognised by content"),
        "path": Field(Text(), "the data file, relative to this file", required=True),
        "limit": Field(Number(minimum=1), "only the first N questions"),
        "categories": Field(ListOf(Text()), "only these categories, by LoCoMo's number or by name"),
        "errata": Field(Text(), "a file of corrected labels, relative to this file"),
        "captions": Field(Text(("on", "off", "true", "false"), "value"), "whether image captions are read (LoCoMo)"),
    },
)
QUESTION = Table(
    "a question",
    {
        "id": Field(Text(), "unique in its case", required=True),
        "question": Field(Text(), "what is asked", required=True),
        "answer": Field(Text(), "the truth; without it the right reply is a refusal"),
        "type": Field(Text(tuple(one.value for one in QuestionType), "question type"), "what it asks of a memory"),
        "evidence": Field(ListOf(Text()), "ids of the messages that hold the answer"),
        "question_date": Field(Text(), "when it is asked, ISO time"),
        "expect": Field(MapOf(Text()), "metric → threshold of this question"),
    },
)
SESSION = Table(
    "a session",
    {
        "id": Field(Text(), "unique in its case", required=True),
        "time": Field(Text(), "when it began, ISO time"),
        "conversation": Field(AsNode(), "text with [msg#N] headers, or a list of messages", required=True),
    },
)
CASE = Table(
    "a case",
    {
        "case_id": Field(Text(), "unique in the file", required=True),
        "conversation": Field(AsNode(), "one session: text with [msg#N] headers, or a list of messages"),
        "sessions": Field(ListOf(SESSION), "several sessions in place of one conversation"),
        "questions": Field(ListOf(QUESTION), "what is asked about the conversation", required=True),
        "notes": Field(Text(), "remarks"),
    },
)
FILE = Table(
    "the file",
    {
        "meta": Field(META, "about the set"),
        "kind": Field(Text(KINDS, "kind"), "qa"),
        "dataset": Field(DATASET, "a published data set"),
        "cases": Field(ListOf(CASE), "conversations with questions"),
    },
)
_QUESTION_KEY = re.compile(rb'"question"\s*:')
_DIGITS = re.compile(r"(\d+)")


def load_question_file(path: Path) -> QASet:
    """The questions of a file. Never raises for a bad one: every problem is in the set."""
    try:
        if path.suffix.lower() == ".json" and not _is_in_braces(path):
            return _of_dataset(path, _read_dataset(path, None), _question_lines(path))
        return _Yaml(read_document(path, strict=False)).load()
    except DocumentError as error:
        return QASet(path, "qa", problems=error.problems)


def _is_in_braces(path: Path) -> bool:
    """Whether a JSON file is one mapping, with cases in it; published data sets are lists."""
    try:
        with path.open("rb") as stream:
            head = stream.read(1024).removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return False
    return head.lstrip().startswith(b"{") and looks_like_case_file(path)


def _read_dataset(path: Path, format_name: str | None, *, captions: bool = True) -> Dataset:
    found = format_name or recognise(path)
    if found is None:
        message = "no such file" if not path.is_file() else f"neither of {', '.join(FORMATS)} by its content"
        raise DocumentError([Problem(path, 0, 0, message)])
    return load_locomo(path, captions=captions) if found == "locomo" else load_longmemeval(path)


def _question_lines(path: Path) -> list[int]:
    """The line of every question of a JSON file, in order; nothing for a file too large to look for them.

    A quotation mark inside a JSON text is escaped, so the key cannot occur in one.
    """
    if path.stat().st_size > WHOLE_BYTES:
        return []
    content = path.read_bytes()
    lines, line, at = [], 1, 0
    for found in _QUESTION_KEY.finditer(content):
        line += content.count(b"\n", at, found.start())
        at = found.start()
        lines.append(line)
    return lines


def _of_dataset(path: Path, dataset: Dataset, lines: Sequence[int] = (), **more: Any) -> QASet:
    questions = sum(len(outline.qa_pairs) for outline in dataset.outlines)
    cases = cases_of(dataset, lines if len(lines) == questions else ())
    return QASet(
        path,
        "qa",
        cases,
        problems=_name_problems(path, cases),
        dataset=dataset,
        **{
            "extra": {"protocol": dataset_protocol(dataset)},
            **more,
        },
    )


def _name_problems(path: Path, cases: Sequence[Any]) -> tuple[Problem, ...]:
    """Names that no node id can have."""
    found = []
    for case in cases:
        for name in case.case_id.split("::") if case.case_id.count("::") < 2 else [case.case_id]:
            fault = check_case_id(name)
            if fault is not None:
                found.append(Problem(path, case.line, 0, fault, case.case_id))
    return tuple(found)


@dataclass
class _Yaml:
    document: Document

    def __post_init__(self) -> None:
        self.path = self.document.path
        self.log = ProblemLog(self.document)
        self.zone: tzinfo = UTC

    def load(self) -> QASet:
        row = FILE.read(self.document.tape, self.document.root.at, self.log)
        made = QASet(self.path, "qa")
        if row is not None:
            meta: Row | None = row.get("meta")
            shared = self.meta(meta) if meta is not None else {}
            if "dataset" in row.places and "cases" in row.places:
                self.log.structure(row.places["cases"], "a file has a 'dataset' or 'cases', not both")
            elif "dataset" in row.values:
                made = self.of_dataset(row.values["dataset"], shared) or made
            elif "cases" in row.places:
                made = self.of_cases(row.get("cases") or [], shared)
            elif "dataset" not in row.places:
                self.log.structure(row.at, "the file needs 'cases' or a 'dataset'")
        problems = (*self.log.file, *made.problems)
        return replace(made, problems=tuple(sorted(problems, key=place_of)))

    def meta(self, row: Row) -> dict[str, Any]:
        gates: list[Gate] = []
        for at, text in row.values.get("gates", ()):
            try:
                gates.append(parse_gate(text, "file"))
            except ThresholdError as error:
                self.log.structure(at, f"gate: {error}")
        self.zone = self.time_zone(row)
        note = row.get("extra", {}).get("gates_note")
        return {
            "version": row.get("version"),
            "gates": tuple(gates) if "gates" in row.values else None,
            "note": None if note is None else str(note),
        }

    def time_zone(self, row: Row) -> tzinfo:
        from zoneinfo import ZoneInfo, available_timezones

        name = row.get("timezone", "UTC")
        try:
            return UTC if name == "UTC" else ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            guess = did_you_mean(name, sorted(available_timezones()))
            self.log.structure(row.places["timezone"], f"unknown time zone {name!r}{guess}")
            return UTC

    # -- a published data set --------------------------------------------------------------------------------------

    def of_dataset(self, row: Row, shared: dict[str, Any]) -> QASet | None:
        if "path" not in row.values:
            return None
        path = self.path.parent / row.values["path"]
        captions = row.get("captions") not in ("off", "false")
        try:
            dataset = _read_dataset(path, row.get("format"), captions=captions)
            extra: dict[str, Any] = {}
            if "errata" in row.values:
                errata = self.path.parent / row.values["errata"]
                dataset = with_errata(dataset, load_errata(errata))
                extra = {"errata": errata, "errata_sha256": file_sha256(errata)}
            categories = None
            if "categories" in row.values:
                names = [text for _, text in row.values["categories"]]
                categories = categories_of(names, dataset.format)
            limit = row.get("limit")
            dataset = select(dataset, limit=None if limit is None else int(limit), categories=categories)
        except DocumentError as error:
            for problem in error.problems:
                self.log.structure(row.places["path"], f"{problem}")
            return None
        except ValueError as error:
            self.log.structure(row.places["categories"], str(error))
            return None
        if not dataset.outlines:
            self.log.structure(row.at, "the data set has no question of these categories")
            return None
        protocol = dataset_protocol(dataset, **extra)
        line = self.log.line(row.places["path"])
        made = _of_dataset(self.path, dataset, extra={"protocol": protocol}, **shared)
        return replace(made, cases=tuple(replace(case, line=line) for case in made.cases))

    # -- cases of one's own ------------------------------------------------------------------------------------------

    def of_cases(self, rows: list[tuple[int, Row]], shared: dict[str, Any]) -> QASet:
        samples: list[Sample] = []
        lines: list[int] = []
        expect: dict[str, tuple[Threshold, ...]] = {}
        seen: dict[str, int] = {}
        if not rows and not self.log.file:
            self.log.structure(self.document.root.at, "the file has no cases")
        for at, row in rows:
            case_id = row.get("case_id")
            if case_id is None:
                continue
            self.log.case_id = case_id
            self.check_id(case_id, row.places["case_id"], seen, "case_id")
            sessions = self.sessions(row, at)
            pairs = self.questions(row, case_id, sessions, lines, expect)
            samples.append(Sample(case_id, sessions, pairs))
            self.log.case_id = None
        dataset = Dataset(
            format="cases",
            path=self.path,
            outlines=tuple(map(Outline.of, samples)),
            read=samples.__getitem__,
            sha256=file_sha256(self.path),
        )
        cases = cases_of(dataset, lines, expect=expect)
        return QASet(
            self.path, "qa", cases, dataset=dataset, **{"extra": {"protocol": dataset_protocol(dataset)}, **shared}
        )

    def check_id(self, name: str, at: int, seen: dict[str, int], what: str) -> None:
        fault = check_case_id(name)
        if fault is not None:
            self.log.structure(at, fault)
        if name in seen:
            self.log.structure(at, f"duplicate {what} {name!r}: lines {seen[name]} and {self.log.line(at)}")
        seen.setdefault(name, self.log.line(at))

    def sessions(self, row: Row, at: int) -> tuple[Session, ...]:
        if ("conversation" in row.places) == ("sessions" in row.places):
            self.log.structure(at, "a case needs a 'conversation' or 'sessions', one of them")
            return ()
        if "conversation" in row.places:
            return (self.session("s1", row.places["conversation"], None, prefix=""),)
        seen: dict[str, int] = {}
        found = []
        for _, one in row.values.get("sessions", ()):
            name = one.get("id")
            if name is None or "conversation" not in one.places:
                continue
            self.check_id(name, one.places["id"], seen, "session id")
            found.append(self.session(name, one.places["conversation"], one, prefix=f"{name}_"))
        return tuple(found)

    def session(self, name: str, at: int, row: Row | None, *, prefix: str) -> Session:
        """Message ids are as written for a single conversation, ``<session>_<message>`` for one of several."""
        node: Node = self.log.node(at)
        time = None
        if row is not None and "time" in row.values:
            try:
                time = parse_time(row.values["time"], self.zone)
            except ValueError as error:
                self.log.structure(row.places["time"], str(error))
        messages: tuple[Message, ...] = ()
        try:
            messages = parse_conversation(node.text if node.is_scalar else node.texts(), self.zone)
        except ConversationError as error:
            for fault in error.faults:
                self.log.structure(at, fault.text)
        if not messages and not self.log.file:
            self.log.structure(at, "the conversation has no message")
        kept = tuple(replace(message, id=f"{prefix}{message.id}", time=message.time or time) for message in messages)
        times = [message.time for message in kept if message.time is not None]
        return Session(
            name, kept, time or (min(times) if times else None), row.get("time", "") if row is not None else ""
        )

    def questions(
        self,
        row: Row,
        case_id: str,
        sessions: tuple[Session, ...],
        lines: list[int],
        expect: dict[str, tuple[Threshold, ...]],
    ) -> tuple[QAPair, ...]:
        known = {message.id: session.id for session in sessions for message in session.messages}
        seen: dict[str, int] = {}
        pairs: list[QAPair] = []
        rows: list[tuple[int, Row]] = row.get("questions") or []
        if not rows and "questions" in row.places and not self.log.file:
            self.log.structure(row.places["questions"], "the case has no question")
        for at, one in rows:
            name, question = one.get("id"), one.get("question")
            if name is None or question is None:
                continue
            self.check_id(name, one.places["id"], seen, "question id")
            if not question.strip():
                self.log.structure(one.places["question"], f"question {name!r} is empty: there is nothing to ask")
            evidence = tuple(text for _, text in one.get("evidence") or ())
            for place, text in one.get("evidence") or ():
                if text not in known:
                    self.log.structure(place, f"no message {text!r} in this case{did_you_mean(text, known)}")
            lines.append(self.log.line(at))
            pairs.append(self.pair(one, case_id, len(pairs), evidence, known))
            bounds = self.thresholds(one)
            if bounds:
                expect[f"{case_id}::{name}"] = bounds
        return tuple(pairs)

    def pair(self, row: Row, case_id: str, index: int, evidence: tuple[str, ...], known: dict[str, str]) -> QAPair:
        date = row.get("question_date", "")
        asked = None
        if date:
            try:
                asked = parse_time(date, self.zone)
            except ValueError as error:
                self.log.structure(row.places["question_date"], str(error))
        answer = row.get("answer", "")
        sessions = tuple(dict.fromkeys(known[one] for one in evidence if one in known))
        return QAPair(
            question_id=row.values["id"],
            question=row.values["question"],
            answer=answer,
            question_type=QuestionType(row.get("type", "single_hop")),
            index=index,
            evidence=evidence,
            evidence_sessions=sessions,
            raw_evidence=evidence,
            unanswerable=not answer.strip(),
            question_time=asked,
            question_date=date,
        )

    def thresholds(self, row: Row) -> tuple[Threshold, ...]:
        found = []
        for path, key_at, _, bound in row.get("expect") or ():
            try:
                found.append(parse_threshold(path, bound))
            except ThresholdError as error:
                self.log.structure(key_at, f"expect: {error}")
        return tuple(found)
