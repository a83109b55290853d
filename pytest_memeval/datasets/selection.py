"""A part of a dataset: the first questions, or some categories."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pytest_memeval.datasets.models import Dataset, Outline, QAPair, QuestionType, Sample
from pytest_memeval.documents.problems import did_you_mean


def categories_of(names: Collection[object], format_name: str) -> frozenset[QuestionType]:
    """Question types from category numbers (LoCoMo) or names in either spelling. ValueError with the nearest name."""
    from pytest_memeval.datasets.locomo import CATEGORIES
    from pytest_memeval.datasets.longmemeval import TYPES

    own = list(CATEGORIES.values() if format_name == "locomo" else TYPES.values())
    found: set[QuestionType] = set()
    for name in names:
        text = str(name).strip()
        if format_name == "locomo" and text.isdigit() and int(text) in CATEGORIES:
            found.add(CATEGORIES[int(text)])
            continue
        plain = text.replace("-", "_").casefold()
        if plain not in own:
            raise ValueError(f"unknown category {text!r}{did_you_mean(plain, own)}")
        found.add(QuestionType(plain))
    return frozenset(found)


def select(dataset: Dataset, *, limit: int | None = None, categories: frozenset[QuestionType] | None = None) -> Dataset:
    """The first ``limit`` questions (in file order) of the ``categories``; samples left without any are dropped."""
    kept: list[tuple[int, Outline]] = []
    left = limit
    for position, outline in enumerate(dataset.outlines):
        pairs = [one for one in outline.qa_pairs if categories is None or one.question_type in categories]
        if left is not None:
            pairs = pairs[:left]
            left -= len(pairs)
        if pairs:
            kept.append((position, replace(outline, qa_pairs=tuple(pairs))))
    read = dataset.read

    def read_selected(index: int) -> Sample:
        position, outline = kept[index]
        ids = {pair.question_id for pair in outline.qa_pairs}
        sample = read(position)
        pairs: tuple[QAPair, ...] = tuple(pair for pair in sample.qa_pairs if pair.question_id in ids)
        return replace(sample, qa_pairs=pairs)

    return replace(dataset, outlines=tuple(outline for _, outline in kept), read=read_selected)
