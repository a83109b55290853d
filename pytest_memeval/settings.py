"""A run's settings, read from options and ini by way of a look-up function, checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.extensions import engine_problem
from pytest_memeval.options import OPTIONS, Option, SettingsError

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet, PromptStore
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.llm.retry import RetryPolicy
    from pytest_memeval.llm.settings import ModelSettings, Role
    from pytest_memeval.metrics.matching import Matcher
    from pytest_memeval.metrics.thresholds import Gate, Threshold
    from pytest_memeval.runner import RunSettings
    from pytest_memeval.search.params import SearchParams
    from pytest_memeval.shard import Shard
    from pytest_memeval.variants import Variant

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
        from pytest_memeval.shard import parse_shard

        return None if self.shard is None else parse_shard(self.shard, self.where("shard"))

    def check_keys(self, registry: Registry, *, own_gates: bool = False) -> None:
        """Raise SettingsError for a gate or default threshold on a dimension that ``registry`` lacks.

        ``own_gates`` says that the case set has gates of its own, so that the ini's do not count for it.
        """
        from pytest_memeval.metrics.thresholds import ThresholdError, check_key

        given = [("--memeval-gate", gate.path) for gate in self.gates_from("command line")]
        if not own_gates:
            given += [("memeval_gate", gate.path) for gate in self.gates_from("ini")]
        given += [("memeval_expect", threshold.path) for threshold in self.default_expectations]
        for where, path in given:
            try:
                check_key(path, registry.ids)
            except ThresholdError as error:
                raise SettingsError(f"{where}: {error}") from None

    def run_settings(self) -> RunSettings:
        from pytest_memeval.runner import RunSettings
        from pytest_memeval.scoring import ScoringOptions

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

    def check_models(self) -> None:
        """Raise SettingsError for whatever keeps the chat model or the judge from being asked; sends nothing."""
        roles: list[Role] = ["model"] if self.llm_name == "openai" else []
        if self.judge_model is not None:
            roles.append("judge")
        for role in roles:
            model = self.model_settings(role)
            problem = model.missing_model_message()
            if problem is None and self.cache not in ("replay", "batch") and not self.plan:
                problem = model.missing_key_message()
            if problem is not None:
                raise SettingsError(problem)
        if self.embedder == "openai" and self.cache not in ("replay", "batch") and not self.plan:
            problem = self.embedder_settings().missing_key_message()
            if problem is not None:
                raise SettingsError(f"{self.where('embedder')} openai: {problem}")
        if self.llm_name == "recorded" and self.recorded is None:
            raise SettingsError("--memeval-llm recorded needs a file of answers: name it with memeval_recorded")
        asked = [self.model] if self.llm_name == "openai" else []
        asked += [self.judge_model] if self.judge_model is not None else []
        asked += [self.embedding_model] if self.embedder == "openai" else []
        if self.prices is not None or (self.max_cost is not None and asked):
            from pytest_memeval.documents.problems import DocumentError
            from pytest_memeval.llm.cost import load_prices

            try:
                prices = load_prices(self.prices)
            except DocumentError as error:
                raise SettingsError(f"{self.where('prices')}: {error}") from None
            for name in asked if self.max_cost is not None else ():
                if prices.find(name) is None:
                    raise SettingsError(
                        f"--memeval-max-cost: the price of model {name!r} is not known; add it with --memeval-prices"
                    )

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


def matcher_of(
    name: str, threshold: float | None, where: str, *, threshold_where: str = "--match-threshold"
) -> Matcher:
    """The matcher with that name and that (or the default) threshold, or the project's own that ``module:attribute``
    names. Raises SettingsError, also for a threshold that is given for one of the project's own."""
    from pytest_memeval.metrics.matching import DEFAULT_THRESHOLD, build_matcher

    if ":" in name:
        from pytest_memeval.own_parts import own_matcher

        if threshold is not None:
            raise SettingsError(f"{threshold_where}: matcher {name!r} decides itself from where on texts match")
        return own_matcher(name, where)
    try:
        return build_matcher(name, DEFAULT_THRESHOLD if threshold is None else threshold)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def user_cache_folder() -> Path:
    """The user's cache folder for this plugin, by the platform's custom."""
    if os.name == "nt":  # pragma: no cover - only on Windows
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pytest-memeval"


def parse_expectations(texts: Iterable[str]) -> tuple[Threshold, ...]:
    """Default thresholds as the ini writes them: ``l1.memory_recall >= 0.5``. Raises SettingsError."""
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_threshold

    result = []
    for text in texts:
        path, _, bound = text.strip().partition(" ")
        try:
            result.append(parse_threshold(path, bound))
        except ThresholdError as error:
            raise SettingsError(f"memeval_expect: {error}") from None
    return tuple(result)


def parse_gate_options(texts: Any, origin: str) -> tuple[Gate, ...]:
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_gate

    gates = []
    for text in texts:
        try:
            gates.append(parse_gate(text, origin))
        except ThresholdError as error:
            where = "--memeval-gate" if origin == "command line" else "memeval_gate"
            raise SettingsError(f"{where}: {error}") from None
    return tuple(gates)


def read_settings(
    from_command_line: Callable[[Option], Any],
    from_ini: Callable[[Option], Any],
    *,
    rootdir: Path,
    invocation_dir: Path,
) -> Settings:
    """Collect every option: the command line's value, else the ini's, else the default. Raises SettingsError.

    The two look-ups return ``None`` where nothing was given. Relative paths are resolved against the current folder
    for the command line and against rootdir for the ini.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in OPTIONS:
        key = option.name.replace("-", "_")
        given = from_command_line(option) if option.flag else None
        twin = from_ini(option) if option.ini else None
        if key == "gate":
            values["gate_cli"], values["gate_ini"] = given, twin
        value, base, where = (
            (given, invocation_dir, option.option) if given is not None else (twin, rootdir, option.dest)
        )
        if value is None:
            values[key] = option.default
            continue
        values[key] = _typed(option, value, where, base)
        origins[key] = where
    variants = _variants(values, origins)
    settings = Settings(rootdir, values, origins, variants)
    _check(settings)
    for setup in settings.setups() if variants else ():
        _check_names(setup)
    return settings


def _variants(values: dict[str, Any], origins: dict[str, str]) -> tuple[Variant, ...]:
    """What the run compares. One prompt version alone is a setting like any other, and stays a plain text."""
    from pytest_memeval.variants import VariantError, check_variants, parse_variant, prompt_variant

    specs, texts = values["prompt_version"] or [], values["variant"] or []
    ini = "memeval_variant"
    if len(specs) > 1 and texts:
        if origins["variant"] == ini and origins["prompt_version"] != "memeval_prompt_version":
            texts = values["variant"] = []
        else:
            raise SettingsError(
                f"{origins['variant']}: several prompt versions are variants already; name them as"
                " --memeval-variant NAME=prompts:VERSION, or leave one of the two options out"
            )
    key = "variant" if texts else "prompt_version"
    try:
        if texts:
            variants = tuple(parse_variant(text) for text in texts)
        else:
            variants = tuple(map(prompt_variant, specs)) if len(specs) > 1 else ()
        if variants:
            check_variants(variants)
    except VariantError as error:
        raise SettingsError(f"{origins[key]}: {error}") from None
    if variants and not texts:
        values["variant"] = [f"{variant.name}=prompts:{variant.prompts}" for variant in variants]
        origins["variant"] = origins["prompt_version"]
        specs = []
    values["prompt_version"] = specs[0] if specs else None
    values["variant"] = values["variant"] or None
    return variants


def _typed(option: Option, value: Any, where: str, base: Path) -> Any:
    if option.kind in ("int", "float") and isinstance(value, str):
        try:
            value = int(value) if option.kind == "int" else float(value)
        except ValueError:
            word = "a whole number" if option.kind == "int" else "a number"
            raise SettingsError(f"{where}: {value!r} is not {word}") from None
    if option.choices and value not in option.choices:
        from pytest_memeval.documents.problems import did_you_mean

        raise SettingsError(f"{where}: unknown value {value!r}{did_you_mean(str(value), option.choices)}")
    if value == "" and (option.relative or option.name == "resume"):
        raise SettingsError(f"{where}: a path is needed")
    if option.relative:
        return base / value
    return value


def _check_names(settings: Settings) -> None:
    """Engine, chat model, embedder and matcher: a known name, or ``module:attribute``; nothing is imported."""
    from pytest_memeval.documents.problems import did_you_mean

    problem = engine_problem(settings.engine)
    if problem is not None:
        raise SettingsError(f"{settings.where('engine')}: {problem}")
    for name, what, known in (
        ("llm", "chat model", CHAT_MODELS),
        ("embedder", "embedder", EMBEDDERS),
        ("matcher", "matcher", MATCHERS),
    ):
        value = settings.values[name]
        if value is not None and ":" not in value and value not in known:
            hint = f"(your own is named module:attribute){did_you_mean(value, known)}"
            raise SettingsError(f"{settings.where(name)}: unknown {what} {value!r} {hint}")


def _check(settings: Settings) -> None:
    values = settings.values

    def refuse(name: str, why: str) -> None:
        raise SettingsError(f"{settings.where(name)}: {why}")

    for name in ("limit", "sample"):
        if values[name] is not None and values[name] < 1:
            refuse(name, f"{values[name]} is less than 1")
    for name in ("trials", "max_tokens", "max_attempts", "rpm", "tpm", "concurrency"):
        if values[name] is not None and not values[name] >= 1:
            refuse(name, f"{values[name]} is less than 1")
    for name in ("request_timeout", "max_cost", "progress"):
        if values[name] is not None and not 0 < values[name] < float("inf"):
            refuse(name, f"{values[name]} is not a number above 0")
    settings.part  # noqa: B018  # read for its check
    if values["stop_most_wrong"] < 0:
        refuse("stop_most_wrong", f"{values['stop_most_wrong']} is less than 0")
    if values["stop_when_decided"]:
        _check_stopping(settings, refuse)
    if values["timeout"] is not None and not 0 < values["timeout"] < float("inf"):
        refuse("timeout", f"{values['timeout']} is not a number of seconds above 0")
    for name in ("match_threshold", "max_error_rate"):
        if not 0 <= values[name] <= 1:
            refuse(name, f"{values[name]} is not between 0 and 1")
    _check_names(settings)
    if values["judge"] is not None and ":" not in values["judge"]:
        refuse("judge", f"{values['judge']!r} is not of the form module:attribute; a model that judges is judge-model")
    if values["judge"] is not None and values["judge_model"] is not None:
        refuse("judge", f"there is {settings.where('judge_model')}, too: a run has one judge")
    embedder = values["embedder"]
    if embedder in ("openai", "sentence-transformers") and not values["embedding_model"]:
        refuse("embedder", f"{embedder} needs the name of a model: set --memeval-embedding-model")
    if values["search_params"]:
        _ = settings.search_parameters
    for name in ("predictions", "registry", "templates", "prompts", "recorded", "prices", "contexts"):
        path = values[name]
        if path is not None and not path.exists():
            refuse(name, f"{path} does not exist")
    if values["baseline"] is None and any("diff:" in gate or "Δ" in gate for gate in values["gate_cli"] or ()):
        raise SettingsError("--memeval-gate: a gate on a difference needs a baseline: name it with --memeval-baseline")
    output, saved = values["output"], values["save_predictions"]
    if saved is not None and values["predictions"] is not None and saved.resolve() == values["predictions"].resolve():
        refuse("save-predictions", f"{saved} is the file that is being scored")
    contexts = values["save_contexts"]
    for name, file in (("save_predictions", saved), ("save_contexts", contexts)):
        if file is not None and file.is_dir():
            refuse(name, f"{file} is a folder; a file is needed")
        if file is not None and file.exists() and not os.access(file, os.W_OK):
            refuse(name, f"{file} cannot be written to")
    places = (
        ("output", output),
        ("save_predictions", saved and saved.parent),
        ("save_contexts", contexts and contexts.parent),
    )
    for name, target in places:
        place = target
        while place is not None and not place.exists() and place != place.parent:
            place = place.parent
        if place is not None and not place.is_dir():
            refuse(name, f"{place} is a file, not a folder")
        if place is not None and not _takes_files(place):
            refuse(name, f"{place} cannot be written to")


def _check_stopping(settings: Settings, refuse: Callable[[str, str], None]) -> None:
    if settings.values["no_gate"]:
        refuse("stop_when_decided", f"without gates ({settings.where('no_gate')}) there is nothing to decide")
    if settings.variants:
        refuse(
            "stop_when_decided",
            f"variants are compared over the same cases, so none of them can stop ({settings.where('variant')})",
        )
    if settings.values["shard"] is not None:
        refuse(
            "stop_when_decided",
            f"one part of a run does not see what the others measure, so it cannot stop ({settings.where('shard')})",
        )
    if settings.values["cache"] == "batch":
        refuse("stop_when_decided", "a run that only writes its requests to a file measures nothing (cache batch)")


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made in the folder: permissions alone do not tell, such as where nothing can be made."""
    if not os.access(folder, os.W_OK):
        return False
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
