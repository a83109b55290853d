"""Reading reports back: a whole report, a run's cases, the journal of a run that did not end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pytest_memeval.documents.problems import json_fault
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.report.build import SCHEMA_VERSION
from pytest_memeval.report.entries import HOISTED, KEPT
from pytest_memeval.report.lines import read_by_lines
from pytest_memeval.report.shapes import damage, kind_of
from pytest_memeval.results import CallRecord, CaseError, CaseResult, RunInfo, SetInfo

REPORT_NAME = "report.json"
JOURNAL_NAME = "journal.jsonl"
#: Keys without which a file is no report of ours.
_REQUIRED = ("schema_version", "run_id", "summary", "counts", "gates", "per_case", "case_sets")
_SECTION_KEYS = frozenset({"values", "ratios", "counts", "tables", "details"})


#: What reading a damaged report runs into.
DAMAGES = (KeyError, TypeError, AttributeError, IndexError, ValueError)


class ReportError(Exception):
    """A report that cannot be used; the text is one sentence that says why."""


class LoadedCases(NamedTuple):
    """A report whose ``per_case`` is empty, and the cases that were in it."""

    report: dict[str, Any]
    records: list[CaseResult]


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Around work on a report that was loaded: what it lacks deeper within becomes a ReportError."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ReportError(f"{name} is damaged: {_told(error)}.") from error


def find_report(path: Path) -> Path:
    """The report file meant by ``path``: the file itself, or a run folder's ``report.json``. Raises ReportError."""
    if path.is_dir():
        found = path / REPORT_NAME
        if not found.is_file():
            inside = sorted(file.parent.name for file in path.glob(f"*/{REPORT_NAME}"))
            of_variants = f"; its variants have one each: {', '.join(inside)}" if inside else ""
            raise ReportError(f"{path} holds no {REPORT_NAME}{of_variants}.")
        return found
    if not path.exists():
        raise ReportError(f"There is no report at {path}.")
    return path


def load_report(path: Path | str) -> dict[str, Any]:
    """The report at ``path`` (a file, or a run folder).

    A newer minor version is read (its new keys are left alone). A newer major version, a file that is no JSON, or JSON
    that is no report raises ReportError.
    """
    file = find_report(Path(path))
    found = read_by_lines(file, list)
    return check_report(_whole(file) if found is None else found, str(file))


def load_records(path: Path | str, without: Callable[[dict[str, Any]], dict[str, Any]]) -> LoadedCases:
    """The report at ``path``, its ``per_case`` empty, and its cases without what ``without`` takes out of each entry.

    Only one case's entry is in memory at a time: a report of 10,000 cases is 150 MB of text, and ten times that as
    dicts. Raises ReportError as :func:`load_report` and :func:`records_of` do.
    """
    file = find_report(Path(path))

    def records(entries: Iterable[Any]) -> list[CaseResult]:
        return [case_result_from_entry(without(entry)) for entry in entries]

    found = read_by_lines(file, records)
    if found is None:
        whole = check_report(_whole(file), str(file))
        return LoadedCases({**whole, "per_case": []}, records(whole["per_case"]))
    own: list[CaseResult] = found["per_case"]
    return LoadedCases(check_report({**found, "per_case": []}, str(file)), own)


def _whole(file: Path) -> Any:
    """The JSON of a file, whatever its lay-out. Raises ReportError."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReportError(f"{file} is not UTF-8 text (byte {error.start}), so it is no report.") from error
    except OSError as error:
        raise ReportError(f"{file} cannot be read: {error.strerror or error}.") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno}: {json_fault(error)})" if isinstance(error, json.JSONDecodeError) else ""
        raise ReportError(f"{file} is not valid JSON{where}; was its run cut short?") from error


def check_report(report: Any, name: str = "report") -> dict[str, Any]:
    """``report`` itself if it is one that this version can read, else ReportError."""
    if not isinstance(report, dict):
        raise ReportError(f"{name} holds a JSON {kind_of(report)}, not a report.")
    missing = [key for key in _REQUIRED if key not in report]
    if missing:
        raise ReportError(f"{name} is no memeval report: it lacks {', '.join(repr(key) for key in missing)}.")
    version = report["schema_version"]
    if not isinstance(version, str) or re.fullmatch(r"[0-9]{1,9}\.[0-9]+(\..+)?", version) is None:
        shown = "null" if version is None else repr(version)
        raise ReportError(f"{name} has schema_version {shown:.40}, which is not of the form major.minor.")
    major = version.partition(".")[0]
    known = int(SCHEMA_VERSION.partition(".")[0])
    if int(major) < 1:
        raise ReportError(f"{name} has schema version {version}, which no version of memeval writes; run it again.")
    if int(major) > known:
        raise ReportError(
            f"{name} has schema version {version}, newer than the {known}.x that this version of memeval reads; "
            "upgrade memeval to read it."
        )
    wrong = damage(report)
    if wrong is not None:
        raise ReportError(f"{name} is damaged: {wrong}.")
    return report


def case_result_from_entry(entry: Mapping[str, Any]) -> CaseResult:
    """An entry of ``per_case`` as the CaseResult it was made from, without prompts and answers.

    Under a text policy other than ``full`` the texts are digests or absent, the figures the same. Raises ReportError
    for an entry that lacks what every entry has.
    """
    try:
        return CaseResult(
            **{
                key: entry[key]
                for key in ("node_id", "set", "case_id", "outcome", "variant", "kind", "source", "difficulty", "line")
            },
            tags=tuple(entry["tags"]),
            content_hash=entry["content_hash"],
            cluster=entry.get("cluster") or "",
            stages=dict(entry["stages"]),
            sections=dict(_sections(entry)),
            errors=tuple(CaseError(e["stage"], e["kind"], e["message"]) for e in entry["errors"]),
            missed_expectations=tuple(entry["missed_expectations"]),
            has_expectations=entry["has_expectations"],
            input=dict(entry.get("input") or {}),
            outputs=dict(entry["outputs"] or {}),
            facts=tuple(dict(fact) for fact in entry["facts"] or ()),
            calls=tuple(_calls(entry)),
            duration_seconds=entry["duration_seconds"],
            timings=dict(entry["timings"]["stages"]),
            trials=tuple(entry.get("trials") or ()),
            embeddings=dict(entry["timings"].get("embeddings") or {}),
        )
    except DAMAGES as error:
        name = entry.get("node_id", "?") if isinstance(entry, Mapping) else "?"
        raise ReportError(f"The entry of case {name} is damaged: {type(error).__name__} {error}.") from error


def _sections(entry: Mapping[str, Any]) -> Iterator[tuple[str, SectionRecord]]:
    for name, section in entry.items():
        if not isinstance(section, Mapping) or not section.keys() >= _SECTION_KEYS:
            continue
        if name == "l1":
            moved = {detail: entry[key] for key, detail in HOISTED.items() if entry.get(key) is not None}
            section = {**section, "details": {**moved, **section["details"]}}
        yield name, SectionRecord.from_json(section)


def _calls(entry: Mapping[str, Any]) -> Iterator[CallRecord]:
    for kept, varying in zip(entry["calls"], entry["timings"]["calls"], strict=True):
        yield CallRecord(
            id=varying["id"],
            latency=varying["latency"],
            cached=varying["cached"],
            attempts=varying["attempts"],
            **{name: kept[name] for name in KEPT},
        )


def records_of(report: Mapping[str, Any]) -> list[CaseResult]:
    """Every case of a report."""
    return [case_result_from_entry(entry) for entry in report["per_case"]]


def sets_of(report: Mapping[str, Any]) -> list[SetInfo]:
    """The case files of a report, with their own gates. Raises ReportError for one that is damaged."""
    found = []
    for path, scope in report["case_sets"].items():
        try:
            found.append(SetInfo.from_json({**scope, "path": path, "gates": scope["gate_texts"]}))
        except DAMAGES as error:
            raise ReportError(f"The report's case set {path} is damaged: {_told(error)}.") from error
    return found


def _told(error: Exception) -> str:
    """What a damaged part of a report lacks or has wrong."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def run_of(report: Mapping[str, Any]) -> RunInfo:
    """What a report says of its run besides the cases. Its notes are those that the run itself gave. Raises ReportError
    where something of it is missing."""
    try:
        return _run_of(report)
    except DAMAGES as error:
        raise ReportError(f"The report is damaged: {_told(error)}.") from error


def _run_of(report: Mapping[str, Any]) -> RunInfo:
    return RunInfo(
        run_id=report["run_id"],
        timestamp=report["timestamp"],
        duration_seconds=report["summary"]["duration_seconds"],
        stages=tuple(report["stages"]["selected"]),
        stage_input=report["stages"]["input"],
        supported_stages=tuple(report["stages"]["supported"]),
        prompt_versions=report["prompt_versions"],
        prompt_hashes=report["prompt_hashes"],
        model=report["model"],
        judge=report.get("judge"),
        engine=report["engine"],
        matcher=report["matcher"],
        registry=report.get("registry", {}),
        templates=report.get("templates", {}),
        gates=tuple((gate[0], gate[1]) for gate in report["gating"]["command_line"]),
        gates_enabled=report["gating"]["enabled"],
        max_error_rate=report["gating"]["max_error_rate"],
        partial=report["partial"],
        not_run=tuple((entry[0], entry[1]) for entry in report["not_run"]),
        gone=tuple((entry[0], entry[1]) for entry in report.get("gone", ())),
        broken_files=tuple((entry[0], entry[1]) for entry in report.get("broken_files", ())),
        notes=tuple(report["run_notes"]),
        shard=report.get("shard"),
        protocol=report.get("protocol"),
        variant=report.get("variant"),
        stopping=report.get("stopping"),
        config=report["config"],
        environment=report["environment"],
    )


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a ``.jsonl`` file, one a line. A last line that was only half written is left out; any other
    line that cannot be read raises ReportError naming it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror or error}.") from error
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
            if not isinstance(value, dict):
                raise ValueError("not a JSON object")
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise ReportError(f"{path}:{number} cannot be read: {error}.") from error
        yield value


def read_journal(path: Path) -> list[CaseResult]:
    """The cases of a journal in the order in which they ended, the last record of each. Raises ReportError."""
    latest: dict[str, CaseResult] = {}
    for number, line in enumerate(read_lines(path), 1):
        try:
            record = CaseResult.from_json(line)
        except DAMAGES as error:
            raise ReportError(f"{path}:{number} is no case record: {type(error).__name__} {error}.") from error
        latest.pop(record.node_id, None)
        latest[record.node_id] = record
    return list(latest.values())
