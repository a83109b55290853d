"""What a project's own fixtures give in the place of this plugin's: a sentence where it is nothing of the kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_memeval.nodes.cases import StageFailure


def _is_case(value: object) -> bool:
    from pytest_memeval.cases.models import EvalCase

    return isinstance(value, EvalCase)


def _is_prompts(value: object) -> bool:
    from pytest_memeval.assets.prompts import PromptSet

    return isinstance(value, PromptSet)


def _is_registry(value: object) -> bool:
    from pytest_memeval.assets.registry import Registry

    return isinstance(value, Registry)


def _is_templates(value: object) -> bool:
    from pytest_memeval.assets.templates import Templates

    return isinstance(value, Templates)


def _is_databases(value: object) -> bool:
    # Reading them would open them.
    return hasattr(type(value), "__getattr__") or all(
        inspect.getattr_static(value, word, None) is not None for word in ("memory", "wiki")
    )


def _is_run(value: object) -> bool:
    from pytest_memeval.runner import CaseRun
    from pytest_memeval.trials.case import TrialRuns

    return isinstance(value, CaseRun | TrialRuns)


def _is_measured(value: object) -> bool:
    return callable(getattr(value, "check_expectations", None))


def _is_model(value: object) -> bool:
    # An engine may need none.
    return value is None or callable(getattr(value, "complete", None))


#: Fixture → whether a value is one, and what is needed.
_NEEDED: dict[str, tuple[Callable[[object], bool], str]] = {
    "memeval_case": (_is_case, "an EvalCase"),
    "memeval_prompts": (_is_prompts, "a PromptSet"),
    "memeval_registry": (_is_registry, "a Registry"),
    "memeval_templates": (_is_templates, "a Templates object"),
    "memeval_db": (_is_databases, "something with the databases memory and wiki"),
    "memeval_run": (_is_run, "what memeval_run itself gives"),
    "memeval_measured": (_is_measured, "what memeval_measured itself gives"),
    "memeval_llm": (_is_model, "a chat model with a method complete"),
}


def refuse_strangers(**values: Any) -> None:
    """Raise StageFailure for a value that its fixture cannot have, the first that is met."""
    for name, value in values.items():
        fits, needed = _NEEDED[name]
        if not fits(value):
            what = "None" if value is None else f"a value of type {type(value).__name__}"
            why = f"the project's fixture {name} gives {what}, where {needed} is needed"
            raise StageFailure(why, kind="fixture_error")


def refuse_parameters(item: Any) -> None:
    """Raise StageFailure where a fixture of the project has parameters, of which a case of a file can be given none."""
    callspec = getattr(item, "callspec", None)
    given = () if callspec is None else callspec.params
    for name, found in item._fixtureinfo.name2fixturedefs.items():
        for definition in reversed(found):
            if definition.params is not None and name not in given:
                said = _parametrised(name, definition, item.config.rootpath)
                raise StageFailure(f"{item.place}: [setup] {said}")
            if name not in definition.argnames:  # what it overrides is not asked for
                break


def _parametrised(name: str, definition: Any, root: Path) -> str:
    function = inspect.unwrap(getattr(definition.func, "__func__", definition.func))
    code = getattr(function, "__code__", None)
    place = ""
    if code is not None:
        file = Path(code.co_filename)
        shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
        place = f" ({shown}:{code.co_firstlineno})"
    instead = _INSTEAD.get(name, "leave them out, or ask for it in tests in Python, which are run for each")
    return f"the fixture {name}{place} has parameters, and a case of a file is run once: {instead}"


#: Fixture → what there is in the place of parameters.
_INSTEAD = {
    "memeval_engine": "name each engine with --memeval-variant NAME=engine:MODULE:ATTRIBUTE, which compares them",
    "memeval_llm": "name each chat model with --memeval-variant NAME=llm:...,model:..., which compares them",
    "memeval_prompts": "name each version with --memeval-variant NAME=prompts:..., which compares them",
}
