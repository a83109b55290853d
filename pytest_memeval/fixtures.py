"""The public fixtures. Each can be overridden in a conftest or test module, at any scope that its use allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.nodes.cases import (
    StageFailure,
    case_and_set,
    checked_case,
    is_case_item,
    prompts_of,
    refuse_invalid,
    registry_of,
    sentences,
    templates_of,
)
from pytest_memeval.nodes.keys import PROXY_LINE, RUN
from pytest_memeval.nodes.runs import Measured, all_measured, open_run, recorded_outputs
from pytest_memeval.session import harness_of

if TYPE_CHECKING:
    from _pytest.outcomes import Failed

    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.engine.protocol import CaseDatabases
    from pytest_memeval.judge.protocol import Judge
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.rag.base import BaseEvaluator
    from pytest_memeval.results import StageResult
    from pytest_memeval.runner import CaseRun
else:
    Failed = pytest.fail.Exception


@pytest.fixture
def memeval_case(request: pytest.FixtureRequest) -> EvalCase:
    """The case under test. A case with an invalid label is an error here, or a skip (ini memeval_on_invalid_case)."""
    from pytest_memeval.nodes.handed import hand

    case, _ = case_and_set(request.node)
    refuse_invalid(request.node, case)
    return hand(request.node, "memeval_case", case)


@pytest.fixture(scope="session")
def memeval_engine(request: pytest.FixtureRequest) -> object:
    """The memory system under test (--memeval-engine)."""
    # Where the run's variants differ in it, each has its own: pytest gives the variant's name as the parameter.
    variant = getattr(request, "param", None)
    recorded = recorded_outputs(request.node, variant)
    if recorded is not None:
        return recorded
    from pytest_memeval.variant_harness import variant_of

    harness = variant_of(harness_of(request.node.config), variant)
    with sentences(harness.settings.engine):
        return harness.build_engine()


@pytest.fixture(scope="session")
def memeval_llm(request: pytest.FixtureRequest) -> ChatModel:
    """The chat model that answers prompts (--memeval-llm); ``complete_sync`` asks it from plain code."""
    variant = getattr(request, "param", None)
    recorded = recorded_outputs(request.node, variant)
    if recorded is not None:
        return recorded.no_model()
    from pytest_memeval.variant_harness import variant_of

    harness = variant_of(harness_of(request.node.config), variant)
    with sentences(harness.settings.llm_name):
        return harness.build_llm()


@pytest.fixture(scope="session")
def memeval_judge(request: pytest.FixtureRequest) -> Judge | None:
    """The judge of answers (--memeval-judge-model, or --memeval-judge), ``judge_sync`` for plain code; ``None`` where
    none is named, since the offline model is never one."""
    harness = harness_of(request.node.config)
    with sentences(harness.settings.judge):
        return harness.build_judge()


@pytest.fixture(scope="session")
def memeval_evaluators(request: pytest.FixtureRequest) -> Sequence[BaseEvaluator]:
    """What RAG samples are evaluated with (--memeval-evaluator), by default the evaluators that need no model."""
    from pytest_memeval.rag.chosen import evaluators_of

    with sentences():
        return evaluators_of(harness_of(request.node.config).settings, request.getfixturevalue)


@pytest.fixture(scope="session")
def memeval_rag_pipeline(request: pytest.FixtureRequest) -> object:
    """The system that answers RAG samples (--memeval-rag-pipeline); ``None``: their recorded answers are evaluated."""
    from pytest_memeval.rag.chosen import pipeline_of

    with sentences():
        return pipeline_of(harness_of(request.node.config).settings)


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
    with sentences():
        running = harness_of(request.node.config).proxy()
    line = running.proxy.open_case(request.node.nodeid)
    request.node.stash[PROXY_LINE] = line
    yield running.case_url(line)
    running.proxy.close_case(line)


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
    from pytest_memeval.nodes.fixture_values import refuse_strangers
    from pytest_memeval.nodes.handed import taken_back

    memeval_case = taken_back(request.node, "memeval_case", memeval_case)
    refuse_strangers(
        memeval_case=memeval_case,
        memeval_prompts=memeval_prompts,
        memeval_registry=memeval_registry,
        memeval_templates=memeval_templates,
        memeval_db=memeval_db,
    )
    with open_run(
        request.node,
        checked_case(request.node, memeval_case, memeval_registry, memeval_templates),
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
    from pytest_memeval.nodes.fixture_values import refuse_strangers
    from pytest_memeval.nodes.handed import hand

    refuse_strangers(memeval_run=run)
    for name, given in before.items():
        run.provide(name, given)
    if is_case_item(request.node):
        # A case item goes on to the stages that do not build on this one and reports all failures together.
        return hand(request.node, f"memeval_{stage}", run.result(stage))
    try:
        run.demand(stage)
    except StageError as error:
        raise StageFailure(f"[{stage}] {error.kind}: {error}", stage=stage, kind=error.kind) from None
    result = run.result(stage)
    if result.error is not None:
        raise StageFailure(f"[{result.error.stage}] {result.error.kind}: {result.error.message}")
    return hand(request.node, f"memeval_{stage}", result)


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


@pytest.fixture
def memeval_search(request: pytest.FixtureRequest, memeval_run: CaseRun) -> StageResult:
    """Search: the hits of every labelled query, in the memories of the whole case set."""
    return _stage(request, memeval_run, "search")


def _chain(request: pytest.FixtureRequest, run: CaseRun, stage: str) -> dict[str, StageResult]:
    """The results that ``stage`` takes, each by its fixture, so that an override is heeded; a test that must have them
    fails there. Injection can do without."""
    from pytest_memeval.nodes.fixture_values import refuse_strangers
    from pytest_memeval.nodes.handed import taken_back
    from pytest_memeval.stages import needed_stages

    refuse_strangers(memeval_run=run)
    found: dict[str, StageResult] = {}
    if run.settings.chained:
        for needed in needed_stages(stage, run.supported):
            try:
                name = f"memeval_{needed}"
                found[needed] = taken_back(request.node, name, request.getfixturevalue(name))
            except StageFailure:
                if stage != "inject":
                    raise
    return found


@pytest.fixture
def memeval_measured(request: pytest.FixtureRequest, memeval_run: CaseRun) -> Measured:
    """Requested last by every case item: fails the set-up when a stage could not be measured."""
    from pytest_memeval.nodes.fixture_values import refuse_strangers
    from pytest_memeval.nodes.handed import taken_back

    refuse_strangers(memeval_run=memeval_run)
    node: Any = request.node
    if is_case_item(node):
        # A stage fixture that the project overrides hands its result over here.
        for stage in node.stages:
            name = f"memeval_{stage}"
            memeval_run.provide(stage, taken_back(node, name, request.getfixturevalue(name)))
    return all_measured(node, memeval_run)
