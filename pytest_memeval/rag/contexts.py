"""Retrieved contexts kept in a file and played back, so that two answerers or two judges get the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.reader import read_document
from pytest_memeval.results import CaseResult


def context_rows(records: Iterable[CaseResult]) -> Iterator[dict[str, Any]]:
    """A row for each sample whose contexts are known: set, id and query, the contexts, the response made of them."""
    for record in sorted(records, key=lambda record: record.node_id):
        kept = record.outputs.get("rag") if record.kind == "rag" else None
        if kept is not None and kept.get("contexts") is not None:
            yield {
                "set": record.set,
                "case_id": record.case_id,
                "query": kept["query"],
                "contexts": kept["contexts"],
                "response": kept.get("response"),
            }


def save_contexts(path: Path, records: Iterable[CaseResult]) -> bool:
    """Write the rows as JSONL, whole or not at all; False, and nothing written, where there is none."""
    from pytest_memeval.report.json_report import dumps
    from pytest_memeval.report.write import write_lines

    rows = context_rows(records)
    first = next(rows, None)
    if first is None:
        return False
    write_lines(path, (dumps(row) + "\n" for row in chain((first,), rows)))
    return True


class SavedContexts:
    """A file of saved contexts. A sample is found by its set and id; where the file knows no sets, by its id alone; its
    query has to be the same, since contexts of another question would be compared otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[tuple[str | None, str], tuple[str | None, tuple[str, ...]]] = {}
        problems: list[Problem] = []
        for node in read_document(path).root.elements():
            row = node.value() if node.is_mapping else {}
            case_id, contexts = _text(node.texts(), "case_id"), _texts(row.get("contexts"))
            if case_id is None or contexts is None:
                problems.append(node.problem("a row of saved contexts has 'case_id' and 'contexts', a list of texts"))
                continue
            key = (_text(node.texts(), "set"), case_id)
            if key in self._rows:
                problems.append(node.problem(f"a second row for case {case_id!r}"))
            self._rows[key] = (_text(node.texts(), "query"), contexts)
        if problems:
            raise DocumentError(problems)

    def find(self, set_path: str, case_id: str, query: str) -> tuple[str, ...]:
        """The contexts of a sample. LookupError, with the reason, where there are none."""
        row = self._rows.get((set_path, case_id)) or self._rows.get((None, case_id))
        if row is None:
            raise LookupError(f"{self.path} holds no contexts of case {case_id!r} in {set_path}")
        if row[0] is not None and row[0] != query:
            raise LookupError(f"{self.path} holds contexts of case {case_id!r} for another query: {row[0]!r:.80}")
        return row[1]


def _text(row: Any, key: str) -> str | None:
    value = row.get(key) if isinstance(row, Mapping) else None
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return tuple(value) if fits else None
