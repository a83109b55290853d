"""Answers that people have judged, and how far a judge agrees with them."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.documents.reader import read_text
from pytest_memeval.judge.modes import mode_for
from pytest_memeval.judge.verdict import RIGHT_FROM
from pytest_memeval.metrics.kappa import Kappa, kappa_of_tables

_TRUTH_NAMES = ("ground_truth", "truth", "answer")
#: Columns that a file must have (any name of ``ground_truth``), and those it may have besides.
REQUIRED = ("question", "ground_truth", "prediction", "human")
OPTIONAL = ("question_id", "sample_id", "question_type", "question_date", "mode", "judge")

_RIGHT = frozenset({"yes", "y", "right", "correct", "true", "pass", "是", "对", "正确"})
_WRONG = frozenset({"no", "n", "wrong", "incorrect", "false", "fail", "否", "错", "错误", "不正确"})


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """A row of the file. ``human`` is what a person said of the answer; ``judge`` what a judge did, if known."""

    question_id: str
    question_type: str
    question: str
    ground_truth: str
    prediction: str
    human: bool
    judge: bool | None = None
    question_date: str | None = None
    mode: str = "auto"
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Labels:
    """The rows of a file that have a label, and how many have none."""

    rows: tuple[LabelledAnswer, ...]
    blank: int


def read_labels(path: Path) -> Labels:
    """The labelled answers in a CSV file with a header.

    ``human`` (and ``judge``) hold yes or no in any of their usual words, or a score from 0 to 1, right from 0.5 on; a
    row whose ``human`` is empty has no label. Raises DocumentError with every fault and its line.
    """
    reader = csv.DictReader(read_text(path).lstrip("\ufeff").splitlines(keepends=True), restkey="", strict=True)
    problems: list[Problem] = []
    rows: list[LabelledAnswer] = []
    blank = 0
    try:
        names = _columns(path, reader.fieldnames or ())
        for given in reader:
            line = reader.line_num
            if given.get(""):
                problems.append(Problem(path, line, 0, "more values than the header has columns (a comma not quoted?)"))
                continue
            row = {name: _plain((given.get(column) or "").strip()) for name, column in names.items()}
            if not any(row.values()):
                continue
            if not row["human"]:
                blank += 1
                continue
            try:
                rows.append(_row(row, line))
            except ValueError as error:
                problems.append(Problem(path, line, 0, str(error)))
    except csv.Error as error:
        problems.append(Problem(path, reader.line_num, 0, f"no CSV that can be read: {error}"))
    if not problems and not rows:
        problems.append(Problem(path, 0, 0, "no row has a label under 'human'"))
    if problems:
        raise DocumentError(problems)
    return Labels(tuple(rows), blank)


def _plain(cell: str) -> str:
    """A cell without the apostrophe that keeps spreadsheets from taking it for a formula."""
    return cell[1:] if cell.startswith("'") and cell[1:].lstrip().startswith(("=", "+", "-", "@")) else cell


def _columns(path: Path, header: Sequence[str]) -> dict[str, str]:
    """Our name → the file's column."""
    found: dict[str, str] = {}
    known = (*REQUIRED, *OPTIONAL)
    for column in header:
        name = column.strip().lower().replace(" ", "_")
        name = "ground_truth" if name in _TRUTH_NAMES else name
        if name in known:
            found.setdefault(name, column)
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        hints = "; ".join(f"no column {name!r}{did_you_mean(name, header)}" for name in missing)
        raise DocumentError([Problem(path, 1, 0, hints)])
    return found


def _row(row: dict[str, str], line: int) -> LabelledAnswer:
    if not row["question"]:
        raise ValueError("the question is empty")
    mode = row.get("mode") or "auto"
    question_id = row.get("question_id") or f"line-{line}"
    try:
        mode_for(row.get("question_type"), question_id, mode)
    except ValueError as error:
        raise ValueError(f"{error} (or 'auto')") from None
    return LabelledAnswer(
        question_id=question_id,
        question_type=row.get("question_type") or "",
        question=row["question"],
        ground_truth=row["ground_truth"],
        prediction=row["prediction"],
        human=_label(row["human"], "human"),
        judge=_label(row["judge"], "judge") if row.get("judge") else None,
        question_date=row.get("question_date") or None,
        mode=mode,
        cluster=row.get("sample_id") or question_id,
    )


def _label(text: str, column: str) -> bool:
    word = text.casefold()
    if word in _RIGHT or word in _WRONG:
        return word in _RIGHT
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"{column!r} is {text!r}, neither yes or no nor a score from 0 to 1")
    return number >= RIGHT_FROM


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge beside people: Cohen's ``kappa``, and of the answers that people call right (wrong) how many it takes for
    right (wrong). ``errors`` are answers on which it gave no verdict; they are left out."""

    kappa: Kappa
    right: tuple[int, int]
    wrong: tuple[int, int]
    errors: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.kappa.as_dict(),
            "human_right": {"judged": self.right[1], "taken_for_right": self.right[0]},
            "human_wrong": {"judged": self.wrong[1], "taken_for_wrong": self.wrong[0]},
            "errors": self.errors,
        }


def agreement_with(rows: Sequence[LabelledAnswer], verdicts: Sequence[bool | None], *, seed: int = 0) -> Agreement:
    """Agreement of a judge's verdicts (``None``: judge error) with people's; the interval is over clusters (the column
    ``sample_id``, else each question). No verdict at all: kappa is ``None``, with the reason."""
    tables: dict[str, list[int]] = {}
    counts = {True: [0, 0], False: [0, 0]}
    errors = 0
    for row, verdict in zip(rows, verdicts, strict=True):
        if verdict is None:
            errors += 1
            continue
        tables.setdefault(row.cluster, [0, 0, 0, 0])[2 * row.human + verdict] += 1
        counts[row.human][0] += verdict is row.human
        counts[row.human][1] += 1
    if not tables:
        kappa = Kappa(None, None, 0, 0, reason="no answer was judged")
    else:
        kappa = kappa_of_tables([tables[name] for name in sorted(tables)], 2, seed=seed)
    right, wrong = counts[True], counts[False]
    return Agreement(kappa, (right[0], right[1]), (wrong[0], wrong[1]), errors)
