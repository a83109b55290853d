"""The run of an item's case: opened, prepared ahead or not, and judged at the end of the set-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.nodes.cases import StageFailure, case_and_set, is_case_item, refuse_faulty, sentences, setup_of
from pytest_memeval.nodes.keys import FILES, PREFETCHER, RECORDED, RUN, SAID
from pytest_memeval.nodes.search import corpus_for, embedder_of
from pytest_memeval.session import harness_of

if TYPE_CHECKING:
    from _pytest.outcomes import Failed

    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.engine.predictions import PredictionsEngine
    from pytest_memeval.engine.protocol import CaseDatabases
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.runner import CaseRun
else:
    Failed = pytest.fail.Exception


def recorded_outputs(node: Any, variant: str | None = None) -> PredictionsEngine | None:
    """What --memeval-predictions names: it is scored in the place of any engine, a project's own included. ``variant``:
    whose rows are wanted, where ``node`` itself does not say."""
    setup = setup_of(node, variant)
    if setup.settings.predictions is None:
        return None
    known: dict[str | None, PredictionsEngine] = node.config.stash.setdefault(RECORDED, {})
    name = setup.settings.variant_name
    if name not in known:
        from pytest_memeval.engine.predictions import PredictionsEngine
        from pytest_memeval.engine.row_choice import SetsOfIds

        with sentences():
            known[name] = PredictionsEngine(setup.settings.predictions, variant=name)
        known[name].sets = SetsOfIds(node.config.stash.setdefault(FILES, {}))
    return known[name]


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
    harness = setup_of(node)
    if recorded_outputs(node) is None:
        refuse_faulty(node, engine)
        from pytest_memeval.nodes.fixture_values import refuse_strangers

        refuse_strangers(memeval_llm=llm)
    prefetcher = node.config.stash.get(PREFETCHER, None)
    # A store of the project's own was not there when the case was prepared.
    prepared = prefetcher.take(node, engine, llm) if prefetcher is not None and databases is None else None
    key = key_of(node, case, engine, llm, prompts, registry, templates) if is_case_item(node) else None
    close: Callable[[], None]
    if prepared is not None:
        run, close = prepared.run, prepared.end
        node.stash[SAID] = prepared.said
    else:
        run, close = make_run(
            node, case, engine, llm, prompts=prompts, registry=registry, templates=templates, databases=databases
        )
    try:
        resumed = _accept(node, key, run, ready=prepared is not None)
        yield run
        if prefetcher is not None:
            prefetcher.tell_cost(run.seconds)
        if harness.plan is not None:
            harness.plan.case_done(node.nodeid, run)
        _keep_databases(node, run, resumed=resumed)
    finally:
        close()


def _accept(node: Any, key: str | None, run: CaseRun, *, ready: bool) -> bool:
    """Make the run the item's, ``ready`` for one that was begun ahead. Whether it is taken from an earlier run."""
    node.stash[RUN] = run
    if getattr(node.config.option, "usepdb", False):
        run.keep_raised()
    if run.supported and (misspelt := run.misspelt) is not None:
        raise StageFailure(misspelt, kind="misspelt_method")
    return key is not None and _resume(node, key, run, ready=ready)


def _keep_databases(node: Any, run: CaseRun, *, resumed: bool) -> None:
    harness = setup_of(node)
    if not harness.settings.keep_db or harness.kept_databases is None:
        return
    from pytest_memeval.trials.records import trial_label

    for trial, one in enumerate(getattr(run, "trials", (run,))):
        name = trial_label(node.nodeid, trial)
        folder = harness.kept_databases(name)
        if resumed:
            harness.resumer.keep_databases(name, folder)
        else:
            one.keep_databases(folder)


def take_ended(node: Any, run: CaseRun) -> Measured:
    """What the set-up of a case item would have made of a run that has come to its end: the item will have none."""
    key = key_of(node, run.case, run.engine, run.llm, run.prompts, run.registry, run.templates)
    _accept(node, key, run, ready=True)
    _keep_databases(node, run, resumed=False)
    return all_measured(node, run)


def key_of(
    node: Any,
    case: EvalCase,
    engine: object,
    llm: ChatModel,
    prompts: PromptSet,
    registry: Registry,
    templates: Templates,
) -> str:
    """What the item's outputs depend on, in short (:mod:`pytest_memeval.resume.key`)."""
    recorded = recorded_outputs(node)
    if recorded is not None:
        engine, llm = recorded, recorded.no_model()
    with sentences():
        key = harness_of(node.config).resumer.key(
            node, case, engine, llm, prompts, registry, templates, case_and_set(node)[1]
        )
    # What an earlier run took for the case's own row is none beside a case of the same id.
    unclear = recorded is not None and recorded.shared_by(case.case_id, str(case.path or ""))
    return f"unclear-{key}" if key and unclear else key


def _resume(node: Any, key: str, run: CaseRun, *, ready: bool) -> bool:
    """Fill the run from the earlier run that this one goes on with; False where the case is to be run, or (``ready``)
    is run already."""
    from pytest_memeval.resume.items import RESUMPTION
    from pytest_memeval.resume.run import TAKEN

    found = node.stash[RESUMPTION] = harness_of(node.config).resumer.resume(node, key, None if ready else run)
    return found.state == TAKEN


def make_run(
    node: Any,
    case: EvalCase,
    engine: object,
    llm: ChatModel,
    *,
    prompts: PromptSet,
    registry: Registry,
    templates: Templates,
    databases: CaseDatabases | None = None,
) -> tuple[CaseRun, Callable[[], None]]:
    """A run of the case that nobody has asked for anything yet, and what closes it with all that it has opened."""
    from pytest_memeval.runner import CaseRun
    from pytest_memeval.trials.records import trial_label

    harness = setup_of(node)
    recorded = recorded_outputs(node)
    if recorded is not None:
        engine, llm = recorded, recorded.no_model()
    if harness.plan is not None:
        from pytest_memeval.plan import EngineNotPlanned

        try:
            llm = harness.plan.chat_model(node.nodeid, llm, engine)
        except EngineNotPlanned as error:
            raise StageFailure(str(error)) from None
    folders: dict[int, Path] = {}

    def get_folder(trial: int) -> Path:
        if trial not in folders:
            folders[trial] = harness.folder(case.case_id)
        return folders[trial]

    corpus, cutoffs = corpus_for(node, case, engine)
    # A test in Python measures its case once: what it does with the results is its own.
    count = harness.settings.trials if is_case_item(node) else 1
    runs = [
        CaseRun(
            case,
            engine=engine,
            llm=llm,
            prompts=prompts,
            registry=registry,
            templates=templates,
            settings=harness.run_settings,
            loop=harness.loop,
            releases=harness.releases,
            databases=databases if trial == 0 else None,
            get_folder=partial(get_folder, trial),
            label=trial_label(node.nodeid, trial),
            trial=trial,
            embedder=embedder_of(node),
            corpus=corpus,
            cutoffs=cutoffs,
        )
        for trial in range(count)
    ]
    run = runs[0]
    if count > 1:
        from pytest_memeval.trials.case import TrialRuns

        run = TrialRuns(runs, harness.loop, harness.slots, harness.settings.concurrency)

    def close() -> None:
        run.close()
        for folder in folders.values():
            import shutil

            shutil.rmtree(folder, ignore_errors=True)

    return run, close


class Measured:
    """The end of a case's set-up: everything that it asks for was measured."""

    def __init__(self, node: Any, run: CaseRun) -> None:
        self._node = node
        self._run = run

    def check_expectations(self) -> None:
        """Fail for each of the case's own thresholds that is missed."""
        missed = self._run.missed()
        if missed:
            place = _place(self._node)
            pytest.fail("\n".join(f"{place}: [expect] {sentence}" for sentence in missed), pytrace=False)


def all_measured(node: Any, run: CaseRun) -> Measured:
    """Raises StageFailure, with everything that went wrong, when a stage could not be measured.

    A case item of which nothing can be scored is skipped, unless thresholds of its own ask for a figure.
    """
    if is_case_item(node) and not run.supported:
        from pytest_memeval.stages import why_no_stage

        raise StageFailure(why_no_stage(run.engine), kind="no_stage")
    run.complete()
    errors = run.errors
    if errors:
        place = _place(node)
        failure = StageFailure("\n".join(f"{place}: [{error.stage}] {error.kind}: {error.message}" for error in errors))
        # A debugger opens where the exception came from.
        raise failure if run.raised is None else failure.with_traceback(run.raised.__traceback__)
    if is_case_item(node):
        idle = run.why_idle
        if idle is not None and not run.missed():
            raise pytest.skip.Exception(idle, _use_item_location=True)
    return Measured(node, run)


def _place(node: Any) -> str:
    place: str = node.place if is_case_item(node) else node.nodeid
    return place
