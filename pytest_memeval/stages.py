"""Which stages a case needs, which of them are scored, and why the others are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_memeval.results import StageStatus
from pytest_memeval.truths import truth_stages
from pytest_memeval.values import ALL_STAGES, DISTILL_STAGES

if TYPE_CHECKING:
    from pytest_memeval.cases.models import EvalCase

#: Stage → the stages whose results it takes when the input is chained.
CHAIN: Mapping[str, tuple[str, ...]] = {
    "l1": (),
    "l15": ("l1",),
    "l2": ("l1", "l15"),
    "template": ("l1", "l15"),
    "inject": ("l1", "l15"),
    "search": (),
}

#: The stages that a case's run carries out.
MEASURED: tuple[str, ...] = ("l1", "l15", "l2", "template", "inject", "search")

#: Other words for stages that options accept.
STAGE_ALIASES: Mapping[str, str] = {"rrf": "search"}


class UnknownStage(ValueError):
    """A stage name that does not exist; the text names the nearest one."""


def parse_stages(text: str) -> frozenset[str] | None:
    """Read ``l1,l2`` or ``all`` (``None``). ``l2`` selects ``template`` too, where its section labels are measured."""
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not names:
        raise UnknownStage("no stage is named; write for example l1,l2 or all")
    chosen = set()
    for name in names:
        if name == "all":
            continue
        stage = STAGE_ALIASES.get(name, name)
        if stage not in ALL_STAGES:
            from pytest_memeval.documents.problems import did_you_mean

            raise UnknownStage(f"unknown stage {name!r}{did_you_mean(name, (*ALL_STAGES, 'rrf', 'all'))}")
        chosen.add(stage)
    if "all" in names:
        return None
    if "l2" in chosen:
        chosen.add("template")
    return frozenset(chosen)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """``scored``: labelled, selected and supported. ``run``: these and what they build on, in order. ``idle``: why each
    other stage is not scored, whether it runs on the way or not."""

    scored: tuple[str, ...]
    run: tuple[str, ...]
    idle: Mapping[str, StageStatus]

    def with_stages(self, stages: Collection[str]) -> StagePlan:
        """The same with further stages to run unscored."""
        wanted = {*self.run, *stages}
        return replace(self, run=tuple(stage for stage in DISTILL_STAGES if stage in wanted))


def plan_stages(
    case: EvalCase, *, selected: Collection[str] | None, supported: Collection[str], can_load: bool, chained: bool
) -> StagePlan:
    """Decide for one case.

    ``selected`` is ``None`` for all. In a chain a stage that needs ``l1`` cannot be measured on an engine without it;
    a missing ``l15`` is passed over, since the memories can be taken as they are. Existing memories can only be given
    to an engine that has ``load``, and labelled memories likewise: without it ``l15`` is not measured on a case with
    existing memories, and runs unscored where later stages need its new memories stored.
    """
    return _plan(
        truth_stages(case),
        None if selected is None else frozenset(selected),
        tuple(supported),
        can_load=can_load,
        chained=chained,
        has_store=bool(case.existing_memories or case.existing_scenes),
    )


@lru_cache(maxsize=256)  # thousands of cases have few plans among them
def _plan(
    truths: tuple[str, ...],
    selected: frozenset[str] | None,
    supported: tuple[str, ...],
    *,
    can_load: bool,
    chained: bool,
    has_store: bool,
) -> StagePlan:
    idle: dict[str, StageStatus] = {}
    scored = []
    for stage in DISTILL_STAGES:
        if stage not in truths:
            idle[stage] = "no_truth"
        elif selected is not None and stage not in selected:
            idle[stage] = "unselected"
        elif not _measurable(stage, supported, can_load=can_load, chained=chained, has_store=has_store):
            idle[stage] = "unsupported"
        else:
            scored.append(stage)
    plan = StagePlan(tuple(scored), tuple(scored), idle)
    if not chained:
        return plan
    return plan.with_stages({needed for stage in scored for needed in needed_stages(stage, supported)})


def needed_stages(stage: str, supported: Collection[str]) -> tuple[str, ...]:
    """The stages whose results ``stage`` takes in a chain, as far as the engine has them. Injection takes none of an
    engine that extracts nothing: it is measured on the labelled memories alone."""
    if stage == "inject" and "l1" not in supported:
        return ()
    return tuple(needed for needed in CHAIN[stage] if needed in supported)


def _measurable(stage: str, supported: Collection[str], *, can_load: bool, chained: bool, has_store: bool) -> bool:
    if stage not in supported:
        return False
    if stage == "l15" and has_store and not can_load:
        return False
    if stage in ("inject", "search") and not can_load:
        return False
    if stage in ("l2", "template") and not chained:
        return can_load
    return not (chained and stage in ("l15", "l2", "template") and "l1" not in supported)


def why_idle(plan: StagePlan, supported: Collection[str], *, engine: str, chained: bool) -> str | None:
    """Why not a single stage of the case can be scored, in a sentence; ``None`` where one can."""
    if any(stage in MEASURED for stage in plan.scored):
        return None
    lacking = [
        stage if stage not in supported else f"{_missing_for(stage, supported, chained=chained)} for {stage}"
        for stage, why in plan.idle.items()
        if why == "unsupported"
    ]
    unselected = [stage for stage, why in plan.idle.items() if why == "unselected"]
    if lacking:
        return f"nothing of this case can be measured: engine {engine} lacks {', '.join(lacking)}"
    if unselected:
        return f"nothing of this case was selected: it has labels for {', '.join(unselected)}"
    if plan.scored:
        return f"nothing measures stage {plan.scored[0]} of a case"
    return "the case has labels for no stage"


def why_null(
    stages: Collection[str],
    idle: Mapping[str, StageStatus],
    supported: Collection[str],
    *,
    engine: str,
    chained: bool,
) -> str:
    """Why a metric that is measured by ``stages`` has no value in a case, in a few words; ``idle``: why each stage that
    is not measured there is not."""
    for stage in stages:
        if idle.get(stage) == "unsupported":
            lacking = f"{_missing_for(stage, supported, chained=chained)} for {stage}" if stage in supported else stage
            return f"engine {engine} lacks {lacking}"
        if idle.get(stage) == "no_truth":
            return f"the case has no label for {stage}"
    if not stages:
        return "no metric of this name gave a figure for the case"
    return "nothing in the case's labels and the engine's outputs counts for it"


def _missing_for(stage: str, supported: Collection[str], *, chained: bool) -> str:
    """What an engine that has the stage's own method still lacks to be measured there."""
    return "l1" if chained and stage not in ("inject", "search") and "l1" not in supported else "load"


def why_no_stage(engine: object) -> str:
    """What is wrong with an engine that supports no stage at all; names the nearest method where one is misspelt."""
    text = f"engine {getattr(engine, 'name', type(engine).__name__)} supports none of the stages {', '.join(MEASURED)}"
    declared = getattr(engine, "supported_stages", None)
    if callable(declared):
        return f"{text}: its supported_stages() gives {sorted(map(str, declared()))}"
    from difflib import SequenceMatcher

    from pytest_memeval.documents.problems import nearest
    from pytest_memeval.engine.misspelt import public_methods
    from pytest_memeval.engine.protocol import STAGE_METHODS

    methods = tuple(STAGE_METHODS.values())
    guesses = [(name, guess) for name in public_methods(engine) if (guess := nearest(name, methods)) is not None]
    if not guesses:
        return f"{text}: it has none of the methods {', '.join(methods)}"
    name, guess = max(guesses, key=lambda pair: SequenceMatcher(None, *pair).ratio())
    return f"{text}: it has {name!r}; did you mean {guess!r}?"


def misspelt_method(
    engine: object, plan: StagePlan, supported: Collection[str], *, can_load: bool, chained: bool, has_store: bool
) -> str | None:
    """Which method that the case needs the engine seems to have under a misspelt name, in a sentence."""
    wanted = (*plan.scored, *(stage for stage, why in plan.idle.items() if why == "unsupported"))
    lacking: dict[str, str] = {}
    for stage in wanted:
        for needed in (*(CHAIN[stage] if chained else ()), stage):
            if needed in CHAIN and needed not in supported:
                lacking.setdefault(needed, stage)
    loaded = () if can_load else _filled(wanted, chained=chained, has_store=has_store)
    if not lacking and not loaded:
        return None
    from pytest_memeval.engine.misspelt import meant_to_be
    from pytest_memeval.engine.protocol import STAGE_METHODS

    name = getattr(engine, "name", type(engine).__name__)
    methods = [(STAGE_METHODS[needed], stage) for needed, stage in lacking.items()]
    for method, stage in (*methods, *(("load", stage) for stage in loaded[:1])):
        meant = meant_to_be(engine, method)
        if meant is not None:
            return (
                f"engine {name} has no method {method!r}, which {stage} of this case needs, but {meant!r}; did you mean"
                f" {method!r}?"
            )
    return None


def _filled(stages: Collection[str], *, chained: bool, has_store: bool) -> tuple[str, ...]:
    """The stages of these that need memories to be given to the engine before them."""
    always = ("inject", "search") if chained else ("l2", "template", "inject", "search")
    return tuple(stage for stage in stages if stage in always or (has_store and stage in CHAIN and stage != "l1"))
