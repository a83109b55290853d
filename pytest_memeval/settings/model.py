"""A run's settings, and what they make of the run: variants, models, thresholds, assets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.options import SettingsError
from pytest_memeval.settings.texts import matcher_of, parse_expectations, parse_gate_options
from pytest_memeval.user_cache import user_cache_folder

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet, PromptStore
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.llm.retry import RetryPolicy
    from pytest_memeval.llm.settings import ModelSettings, Role
    from pytest_memeval.metrics.matching import Matcher
    from pytest_memeval.metrics.thresholds import Gate, Threshold
    from pytest_memeval.search.params import SearchParams
    from pytest_memeval.settings.case import RunSettings
    from pytest_memeval.settings.shard import Shard
    from pytest_memeval.settings.variants import Variant

CHAT_MODELS: tuple[str, ...] = ("recorded", "embedded", "openai")
EMBEDDERS: tuple[str, ...] = ("lexical", "openai", "sentence-transformers")
MATCHERS: tuple[str, ...] = ("indel", "levenshtein", "difflib", "optimal", "hybrid")


@dataclass(frozen=True)
class Settings:
    """Every option of :mod:`pytest_memeval.options` under its name with underscores, typed; paths are absolute.

    ``rootdir`` is what case set paths in reports are relative to. ``origins`` says of each value that was given by what
    name: the option's or its ini twin's.
    """

    rootdir: Path
    values: dict[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)
    #: What the run compares, the candidate last; empty for a run of one set-up.
    variants: tuple[Variant, ...] = ()
    #: Which of them these settings are for.
    variant_name: str | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def where(self, name: str) -> str:
        """How the value was given, for messages: ``--memeval-engine``, or ``memeval_engine`` from the ini."""
        return self.origins.get(name) or f"--memeval-{name.replace('_', '-')}"

    @property
    def variant_names(self) -> tuple[str, ...]:
        return tuple(variant.name for variant in self.variants)

    def setups(self) -> tuple[Settings, ...]:
        """The settings of each variant; these alone where there are none."""
        return tuple(map(self.for_variant, self.variants)) or (self,)

    def for_variant(self, variant: Variant) -> Settings:
        """The settings that one variant has by itself."""
        values, origins = {**self.values, "variant": None}, dict(self.origins)
        where = self.where("variant")
        given = {"engine": variant.engine, "prompt_version": variant.prompts, "llm": variant.llm}
        if variant.llm is None and variant.model in CHAT_MODELS:
            given["llm"] = variant.model
        elif variant.model is not None:
            # A name of a model on a server; recorded answers are told apart by it too.
            given["model"] = variant.model
            if variant.llm is None and self.llm_name == "embedded":
                given["llm"] = "openai"
        for key, value in given.items():
            if value is not None:
                values[key] = value
                origins[key] = where if where == "--memeval-prompt-version" else f"{where} {variant.name}"
        return Settings(self.rootdir, values, origins, variant_name=variant.name)

    @property
    def stage_set(self) -> frozenset[str] | None:
        from pytest_memeval.stages import UnknownStage, parse_stages

        try:
            return parse_stages(self.stages)
        except UnknownStage as error:
            raise SettingsError(f"{self.where('stages')}: {error}") from None

    def gates_from(self, origin: str) -> tuple[Gate, ...]:
        """The gates of the ini or of the command line, parsed."""
        texts = self.values["gate_cli" if origin == "command line" else "gate_ini"]
        return parse_gate_options(texts or (), origin)

    @property
    def default_expectations(self) -> tuple[Threshold, ...]:
        return parse_expectations(self.expect or ())

    @property
    def part(self) -> Shard | None:
        """The part of the run that is this machine's, where it is shared out. Raises SettingsError."""
        from pytest_memeval.settings.shard import parse_shard

        return None if self.shard is None else parse_shard(self.shard, self.where("shard"))

    def run_settings(self) -> RunSettings:
        from pytest_memeval.scoring import ScoringOptions
        from pytest_memeval.settings.case import RunSettings

        chained = self.stage_input == "chained"
        return RunSettings(
            stages=self.stage_set,
            chained=chained,
            timeout=self.timeout,
            scoring=ScoringOptions(self.build_matcher(), self.unknown_label, chained),
            expect=self.default_expectations,
            search=self.search_parameters,
        )

    def build_matcher(self) -> Matcher:
        """How memories are matched. Raises SettingsError."""
        given = self.match_threshold if "match_threshold" in self.origins else None
        return matcher_of(self.matcher, given, self.where("matcher"), threshold_where=self.where("match_threshold"))

    @property
    def search_parameters(self) -> SearchParams:
        from pytest_memeval.search.errors import SearchError
        from pytest_memeval.search.params import SearchParams

        try:
            return SearchParams.parse(self.search_params)
        except SearchError as error:
            raise SettingsError(f"{self.where('search_params')}: {error}") from None

    def embedder_settings(self) -> ModelSettings:
        """Where the embedding model lives: the chat model's server, unless it has one of its own. Raises
        SettingsError for an address that is none."""
        from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings

        own_server = self.embedding_base_url is not None and self.embedding_base_url != self.base_url
        try:
            return ModelSettings(
                model=self.embedding_model,
                base_url=self.embedding_base_url or self.base_url or DEFAULT_BASE_URL,
                endpoint_name=self.embedding_endpoint or (None if own_server else self.endpoint),
                read_timeout=self.request_timeout,
                max_attempts=self.max_attempts,
            )
        except ValueError as error:
            which = "embedding-base-url" if own_server else "base-url"
            raise SettingsError(f"--memeval-{which}: {error}") from None

    def load_registry(self) -> Registry:
        from pytest_memeval.assets.registry import load_registry

        return load_registry(self.registry)

    def load_templates(self, registry: Registry) -> Templates:
        from pytest_memeval.assets.templates import load_templates

        return load_templates(self.templates, registry)

    def load_prompts(self) -> PromptStore:
        from pytest_memeval.assets.prompts import load_prompts

        return load_prompts(self.prompts)

    def resolve_prompts(self, store: PromptStore) -> PromptSet:
        return store.resolve(self.prompt_version)

    @property
    def llm_name(self) -> str:
        """The chat model: the one named, else ``recorded`` where a file of answers is configured, else ``embedded``."""
        return self.llm or ("recorded" if self.recorded is not None else "embedded")

    @property
    def has_judge(self) -> bool:
        """Whether the options name a judge: a model, or the project's own."""
        return self.judge is not None or self.judge_model is not None

    def model_settings(self, role: Role = "model") -> ModelSettings:
        """Where the model, or the judge, lives. Raises SettingsError for an address that is none."""
        from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings

        judge = role == "judge"
        url = (self.judge_base_url if judge else None) or self.base_url or DEFAULT_BASE_URL
        own_server = judge and self.judge_base_url is not None and self.judge_base_url != self.base_url
        try:
            return ModelSettings(
                model=self.judge_model if judge else self.model,
                base_url=url,
                role=role,
                endpoint_name=(self.judge_endpoint if judge else None) or (None if own_server else self.endpoint),
                max_tokens=self.max_tokens,
                read_timeout=self.request_timeout,
                max_attempts=self.max_attempts,
            )
        except ValueError as error:
            raise SettingsError(f"--memeval-{'judge-' if judge and own_server else ''}base-url: {error}") from None

    @property
    def sets_questions(self) -> bool:
        """Whether an option of question answering was given: they are checked where questions are asked."""
        return self.memory != "auto" or self.retrieval_k != 10 or bool(self.arms)

    def retry_policy(self) -> RetryPolicy:
        from pytest_memeval.llm.retry import RetryPolicy

        return RetryPolicy(max_attempts=self.max_attempts)

    @property
    def cache_folder(self) -> Path:
        """``--memeval-cache-dir``, else the user's cache folder; made when first written to."""
        return self.cache_dir if self.cache_dir is not None else user_cache_folder()
