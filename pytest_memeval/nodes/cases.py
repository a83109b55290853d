"""The case of an item or hand-written test, and the assets it is run with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.nodes.keys import SOUND_ENGINE
from pytest_memeval.session import harness_of

if TYPE_CHECKING:
    from _pytest.outcomes import Failed

    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.harness import Harness
else:
    Failed = pytest.fail.Exception


class StageFailure(Failed):
    """A case that could not be measured: shown as its message alone, without a stack trace.

    ``kind`` is set where the record of the case does not say it yet; ``ends_run`` where every other case would fail
    with the same words.
    """

    #: Shown by its bare name, as pytest's own outcomes are.
    __module__ = "builtins"

    def __init__(self, message: str, *, stage: str = "setup", kind: str | None = None, ends_run: bool = False) -> None:
        # What an engine says must not steer the terminal; the record has it as it was.
        from pytest_memeval.report.console import without_controls

        super().__init__(without_controls(message), pytrace=False)
        #: The message as it was given; ``msg`` has no control characters, and may have an item's place before it.
        self.text = message
        self.stage = stage
        self.kind = kind
        self.ends_run = ends_run


#: Keywords of ``@pytest.mark.memeval``.
MARKER_KEYS = ("case", "gate")


def _refuse(node: Any, why: str) -> StageFailure:
    return StageFailure(f"{node.nodeid}: {why}")


def _named_case(node: Any) -> tuple[EvalCase, CaseSet | None]:
    """The case of a hand-written test: built in code, or named by ``@pytest.mark.memeval(case="file::id")``."""
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.documents.problems import did_you_mean

    marker = node.get_closest_marker("memeval")
    if marker is not None:
        for key in marker.kwargs:
            if key not in MARKER_KEYS:
                raise _refuse(node, f"@pytest.mark.memeval has no {key!r}{did_you_mean(key, MARKER_KEYS)}")
        if marker.args:
            raise _refuse(node, "@pytest.mark.memeval takes keywords only: case=..., gate=...")
        if not isinstance(gate := marker.kwargs.get("gate", False), bool):
            raise _refuse(node, f"gate must be True or False, got {gate!r}")
    wanted = marker.kwargs.get("case") if marker is not None else None
    if wanted is None:
        raise _refuse(node, 'name the case with @pytest.mark.memeval(case="file.yaml::id"): its fixtures need one')
    if isinstance(wanted, EvalCase):
        return wanted, None
    if not isinstance(wanted, str):
        raise _refuse(node, f"case must be 'file::case_id' or an EvalCase, not {type(wanted).__name__}")
    return _case_of_file(node, wanted)


def _case_of_file(node: Any, wanted: str) -> tuple[EvalCase, CaseSet]:
    from pytest_memeval.documents.problems import did_you_mean

    name, separator, case_id = wanted.partition("::")
    path = node.config.rootpath / name
    if not separator or not case_id:
        raise _refuse(node, f"case {wanted!r} is not of the form file::case_id")
    if not path.is_file():
        siblings = [path.with_name(other.name) for other in path.parent.glob("*") if other.is_file()]
        names = [_relative(other, node.config.rootpath) for other in siblings]
        raise _refuse(node, f"there is no file {name!r} in {node.config.rootpath}{did_you_mean(name, names)}")
    with sentences():
        case_set = harness_of(node.config).case_set(path)
    if case_set.problems:
        raise StageFailure("\n".join(str(problem) for problem in case_set.problems))
    for case in case_set.cases:
        if case.case_id == case_id:
            return case, case_set
    ids = [case.case_id for case in case_set.cases]
    raise _refuse(node, f"{name} has no case {case_id!r}{did_you_mean(case_id, ids)}")


def _relative(path: Path, root: Path) -> str:
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return str(path)


class sentences:  # reads as the statement it is
    """What cannot be made of the settings or files is told by its message alone. Where it is the one ``part`` that an
    option names as ``module:attribute``, no case can have it."""

    # A class, since each case passes several: a generator costs five times as much.
    def __init__(self, part: str | None = None) -> None:
        self._part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        from pytest_memeval.documents.problems import DocumentError

        if isinstance(error, DocumentError | ValueError):
            from pytest_memeval.extensions import is_address

            part = self._part
            raise StageFailure(str(error), ends_run=part is not None and ":" in part and not is_address(part)) from None


def refuse_faulty(node: Any, engine: object) -> None:
    """Raise StageFailure for an engine, a project's fixture gave it, that cannot be asked for anything."""
    if node.config.stash.get(SOUND_ENGINE, None) is engine:
        return
    from pytest_memeval.engine_faults import engine_fault

    fault = engine_fault(engine)
    if fault is not None:
        raise StageFailure(fault)
    node.config.stash[SOUND_ENGINE] = engine


def is_case_item(node: Any) -> bool:
    # By attribute: importing the items here would make every start of pytest pay for them.
    return hasattr(node, "case_file")


def setup_of(node: Any, variant: str | None = None) -> Harness:
    """The harness as the node's variant sees it, or the one that is named; a test in Python has the candidate's."""
    harness = harness_of(node.config)
    if not harness.settings.variants:
        return harness  # asked for several times a case, and an import in a function takes its time
    from pytest_memeval.variant_harness import variant_of

    return variant_of(harness, variant or getattr(node, "memeval_variant", None))


def case_and_set(node: Any) -> tuple[EvalCase, CaseSet | None]:
    if is_case_item(node):
        return node.case, node.case_file.case_set
    return _named_case(node)


def refuse_invalid(node: Any, case: EvalCase) -> None:
    """Raise StageFailure for a case with invalid labels, or skip it (ini memeval_on_invalid_case)."""
    if not case.problems:
        return
    from pytest_memeval.cases.in_code import problem_text

    text = "\n".join(map(problem_text, case.problems))
    if harness_of(node.config).settings.on_invalid_case == "skip":
        pytest.skip(text)
    raise StageFailure(text, stage="case", kind="invalid_case")


def checked_case(node: Any, case: EvalCase, registry: Registry, templates: Templates) -> EvalCase:
    """The case that a fixture gives, with its labels checked unless a file's were: as they are written there."""
    own, case_set = case_and_set(node)
    if case_set is not None and case is own:
        return case
    if case.path is not None and not case.problems:
        with sentences():
            loaded = harness_of(node.config).case_set(case.path).cases
        if case in loaded:
            return case
    from pytest_memeval.cases.in_code import checked

    case = case if case.problems else checked(case, registry, templates)
    refuse_invalid(node, case)
    return case


def fixture_case(node: Any) -> EvalCase | None:
    """The case of a hand-written test, ``None`` where its marker names none that can be found."""
    try:
        return _named_case(node)[0]
    except StageFailure:
        return None


def registry_of(node: Any) -> Registry:
    _, case_set = case_and_set(node)
    own = case_set.registry if case_set is not None else None
    with sentences():
        return own if own is not None else harness_of(node.config).registry


def templates_of(node: Any) -> Templates:
    _, case_set = case_and_set(node)
    own = case_set.templates if case_set is not None else None
    with sentences():
        return own if own is not None else harness_of(node.config).templates


def prompts_of(node: Any) -> PromptSet:
    _, case_set = case_and_set(node)
    with sentences():
        return setup_of(node).prompt_set(case_set.meta.prompts if case_set is not None else None)
