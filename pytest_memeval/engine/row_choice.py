"""Which row of a predictions file is a case's: never one that the order of lines decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Row = dict[str, Any]


class HasId(Protocol):
    """As much of a case as is needed here."""

    @property
    def case_id(self) -> str: ...


class HasCases(Protocol):
    """As much of a case set as is needed here."""

    @property
    def path(self) -> Path: ...
    @property
    def cases(self) -> Sequence[HasId]: ...


class SetsOfIds:
    """Which of the run's case sets have a case of an id. ``sets`` (name → set) may grow meanwhile."""

    def __init__(self, sets: Mapping[str, HasCases]) -> None:
        self._sets = sets
        self._read = 0
        self._found: dict[str, dict[str, str]] = {}

    def of(self, case_id: str) -> Mapping[str, str]:
        """Path of a set → its name."""
        if len(self._sets) != self._read:
            self._read, self._found = len(self._sets), {}
            for name, case_set in self._sets.items():
                for case in case_set.cases:
                    self._found.setdefault(case.case_id, {})[str(case_set.path)] = name
        return self._found.get(case_id, {})


class RowChoice:
    """The rows of a file by case."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.by_case: dict[str, list[Row]] = {}
        for row in rows:
            self.by_case.setdefault(row["case_id"], []).append(row)

    def row_of(self, case_id: str, case_set: str) -> Row | None:
        """The row that names the most of the set's path, else one that names no set."""
        rows = self.by_case.get(case_id, ())
        named = [row for row in rows if row.get("set") and is_end_of(row["set"], case_set)]
        if named:
            return max(named, key=lambda row: len(Path(row["set"]).parts))
        return next((row for row in rows if not row.get("set")), None)

    def sets_of(self, row: Row, case_set: str, sets: Mapping[str, str]) -> list[str]:
        """The names of all ``sets`` whose case the row is, with that of the set at hand."""
        known = {case_set: Path(case_set).name, **sets} if case_set else sets
        return sorted(name for path, name in known.items() if self.row_of(row["case_id"], path) is row)


def is_end_of(end: str, path: str) -> bool:
    parts, wanted = Path(path).parts, Path(end).parts
    return parts[-len(wanted) :] == wanted


def rows_of_variant(rows: Iterable[Row], variant: str | None) -> list[Row]:
    """The rows of a variant: its own and those that name none, a case's own before the others. Without a variant all
    rows count, whatever they name (:func:`setup_problem` tells whether that is clear)."""
    if variant is None:
        return list(rows)
    fitting = [row for row in rows if row.get("variant") in (None, variant)]
    return sorted(fitting, key=lambda row: row.get("variant") is None)


def setup_problem(rows: Sequence[Row]) -> str | None:
    """Why a run without variants cannot score these rows: a case may have several."""
    names = sorted({row["variant"] for row in rows if row.get("variant") is not None})
    advice = "keep the rows of one of them, or name the variants with --memeval-variant"
    if len(names) > 1:
        return f"holds rows of the variants {', '.join(names)}, and this run has no variants: {advice}"
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for row in rows:
        key = (row["case_id"], set_parts(row))
        if key in seen:
            return (
                f"holds two rows for {row['case_id']}, one of the variant {names[0]} and one that names none, and this"
                f" run has no variants: {advice}"
            )
        seen.add(key)
    return None


def set_parts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What a row's ``set`` names, however it is written."""
    return Path(row["set"]).parts if row.get("set") else ()
