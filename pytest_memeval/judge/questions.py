"""Questions with their truths, read from a data set or from JSON Lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_memeval.documents.json_values import NestedTooDeep, json_value
from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.reader import read_text
from pytest_memeval.judge.controls import ControlQuestion, questions_of
from pytest_memeval.judge.protocol import text_of


def read_questions(path: Path, mode: str = "auto") -> list[ControlQuestion]:
    """The questions of a data set, or of a JSON Lines file of ``{question, ground_truth}`` with, if there are any,
    ``question_id``, ``question_type``, ``question_date``. Raises DocumentError for what is none."""
    from pytest_memeval.datasets.recognise import recognise

    if not path.is_file():
        raise DocumentError([Problem(path, 0, 0, "no such file")])
    kind = recognise(path)
    if kind == "locomo":
        from pytest_memeval.datasets.locomo import load_locomo

        found = questions_of(pair for outline in load_locomo(path).outlines for pair in outline.qa_pairs)
    elif kind == "longmemeval":
        from pytest_memeval.datasets.longmemeval import load_longmemeval

        found = questions_of(pair for outline in load_longmemeval(path).outlines for pair in outline.qa_pairs)
    else:
        found = _question_lines(path)
    return [replace(question, mode=mode) for question in found]


def _question_lines(path: Path) -> list[ControlQuestion]:
    found: list[ControlQuestion] = []
    problems: list[Problem] = []
    for number, line in enumerate(read_text(path).lstrip("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json_value(line)
        except NestedTooDeep as error:
            problems.append(Problem(path, number, error.colno, f"not JSON: {error.msg}"))
            break
        except ValueError:
            row = None
        if not isinstance(row, dict):
            problems.append(Problem(path, number, 0, "no JSON object; a line is {question, ground_truth, …}"))
            break  # a file of another format would fail on each of its lines
        question, truth = row.get("question"), row.get("ground_truth", row.get("truth", row.get("answer")))
        if not isinstance(question, str) or not question.strip() or truth is None:
            problems.append(Problem(path, number, 0, "a question needs 'question' and 'ground_truth'"))
            continue
        found.append(
            ControlQuestion(
                str(row.get("question_id") or f"line-{number}"),
                str(row.get("question_type") or ""),
                question,
                text_of(truth),
                text_of(row.get("question_date")) or None,
            )
        )
    if not problems and not found:
        problems.append(Problem(path, 0, 0, "the file holds no question"))
    if problems:
        raise DocumentError(problems)
    return found
