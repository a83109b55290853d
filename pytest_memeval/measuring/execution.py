"""What each stage of a case asks of the engine: in which store, with what input, and how what comes back is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_memeval import output_shapes as shapes
from pytest_memeval.engine.normalize import normalize_memories
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.live_memories import labelled_memories, memories_after_resolution
from pytest_memeval.measuring.repeated_ids import refuse_repeated_ids, refuse_repeated_stores
from pytest_memeval.outputs import Outputs
from pytest_memeval.results import StageResult
from pytest_memeval.stages import StagePlan, needed_stages
from pytest_memeval.values import Hit, Memory, Section

if TYPE_CHECKING:
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.measuring.calls import EngineCalls
    from pytest_memeval.measuring.stores import CaseStores
    from pytest_memeval.measuring.trace import Notes, Trace
    from pytest_memeval.search.params import SearchParams


class StageExecutor:
    """Carries out one case's stages, each when asked. It keeps no results: those are in ``outputs`` and ``results``,
    which belong to whoever made it.

    A case can need several stores, which share nothing: ``main`` (the chain), ``inject`` (filled with the labels), and
    with labelled input one a stage.
    """

    def __init__(
        self,
        case: EvalCase,
        calls: EngineCalls,
        stores: CaseStores,
        *,
        templates: Templates,
        chained: bool,
        supported: Sequence[str],
        plan: StagePlan,
        outputs: Outputs,
        results: Mapping[str, StageResult],
        search_params: SearchParams,
    ) -> None:
        self.calls = calls
        self.chained = chained
        self.plan = plan
        self._case = case
        self._stores = stores
        self._templates = templates
        self._supported = supported
        self._outputs = outputs
        self._results = results
        self._search_params = search_params

    async def perform(self, stage: str, trace: Trace) -> Any:
        if stage == "l1":
            ctx = await self._stores.context("main", trace)
            memories = self.checked("l1", await self.calls.call("extract", list(self._case.conversation), ctx))
            if self.calls.has("normalize"):
                memories = self.checked("l1", await self.calls.call("normalize", memories, ctx))
            return normalize_memories(memories, ctx.registry, ctx.record)
        if stage == "l15":
            ctx = await self._stores.context("main" if self.chained else "l15", trace)
            decisions = self.checked("l15", await self.calls.call("resolve", self._new_memories(), ctx))
            await self.calls.indexed(ctx)
            return decisions
        if stage == "l2":
            ctx = await self._stored_context(stage, trace)
            return self.checked("l2", await self.calls.call("aggregate", self._live_memories(), ctx))
        if stage in ("template", "inject") and self._templates.unfit is not None:
            raise StageError(self._templates.unfit, kind="no_templates")
        if stage == "template":
            ctx = await self._stored_context(stage, trace)
            found = self.checked(
                "template", {mode: await self.calls.call("query_template", mode, ctx) for mode in self._modes()}
            )
            self.note_unknown_sections(found, trace.notes)
            return found
        if stage == "inject":
            return await self._inject(trace)
        if stage == "search":
            return await self._search(trace)
        raise StageError(f"stage {stage} has no runner", kind="unsupported")

    def _modes(self) -> list[str]:
        """The labelled modes; without any (a stage that a test asked for) all of them."""
        truth = self._case.expected_l2
        labelled = [mode for mode, sections in truth.template_section.items() if sections] if truth is not None else []
        return labelled or list(self._templates.modes)

    async def _inject(self, trace: Trace) -> dict[str, Any]:
        truth = self._case.expected_inject
        assert truth is not None
        template = self._templates.modes.get(truth.mode)
        if template is not None and template.token_budget is not None:
            trace.notes("inject_setup", mode=truth.mode, token_budget=template.token_budget)
        recorded = getattr(self.calls.engine, "inject_recorded", None)
        if callable(recorded):
            ctx = await self._stores.context("main", trace)
            found: dict[str, Any] = self.checked("inject", recorded(ctx))
            return found
        conversation = list(truth.subsequent_conversation)

        async def blocks(ctx: StageContext) -> Any:
            return shapes.blocks_of(await self.calls.call("inject", truth.mode, conversation, ctx))

        ctx = await self._stores.context("inject", trace, memories=labelled_memories(self._case), existing=False)
        result = {"labelled": await blocks(ctx)}
        ahead = [needed for needed in needed_stages("inject", self._supported) if needed in self.plan.run]
        if self.chained and ahead:
            undone = [stage for stage in ahead if (done := self._results.get(stage)) is None or done.error is not None]
            if undone:
                trace.notes("note", text=f"inject: not measured on the pipeline's memories, stage {undone[0]} failed")
            else:
                result["pipeline"] = await blocks(await self._stored_context("inject", trace))
        return result

    async def _search(self, trace: Trace) -> dict[str, list[Hit]]:
        """The hits of every labelled query, under the ids of the corpus."""
        truth = self._case.expected_search
        queries = list(dict.fromkeys(entry.query for entry in truth.queries)) if truth is not None else []
        store = self._stores.corpus_store()
        params = self._search_params
        setup: Mapping[str, Any] = {}
        recorded = getattr(self.calls.engine, "search_recorded", None)
        if callable(recorded):
            found = self.checked("search", recorded(queries, await self._stores.context("main", trace)))
        else:
            if not store.corpus.memories:
                raise StageError(
                    "there is nothing to search in: no case of the set has a labelled memory", kind="search"
                )
            ctx = await self._stores.corpus_context(trace)
            found = {
                query: shapes.hits_of(await self.calls.call("search", query, params.to_dict(), ctx))
                for query in queries
            }
            describe = getattr(self.calls.engine, "describe_search", None)
            told = describe(ctx) if callable(describe) else {}
            setup = {**{str(key): _plain(value) for key, value in told.items()}, **params.to_dict()}
        known = {query: store.corpus.own_ids(hits) for query, hits in found.items()}
        if any(by_content for _, by_content in known.values()):
            trace.notes("note", text="search: hits without a known id were found by content")
        result = {query: hits for query, (hits, _) in known.items()}
        foreign = sum(store.corpus.unknown(hits) for hits in result.values())
        told = {**setup, "documents": len(store.corpus.memories), **({"unknown_hits": foreign} if foreign else {})}
        trace.notes("search_setup", **told)
        return result

    # -- inputs ------------------------------------------------------------------------------------------------

    def _new_memories(self) -> list[Memory]:
        """What conflict resolution is given."""
        if not self.chained:
            return labelled_memories(self._case)
        return list(self._outputs.l1 or ())

    def _live_memories(self) -> list[Memory]:
        """This case's memories as they live in the store after conflict resolution, each id once."""
        memories = self._new_memories()
        if not self.chained:
            return memories
        return memories_after_resolution(self._case, memories, self._outputs.l15 or ())

    async def _stored_context(self, stage: str, trace: Trace) -> StageContext:
        """The context of a stage that reads the store after conflict resolution."""
        if not self.chained:
            return await self._stores.context(f"truth-{stage}", trace, memories=labelled_memories(self._case))
        ctx = await self._stores.context("main", trace)
        if "l15" not in self._results and self._outputs.l1:
            # Without conflict resolution nobody has stored the new memories yet.
            await self._stores.load("stored", self._outputs.l1, (), ctx)
        return ctx

    # -- outputs -----------------------------------------------------------------------------------------------

    def checked(self, stage: str, output: Any) -> Any:
        """The output in the value classes; OutputError says what is wrong with it."""
        if stage == "l1":
            memories = shapes.memories_of(output)
            refuse_repeated_ids(memories)
            return memories
        if stage == "l15":
            decisions = shapes.decisions_of(output)
            refuse_repeated_stores(self._case, self._new_memories(), decisions)
            return decisions
        if stage == "l2":
            return shapes.scenes_of(output)
        if stage == "template":
            return {mode: self._known_sections(mode, found) for mode, found in shapes.template_of(output).items()}
        if stage == "inject":
            return shapes.inject_of(output)
        if stage == "search":
            return shapes.search_of(output)
        raise shapes.OutputError(f"stage {stage} has no output of a known shape")

    def _known_sections(self, mode: str, sections: list[Any]) -> list[Any]:
        """Sections under the templates' ids, where the engine names them by title."""
        known = []
        for section in sections:
            spec = self._templates.find_section(mode, section.id) or self._templates.find_section(mode, section.title)
            known.append(section if spec is None else replace(section, id=spec.id))
        return known

    def note_unknown_sections(self, template: Mapping[str, Sequence[Section]], notes: Notes) -> None:
        """Note the sections that their mode does not have: no label can point there."""
        for mode, sections in template.items():
            for section in sections:
                if self._templates.find_section(mode, section.id) is None:
                    nearest, held = self._templates.nearest_section(mode, section.id), len(section.memory_ids)
                    notes("unknown_section", mode=mode, section=section.id, nearest=nearest, memories=held)


def _plain(value: object) -> object:
    """What an engine tells of itself, as a report can hold it."""
    return value if value is None or isinstance(value, str | int | bool) else str(value)
