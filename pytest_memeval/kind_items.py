"""Files and cases of other kinds than distillation as pytest nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.harness import Harness
from pytest_memeval.kinds import Kind, KindCase, KindRun, KindSet, untouched
from pytest_memeval.nodes.cases import StageFailure, refuse_faulty, setup_of
from pytest_memeval.nodes.fixture_values import refuse_parameters, refuse_strangers
from pytest_memeval.nodes.keys import PREFETCHER, RUN, SAID
from pytest_memeval.nodes.tracebacks import project_frames
from pytest_memeval.report.console import without_controls
from pytest_memeval.results import CaseError, CaseResult
from pytest_memeval.resume.items import RESUMPTION
from pytest_memeval.session import harness_at_collection, harness_of
from pytest_memeval.trials.records import trial_label
from pytest_memeval.variant_items import params_of, with_params

if TYPE_CHECKING:
    from _pytest._code import Traceback

    from pytest_memeval.ahead import Prepared

KIND_FILES = pytest.StashKey[dict[str, KindSet]]()
TAGS = pytest.StashKey[set[str]]()


def _asks_for(names: tuple[str, ...]) -> Callable[..., None]:
    """The test function of a case: its argument names are the fixtures that the kind wants."""

    def run_case(**fixtures: Any) -> None:
        """Everything is done in the item's set-up."""

    run_case.__signature__ = Signature(  # type: ignore[attr-defined]  # inspect looks for it there
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return run_case


class KindFile(pytest.File):
    """A case file of one kind. A kind with nested items overrides :meth:`nodes`."""

    kind: Kind
    case_set: KindSet
    #: What ``request.module`` gives: a case file is none.
    obj = None

    @classmethod
    def from_parent(cls, parent: Any, **kw: Any) -> KindFile:
        kind = kw.pop("kind")
        self: KindFile = super().from_parent(parent, **kw)
        self.kind = kind
        return self

    @property
    def harness(self) -> Harness:
        return harness_of(self.config)

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        case_set = self.kind.load(self.path, harness_at_collection(self.config))
        if case_set.problems:
            lines = [str(problem).replace(str(problem.path), self.shown, 1) for problem in case_set.problems]
            head = f"{len(lines)} problems in {self.shown}:\n" if len(lines) > 1 else ""
            raise self.CollectError(without_controls(head + "\n".join(lines)))
        self.case_set = case_set
        kind_files(self.config)[self.nodeid] = case_set
        known = self.config.stash.setdefault(TAGS, set())
        # --strict-markers and a strict -m know only what the ini lists.
        for tag in sorted({tag for case in case_set.cases for tag in case.tags} - known):
            known.add(tag)
            self.config.addinivalue_line("markers", f"{tag}: tag of evaluation cases")
        yield from self.nodes()

    def nodes(self) -> Iterator[pytest.Item | pytest.Collector]:
        """The file's children: by default an item a case, in the file's order."""
        for case in self.case_set.cases:
            yield KindItem.from_parent(self, name=case.case_id, case=case)

    @property
    def shown(self) -> str:
        """The file's path relative to the current folder."""
        try:
            return self.path.relative_to(self.config.invocation_params.dir).as_posix()
        except ValueError:
            return str(self.path)


class KindItem(pytest.Function):
    """One case of a kind; ``parent`` is its file or a collector below it.

    Its set-up makes the fixtures that the kind wants and does the case's work, or waits for what was begun ahead of its
    turn. What could not be measured is an error of the set-up, a missed threshold of the case's own a failure.
    """

    case: KindCase
    kind_file: KindFile
    #: The set-up of a run over several; None in a run of one.
    memeval_variant: str | None = None

    @classmethod
    def from_parent(cls, parent: Any, **kw: Any) -> KindItem:
        case: KindCase = kw.pop("case")
        file = parent if isinstance(parent, KindFile) else parent.getparent(KindFile)
        kw, variant = with_params(kw, kw.pop("params", None))
        kw.setdefault("callobj", _asks_for(file.kind.fixtures))
        self: KindItem = super().from_parent(parent, **kw)
        self.case, self.kind_file = case, file
        self.memeval_variant = variant
        self.add_marker("memeval")
        for word in dict.fromkeys((case.difficulty, case.source, *case.tags)):
            self.add_marker(word)
        return self

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Traceback:
        return project_frames(self, excinfo)

    def getparent(self, cls: type[Any]) -> Any:
        # A fixture of scope module is set up with the file, which is what a module is to a test function.
        return super().getparent(cls) or (self.kind_file if cls is pytest.Module else None)

    @property
    def kind(self) -> Kind:
        return self.kind_file.kind

    @property
    def memeval_set(self) -> str:
        """The case set that the item counts for."""
        return self.kind_file.nodeid

    @property
    def place(self) -> str:
        """``file:line`` relative to the current folder."""
        return f"{self.kind_file.shown}:{self.case.line}"

    def reportinfo(self) -> tuple[Path, int, str]:
        # pytest writes dots in this text as '::' where it ends the node id, and nobody could paste that back.
        return self.path, self.case.line - 1, self.name if "." not in self.name else f"case {self.name}"

    def unselected(self) -> str | None:
        """Why ``--memeval-stages`` leaves the case out, in a sentence."""
        selected = self.kind_file.harness.settings.stage_set
        if selected is None or not self.case.stages or selected.intersection(self.case.stages):
            return None
        return f"nothing of this case was selected: it has labels for {', '.join(self.case.stages)}"

    def setup(self) -> None:
        if (why := self.unselected()) is not None:
            raise pytest.skip.Exception(why, _use_item_location=True)
        self._refuse_invalid()
        refuse_parameters(self)
        super().setup()
        if getattr(self.config.option, "setupplan", False):  # which makes no fixture
            return
        run = self._run({name: self.funcargs[name] for name in self.kind.fixtures})
        self.stash[RUN] = run  # type: ignore[misc]  # read by those who treat all runs alike
        run.finish()
        if (plan := setup_of(self).plan) is not None:
            plan.take_case(run.errors)
        said = self.stash.get(SAID, None)
        if said is not None:
            said.repeat()
        self._refuse_unmeasured(run)

    def take_ended(self, prepared: Prepared) -> Callable[[], None]:
        """Do what is left of the set-up for a case that has come to its end, and give what the call would be."""
        run = prepared.run
        self.stash[RUN], self.stash[SAID] = run, prepared.said
        if run.resumption is not None:
            self.stash[RESUMPTION] = run.resumption
        self._refuse_unmeasured(run)
        return self.runtest

    def _refuse_unmeasured(self, run: KindRun) -> None:
        if run.errors:
            lines = (f"{self.place}: [{error.stage}] {error.kind}: {error.message}" for error in run.errors)
            raise StageFailure("\n".join(lines))
        if (why := run.skip_reason) is not None:
            raise pytest.skip.Exception(without_controls(why), _use_item_location=True)

    def _refuse_invalid(self) -> None:
        if not self.case.problems:
            return
        shown = self.kind_file.shown
        text = "\n".join(f"{shown}:{problem.line}: [case] {problem.message}" for problem in self.case.problems)
        if self.kind_file.harness.settings.on_invalid_case == "skip":
            raise pytest.skip.Exception(text, _use_item_location=True)
        raise StageFailure(text, stage="case", kind="invalid_case")

    def _run(self, values: Mapping[str, Any]) -> KindRun:
        if "memeval_engine" in values:
            refuse_faulty(self, values["memeval_engine"])
        if "memeval_llm" in values:
            refuse_strangers(memeval_llm=values["memeval_llm"])
        prefetcher = self.config.stash.get(PREFETCHER, None)
        prepared = prefetcher.take_kind(self, values) if prefetcher is not None else None
        if prepared is None:
            run = self.make_run(values)
            self.addfinalizer(run.close)
        else:
            self.addfinalizer(prepared.end)
            self.stash[SAID] = prepared.said
            run = prepared.run
        if prefetcher is not None:
            self.addfinalizer(lambda: prefetcher.tell_cost(run.seconds))
        if run.resumption is not None:
            self.stash[RESUMPTION] = run.resumption
        return run

    def make_run(self, values: Mapping[str, Any]) -> KindRun:
        """The case's run, not begun."""
        harness = setup_of(self)
        count = harness.settings.trials
        runs = [
            self.kind.make_run(self.case, self.kind_file.case_set, values, harness, trial_label(self.nodeid, trial))
            for trial in range(count)
        ]
        run = runs[0]
        if count > 1:
            from pytest_memeval.trials.kinds import KindTrials

            overlap = self.kind.can_overlap(values) and harness.settings.concurrency > 1
            run = KindTrials(runs, loop=harness.loop, slots=harness.slots if overlap else None)
        run.values = values
        run.default_expect = harness.settings.default_expectations
        run.resumption = harness.resumer.resume_kind(self.nodeid, run)
        return run

    def prepare(self, values: Mapping[str, Any]) -> tuple[KindRun, ExitStack]:
        """The run, with what is to be closed after it, for the window of cases under way."""
        run = self.make_run(values)
        resources = ExitStack()
        resources.callback(run.close)
        return run, resources

    def runtest(self) -> None:
        run: Any = self.stash[RUN]
        missed = run.missed()
        if missed:
            pytest.fail("\n".join(f"{self.place}: [expect] {sentence}" for sentence in missed), pytrace=False)


def each_variant(node: Any) -> list[Any]:
    """An item of a kind once for every variant of the run; any other node as it is."""
    if not isinstance(node, KindItem) or node.memeval_variant is not None:
        return [node]
    params = params_of(node.kind_file.harness.settings)
    if params == [None]:
        return [node]
    items = [KindItem.from_parent(node.parent, name=node.name, case=node.case, params=own) for own in params]
    for item, own in zip(items, params, strict=True):
        if own is not None and (why := own.why_not(item)) is not None:
            raise pytest.Collector.CollectError(f"{node.kind_file.shown}: {why}")
    return items


def kind_files(config: pytest.Config) -> dict[str, KindSet]:
    """The files of other kinds collected in this process by node id."""
    return config.stash.setdefault(KIND_FILES, {})


def kind_result(item: KindItem, run: Any, errors: Sequence[CaseError], *, skipped: bool) -> CaseResult:
    """The record of an item, whether or not its work was begun."""
    if run is not None:
        result: CaseResult = run.case_result(
            node_id=item.nodeid, set_path=item.memeval_set, extra_errors=errors, skipped=skipped
        )
        return result
    return untouched(
        item.case,
        item.kind.name,
        node_id=item.nodeid,
        set_path=item.memeval_set,
        errors=() if skipped else tuple(errors) or (CaseError("setup", "not_measured", "nothing ran"),),
        skipped=skipped,
        unselected=skipped and item.unselected() is not None,
    )


def kind_meta(item: KindItem, run: Any) -> Mapping[str, Any] | None:
    """What the head of the report says of the run, every key that it may have included."""
    if run is None:
        return None
    meta = run.meta(item.memeval_set)
    return {"supported_stages": list(item.case.stages), "prompts": {}, **meta} if meta else None


def kind_figure(item: KindItem, run: Any) -> str:
    """The figure that ``-v`` shows for a case."""
    from pytest_memeval.expectations import case_value
    from pytest_memeval.metrics.thresholds import parse_path

    for path, label in item.kind.main_figures:
        value = case_value(run.sections, parse_path(path))
        if value is not None:
            return f"{label} {value:.2f}"
    return ""
