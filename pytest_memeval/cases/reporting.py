"""Where a file's problems and each case's problems are collected while it is read."""

from __future__ import annotations

from pytest_memeval.documents.problems import Problem
from pytest_memeval.documents.tree import Document, Node


class ProblemLog:
    """Structure problems are always the file's; value problems are the current case's, outside any case the file's."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.file: list[Problem] = list(document.problems)
        self.case: list[Problem] = []
        self.case_id: str | None = None
        self.in_case = False

    def enter_case(self, case_id: str | None) -> None:
        self.case_id = case_id
        self.case = []
        self.in_case = True

    def leave_case(self) -> tuple[Problem, ...]:
        """End the case and return its problems in the order of their places."""
        problems = tuple(sorted(self.case, key=place_of))
        self.case_id = None
        self.case = []
        self.in_case = False
        return problems

    def node(self, at: int) -> Node:
        """The node at an index of the document."""
        return Node(self.document, at)

    def line(self, at: int) -> int:
        """The line of the node at an index."""
        return self.document.place(self.document.tape.offsets[at])[0]

    def structure(self, at: int, message: str) -> None:
        self.file.append(self.node(at).problem(message, self.case_id))

    def value(self, at: int, message: str, *, line: int | None = None) -> None:
        problem = self.node(at).problem(message, self.case_id)
        if line is not None and line != problem.line:
            problem = Problem(problem.path, line, 0, message, self.case_id)
        (self.case if self.in_case else self.file).append(problem)


def place_of(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column
