"""``per_case.csv``: one row a case, figures and short words only, for spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from pytest_memeval.report.entries import FIXED_SECTIONS

#: Columns that every table has, before the figures.
LEADING: tuple[str, ...] = (
    "node_id",
    "set",
    "case_id",
    "variant",
    "source",
    "difficulty",
    "tags",
    "outcome",
    "l1_f1",
    "strict_match",
)
TRAILING: tuple[str, ...] = (
    "error_stage",
    "error_kind",
    "error_message",
    "missed_expectations",
    "calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "duration_seconds",
)
_NUMBERS = (float, int)
#: A spreadsheet takes a cell that starts so as a formula.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")


def csv_chunks(report: Mapping[str, Any]) -> Iterator[str]:
    """The table row by row, with ``\\r\\n`` line ends (RFC 4180).

    Figures are those with one value a case (``l1.dimension_micro_f1``), without the ones split by key. A text that a
    spreadsheet would run as a formula gets a leading apostrophe; numbers are left as they are.
    """
    entries = report["per_case"]
    figures = _figure_columns(entries)
    buffer = StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([*LEADING, *(f"{section}.{name}" for section, name in figures), *TRAILING])
    for entry in entries:
        # Most cells are numbers: they need no call each.
        writer.writerow([cell if type(cell) in _NUMBERS else safe_cell(cell) for cell in _row(entry, figures)])
        if buffer.tell() > 65_536:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _sections(entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, section in entry.items():
        if isinstance(section, dict) and "values" in section and "ratios" in section:
            yield name, section["values"]


def _figure_columns(entries: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(section, name) of every figure that some case has."""
    order: dict[str, dict[str, None]] = {name: {} for name in FIXED_SECTIONS}
    seen: set[tuple[str, ...]] = set()
    for entry in entries:
        for section, values in _sections(entry):
            names = (section, *values)
            if names not in seen:  # mostly as in the case before
                seen.add(names)
                order.setdefault(section, {}).update(dict.fromkeys(name for name in values if "." not in name))
    return [(section, name) for section, names in order.items() for name in sorted(names)]


def _row(entry: Mapping[str, Any], figures: list[tuple[str, str]]) -> list[Any]:
    tables = dict(_sections(entry))
    error = entry["error"] or {}
    usage = entry["usage"]
    return [
        *[" ".join(entry[name]) if name == "tags" else entry[name] for name in LEADING],
        *[tables[section].get(name) if section in tables else None for section, name in figures],
        error.get("stage"),
        error.get("kind"),
        error.get("message"),
        "; ".join(entry["missed_expectations"]),
        usage["calls"],
        usage["input_tokens"],
        usage["output_tokens"],
        usage.get("cost_usd"),
        entry["duration_seconds"],
    ]


def safe_cell(value: Any) -> Any:
    """The value as a cell. A text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if value is None:
        return ""
    if type(value) is float:
        return value
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return value
    if value.isascii() and value[:1].isalnum() and "\x00" not in value:
        return value  # as most are
    # A lone surrogate has no UTF-8 form; a NUL ends a cell in some readers.
    text = value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
