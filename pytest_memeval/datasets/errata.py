"""Corrected labels laid over a benchmark's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_memeval.datasets.models import Dataset, QAPair, Sample
from pytest_memeval.datasets.records import fault
from pytest_memeval.documents.json_values import json_value
from pytest_memeval.documents.problems import json_fault
from pytest_memeval.documents.reader import read_text

#: Errors that concern the evidence alone: the published answer is right.
CITATION_ONLY = frozenset({"WRONG_CITATION"})


@dataclass(frozen=True, slots=True)
class Correction:
    """What an errata file says of one question. ``answer`` is ``None`` where the published one is right."""

    error_type: str
    answer: str | None
    evidence: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Errata:
    """Corrections by (sample id, place of the question in its sample)."""

    path: Path
    corrections: Mapping[tuple[str, int], Correction]

    @property
    def answers(self) -> int:
        """How many correct the answer."""
        return sum(one.answer is not None for one in self.corrections.values())


def load_errata(path: str | Path) -> Errata:
    """Read ``{"entries": [{sample_id, qa_index, error_type, corrected_answer, corrected_evidence}, …]}``.

    An entry of type WRONG_CITATION corrects the evidence alone. Raises DocumentError for anything else.
    """
    path = Path(path)
    try:
        data: Any = json_value(read_text(path))
    except json.JSONDecodeError as error:
        raise fault(path, f"not readable as JSON: {json_fault(error)}", line=error.lineno, column=error.colno) from None
    entries = data.get("entries") if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise fault(path, "an errata file is an object with a list 'entries'")
    corrections: dict[tuple[str, int], Correction] = {}
    for position, entry in enumerate(entries):
        where = f"entry {position}"
        if not isinstance(entry, dict) or not isinstance(entry.get("sample_id"), str):
            raise fault(path, f"{where}: an entry has sample_id, qa_index and error_type")
        index = entry.get("qa_index")
        if isinstance(index, bool) or not isinstance(index, int):
            raise fault(path, f"{where}: qa_index {index!r} is no number")
        key = (entry["sample_id"], index)
        if key in corrections:
            raise fault(path, f"{where}: {key[0]} question {key[1]} is there twice")
        kind = str(entry.get("error_type") or "UNSPECIFIED")
        answer, evidence = entry.get("corrected_answer"), entry.get("corrected_evidence")
        corrections[key] = Correction(
            kind,
            None if kind in CITATION_ONLY or answer is None else str(answer),
            None if evidence is None else tuple(str(one) for one in evidence),
        )
    return Errata(path, corrections)


def with_errata(dataset: Dataset, errata: Errata) -> Dataset:
    """The dataset with corrections beside its labels. DocumentError for an entry that fits no question."""
    known = {(outline.sample_id, pair.index) for outline in dataset.outlines for pair in outline.qa_pairs}
    for sample_id, index in errata.corrections:
        if (sample_id, index) not in known:
            raise fault(errata.path, f"{sample_id} question {index} is not in {dataset.path.name}")
    read = dataset.read

    def corrected(pairs: tuple[QAPair, ...], sample_id: str) -> tuple[QAPair, ...]:
        return tuple(_corrected(pair, errata.corrections.get((sample_id, pair.index))) for pair in pairs)

    def read_corrected(position: int) -> Sample:
        sample = read(position)
        return replace(sample, qa_pairs=corrected(sample.qa_pairs, sample.sample_id))

    outlines = tuple(replace(one, qa_pairs=corrected(one.qa_pairs, one.sample_id)) for one in dataset.outlines)
    return replace(dataset, outlines=outlines, read=read_corrected)


def _corrected(pair: QAPair, correction: Correction | None) -> QAPair:
    if correction is None:
        return pair
    return replace(
        pair,
        corrected_answer=correction.answer,
        corrected_evidence=correction.evidence,
        error_type=correction.error_type,
    )
