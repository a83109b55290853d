"""The public fixtures. Each can be overridden in a conftest or test module, at any scope that its use allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.outcomes import Failed

    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.engine.predictions import PredictionsEngine
    from pytest_memeval.engine.protocol import CaseDatabases
    from pytest_memeval.harness import Harness
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.llm.proxy_calls import CaseLine
    from pytest_memeval.prefetch import Prefetcher
    from pytest_memeval.results import StageResult
    from pytest_memeval.routing import Said
    from pytest_memeval.runner import CaseRun
else:
    Failed = pytest.fail.Exception

#: The item's run, put there by the fixture that makes it and read when the item's record is written.
RUN = pytest.StashKey["CaseRun"]()
#: What the item's case printed and logged before its turn.
SAID: pytest.StashKey[Said] = pytest.StashKey()
#: This process's window of cases that are prepared ahead, where there is one.
PREFETCHER: pytest.StashKey[Prefetcher] = pytest.StashKey()
#: This process's predictions file.
RECORDED = pytest.StashKey["PredictionsEngine"]()


#: The calls that an item's engine made through the proxy.
PROXY_LINE: pytest.StashKey[CaseLine] = pytest.StashKey()


class StageFailure(Failed):
    """A case that could not be measured: shown as its message alone, without a stack trace.

    ``kind`` is set where the record of the case does not say it yet.
    """

    #: Shown by its bare name, as pytest's own outcomes are.
    __module__ = "builtins"

    def __init__(self, message: str, *, stage: str = "setup", kind: str | None = None) -> None:
        super().__init__(message, pytrace=False)
        #: The message as it was given; ``msg`` may have the place of an item put before it.
        self.text = message
        self.stage = stage
        self.kind = kind


def _harness(node: Any) -> Harness:
    from pytest_memeval.plugin import harness_of

    return harness_of(node.config)


def _refuse(node: Any, why: str) -> StageFailure:
    return StageFailure(f"{node.nodeid}: {why}")


#: Keywords of ``@pytest.mark.memeval``.
MARKER_KEYS = ("case", "gate")


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
    from pytest_memeval.plugin import harness_of

    name, separator, case_id = wanted.partition("::")
    path = node.config.rootpath / name
    if not separator or not case_id:
        raise _refuse(node, f"case {wanted!r} is not of the form file::case_id")
    if not path.is_file():
        siblings = [path.with_name(other.name) for other in path.parent.glob("*") if other.is_file()]
        names = [_relative(other, node.config.rootpath) for other in siblings]
        raise _refuse(node, f"there is no file {name!r} in {node.config.rootpath}{did_you_mean(name, names)}")
    with _sentences():
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


@contextmanager
def _sentences() -> Iterator[None]:
    """What cannot be made of the settings or files is told by its message alone."""
    from pytest_memeval.documents.problems import DocumentError

    try:
        yield
    except (DocumentError, ValueError) as error:
        raise StageFailure(str(error)) from None


def _is_case_item(node: Any) -> bool:
    # By attribute: importing the items here would make every start of pytest pay for them.
    return hasattr(node, "case_file")


def _case_and_set(node: Any) -> tuple[EvalCase, CaseSet | None]:
    if _is_case_item(node):
        return node.case, node.case_file.case_set
    return _named_case(node)


def fixture_case(node: Any) -> EvalCase | None:
    """The case of a hand-written test, ``None`` where its marker names none that can be found."""
    try:
        return _named_case(node)[0]
    except StageFailure:
        return None


@pytest.fixture
def memeval_case(request: pytest.FixtureRequest) -> EvalCase:
    """The case under test. A case with an invalid label is an error here, or a skip (ini memeval_on_invalid_case)."""
    case, _ = _case_and_set(request.node)
    if case.problems:
        text = "\n".join(f"{problem.path}:{problem.line}: [case] {problem.message}" for problem in case.problems)
        if _harness(request.node).settings.on_invalid_case == "skip":
            pytest.skip(text)
        raise StageFailure(text, stage="case", kind="invalid_case")
    return case


@pytest.fixture(scope="session")
def memeval_engine(request: pytest.FixtureRequest) -> object:
    """The memory system under test (--memeval-engine)."""
    recorded = recorded_outputs(request.node)
    if recorded is not None:
        return recorded
    with _sentences():
        return _harness(request.node).build_engine()


@pytest.fixture(scope="session")
def memeval_llm(request: pytest.FixtureRequest) -> ChatModel:
    """The chat model that answers prompts (--memeval-llm); ``complete_sync`` asks it from plain code."""
    recorded = recorded_outputs(request.node)
    if recorded is not None:
        return recorded.no_model()
    with _sentences():
        return _harness(request.node).build_llm()


@pytest.fixture(scope="session")
def memeval_judge(request: pytest.FixtureRequest) -> ChatModel | None:
    """The chat model that judges answers (--memeval-judge-model); ``None`` without one, since the offline model is
    never a judge."""
    with _sentences():
        return _harness(request.node).build_judge()


def recorded_outputs(node: Any) -> PredictionsEngine | None:
    """What --memeval-predictions names: it is scored in the place of any engine, a project's own included."""
    harness = _harness(node)
    if harness.settings.predictions is None:
        return None
    known: PredictionsEngine | None = node.config.stash.get(RECORDED, None)
    if known is None:
        from pytest_memeval.engine.predictions import PredictionsEngine

        with _sentences():
            known = node.config.stash[RECORDED] = PredictionsEngine(harness.settings.predictions)
    return known


def registry_of(node: Any) -> Registry:
    _, case_set = _case_and_set(node)
    own = case_set.registry if case_set is not None else None
    with _sentences():
        return own if own is not None else _harness(node).registry


def templates_of(node: Any) -> Templates:
    _, case_set = _case_and_set(node)
    own = case_set.templates if case_set is not None else None
    with _sentences():
        return own if own is not None else _harness(node).templates


def prompts_of(node: Any) -> PromptSet:
    _, case_set = _case_and_set(node)
    with _sentences():
        return _harness(node).prompt_set(case_set.meta.prompts if case_set is not None else None)


@pytest.fixture
def memeval_registry(request: pytest.FixtureRequest) -> Registry:
    """The registry that the case's labels were checked against."""
    return registry_of(request.node)


@pytest.fixture
def memeval_templates(request: pytest.FixtureRequest) -> Templates:
    """The templates that the case's labels were checked against."""
    return templates_of(request.node)


@pytest.fixture
def memeval_prompts(request: pytest.FixtureRequest) -> PromptSet:
    """The prompt texts of this run for the case's set."""
    return prompts_of(request.node)


@pytest.fixture
def memeval_db() -> Iterator[CaseDatabases]:
    """This case's own databases (``memory``, ``wiki``): empty, opened when first used, closed after the item."""
    from pytest_memeval.engine.databases import OpenDatabases

    databases = OpenDatabases()
    yield databases
    databases.close()


@pytest.fixture
def memeval_proxy_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Base URL of a local OpenAI-compatible server for an engine that has a client of its own. What it asks there is
    passed on to --memeval-base-url, recorded, replayed, rate-limited and counted for this case."""
    with _sentences():
        running = _harness(request.node).proxy()
    line = running.proxy.open_case(request.node.nodeid)
    request.node.stash[PROXY_LINE] = line
    yield running.case_url(line)
    running.proxy.close_case(line)


@contextmanager
def open_run(
    node: Any,
    case: EvalCase,
    engine: object,
    llm: ChatModel,
    *,
    prompts: PromptSet,
    registry: Registry,
    templates: Templates,
    databases: CaseDatabases | None = None,
) -> Iterator[CaseRun]:
    """The run of the item's case, closed at the end with all that it has opened."""
    harness = _harness(node)
    prefetcher = node.config.stash.get(PREFETCHER, None)
    # A store of the project's own was not there when the case was prepared.
    prepared = prefetcher.take(node, engine, llm) if prefetcher is not None and databases is None else None
    key = key_of(node, case, engine, llm, prompts, registry, templates) if _is_case_item(node) else None
    with ExitStack() as resources:
        if prepared is not None:
            resources.callback(prepared.close)
            run = prepared.run
            node.stash[SAID] = prepared.said
        else:
            run = resources.enter_context(
                prepare_run(
                    node,
                    case,
                    engine,
                    llm,
                    prompts=prompts,
                    registry=registry,
                    templates=templates,
                    databases=databases,
                )
            )
        node.stash[RUN] = run
        resumed = key is not None and _resume(node, key, run, ready=prepared is not None)
        yield run
        if prefetcher is not None:
            prefetcher.tell_cost(run.seconds)
        if harness.plan is not None:
            harness.plan.case_done(node.nodeid, run)
        if harness.settings.keep_db and harness.kept_databases is not None:
            folder = harness.kept_databases(node.nodeid)
            if resumed:
                harness.resumer.keep_databases(node.nodeid, folder)
            else:
                run.keep_databases(folder)


def key_of(
    node: Any,
    case: EvalCase,
    engine: object,
    llm: ChatModel,
    prompts: PromptSet,
    registry: Registry,
    templates: Templates,
) -> str:
    """What the item's outputs depend on, in short (:mod:`pytest_memeval.resume_key`)."""
    recorded = recorded_outputs(node)
    if recorded is not None:
        engine, llm = recorded, recorded.no_model()
    with _sentences():
        return _harness(node).resumer.key(node, case, engine, llm, prompts, registry, templates)


def _resume(node: Any, key: str, run: CaseRun, *, ready: bool) -> bool:
    """Fill the run from the earlier run that this one goes on with; False where the case is to be run, or (``ready``)
    is run already."""
    from pytest_memeval.resume import TAKEN
    from pytest_memeval.resuming import RESUMPTION

    found = node.stash[RESUMPTION] = _harness(node).resumer.resume(node, key, None if ready else run)
    return found.state == TAKEN


@contextmanager
def prepare_run(
    node: Any,
    case: EvalCase,
    engine: object,
    llm: ChatModel,
    *,
    prompts: PromptSet,
    registry: Registry,
    templates: Templates,
    databases: CaseDatabases | None = None,
) -> Iterator[CaseRun]:
    """A run of the case that nobody has asked for anything yet, closed at the end with all that it has opened."""
    from pytest_memeval.runner import CaseRun

    harness = _harness(node)
    recorded = recorded_outputs(node)
    if recorded is not None:
        engine, llm = recorded, recorded.no_model()
    if harness.plan is not None:
        from pytest_memeval.plan import EngineNotPlanned

        try:
            llm = harness.plan.chat_model(node.nodeid, llm, engine)
        except EngineNotPlanned as error:
            raise StageFailure(str(error)) from None
    folder: list[Path] = []

    def get_folder() -> Path:
        if not folder:
            folder.append(harness.folder(case.case_id))
        return folder[0]

    run = CaseRun(
        case,
        engine=engine,
        llm=llm,
        prompts=prompts,
        registry=registry,
        templates=templates,
        settings=harness.run_settings,
        loop=harness.loop,
        databases=databases,
        get_folder=get_folder,
        label=node.nodeid,
        # What an engine says to pytest itself reaches it; any other exception is the stage's.
        passing=(pytest.skip.Exception, pytest.exit.Exception),
    )
    try:
        yield run
    finally:
        run.close()
        if folder:
            import shutil

            shutil.rmtree(folder[0], ignore_errors=True)


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
    known = request.node.stash.get(RUN, None)
    if known is not None:  # the item has made it without fixtures
        yield known
        return
    with open_run(
        request.node,
        memeval_case,
        memeval_engine,
        memeval_llm,
        prompts=memeval_prompts,
        registry=memeval_registry,
        templates=memeval_templates,
        databases=memeval_db,
    ) as run:
        yield run


def _stage(request: pytest.FixtureRequest, run: CaseRun, stage: str, **before: StageResult) -> StageResult:
    from pytest_memeval.engine.protocol import StageError

    for name, given in before.items():
        run.provide(name, given)
    if _is_case_item(request.node):
        # A case item goes on to the stages that do not build on this one and reports all failures together.
        return run.result(stage)
    try:
        run.demand(stage)
    except StageError as error:
        raise StageFailure(f"[{stage}] {error.kind}: {error}", stage=stage, kind=error.kind) from None
    result = run.result(stage)
    if result.error is not None:
        raise StageFailure(f"[{result.error.stage}] {result.error.kind}: {result.error.message}")
    return result


def _pipeline(request: pytest.FixtureRequest, stage: str) -> StageResult | None:
    """The result of a stage that another one can do without: by its fixture, so that an override is heeded."""
    try:
        return request.getfixturevalue(f"memeval_{stage}")  # type: ignore[no-any-return]
    except StageFailure:
        return None


@pytest.fixture
def memeval_l1(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """Extraction: the memories with normalised labels, and their figures where the case has labels."""
    return _stage(request, memeval_run, "l1")


@pytest.fixture
def memeval_l15(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """Conflict resolution: the decisions, already applied to the case's store."""
    return _stage(request, memeval_run, "l15", **_chain(request, memeval_run, "l15"))


@pytest.fixture
def memeval_l2(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """Aggregation: the scenes."""
    return _stage(request, memeval_run, "l2", **_chain(request, memeval_run, "l2"))


@pytest.fixture
def memeval_template(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """The template's sections by mode, for the modes that the case has labels for; without any, for all modes."""
    return _stage(request, memeval_run, "template", **_chain(request, memeval_run, "template"))


@pytest.fixture
def memeval_inject(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """The blocks injected: ``{"labelled": …}``, and ``"pipeline"`` where the pipeline could be run."""
    return _stage(request, memeval_run, "inject", **_chain(request, memeval_run, "inject"))


def _chain(request: pytest.FixtureRequest, run: CaseRun, stage: str) -> dict[str, StageResult]:
    """The results that ``stage`` takes, each by its fixture; a test that must have them fails there."""
    from pytest_memeval.stages import needed_stages

    found: dict[str, StageResult] = {}
    if run.settings.chained:
        for needed in needed_stages(stage, run.supported):
            result = request.getfixturevalue(f"memeval_{needed}") if stage != "inject" else _pipeline(request, needed)
            if result is not None:
                found[needed] = result
    return found


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
    return all_measured(node, memeval_run)


def all_measured(node: Any, run: CaseRun) -> Measured:
    """Raises StageFailure, with everything that went wrong, when a stage could not be measured.

    A case item of which nothing can be scored is skipped, unless thresholds of its own ask for a figure.
    """
    if _is_case_item(node) and not run.supported:
        from pytest_memeval.stages import why_no_stage

        raise StageFailure(why_no_stage(run.engine), kind="no_stage")
    place = node.place if _is_case_item(node) else node.nodeid
    errors = run.errors
    if errors:
        raise StageFailure("\n".join(f"{place}: [{error.stage}] {error.kind}: {error.message}" for error in errors))
    if _is_case_item(node):
        idle = run.why_idle
        if idle is not None and not run.missed():
            raise pytest.skip.Exception(idle, _use_item_location=True)
    return Measured(place, run)
