"""What the console command says of case files of other kinds than distillation."""

from __future__ import annotations

from pytest_memeval.cli.support import say
from pytest_memeval.kinds import KindSet


def say_kind_set(case_set: KindSet, *, strict: bool) -> int:
    """Print every problem of a loaded file and its warnings; how many count (warnings only if ``strict``)."""
    problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
    for problem in problems:
        say(str(problem))
    for warning in case_set.warnings:
        say(f"{warning} (warning)")
    cases = "1 case" if len(case_set.cases) == 1 else f"{len(case_set.cases)} cases"
    words = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    say(f"{case_set.path}: {cases}, {words} (kind {case_set.kind})")
    return len(problems) + (len(case_set.warnings) if strict else 0)
