"""A process's harness as one variant of the run sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_memeval.harness import Harness

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_memeval.assets.prompts import PromptStore
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.learnt import KnownServers
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.llm.proxy_server import RunningProxy
    from pytest_memeval.resume.items import Resumer
    from pytest_memeval.settings.model import Settings


class VariantHarness(Harness):
    """Settings, prompts, engine, chat model and plan are the variant's own; all else is the run's, made once.

    Engine and model are made once too: pytest makes a session's fixture anew whenever the variant changes.
    """

    def __init__(self, base: Harness, settings: Settings) -> None:
        # Not the base class's: what it would make is there already.
        self._base = base
        self.settings = settings
        self._prompt_sets = {}
        self._run_settings = base.run_settings
        self._plan = None
        self._engine: object = None
        self._llm: ChatModel | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "_base":
            raise AttributeError(name)
        return getattr(self._base, name)

    @property
    def registry(self) -> Registry:
        return self._base.registry

    @property
    def templates(self) -> Templates:
        return self._base.templates

    def prompt_store(self, path: Path | None = None) -> PromptStore:
        return self._base.prompt_store(path)

    def case_set(self, path: Path) -> CaseSet:
        return self._base.case_set(path)

    @property
    def resumer(self) -> Resumer:
        return self._base.resumer

    def build_engine(self) -> object:
        if self._engine is None:
            self._engine = super().build_engine()
        return self._engine

    def build_llm(self) -> ChatModel:
        if self._llm is None:
            self._llm = super().build_llm()
        return self._llm

    @property
    def servers(self) -> KnownServers:
        return self._base.servers

    def answer_cache(self) -> AnswerCache:
        return self._base.answer_cache()

    def proxy(self) -> RunningProxy:
        return self._base.proxy()

    def folder(self, case_id: str) -> Path:
        return self._base.folder(case_id)

    def close(self) -> None:
        """Nothing to close: what is open is the run's."""


def variant_of(harness: Harness, name: str | None) -> Harness:
    """The harness of the run's variant of that name, made when first asked for; of the candidate for ``None``. Without
    variants, the harness itself."""
    if isinstance(harness, VariantHarness):
        harness = harness._base
    settings = harness.settings
    if not settings.variants:
        return harness
    name = name or settings.variants[-1].name
    if name not in harness.variants:
        variant = next(variant for variant in settings.variants if variant.name == name)
        harness.variants[name] = VariantHarness(harness, settings.for_variant(variant))
    return harness.variants[name]
