"""What a rule has to say about labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.documents.problems import Problem

Level = Literal["warning", "hint", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with the name of the rule that found it.

    A ``warning`` is most likely a mistake; a ``hint`` is unusual, and may be meant; a ``note`` says what a rule did
    not look at.
    """

    rule: str
    level: Level
    problem: Problem

    def __str__(self) -> str:
        return f"{self.problem} ({self.level}: {self.rule})"


Rule = Callable[[CaseSet], Iterator[Finding]]


def finding(rule: str, level: Level, case_set: CaseSet, line: int, message: str, case_id: str | None = None) -> Finding:
    return Finding(rule, level, Problem(case_set.path, line, 0, message, case_id))


def sound_cases(case_set: CaseSet) -> Iterator[EvalCase]:
    """The cases whose labels could all be read."""
    return (case for case in case_set.cases if not case.problems)
