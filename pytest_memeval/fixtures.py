"""The public fixtures. Each can be overridden in a conftest or test module, at any scope that its use allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.engine.protocol import CaseDatabases
    from pytest_memeval.harness import Harness
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.results import StageResult
    from pytest_memeval.runner import CaseRun


#: The item's run, put there by the fixture that makes it and read when the item's record is written.
RUN = pytest.StashKey["CaseRun"]()


class StageFailure(pytest.fail.Exception):
    """A case that could not be measured: shown as its message alone, without a stack trace.

    ``kind`` is set where the record of the case does not say it yet.
    """

    def __init__(self, message: str, *, stage: str = "setup", kind: str | None = None) -> None:
        super().__init__(message, pytrace=False)
        self.stage = stage
        self.kind = kind


def _harness(request: pytest.FixtureRequest) -> Harness:
    from pytest_memeval.plugin import harness_of

    return harness_of(request.config)


def _named_case(node: Any) -> tuple[EvalCase, CaseSet | None]:
    """The case of a hand-written test: built in code, or named by ``@pytest.mark.memeval(case="file::id")``."""
    from pytest_memeval.plugin import harness_of

    marker = node.get_closest_marker("memeval")
    wanted = marker.kwargs.get("case") if marker is not None else None
    if wanted is None:
        raise pytest.UsageError(
            f'{node.nodeid} uses memeval fixtures: name its case with @pytest.mark.memeval(case="file.yaml::id")'
        )
    if not isinstance(wanted, str):
        return wanted, None
    name, separator, case_id = wanted.partition("::")
    path = node.config.rootpath / name
    if not separator or not path.is_file():
        raise pytest.UsageError(f"{wanted!r}: write file::case_id, the file relative to {node.config.rootpath}")
    case_set = harness_of(node.config).case_set(path)
    if case_set.problems:
        raise StageFailure("\n".join(str(problem) for problem in case_set.problems))
    for case in case_set.cases:
        if case.case_id == case_id:
            return case, case_set
    from pytest_memeval.documents.problems import did_you_mean

    ids = [case.case_id for case in case_set.cases]
    raise pytest.UsageError(f"{name} has no case {case_id!r}{did_you_mean(case_id, ids)}")


def _is_case_item(node: Any) -> bool:
    # By attribute: importing the items here would make every start of pytest pay for them.
    return hasattr(node, "case_file")


def _case_and_set(request: pytest.FixtureRequest) -> tuple[EvalCase, CaseSet | None]:
    node: Any = request.node
    if _is_case_item(node):
        return node.case, node.case_file.case_set
    return _named_case(node)


def fixture_case(node: Any) -> EvalCase | None:
    """The case of a hand-written test, ``None`` where its marker names none that can be found."""
    try:
        return _named_case(node)[0]
    except (pytest.UsageError, StageFailure):
        return None


@pytest.fixture
def memeval_case(request: pytest.FixtureRequest) -> EvalCase:
    """The case under test. A case with an invalid label is an error here, or a skip (ini memeval_on_invalid_case)."""
    case, _ = _case_and_set(request)
    if case.problems:
        text = "\n".join(f"{problem.path}:{problem.line}: [case] {problem.message}" for problem in case.problems)
        if _harness(request).settings.on_invalid_case == "skip":
            pytest.skip(text)
        raise StageFailure(text, stage="case", kind="invalid_case")
    return case


@pytest.fixture(scope="session")
def memeval_engine(request: pytest.FixtureRequest) -> object:
    """The memory system under test (--memeval-engine)."""
    try:
        return _harness(request).build_engine()
    except ValueError as error:
        raise StageFailure(str(error)) from None
    except Exception as error:
        from pytest_memeval.documents.problems import DocumentError

        if isinstance(error, DocumentError):
            raise StageFailure(str(error)) from None
        raise


@pytest.fixture(scope="session")
def memeval_llm(request: pytest.FixtureRequest) -> ChatModel:
    """The chat model that answers prompts (--memeval-llm)."""
    return _harness(request).build_llm()


@pytest.fixture(scope="session")
def memeval_judge() -> ChatModel | None:
    """The chat model that judges answers; ``None`` without one, since the offline model is never a judge."""
    return None


@pytest.fixture
def memeval_registry(request: pytest.FixtureRequest) -> Registry:
    """The registry that the case's labels were checked against."""
    _, case_set = _case_and_set(request)
    own = case_set.registry if case_set is not None else None
    return own if own is not None else _harness(request).registry


@pytest.fixture
def memeval_templates(request: pytest.FixtureRequest) -> Templates:
    """The templates that the case's labels were checked against."""
    _, case_set = _case_and_set(request)
    own = case_set.templates if case_set is not None else None
    return own if own is not None else _harness(request).templates


@pytest.fixture
def memeval_prompts(request: pytest.FixtureRequest) -> PromptSet:
    """The prompt texts of this run for the case's set."""
    _, case_set = _case_and_set(request)
    return _harness(request).prompt_set(case_set.meta.prompts if case_set is not None else None)


@pytest.fixture
def memeval_db() -> Iterator[CaseDatabases]:
    """This case's own databases (``memory``, ``wiki``): empty, opened when first used, closed after the item."""
    from pytest_memeval.engine.databases import OpenDatabases

    databases = OpenDatabases()
    yield databases
    databases.close()


@pytest.fixture
def memeval_run(
    request: pytest.FixtureRequest,
    memeval_case: EvalCase,
    memeval_engine: object,
    memeval_llm: ChatModel,
    memeval_prompts: PromptSet,
    memeval_registry: Registry,
    memeval_templates: Templates,
    memeval_db: CaseDatabases,
) -> Iterator[CaseRun]:
    """The case's run: the stage fixtures take their results from it."""
    from pytest_memeval.runner import CaseRun

    harness = _harness(request)
    folder: list[Path] = []

    def get_folder() -> Path:
        if not folder:
            folder.append(harness.folder(memeval_case.case_id))
        return folder[0]

    run = CaseRun(
        memeval_case,
        engine=memeval_engine,
        llm=memeval_llm,
        prompts=memeval_prompts,
        registry=memeval_registry,
        templates=memeval_templates,
        settings=harness.run_settings,
        loop=harness.loop,
        databases=memeval_db,
        get_folder=get_folder,
        label=request.node.nodeid,
    )
    request.node.stash[RUN] = run
    yield run
    if harness.settings.keep_db and harness.kept_databases is not None:
        run.keep_databases(harness.kept_databases(request.node.nodeid))
    run.close()
    if folder:
        import shutil

        shutil.rmtree(folder[0], ignore_errors=True)


def _stage(request: pytest.FixtureRequest, run: CaseRun, stage: str, **before: StageResult) -> StageResult:
    for name, result in before.items():
        run.provide(name, result)
    result = run.result(stage)
    # A case item goes on to the stages that do not build on this one and reports all failures together.
    if result.error is not None and not _is_case_item(request.node):
        raise StageFailure(f"[{result.error.stage}] {result.error.kind}: {result.error.message}")
    return result


@pytest.fixture
def memeval_l1(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """Extraction: the memories with normalised labels, and their figures where the case has labels."""
    return _stage(request, memeval_run, "l1")


@pytest.fixture
def memeval_l15(request: pytest.FixtureRequest, memeval_run: CaseRun, memeval_l1: StageResult) -> StageResult:
    """Conflict resolution: the decisions, already applied to the case's store."""
    return _stage(request, memeval_run, "l15", l1=memeval_l1)


@pytest.fixture
def memeval_l2(request: pytest.FixtureRequest, memeval_run: CaseRun, memeval_l15: StageResult) -> StageResult:
    """Aggregation: the scenes."""
    return _stage(request, memeval_run, "l2", l15=memeval_l15)


@pytest.fixture
def memeval_template(request: pytest.FixtureRequest, memeval_run: CaseRun, memeval_l15: StageResult) -> StageResult:
    """The template's sections by mode, for the modes that the case has labels for."""
    return _stage(request, memeval_run, "template", l15=memeval_l15)


@pytest.fixture
def memeval_inject(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """The blocks injected: ``{"labelled": …}``, and ``"pipeline"`` where the pipeline has run before."""
    return _stage(request, memeval_run, "inject")


class Measured:
    """The end of a case's set-up: everything that it asks for was measured."""

    def __init__(self, place: str, run: CaseRun) -> None:
        self._place = place
        self._run = run

    def check_expectations(self) -> None:
        """Fail for each of the case's own thresholds that is missed."""
        missed = self._run.missed()
        if missed:
            pytest.fail("\n".join(f"{self._place}: [expect] {sentence}" for sentence in missed), pytrace=False)


@pytest.fixture
def memeval_measured(request: pytest.FixtureRequest, memeval_run: CaseRun) -> Measured:
    """Requested last by every case item: fails the set-up when a stage could not be measured."""
    node: Any = request.node
    if _is_case_item(node):
        # A stage fixture that the project overrides hands its result over here.
        for stage in node.stages:
            memeval_run.provide(stage, request.getfixturevalue(f"memeval_{stage}"))
    place = node.place if _is_case_item(node) else node.nodeid
    errors = memeval_run.errors
    if errors:
        raise StageFailure("\n".join(f"{place}: [{error.stage}] {error.kind}: {error.message}" for error in errors))
    return Measured(place, memeval_run)
