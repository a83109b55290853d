"""Which items of a run are taken from an earlier one, in the process that would have to run them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.engine.databases import kept_folder
from pytest_memeval.restoring import restore
from pytest_memeval.resume.key import CaseKeys, NoIdentity
from pytest_memeval.resume.run import CHANGED, OWN_FIXTURES, TAKEN, UNUSABLE, StoredRun

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.harness import Harness
    from pytest_memeval.kinds import KindRun
    from pytest_memeval.results import CaseResult
    from pytest_memeval.runner import CaseRun

#: A project's own version of one of these gives what no key tells of.
_OF_THE_CASE = tuple(f"memeval_{word}" for word in ("db", "run", "l1", "l15", "l2", "template", "inject"))


@dataclass(frozen=True, slots=True)
class Resumption:
    """An item's key, and in a resumed run what became of the item."""

    key: str
    state: str = ""
    changed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state, "changed": list(self.changed)}


#: Put there before the item's first stage, and read when its record is written.
RESUMPTION = pytest.StashKey[Resumption]()


class Resumer:
    """One process's keys, and the earlier run where there is one."""

    def __init__(self, harness: Harness, stored: StoredRun | None) -> None:
        self._harness = harness
        self._stored = stored
        self._keys = CaseKeys(harness.settings)
        self._overridden: dict[int, bool] = {}

    @property
    def resumes(self) -> bool:
        return self._stored is not None

    def key(
        self,
        item: Any,
        case: EvalCase,
        engine: object,
        llm: object,
        prompts: PromptSet,
        registry: Registry,
        templates: Templates,
        case_set: CaseSet | None = None,
    ) -> str:
        """The item's key, empty where it has none. Raises NoIdentity in a run that is to go on with another."""
        if self._own_fixtures(item):
            return ""
        corpus = self._harness.search.corpus(case_set).digest if case_set is not None and case.expected_search else ""
        assets: dict[str, Any] = {"prompts": prompts, "registry": registry, "templates": templates}
        try:
            return self._keys.key(case, engine=engine, llm=llm, corpus=corpus, **assets)
        except NoIdentity:
            if self._stored is not None:
                raise
            return ""

    def _own_fixtures(self, item: Any) -> bool:
        """Whether the project has a fixture of its own between the engine and the item's results."""
        info = id(item._fixtureinfo)
        if info not in self._overridden:
            manager = item.session._fixturemanager
            self._overridden[info] = any(len(manager.getfixturedefs(name, item) or ()) != 1 for name in _OF_THE_CASE)
        return self._overridden[info]

    def takes(self, item: Any, key: str) -> bool:
        """Whether the earlier run has the item's results."""
        stored = self._stored
        return stored is not None and stored.state(item.nodeid, key) == TAKEN and self._has_databases(item.nodeid)

    def _has_databases(self, node_id: str) -> bool:
        return not self._harness.settings.keep_db or self._kept_before(node_id).is_dir()

    def _kept_before(self, node_id: str) -> Path:
        assert self._stored is not None
        return kept_folder(self._stored.databases_folder(), node_id)

    def resume(self, item: Any, key: str, run: CaseRun | None) -> Resumption:
        """Fill the run from the earlier one, if that has it; ``None`` for an item that runs already."""
        stored = self._stored
        if stored is None:
            return Resumption(key)
        state = stored.state(item.nodeid, key)
        if state == CHANGED:
            return Resumption(key, state, stored.changes(item.nodeid, key) if key else (OWN_FIXTURES,))
        if run is None or not self.takes(item, key):
            return Resumption(key, UNUSABLE if state == TAKEN else state)
        record = stored.take(item.nodeid, key)
        if record is None or not _restored(run, record):
            return Resumption(key, UNUSABLE)
        return Resumption(key, TAKEN)

    def resume_kind(self, node_id: str, run: KindRun) -> Resumption:
        """The same for a case of another kind than distillation, which says itself what it depends on."""
        key = run.resume_key()
        stored = self._stored
        if stored is None:
            return Resumption(key)
        state = stored.state(node_id, key)
        if state == CHANGED:
            return Resumption(key, state, stored.changes(node_id, key))
        record = stored.take(node_id, key)
        if record is None:
            return Resumption(key, UNUSABLE if state == TAKEN else state)
        return Resumption(key, TAKEN if run.restore(record) else UNUSABLE)

    def keep_databases(self, node_id: str, folder: Path) -> None:
        """Copy what the earlier run kept of a case that was taken from it."""
        source = self._kept_before(node_id)
        if source.resolve() != folder.resolve():
            shutil.copytree(source, folder, dirs_exist_ok=True)


def _restored(run: CaseRun, record: CaseResult) -> bool:
    from pytest_memeval.trials.case import TrialRuns

    return run.restore_from(record) if isinstance(run, TrialRuns) else restore(run, record)
