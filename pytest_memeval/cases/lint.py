"""Warnings: what is legal in a case file, but probably not meant.

:func:`lint` is what every load of a file checks, and cheap. :func:`review` is what an author asks for: it looks at the
labels of a whole file, against its registry and templates, and takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pytest_memeval.cases.conversation import ROLES
from pytest_memeval.cases.findings import Finding
from pytest_memeval.cases.lint_expect import EXPECT_RULES
from pytest_memeval.cases.lint_labels import LABEL_RULES
from pytest_memeval.cases.lint_sections import SECTION_RULES
from pytest_memeval.cases.lint_set import SET_RULES
from pytest_memeval.cases.models import CaseSet
from pytest_memeval.documents.problems import Problem, did_you_mean, nearest

Lint = Callable[[CaseSet], Iterator[Problem]]


def total_cases_differs(case_set: CaseSet) -> Iterator[Problem]:
    """``meta.total_cases`` says another number than there are cases."""
    said = case_set.meta.total_cases
    if said is not None and said != len(case_set.cases):
        yield Problem(case_set.path, 0, 0, f"meta.total_cases is {said}, the file holds {len(case_set.cases)} cases")


def unknown_source_messages(case_set: CaseSet) -> Iterator[Problem]:
    """A labelled memory names a source message that its conversation does not have."""
    for case in case_set.cases:
        if case.expected_l1 is None or not case.conversation:
            continue
        known = {message.id for message in case.conversation}
        for memory in case.expected_l1.memories:
            for source in memory.source_message_ids:
                if source not in known:
                    guess = did_you_mean(source, sorted(known))
                    message = f"source message {source!r} is not in the conversation{guess}"
                    yield Problem(case_set.path, memory.line, 0, message, case.case_id)


#: Roles whose misspelling makes the message somebody else's, and how like one a name is that is meant to be it.
_OTHER_ROLES = sorted(ROLES - {"user"})
_ALIKE = 0.8


def misspelt_roles(case_set: CaseSet) -> Iterator[Problem]:
    """A speaker is called nearly as a role is: what the assistant said counts as said by a user of that name."""
    guesses: dict[str, str | None] = {}
    for case in case_set.cases:
        for message in case.conversation:
            name = message.name if message.role == "user" else None
            if name is None:
                continue
            if name not in guesses:
                guesses[name] = nearest(name, _OTHER_ROLES, cutoff=_ALIKE)
            guess = guesses[name]
            if guess is not None:
                text = f"message {message.id!r} is a user's of the name {name!r}; did you mean the role {guess!r}?"
                yield Problem(case_set.path, case.line, 0, text, case.case_id)


#: Every lint, in the order of its warnings.
LINTS: tuple[Lint, ...] = (total_cases_differs, unknown_source_messages, misspelt_roles)

#: Every rule of :func:`review` by its name.
RULES = {**LABEL_RULES, **SECTION_RULES, **EXPECT_RULES, **SET_RULES}


def lint(case_set: CaseSet) -> tuple[Problem, ...]:
    """All warnings about a loaded set."""
    return tuple(problem for check in LINTS for problem in check(case_set))


def review(case_set: CaseSet) -> tuple[Finding, ...]:
    """What the rules find in a loaded set, in the order of the file; warnings of :func:`lint` not among them.

    A rule that needs a registry or templates which could not be loaded finds nothing. Cases with problems of their own
    are left out of the rules for single cases: their labels could not be read.
    """
    found = [finding for rule in RULES.values() for finding in rule(case_set)]
    return tuple(sorted(found, key=lambda finding: (finding.problem.line, finding.problem.column)))
