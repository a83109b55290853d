"""What ``report.md`` says of sets of questions and of RAG samples, and which of them came out worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.markdown_cells import code, escape, shorten, table
from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import value_text
from pytest_memeval.report.questions import question_sets
from pytest_memeval.report.samples import sample_sets
from pytest_memeval.report.views import evidence_found, question_view, sample_view

#: Every column behind the first.
_NUMBERS = frozenset(range(1, 20))


def kind_lines(report: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The tables by question type, and of samples by metric; nothing for a run that has neither."""
    for one in question_sets(report, lang):
        yield ""
        yield f"## {text('question.title', lang)}: {code(one.path)}"
        yield ""
        yield escape(one.asked())
        yield ""
        yield from table(one.head(), ([code(row[0]), *map(escape, row[1:])] for row in one.rows()), _NUMBERS)
        yield ""
        yield from (f"- {escape(line)}" for line in one.lines())
        head, rows = one.conversations()
        if rows:
            yield ""
            yield f"### {one.by_text()}"
            yield ""
            yield from table(head, ([code(row[0]), *row[1:]] for row in rows), _NUMBERS)
        yield ""
        yield f"### {text('question.protocol', lang)}"
        yield ""
        yield from (f"- {code(name)}: {escape(value)}" for name, value in one.protocol())
    for samples in sample_sets(report, lang):
        yield ""
        yield f"## {text('view.samples', lang)}: {code(samples.path)}"
        yield ""
        yield from table(
            [*map(escape, samples.head())],
            ([code(row[0]), *map(escape, row[1:])] for row in samples.rows()),
            _NUMBERS,
        )
        labels = samples.labels()
        if labels:
            yield ""
            yield from (f"- {escape(line)}" for line in labels)


def lowest_lines(entries: Sequence[Mapping[str, Any]], lang: str, most: int) -> Iterator[str]:
    """The questions and the samples with the lowest main score below 1, each as a row of what was asked and said."""
    for key, head, row in (
        ("questions_low", _QUESTION_HEAD, _question_row),
        ("samples_low", _SAMPLE_HEAD, _sample_row),
    ):
        kind = "qa" if row is _question_row else "rag"
        found = [
            (score, entry)
            for entry in entries
            if entry.get("kind") == kind and (score := main_score(entry)) is not None and score[1] < 1
        ]
        found.sort(key=lambda pair: (pair[0][1], pair[1]["node_id"]))
        rows = [shown for score, entry in found[:most] if (shown := row(entry, score, lang)) is not None]
        if not rows:
            continue
        yield ""
        yield f"## {text(f'view.{key}', lang)}"
        yield ""
        yield from table([text(name, lang) for name in head], rows)
        if len(found) > most:
            yield ""
            yield text("more", lang, count=len(found) - most)


_QUESTION_HEAD = ("case", "value", "view.question", "view.truth", "view.answer", "view.verdicts", "view.evidence")
_SAMPLE_HEAD = ("case", "value", "view.query", "view.reference", "view.response", "view.contexts", "view.reason")


def _question_row(entry: Mapping[str, Any], score: tuple[str, float], lang: str) -> list[str] | None:
    view = question_view(entry)
    if view is None:
        return None
    truth = text("view.refusal", lang) if view["truth"] == "" else view["truth"]
    verdicts = [
        " ".join(filter(None, (value_text(one["score"]), one["mode"], one["reason"]))) for one in view["verdicts"]
    ]
    found = evidence_found(view)
    return [
        code(entry["node_id"]),
        _score(score),
        *(_text(value, lang) for value in (view["question"], truth, view["answer"])),
        escape(shorten("; ".join(verdicts))) or "-",
        "-" if found is None else f"{found[0]}/{found[1]}",
    ]


def _sample_row(entry: Mapping[str, Any], score: tuple[str, float], lang: str) -> list[str] | None:
    view = sample_view(entry)
    if view is None:
        return None
    marks = [row["relevant"] for row in view["contexts"]]
    passages = str(len(marks)) if None in marks else f"{sum(marks)}/{len(marks)}" if marks else "0"
    reasons = [f"{row['evaluator']}: {row['reason']}" for row in view["scores"] if row["reason"]]
    none = text("view.none_given", lang)
    return [
        code(entry["node_id"]),
        _score(score),
        _text(view["query"], lang),
        _text(view["reference"] if view["has_reference"] else none, lang),
        _text(view["response"] if view["has_response"] else none, lang),
        passages,
        escape(shorten("; ".join(reasons))) or "-",
    ]


def _score(score: tuple[str, float]) -> str:
    return f"{code(score[0])} {value_text(score[1])}"


def _text(value: Any, lang: str) -> str:
    return escape(shorten(text("html.js.no_text", lang) if value is None else str(value)))
