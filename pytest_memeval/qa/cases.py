"""Question sets as items: what is known of each question before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pytest_memeval.datasets.models import Dataset, Outline, QAPair, QuestionType
from pytest_memeval.kinds import KindCase, KindSet
from pytest_memeval.metrics.thresholds import Threshold

#: Tag of a question whose right reply is a refusal.
ABSTENTION_TAG = "abstention"
#: Tag of a question whose published answer an errata file corrects.
WRONG_LABEL_TAG = "wrong_label"


@dataclass(frozen=True)
class QACase(KindCase):
    """One question. ``sample`` is its conversation's place in the data set, ``position`` its own place in the file."""

    pair: QAPair = field(default_factory=lambda: QAPair("", "", "", QuestionType.single_hop))
    sample_id: str = ""
    sample: int = 0
    position: int = 0


@dataclass(frozen=True)
class QASet(KindSet):
    """A file of questions. ``dataset`` reads the conversations; ``protocol`` is what the file fixes of how they are
    asked, for the report."""

    dataset: Dataset | None = None

    @property
    def nested(self) -> bool:
        """Whether conversations are nodes of their own: not where each has one question, as LongMemEval's."""
        return self.dataset is not None and self.dataset.format != "longmemeval"

    def by_conversation(self) -> Iterator[tuple[str, list[QACase]]]:
        """Sample id and cases, in file order."""
        groups: dict[str, list[QACase]] = {}
        for case in self.cases:
            assert isinstance(case, QACase)
            groups.setdefault(case.sample_id, []).append(case)
        yield from groups.items()


def item_name(pair: QAPair, dataset: Dataset) -> str:
    """A question's name below its conversation: ``q12`` counts from 0 as published; in sets of our own its id."""
    return f"q{pair.index}" if dataset.format == "locomo" else pair.question_id


def cases_of(
    dataset: Dataset,
    lines: Sequence[int] = (),
    *,
    tags: Sequence[str] = (),
    expect: dict[str, tuple[Threshold, ...]] | None = None,
    timeout: float | None = None,
) -> tuple[QACase, ...]:
    """A case for every question. ``lines`` are the questions' lines in file order, where they are known; ``expect``
    holds thresholds by case id."""
    cases: list[QACase] = []
    clusters = clusters_of(dataset)
    for sample, outline in enumerate(dataset.outlines):
        for pair in outline.qa_pairs:
            name = item_name(pair, dataset)
            case_id = f"{outline.sample_id}::{name}" if dataset.format != "longmemeval" else name
            position = len(cases)
            # The type comes first: reports read it there.
            own = [
                pair.question_type.value,
                *([ABSTENTION_TAG] if pair.unanswerable else ()),
                *([WRONG_LABEL_TAG] if pair.corrected_answer is not None else ()),
                *tags,
            ]
            cases.append(
                QACase(
                    case_id=case_id,
                    line=lines[position] if position < len(lines) else 1,
                    source="unspecified",
                    tags=tuple(dict.fromkeys(own)),
                    timeout=timeout,
                    expect=(expect or {}).get(case_id, ()),
                    stages=("qa",),
                    cluster=clusters[sample],
                    content_hash=_content_hash(pair, dataset, outline),
                    pair=pair,
                    sample_id=outline.sample_id,
                    sample=sample,
                    position=position,
                )
            )
    return tuple(cases)


def clusters_of(dataset: Dataset) -> list[str]:
    """What each sample's questions are clustered by: the text that they are asked about. LongMemEval gives every
    question a haystack of its own, and several can be the same text; elsewhere the first conversation with the text
    gives its name."""
    first: dict[str, str] = {}
    for outline in dataset.outlines:
        first.setdefault(outline.haystack or outline.sample_id, outline.sample_id)
    if dataset.format == "longmemeval":
        return [f"haystack {outline.haystack[:12]}" for outline in dataset.outlines]
    return [first[outline.haystack or outline.sample_id] for outline in dataset.outlines]


def _content_hash(pair: QAPair, dataset: Dataset, outline: Outline) -> str:
    """Of the question, its labels and the conversation that it is asked about: what else is in the file, and where the
    question stands in it, is nothing to it."""
    own = {one.name: getattr(pair, one.name) for one in fields(pair) if one.name != "index"}
    parts = [dataset.format, outline.sample_id, outline.content or dataset.sha256, own]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True, sort_keys=True, default=str).encode()).hexdigest()


def dataset_protocol(
    dataset: Dataset, *, errata: Path | None = None, errata_sha256: str | None = None
) -> dict[str, Any]:
    """What the data fixes of a measurement: file and revision, what was mended, units, captions."""
    pairs = [pair for outline in dataset.outlines for pair in outline.qa_pairs]
    by_type: dict[str, int] = {}
    for pair in pairs:
        by_type[pair.question_type.value] = by_type.get(pair.question_type.value, 0) + 1
    captions = dataset.extra.get("captions")
    return {
        "format": dataset.format,
        "file": dataset.path.name,
        "sha256": dataset.sha256,
        "revision": dataset.revision,
        "conversations": len(dataset.outlines),
        "haystacks": len(set(clusters_of(dataset))),
        "questions": len(pairs),
        "questions_by_type": dict(sorted(by_type.items())),
        "repairs": dataset.repair_counts,
        "ingestion_unit": "turn",
        "speakers": "name before the text",
        "captions": None if captions is None else ("as text" if captions else "off"),
        "question_hint": "question date" if any(pair.question_date for pair in pairs) else None,
        "errata": None if errata is None else {"file": errata.name, "sha256": errata_sha256},
        "wrong_answers": sum(pair.corrected_answer is not None for pair in pairs),
    }
