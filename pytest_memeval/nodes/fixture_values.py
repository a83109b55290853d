"""What a project's own fixtures give in the place of this plugin's: a sentence where it is nothing of the kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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
