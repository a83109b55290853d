"""The panel's part on sets of questions and of RAG samples: figures by type, and what is worth knowing of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.report.html.elements import Html, Words, code, element, grid
from pytest_memeval.report.questions import QuestionSet, question_sets
from pytest_memeval.report.samples import SampleSet, sample_sets

_NUMBERS = frozenset(range(1, 20))


def kind_sections(report: Mapping[str, Any], words: Words) -> Iterator[Html]:
    """A part a set; nothing for a run that has neither questions nor samples."""
    for questions in question_sets(report, words.lang):
        yield from _questions(questions, words)
    for samples in sample_sets(report, words.lang):
        yield from _samples(samples, words)


def _questions(one: QuestionSet, words: Words) -> Iterator[Html]:
    title = words.common("question.title")
    yield element("h2", title, " ", code(one.path))
    yield element("p", one.asked(), class_="faint")
    yield grid(one.head(), one.rows(), right=_NUMBERS, caption=title, row_head=True)
    yield element("ul", *(element("li", line) for line in one.lines()), class_="plain")
    head, rows = one.conversations()
    if rows:
        table = grid(head, rows, right=_NUMBERS, caption=one.by_text(), row_head=True)
        yield element("details", element("summary", f"{one.by_text()} ({len(rows)})"), table)
    facts = (part for name, value in one.protocol() for part in (element("dt", code(name)), element("dd", value)))
    protocol = element("summary", words.common("question.protocol"))
    yield element("details", protocol, element("dl", *facts, class_="facts"))


def _samples(one: SampleSet, words: Words) -> Iterator[Html]:
    title = words.common("view.samples")
    yield element("h2", title, " ", code(one.path))
    yield grid(one.head(), one.rows(), right=_NUMBERS, caption=title, row_head=True)
    labels = one.labels()
    if labels:
        yield element("ul", *(element("li", line) for line in labels), class_="plain")
