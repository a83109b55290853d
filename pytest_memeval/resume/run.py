"""Going on with a run that ended early: finished cases are taken from its journal, the rest is run.

A case is taken only if everything that its outputs depend on is as it was (:mod:`pytest_memeval.resume.key`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_memeval.options import SettingsError
from pytest_memeval.results import CaseResult
from pytest_memeval.resume.key import PARTS, changed_parts

#: Key of the text policy in a journal's line, where it is not ``full``.
POLICY_KEY = "report_text"
#: What became of a case in a resumed run.
TAKEN, CHANGED, ERRORED, ABSENT = "taken", "changed", "errored", "absent"
#: It is there, and cannot be taken: its databases were not kept, its record is damaged, or it was taken once already.
UNUSABLE = "unusable"

_RUN_ID = re.compile(r'"run_id":\s*"([^"]+)"')
_OTHER_JOURNAL = re.compile(r"journal-(.+)\.jsonl")
#: How a journal's lines begin.
_RECORD = b'{"node_id": '
#: What may have become of a run that somebody looks for.
_NO_CASE_YET = "a run that ended before its first case had leaves none, and there is nothing of it to go on with"


# -- the earlier run ----------------------------------------------------------------------------------------------


def find_journal(named: str, base: Path) -> Path:
    """The journal that ``--memeval-resume`` means: of ``latest`` (the newest run in ``.memeval/runs``, finished or
    not), of a run's id or folder, or a journal itself. Raises SettingsError."""
    from pytest_memeval.report.write import MEMEVAL_FOLDER

    runs = base / MEMEVAL_FOLDER / "runs"
    place = base / named
    if named == "latest" and not place.exists():
        folders = sorted(runs.iterdir(), reverse=True) if runs.is_dir() else []
        found = next((journal for folder in folders if (journal := _journal_in(folder)) is not None), None)
        if found is None:
            raise SettingsError(f"--memeval-resume latest: there is no run with a journal in {runs}; {_NO_CASE_YET}")
        return found
    if not place.exists() and (runs / named).is_dir():
        place = runs / named
    if not place.exists():
        raise SettingsError(f"--memeval-resume: there is no run at {place}; {_NO_CASE_YET}")
    if place.is_file() and place.suffix == ".jsonl":
        return place
    folder = place if place.is_dir() else place.parent
    journal = _journal_in(folder)
    if journal is None and place.is_file():
        raise SettingsError(
            f"--memeval-resume: {place} is no journal, and no file beside one; name a run's folder, its id, latest or a"
            " journal.jsonl"
        )
    if journal is None:
        raise SettingsError(
            f"--memeval-resume: {folder} holds no journal.jsonl, so no case of it can be taken; {_NO_CASE_YET}"
        )
    return journal


def _journal_in(folder: Path) -> Path | None:
    """A folder's newest journal: the complete run's, or that of a run into the same folder that did not end."""
    from pytest_memeval.report.reader import JOURNAL_NAME, REPORT_NAME

    if not folder.is_dir():
        return None
    found: list[tuple[str, Path]] = []
    for path in folder.glob("journal*.jsonl"):
        other = _OTHER_JOURNAL.fullmatch(path.name)
        if other is not None:
            found.append((other[1], path))
        elif path.name == JOURNAL_NAME:
            found.append((_run_id_in(folder / REPORT_NAME), path))
    return max(found)[1] if found else None


def _run_id_in(report: Path) -> str:
    try:
        with report.open(encoding="utf-8") as file:
            match = _RUN_ID.search(file.read(4096))
    except (OSError, UnicodeDecodeError):
        return ""
    return match[1] if match is not None else ""


@dataclass(frozen=True, slots=True)
class _Line:
    """Where a case's record stands, and what decides whether it is taken."""

    start: int
    length: int
    key: str
    scored: bool


class StoredRun:
    """The cases of an earlier run. Records stay in the file until they are asked for."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        #: Lines that are no records: the last may be half written, others are damaged. Their cases run again.
        self.unreadable = 0
        #: Whether the only line is the beginning of a record.
        self._is_cut_off = False
        self._lines: dict[str, _Line] = {}
        self._taken: set[str] = set()
        try:
            with journal.open("rb") as file:
                self._index(file)
        except OSError as error:
            raise SettingsError(f"--memeval-resume: {journal} cannot be read: {error.strerror or error}") from None

    def _index(self, lines: Iterable[bytes]) -> None:
        at = 0
        for raw in lines:
            if raw.strip():
                self._is_cut_off = not at and not raw.endswith(b"\n") and raw[: len(_RECORD)] == _RECORD[: len(raw)]
                self._add(raw, at)
            at += len(raw)

    def refuse_foreign(self) -> None:
        """Raise SettingsError for a file that is no journal. One that a killed run left may be empty, or hold no more
        than the beginning of a record."""
        from pytest_memeval.report.reader import JOURNAL_NAME

        if self._lines or self._is_cut_off:
            return
        name = self.journal.name
        if not self.unreadable and (name == JOURNAL_NAME or _OTHER_JOURNAL.fullmatch(name)):
            return
        why = "no line of it is the record of a case" if self.unreadable else "it is empty"
        raise SettingsError(
            f"--memeval-resume: {self.journal} is not the journal of a run, {why}; name a run's folder, its id, its"
            f" {JOURNAL_NAME} or latest"
        )

    def _add(self, raw: bytes, at: int) -> None:
        try:
            data = json.loads(raw)
            node_id, outcome, key = data["node_id"], data["outcome"], data.get("resume_key", "")
        except (ValueError, RecursionError, KeyError, TypeError):
            self.unreadable += 1
            return
        if not isinstance(node_id, str):
            self.unreadable += 1
            return
        if data.get(POLICY_KEY, "full") != "full":
            raise SettingsError(
                f"--memeval-resume: {self.journal} kept no texts (memeval_report_text = {data[POLICY_KEY]}), so no case"
                " of it can be taken"
            )
        self._lines[node_id] = _Line(at, len(raw), str(key), outcome == "scored")

    def __len__(self) -> int:
        return len(self._lines)

    def state(self, node_id: str, key: str) -> str:
        """What is to become of a case with this key: one of TAKEN, CHANGED, ERRORED, ABSENT, UNUSABLE."""
        line = self._lines.get(node_id)
        if line is None:
            return UNUSABLE if node_id in self._taken else ABSENT
        if not line.scored:
            return ERRORED
        return TAKEN if line.key and line.key == key else CHANGED

    def changes(self, node_id: str, key: str) -> tuple[str, ...]:
        """The parts in which a case differs from the earlier one. Without both keys nobody can tell."""
        line = self._lines.get(node_id)
        if line is None:
            return ()
        return changed_parts(line.key, key) if line.key and key else (UNKNOWN,)

    def take(self, node_id: str, key: str) -> CaseResult | None:
        """The case's record, once: a second attempt at the same item runs it. ``None`` for one that is to be run."""
        if self.state(node_id, key) != TAKEN:
            return None
        line = self._lines.pop(node_id)
        self._taken.add(node_id)
        with self.journal.open("rb") as file:
            file.seek(line.start)
            raw = file.read(line.length)
        try:
            return CaseResult.from_json(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return None  # replaced or damaged since it was indexed

    def databases_folder(self) -> Path:
        """Where the run kept its cases' databases, if it kept any."""
        other = _OTHER_JOURNAL.fullmatch(self.journal.name)
        return self.journal.parent / ("databases" if other is None else f"databases-{other[1]}")


# -- the new run's journal ----------------------------------------------------------------------------------------


def carry_over(stored: Path, journal: Path, report_text: str = "full") -> None:
    """Begin a journal with the earlier run's finished cases, so that this run, too, can end at any moment and be gone
    on with by itself. Where the new one is to hold no texts, it begins empty."""
    from pytest_memeval.report.write import write_lines

    if report_text != "full":
        return

    def lines() -> Iterator[str]:
        with stored.open("rb") as file:
            for raw in file:
                try:
                    finished = json.loads(raw).get("outcome") == "scored"
                    text = raw.decode("utf-8")
                except (ValueError, RecursionError, AttributeError):
                    continue
                if finished:
                    yield text if text.endswith("\n") else text + "\n"

    write_lines(journal, lines())


def compact(journal: Path, known: Collection[str]) -> None:
    """Leave one line a case in a journal, the last, and none of cases that are not ``known``."""
    from pytest_memeval.report.write import write_lines

    last: dict[str, int] = {}
    for number, raw in enumerate(_raw_lines(journal)):
        node_id = _node_id(raw)
        if node_id is not None and node_id in known:
            last[node_id] = number
    kept = set(last.values())
    write_lines(journal, (raw.decode("utf-8") for number, raw in enumerate(_raw_lines(journal)) if number in kept))


def _raw_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _node_id(raw: bytes) -> str | None:
    try:
        found = json.loads(raw)["node_id"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def remove_superseded(stored: Path, target: Path) -> None:
    """Remove the journal that a run left in the folder into which it has now been completed."""
    if _OTHER_JOURNAL.fullmatch(stored.name) and stored.parent.resolve() == target.resolve():
        stored.unlink(missing_ok=True)


def journal_of_text(lines: bytes) -> Path:
    """A journal that came from another machine, as a temporary file."""
    handle, name = tempfile.mkstemp(prefix="memeval-journal-", suffix=".jsonl")
    with os.fdopen(handle, "wb") as file:
        file.write(lines)
    return Path(name)


#: Named among what has changed for a case whose stages a fixture of the project's own gives.
OWN_FIXTURES = "fixtures of the project"
#: The same for one that depends, now or in the earlier run, on what has no version and no source to be known by.
UNKNOWN = "parts that cannot be recognised"


@dataclass(slots=True)
class ResumeCount:
    """What a resumed run took, and why it did not take the rest."""

    run: str
    unreadable: int = 0
    states: dict[str, str] = field(default_factory=dict)
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def note(self, said: Mapping[str, Any]) -> None:
        node_id = said["node_id"]
        self.states[node_id] = said["state"]
        if said.get("changed"):
            self.changes[node_id] = tuple(said["changed"])

    def took(self, node_id: str) -> bool:
        """Whether the case was taken from the earlier run, which has paid for its calls."""
        return self.states.get(node_id) == TAKEN

    def to_json(self) -> dict[str, Any]:
        counts = dict.fromkeys((TAKEN, CHANGED, ERRORED, ABSENT, UNUSABLE), 0)
        for state in self.states.values():
            counts[state] += 1
        parts = {part for changed in self.changes.values() for part in changed}
        return {
            "from": self.run,
            "cases": counts[TAKEN],
            "run_again": {state: counts[state] for state in (CHANGED, ERRORED, ABSENT, UNUSABLE)},
            "changed": [part for part in (*PARTS, OWN_FIXTURES, UNKNOWN) if part in parts],
            "unreadable_lines": self.unreadable,
        }


def run_name(journal: Path) -> str:
    """How a journal's run is called in reports: the folder, or the run's id in a folder shared by several."""
    other = _OTHER_JOURNAL.fullmatch(journal.name)
    return other[1] if other is not None else os.path.basename(os.path.dirname(os.path.abspath(journal)))
