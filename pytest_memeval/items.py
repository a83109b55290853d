"""Case files and cases as pytest nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.cases.models import CaseSet, EvalCase
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.documents.reader import paused_gc
from pytest_memeval.kind_items import KindItem
from pytest_memeval.nodes.direct import Assets, can_be_direct, set_up
from pytest_memeval.nodes.fixture_values import refuse_parameters, refuse_strangers
from pytest_memeval.nodes.keys import FILES, SAID
from pytest_memeval.nodes.runs import take_ended
from pytest_memeval.nodes.tracebacks import project_frames
from pytest_memeval.report.console import without_controls
from pytest_memeval.session import SHARED_OPTIONS, harness_at_collection, harness_of
from pytest_memeval.settings.checks import check_keys
from pytest_memeval.stages import CHAIN
from pytest_memeval.truths import truth_stages
from pytest_memeval.values import DISTILL_STAGES
from pytest_memeval.variant_harness import variant_of
from pytest_memeval.variant_items import params_of, with_params

if TYPE_CHECKING:
    from _pytest._code import Traceback
    from _pytest.fixtures import FuncFixtureInfo

    from pytest_memeval.ahead import Prepared
    from pytest_memeval.harness import Harness

#: Stages that have a fixture.
FIXTURE_STAGES: tuple[str, ...] = ("l1", "l15", "l2", "template", "inject", "search")
TAGS = pytest.StashKey[set[str]]()


def _run_case_for(stages: tuple[str, ...]) -> Callable[..., None]:
    """The test function of a case with these stages: its argument names are the fixtures that measure them."""
    names = ["memeval_case", *(f"memeval_{stage}" for stage in stages), "memeval_measured"]

    def run_case(**fixtures: Any) -> None:
        fixtures["memeval_measured"].check_expectations()

    run_case.__name__ = run_case.__qualname__ = "run_case"
    # pytest reads argument names from the signature; what varies here is only which stages are asked for.
    run_case.__signature__ = Signature(  # type: ignore[attr-defined]  # inspect looks for it there
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return run_case


class CaseFile(pytest.File):
    """A case set. Its file errors are one collection error that lists all of them."""

    case_set: CaseSet
    #: What its cases are run with by variant, once the first of them was.
    assets: dict[str | None, Assets]
    marks: dict[str, pytest.MarkDecorator]
    #: What ``request.module`` gives: a case file is none.
    obj = None
    #: The fixtures that a case of the file can be given, as far as is known.
    sound: FuncFixtureInfo | None = None

    @property
    def harness(self) -> Harness:
        return harness_of(self.config)

    def collect(self) -> Iterator[CaseItem]:
        self.assets, self.marks = {}, {}
        harness = harness_at_collection(self.config)
        try:
            case_set = harness.case_set(self.path)
            if not case_set.problems:
                for name in self.harness.settings.variant_names or (None,):
                    variant_of(self.harness, name).prompt_set(case_set.meta.prompts)
        except DocumentError as error:
            raise self.CollectError(without_controls(self._listing(error.problems))) from None
        except ValueError as error:
            raise self.CollectError(without_controls(f"{self._shown(self.path)}: {error}")) from None
        if case_set.problems:
            raise self.CollectError(without_controls(self._listing(case_set.problems)))
        if case_set.registry is not None:
            try:
                check_keys(self.harness.settings, case_set.registry.ids, gates=False)
            except ValueError as error:
                raise self.CollectError(without_controls(f"{self._shown(self.path)}: {error}")) from None
        self.case_set = case_set
        self.config.stash.setdefault(FILES, {})[self.nodeid] = case_set
        self._register_tags(case_set)
        with paused_gc():
            yield from self._items(case_set)

    def _items(self, case_set: CaseSet) -> Iterator[CaseItem]:
        functions: dict[tuple[str, ...], tuple[Callable[..., None], FuncFixtureInfo | None, bool]] = {}
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        params = params_of(self.harness.settings)
        for case in case_set.cases:
            truths = truth_stages(case)
            stages = known[truths] if truths in known else known.setdefault(truths, self._fixture_stages(truths))
            for own in params:
                function, info, direct = functions.get(stages) or (_run_case_for(stages), None, False)
                item = CaseItem.from_parent(
                    self, name=case.case_id, case=case, stages=stages, function=function, fixtureinfo=info, params=own
                )
                if info is None:
                    direct = can_be_direct(item)
                    if own is not None and (why := own.why_not(item)) is not None:
                        raise self.CollectError(f"{self._shown(self.path)}: {why}")
                item.direct = direct
                functions[stages] = function, item._fixtureinfo, item.direct
                yield item

    def _fixture_stages(self, truths: tuple[str, ...]) -> tuple[str, ...]:
        """The stages with a fixture that a case with labels for ``truths`` needs."""
        selected = self.harness.run_settings.stages
        scored = [stage for stage in truths if selected is None or stage in selected]
        wanted = {needed for stage in scored for needed in (*CHAIN[stage], stage)}
        return tuple(stage for stage in DISTILL_STAGES if stage in wanted and stage in FIXTURE_STAGES)

    def _register_tags(self, case_set: CaseSet) -> None:
        # --strict-markers and a strict -m know only what the ini lists.
        known: set[str] = self.config.stash.setdefault(TAGS, set())
        for tag in sorted({tag for case in case_set.cases for tag in case.tags} - known):
            known.add(tag)
            self.config.addinivalue_line("markers", f"{tag}: tag of evaluation cases")

    def _shown(self, path: Path) -> str:
        try:
            return path.relative_to(self.config.invocation_params.dir).as_posix()
        except ValueError:
            return str(path)

    def _listing(self, problems: Any) -> str:
        lines = [str(problem).replace(str(problem.path), self._shown(problem.path), 1) for problem in problems]
        count = f"{len(lines)} problems in {self._shown(self.path)}:\n" if len(lines) > 1 else ""
        return count + "\n".join(lines)


class CaseItem(pytest.Function):
    """One case as a pytest item; fixtures, marks and reports work as for any test function."""

    case: EvalCase
    #: The stages whose fixtures the item asks for.
    stages: tuple[str, ...]
    #: The set-up of a run over several; None in a run of one.
    memeval_variant: str | None = None
    #: Whether the item may make the values of the plugin's fixtures itself.
    direct: bool = False

    @classmethod
    def from_parent(cls, parent: Any, **kw: Any) -> CaseItem:
        case, stages, function = kw.pop("case"), kw.pop("stages"), kw.pop("function")
        #: Word → its mark, which all items of a file share.
        marks: dict[str, pytest.MarkDecorator] = parent.marks
        kw, variant = with_params(kw, kw.pop("params", None))
        self: CaseItem = super().from_parent(parent, callobj=function, **kw)
        self.memeval_variant = variant
        self.case = case
        self.stages = stages
        for word in dict.fromkeys(("memeval", case.difficulty, case.source, *case.tags)):
            self.add_marker(marks.get(word) or marks.setdefault(word, getattr(pytest.mark, word)))
        return self

    def setup(self) -> None:
        file = self.case_file
        if file.sound is not self._fixtureinfo:  # mostly all cases of a file have the same
            refuse_parameters(self)
            file.sound = self._fixtureinfo
        if not (self.direct and set_up(self)):
            super().setup()
            if getattr(self.config.option, "setupplan", False):  # which makes no fixture
                return
            refuse_strangers(memeval_measured=self.funcargs["memeval_measured"])

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Traceback:
        return project_frames(self, excinfo)

    def getparent(self, cls: type[Any]) -> Any:
        # A fixture of scope module is set up with the file, which is what a module is to a test function.
        return super().getparent(cls) or (self.parent if cls is pytest.Module else None)

    def take_ended(self, prepared: Prepared) -> Callable[[], None]:
        """Do what is left of the set-up for a case that has come to its end, and give what the call would be."""
        self.stash[SAID] = prepared.said
        return take_ended(self, prepared.run).check_expectations

    @property
    def case_file(self) -> CaseFile:
        parent = self.parent
        assert isinstance(parent, CaseFile)
        return parent

    def reportinfo(self) -> tuple[Path, int, str]:
        # pytest writes dots in this text as '::' where it ends the node id, and nobody could paste that back.
        shown = self.name if "." not in self.name else f"case {self.name}"
        return self.path, self.case.line - 1, shown

    @property
    def place(self) -> str:
        """``file:line`` relative to the current folder, so that editors and terminals can jump there."""
        return f"{self.case_file._shown(self.path)}:{self.case.line}"


def select_items(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply ``--memeval-limit`` and ``--memeval-sample`` to every case set, and close what is tagged slow or
    integration. Cases are counted in the order of their file, however items were shuffled."""
    settings = harness_of(config).settings
    by_file: dict[str, list[CaseItem | KindItem]] = {}
    for item in items:
        if isinstance(item, CaseItem | KindItem):
            by_file.setdefault(file_of(item), []).append(item)
            for word in SHARED_OPTIONS:
                if word in item.case.tags and not config.getoption(f"--run-{word}", False):
                    item.add_marker(pytest.mark.skip(reason=f"tagged {word}: opened by --run-{word}"))
    if settings.limit is None and settings.sample is None:
        return
    kept: set[CaseItem | KindItem] = set()
    for node_id, own in by_file.items():
        # A case's variants stay together: they are compared.
        by_case: dict[str, list[CaseItem | KindItem]] = {}
        for item in sorted(own, key=lambda item: item.case.line):
            by_case.setdefault(item.case.case_id, []).append(item)
        cases = list(by_case.values())
        if settings.sample is not None and settings.sample < len(cases):
            chosen = random.Random(f"{settings.seed}:{node_id}").sample(range(len(cases)), settings.sample)
            cases = [cases[index] for index in sorted(chosen)]
        kept.update(item for items_of_case in cases[: settings.limit] for item in items_of_case)
    dropped = [item for item in items if isinstance(item, CaseItem | KindItem) and item not in kept]
    if dropped:
        items[:] = [item for item in items if not isinstance(item, CaseItem | KindItem) or item in kept]
        config.hook.pytest_deselected(items=dropped)


def file_of(item: CaseItem | KindItem) -> str:
    """The node id of the case set that the item belongs to."""
    return item.memeval_set if isinstance(item, KindItem) else item.case_file.nodeid


def owner_of(item: pytest.Item) -> str | None:
    """The case set that the item counts for; ``None`` for one that enters no aggregate."""
    if isinstance(item, CaseItem):
        return item.case_file.nodeid
    if isinstance(item, KindItem):
        return item.memeval_set
    marker = item.get_closest_marker("memeval")
    if marker is None or not marker.kwargs.get("gate", False):
        return None
    case = marker.kwargs.get("case")
    return case.partition("::")[0] if isinstance(case, str) else item.nodeid.partition("::")[0]
