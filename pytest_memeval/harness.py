"""What one process of a run shares: settings, loaded assets, engine, chat model, event loop."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.engine.databases import kept_folder
from pytest_memeval.extensions import build_engine, load_metrics
from pytest_memeval.garbage import end_quickly
from pytest_memeval.loops import LoopPlaces, LoopThread, cancelled_in_vain, left_behind
from pytest_memeval.measuring.releases import Releases
from pytest_memeval.options import SettingsError
from pytest_memeval.scratch import make_scratch, remove_scratch
from pytest_memeval.search_parts import SearchParts
from pytest_memeval.settings.model import Settings

__all__ = ["Harness"]

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet, PromptStore
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.judge.chat_judge import ChatJudge
    from pytest_memeval.judge.own import OwnJudge
    from pytest_memeval.llm.batch import BatchRequests
    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.cost import PriceTable
    from pytest_memeval.llm.learnt import KnownServers
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.llm.proxy_server import RunningProxy
    from pytest_memeval.llm.rate import RateLimiter
    from pytest_memeval.llm.retry import CircuitBreaker
    from pytest_memeval.llm.settings import Role
    from pytest_memeval.plan import Plan
    from pytest_memeval.results import CallRecord
    from pytest_memeval.resume.items import Resumer
    from pytest_memeval.resume.run import StoredRun
    from pytest_memeval.settings.case import RunSettings


class Harness:
    """Loads each asset once and builds engine and model when first asked for. Close it at the end of the run."""

    def __init__(self, settings: Settings, *, run_uid: str = "") -> None:
        self.settings = settings
        self._run_uid = run_uid
        self.loop = LoopThread()
        self._left_before = left_behind()
        self._vain_before = cancelled_in_vain()
        self.releases = Releases()
        self.search = SearchParts(self)
        self._lock = threading.Lock()
        self._registry: Registry | None = None
        self._templates: Templates | None = None
        self._stores: dict[Path | None, PromptStore] = {}
        self._prompt_sets: dict[Path | None, PromptSet] = {}
        self._sets: dict[Path, CaseSet] = {}
        self._run_settings: RunSettings | None = None
        self._scratch: Path | None = None
        #: Processes that share the rate limits.
        self.workers = 1
        self._cache: AnswerCache | None = None
        self._breakers: dict[str, CircuitBreaker] = {}
        self._limiters: dict[str, RateLimiter] = {}
        self._servers: KnownServers | None = None
        self._proxy: RunningProxy | None = None
        self._prices: PriceTable | None = None
        self._plan: Plan | None = None
        self._folders = 0
        #: Whether the settings' engine was built: a fixture of the project's may stand in its place.
        self.engine_was_asked = False
        #: The run to go on with, set where there is one.
        self.resume_from: StoredRun | None = None
        #: What the cases and trials under way share among them.
        self.slots = LoopPlaces(settings.concurrency)
        #: The run's variants as they were made, by name.
        self.variants: dict[str, Harness] = {}
        self._resumer: Resumer | None = None
        #: Calls of the judge outside of any case's own work: those of the test that runs.
        self.judge_calls: list[CallRecord] = []
        #: Node id → folder for its databases, set where they are to be kept.
        self.kept_databases: Callable[[str], Path] | None = None
        #: Called when the run ends, while the loop still runs; what they raise is dropped.
        self.closers: list[Callable[[], None]] = []

    @property
    def run_settings(self) -> RunSettings:
        if self._run_settings is None:
            load_metrics(self.settings.metric or (), self.settings.where("metric"))
            self._run_settings = self.settings.run_settings()
        return self._run_settings

    @property
    def registry(self) -> Registry:
        """The ini's registry, else the shipped one. Raises DocumentError."""
        if self._registry is None:
            self._registry = self.settings.load_registry()
        return self._registry

    @property
    def templates(self) -> Templates:
        if self._templates is None:
            self._templates = self.settings.load_templates(self.registry)
        return self._templates

    def prompt_store(self, path: Path | None = None) -> PromptStore:
        """The prompts in ``path``, else the ini's or the shipped ones. Raises DocumentError."""
        if path not in self._stores:
            from pytest_memeval.assets.prompts import load_prompts

            self._stores[path] = self.settings.load_prompts() if path is None else load_prompts(path)
        return self._stores[path]

    def prompt_set(self, path: Path | None = None) -> PromptSet:
        """The run's prompt versions from that store. Raises PromptError for a version that it does not have."""
        if path not in self._prompt_sets:
            self._prompt_sets[path] = self.settings.resolve_prompts(self.prompt_store(path))
        return self._prompt_sets[path]

    def case_set(self, path: Path) -> CaseSet:
        """The loaded case file, with its file errors in ``problems``; loaded once a process."""
        known = self._sets.get(path)
        if known is None:
            from pytest_memeval.cases.loader import load_case_set

            known = self._sets[path] = load_case_set(
                path,
                registry=self.registry,
                templates=self.templates,
                cache_dir=self.settings.cache_folder,
            )
        return known

    @property
    def resumer(self) -> Resumer:
        """The cases' keys, and what is taken from an earlier run."""
        if self._resumer is None:
            from pytest_memeval.resume.items import Resumer

            self._resumer = Resumer(self, self.resume_from)
        return self._resumer

    @property
    def left_behind(self) -> int:
        """Blocking calls of this run that did not end when their case did."""
        self.loop.settle()
        return left_behind() - self._left_before

    @property
    def cancelled_in_vain(self) -> int:
        """Asynchronous stages of this run that were cancelled, and go on all the same."""
        self.loop.settle()
        return max(0, cancelled_in_vain() - self._vain_before)

    def build_engine(self) -> object:
        """The engine that the settings name. Raises SettingsError, or DocumentError for a bad predictions file."""
        self.engine_was_asked = True
        if self.settings.predictions is not None:
            from pytest_memeval.engine.predictions import PredictionsEngine

            return PredictionsEngine(self.settings.predictions)
        return build_engine(self.settings.engine, self.settings.where("engine"), self)

    def build_llm(self) -> ChatModel:
        """The chat model that the settings name. Raises SettingsError for what it lacks; sends nothing."""
        name = self.settings.llm_name
        if ":" not in name:
            return self._build(name, "model")
        from pytest_memeval.own_parts import own_chat_model

        mode = "replay" if self.settings.plan else self.settings.cache
        cache = self.answer_cache() if mode != "off" else None
        return own_chat_model(name, self.settings.where("llm"), mode=mode, cache=cache, planned=self.settings.plan)

    def build_judge(self) -> ChatJudge | OwnJudge | None:
        """The judge, ``None`` where none is named: the offline model is never one. Raises SettingsError, or
        DocumentError or PromptError for prompts that cannot be used."""
        if self.settings.judge is not None:
            from pytest_memeval.own_parts import own_judge

            return own_judge(self.settings.judge, self.settings.where("judge"))
        if self.settings.judge_model is None:
            return None
        from pytest_memeval.assets.prompts import JUDGE_STAGES
        from pytest_memeval.judge.chat_judge import ChatJudge

        prompts = self.prompt_store().resolve(self.settings.prompt_version, JUDGE_STAGES)
        return ChatJudge(self._build("openai", "judge"), prompts=prompts, calls=self.judge_calls)

    def _build(self, name: str, role: Role) -> ChatModel:
        from pytest_memeval.llm.factory import ModelSetupError, build_chat_model

        settings = self.settings
        openai = name == "openai"
        # A plan reads what is recorded and asks nobody, whatever the run itself will do.
        mode = "replay" if settings.plan else settings.cache
        if openai and settings.cache not in ("replay", "batch"):
            # It takes seconds to import, which would count against the time limit of the case that asks first.
            importlib.import_module("openai")
            end_quickly()
        try:
            return build_chat_model(
                name,
                settings=settings.model_settings(role) if name != "embedded" else None,
                recorded=settings.recorded,
                cache=self.answer_cache() if openai and mode != "off" else None,
                mode=mode,
                requests=self._batch_requests() if openai and mode == "batch" else None,
                limiter=self._limiter(role) if openai else None,
                breaker=self._breaker(role) if openai else None,
                policy=settings.retry_policy() if openai else None,
                manners=self.servers.of(settings.model_settings(role)) if openai else None,
            )
        except ModelSetupError as error:
            raise SettingsError(str(error)) from None

    def answer_cache(self) -> AnswerCache:
        """The cache of answers, one file for all processes; opened when first used."""
        if self._cache is None:
            from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache

            self._cache = AnswerCache(
                self.settings.cache_folder / CACHE_FILE_NAME,
                readonly=self.settings.cache == "replay" or self.settings.plan,
            )
        return self._cache

    def proxy(self) -> RunningProxy:
        """The proxy for engines with a client of their own, started when first asked for. Raises SettingsError."""
        with self._lock:
            if self._proxy is None:
                from pytest_memeval.llm.proxy import Proxy
                from pytest_memeval.llm.proxy_server import RunningProxy

                mode = "replay" if self.settings.plan else self.settings.cache
                self._proxy = RunningProxy(
                    Proxy(
                        self.settings.model_settings("model"),
                        cache=self.answer_cache() if mode != "off" else None,
                        mode=mode,
                        requests=self._batch_requests() if mode == "batch" else None,
                        limiter=self._limiter("model"),
                    )
                )
            return self._proxy

    def _batch_requests(self) -> BatchRequests:
        from pytest_memeval.llm.batch import REQUESTS_FILE_NAME, BatchRequests

        return BatchRequests(self.settings.cache_folder / REQUESTS_FILE_NAME)

    def _limiter(self, role: Role) -> RateLimiter:
        """The limits are a server's: whoever asks the same one shares them."""
        return self.limiter_of(self.settings.model_settings(role).address)

    def limiter_of(self, server: str) -> RateLimiter:
        """The limiter of the server at this address."""
        from pytest_memeval.llm.rate import RateLimiter

        if server not in self._limiters:
            self._limiters[server] = RateLimiter(self.settings.rpm, self.settings.tpm, workers=self.workers)
        return self._limiters[server]

    def _breaker(self, role: Role) -> CircuitBreaker:
        from pytest_memeval.llm.retry import CircuitBreaker

        if role not in self._breakers:
            self._breakers[role] = CircuitBreaker()
        return self._breakers[role]

    @property
    def servers(self) -> KnownServers:
        """What is known of how servers want to be asked. Variants, and a judge that is the model itself, share it."""
        with self._lock:
            if self._servers is None:
                from pytest_memeval.llm.learnt import KnownServers

                self._servers = KnownServers()
            return self._servers

    @property
    def plan(self) -> Plan | None:
        """Where the calls of a run are counted that only plans; ``None`` for a run that runs."""
        if self._plan is None and self.settings.plan:
            from pytest_memeval.plan import Plan

            settings = self.settings
            self._plan = Plan(
                self.prices, settings.model, settings.max_tokens, reuse=settings.cache not in ("refresh", "off")
            )
        return self._plan

    @property
    def prices(self) -> PriceTable:
        """Prices per model: the shipped table with the user's."""
        if self._prices is None:
            from pytest_memeval.llm.cost import load_prices

            self._prices = load_prices(self.settings.prices)
        return self._prices

    def folder(self, case_id: str) -> Path:
        """A fresh empty folder for one case, under one scratch folder of this process."""
        with self._lock:
            if self._scratch is None:
                self._scratch = make_scratch(self._run_uid)
            self._folders += 1
            folder = self._scratch / str(self._folders)
        folder.mkdir()
        return folder

    def keep_databases_in(self, base: Path) -> None:
        """Have every case's databases written to a folder of its own under ``base``."""
        self.kept_databases = lambda node_id: kept_folder(base, node_id)

    def close(self) -> None:
        """Stop the loop and remove the scratch folder, whatever interrupts that. Safe to call twice."""
        try:
            self._close_parts()
        finally:
            scratch, self._scratch = self._scratch, None
            if scratch is not None:
                remove_scratch(scratch)

    def _close_parts(self) -> None:
        while self.closers:
            with contextlib.suppress(Exception):
                self.closers.pop()()
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.close()
        self.loop.close()
        self.search.close()
        self.releases.close()
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()
