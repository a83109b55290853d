"""``calls.jsonl.gz``: the prompts and answers of a run, by call id."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pytest_memeval.case_counts import one_per_case
from pytest_memeval.report.entries import scrub_call
from pytest_memeval.report.json_report import dumps, plain
from pytest_memeval.report.reader import ReportError
from pytest_memeval.results import CaseResult

CALLS_NAME = "calls.jsonl.gz"


def calls_of(records: Iterable[CaseResult], report_text: str = "full") -> Iterator[dict[str, Any]]:
    """Every model call of every case, in node id order: its record with the case's ``node_id``; texts as
    ``report_text`` wants them."""
    for record in one_per_case(records):
        for call in record.calls:
            yield {"node_id": record.node_id, **scrub_call(plain(call), report_text)}


def write_calls(file: BinaryIO, calls: Iterable[Mapping[str, Any]]) -> None:
    """Write the calls as compressed lines of JSON. Equal calls give equal bytes: no time is stored."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
        for call in calls:
            packed.write((dumps(call) + "\n").encode("utf-8"))


def read_calls(path: Path) -> dict[str, dict[str, Any]]:
    """Call id → its record. Raises ReportError for a file that cannot be read."""
    import json

    found: dict[str, dict[str, Any]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                call = json.loads(line)
                found[call["id"]] = call
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} cannot be read as model calls: {error}.") from error
    return found
