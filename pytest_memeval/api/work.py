"""What a run of the Python API has to do: one piece of work a case, of any kind, without pytest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_memeval.ahead import Prepared
from pytest_memeval.case_figures import process_meta
from pytest_memeval.case_record import case_result, untouched_result
from pytest_memeval.cases.in_code import problem_text
from pytest_memeval.cases.loader import lacking
from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.engine.protocol import can_overlap
from pytest_memeval.harness import Harness
from pytest_memeval.kinds import Kind, KindCase, KindSet, untouched
from pytest_memeval.options import SettingsError
from pytest_memeval.results import CaseError, CaseResult
from pytest_memeval.runner import CaseRun
from pytest_memeval.stages import why_no_stage

if TYPE_CHECKING:
    from pytest_memeval.corpus import CorpusStore


class Values:
    """The objects that fixtures give in a pytest run, each made when first asked for."""

    def __init__(self, harness: Harness, given: Mapping[str, Any]) -> None:
        self._harness = harness
        self._made = dict(given)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Any:
        harness = self._harness
        if name == "memeval_engine":
            return harness.build_engine()
        if name == "memeval_llm":
            scored = getattr(self["memeval_engine"], "no_model", None) if harness.settings.predictions else None
            return scored() if scored is not None else harness.build_llm()
        if name == "memeval_judge":
            return harness.build_judge()
        from pytest_memeval.rag.chosen import evaluators_of, pipeline_of

        if name == "memeval_evaluators":
            return evaluators_of(harness.settings, self.__getitem__)
        return pipeline_of(harness.settings)


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


class Work(Protocol):
    """One case to be run. ``refused`` gives the record of a case that is not to be run at all."""

    set_path: str

    @property
    def node_id(self) -> str: ...
    @property
    def overlaps(self) -> bool: ...
    def refused(self) -> CaseResult | None: ...
    def prepare(self) -> Prepared: ...
    def result(self, run: Any) -> CaseResult: ...
    def meta(self, run: Any) -> Mapping[str, Any] | None: ...


def _invalid(harness: Harness, problems: Any) -> tuple[bool, tuple[CaseError, ...]]:
    """(skipped, errors) of a case with these problems."""
    if harness.settings.on_invalid_case == "skip":
        return True, ()
    text = "\n".join(map(problem_text, problems))
    return False, (CaseError("case", "invalid_case", text),)


@dataclass
class DistillWork:
    """A distillation case."""

    harness: Harness
    values: Values
    case: EvalCase
    case_set: CaseSet
    set_path: str

    @property
    def node_id(self) -> str:
        return f"{self.set_path}::{self.case.case_id}"

    @property
    def overlaps(self) -> bool:
        return can_overlap(self.values["memeval_engine"])

    def refused(self) -> CaseResult | None:
        problems = (*self.case.problems, *(lacking(self.case) if self.case.path is None else ()))
        if not problems:
            return None
        skipped, errors = _invalid(self.harness, problems)
        return untouched_result(
            self.case,
            node_id=self.node_id,
            set_path=self.set_path,
            settings=self.harness.run_settings,
            errors=errors,
            skipped=skipped,
        )

    def prepare(self) -> Prepared:
        harness, case_set = self.harness, self.case_set
        folder: list[Path] = []

        def get_folder() -> Path:
            if not folder:
                folder.append(harness.folder(self.case.case_id))
            return folder[0]

        store, cutoffs = self._corpus()
        resources = ExitStack()
        resources.callback(_remove, folder)
        run = CaseRun(
            self.case,
            engine=self.values["memeval_engine"],
            llm=self.values["memeval_llm"],
            prompts=harness.prompt_set(case_set.meta.prompts),
            registry=case_set.registry or harness.registry,
            templates=case_set.templates or harness.templates,
            settings=harness.run_settings,
            loop=harness.loop,
            releases=harness.releases,
            get_folder=get_folder,
            label=self.node_id,
            embedder=harness.search.embedder(),
            corpus=store,
            cutoffs=cutoffs,
        )
        resources.callback(run.close)
        return Prepared(run, resources)

    def _corpus(self) -> tuple[Callable[[], CorpusStore] | None, tuple[int, ...] | None]:
        """What the case's queries are searched in, and the cut-offs of their figures: a file's cases share them."""
        if self.case.expected_search is None:
            return None, None
        if self.case.path is None:
            from pytest_memeval.corpus import cutoffs_of

            return None, cutoffs_of(self.case.expect)
        search = self.harness.search
        return partial(search.store, self.case_set, self.values["memeval_engine"]), search.corpus(self.case_set).cutoffs

    def result(self, run: CaseRun) -> CaseResult:
        run.run_all()
        run.complete()
        extra: tuple[CaseError, ...] = ()
        if not run.supported:
            extra = (CaseError("setup", "no_stage", why_no_stage(run.engine)),)
        elif (misspelt := run.misspelt) is not None:
            extra = (CaseError("setup", "misspelt_method", misspelt),)
        idle = not extra and not run.errors and run.why_idle is not None and not run.missed()
        if self.harness.kept_databases is not None:
            run.keep_databases(self.harness.kept_databases(self.node_id))
        return case_result(run, node_id=self.node_id, set_path=self.set_path, extra_errors=extra, skipped=idle)

    def meta(self, run: CaseRun) -> Mapping[str, Any]:
        return process_meta(run, self.set_path, self.harness)


@dataclass
class KindWork:
    """A case of another kind: a question, a RAG sample."""

    harness: Harness
    values: Values
    kind: Kind
    case: KindCase
    case_set: KindSet
    set_path: str

    def __post_init__(self) -> None:
        self._given: dict[str, Any] | None = None

    @property
    def node_id(self) -> str:
        return f"{self.set_path}::{self.case.case_id}"

    @property
    def given(self) -> dict[str, Any]:
        if self._given is None:
            self._given = {name: self.values[name] for name in self.kind.fixtures}
        return self._given

    @property
    def overlaps(self) -> bool:
        return self.kind.can_overlap(self.given)

    @property
    def _is_unselected(self) -> bool:
        selected = self.harness.settings.stage_set
        return selected is not None and bool(self.case.stages) and not selected.intersection(self.case.stages)

    def refused(self) -> CaseResult | None:
        if not self._is_unselected and not self.case.problems:
            return None
        skipped, errors = (True, ()) if self._is_unselected else _invalid(self.harness, self.case.problems)
        return untouched(
            self.case,
            self.kind.name,
            node_id=self.node_id,
            set_path=self.set_path,
            errors=errors,
            skipped=skipped,
            unselected=self._is_unselected,
        )

    def prepare(self) -> Prepared:
        run = self.kind.make_run(self.case, self.case_set, self.given, self.harness, self.node_id)
        run.values = self.given
        resources = ExitStack()
        resources.callback(run.close)
        return Prepared(run, resources)

    def result(self, run: Any) -> CaseResult:
        run.finish()
        result: CaseResult = run.case_result(
            node_id=self.node_id, set_path=self.set_path, skipped=not run.errors and run.skip_reason is not None
        )
        return result

    def meta(self, run: Any) -> Mapping[str, Any] | None:
        meta = run.meta(self.set_path)
        return {"supported_stages": list(self.case.stages), "prompts": {}, **meta} if meta else None


def refuse_twins(works: list[Work]) -> None:
    """Raise SettingsError where two cases have one node id: the second would take the first one's place."""
    seen: set[str] = set()
    for work in works:
        if work.node_id in seen:
            raise SettingsError(f"two of the cases are {work.node_id}: give each a case_id of its own")
        seen.add(work.node_id)
