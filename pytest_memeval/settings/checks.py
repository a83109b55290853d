"""Settings that a run cannot be made with, told before anything is asked: each is a SettingsError."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytest_memeval.documents.bounds import MAX_TRIALS, seconds_problem
from pytest_memeval.extensions import engine_problem
from pytest_memeval.options import SettingsError
from pytest_memeval.owned_files import refusal
from pytest_memeval.settings.model import CHAT_MODELS, EMBEDDERS, MATCHERS, Settings
from pytest_memeval.writing import open_file

if TYPE_CHECKING:
    from pytest_memeval.llm.settings import Role


#: So many digits of a number are shown.
_DIGITS = 60


def check_names(settings: Settings) -> None:
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


def check_values(settings: Settings) -> None:
    """Raise SettingsError for the first value that is out of its range, or does not go with another one."""
    _check_numbers(settings)
    check_names(settings)
    _check_parts(settings)
    _check_read_files(settings)
    _check_written_files(settings)


def _refuse(settings: Settings, name: str, why: str) -> NoReturn:
    raise SettingsError(f"{settings.where(name)}: {why}")


def _check_numbers(settings: Settings) -> None:
    values = settings.values
    for name in ("limit", "sample"):
        if values[name] is not None and values[name] < 1:
            _refuse(settings, name, f"{values[name]} is less than 1")
    for name in ("trials", "max_tokens", "max_attempts", "rpm", "tpm", "concurrency"):
        if values[name] is not None and not values[name] >= 1:
            _refuse(settings, name, f"{values[name]} is less than 1")
    if values["trials"] > MAX_TRIALS:
        _refuse(settings, "trials", f"{_short(values['trials'])} is more than {MAX_TRIALS}")
    for name in ("request_timeout", "timeout", "progress"):
        if values[name] is not None and (why := seconds_problem(values[name])) is not None:
            _refuse(settings, name, why)
    if values["max_cost"] is not None and not 0 < values["max_cost"] < float("inf"):
        _refuse(settings, "max_cost", f"{values['max_cost']} is not a number above 0")
    _ = settings.part  # read for its check
    if values["stop_most_wrong"] < 0:
        _refuse(settings, "stop_most_wrong", f"{values['stop_most_wrong']} is less than 0")
    if values["stop_when_decided"]:
        _check_stopping(settings)
    for name in ("match_threshold", "max_error_rate"):
        if not 0 <= values[name] <= 1:
            _refuse(settings, name, f"{values[name]} is not between 0 and 1")


def _short(number: int) -> str:
    digits = str(number)
    return digits if len(digits) <= _DIGITS else f"{digits[:_DIGITS]}…"


def _check_stopping(settings: Settings) -> None:
    why = None
    if settings.values["no_gate"]:
        why = f"without gates ({settings.where('no_gate')}) there is nothing to decide"
    elif settings.variants:
        why = f"variants are compared over the same cases, so none of them can stop ({settings.where('variant')})"
    elif settings.values["shard"] is not None:
        why = f"one part of a run does not see what the others measure, so it cannot stop ({settings.where('shard')})"
    elif settings.values["cache"] == "batch":
        why = "a run that only writes its requests to a file measures nothing (cache batch)"
    if why is not None:
        _refuse(settings, "stop_when_decided", why)


def _check_parts(settings: Settings) -> None:
    """Judge, embedder, search."""
    values = settings.values
    judge, embedder = values["judge"], values["embedder"]
    if judge is not None and ":" not in judge:
        why = f"{judge!r} is not of the form module:attribute; a model that judges is judge-model"
        _refuse(settings, "judge", why)
    if judge is not None and values["judge_model"] is not None:
        _refuse(settings, "judge", f"there is {settings.where('judge_model')}, too: a run has one judge")
    if embedder in ("openai", "sentence-transformers") and not values["embedding_model"]:
        _refuse(settings, "embedder", f"{embedder} needs the name of a model: set --memeval-embedding-model")
    if values["search_params"]:
        _ = settings.search_parameters  # read for its check


def _check_read_files(settings: Settings) -> None:
    values = settings.values
    for name in ("predictions", "registry", "templates", "prompts", "recorded", "prices", "contexts"):
        path = values[name]
        if path is not None and not path.exists():
            _refuse(settings, name, f"{path} does not exist")
    if values["baseline"] is None and any("diff:" in gate or "Δ" in gate for gate in values["gate_cli"] or ()):
        raise SettingsError("--memeval-gate: a gate on a difference needs a baseline: name it with --memeval-baseline")


def _check_written_files(settings: Settings) -> None:
    values = settings.values
    output, saved, contexts = values["output"], values["save_predictions"], values["save_contexts"]
    if saved is not None and values["predictions"] is not None and saved.resolve() == values["predictions"].resolve():
        _refuse(settings, "save-predictions", f"{saved} is the file that is being scored")
    for name, file in (("save_predictions", saved), ("save_contexts", contexts)):
        if file is not None and file.is_dir():
            _refuse(settings, name, f"{file} is a folder; a file is needed")
        if file is not None and file.exists() and not os.access(file, os.W_OK):
            _refuse(settings, name, f"{file} cannot be written to")
        if file is not None and open_file(file) is not None:
            # pytest writes there, too, and what others write during a run it keeps to itself.
            _refuse(settings, name, f"{file} is where pytest's own output goes; name a file or a pipe")
        if file is not None and (why := refusal(file, name.removeprefix("save_"))) is not None:
            _refuse(settings, name, why)
    places = (
        ("output", output),
        ("save_predictions", saved and saved.parent),
        ("save_contexts", contexts and contexts.parent),
        ("cache_dir", _written_cache(settings)),
    )
    for name, target in places:
        place = target
        while place is not None and not place.exists() and place != place.parent:
            place = place.parent
        if place is not None and not place.is_dir():
            _refuse(settings, name, f"{place} is a file, not a folder")
        if place is not None and not _takes_files(place):
            _refuse(settings, name, f"{place} cannot be written to")


def _written_cache(settings: Settings) -> Path | None:
    """The cache folder that the run was given, where it will write there: answers, or its row of the history. Answers
    may well be replayed from a folder that only can be read; the history says so then."""
    values = settings.values
    folder: Path | None = values["cache_dir"]
    if folder is None or values["plan"]:
        return None
    if values["cache"] == "replay":
        return None if folder.is_dir() or values["no_history"] else folder
    return folder if values["cache"] != "off" or not (values["no_history"] or values["shard"]) else None


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


def check_models(settings: Settings) -> None:
    """Raise SettingsError for whatever keeps the chat model or the judge from being asked; sends nothing."""
    roles: list[Role] = ["model"] if settings.llm_name == "openai" else []
    if settings.judge_model is not None:
        roles.append("judge")
    for role in roles:
        model = settings.model_settings(role)
        problem = model.missing_model_message()
        if problem is None and settings.cache not in ("replay", "batch") and not settings.plan:
            problem = model.missing_key_message()
        if problem is not None:
            raise SettingsError(problem)
    if settings.embedder == "openai" and settings.cache not in ("replay", "batch") and not settings.plan:
        problem = settings.embedder_settings().missing_key_message()
        if problem is not None:
            raise SettingsError(f"{settings.where('embedder')} openai: {problem}")
    if settings.llm_name == "recorded" and settings.recorded is None:
        raise SettingsError("--memeval-llm recorded needs a file of answers: name it with memeval_recorded")
    asked = [settings.model] if settings.llm_name == "openai" else []
    asked += [settings.judge_model] if settings.judge_model is not None else []
    asked += [settings.embedding_model] if settings.embedder == "openai" else []
    if settings.prices is not None or (settings.max_cost is not None and asked):
        from pytest_memeval.documents.problems import DocumentError
        from pytest_memeval.llm.cost import load_prices

        try:
            prices = load_prices(settings.prices)
        except DocumentError as error:
            raise SettingsError(f"{settings.where('prices')}: {error}") from None
        for name in asked if settings.max_cost is not None else ():
            if prices.find(name) is None:
                raise SettingsError(
                    f"--memeval-max-cost: the price of model {name!r} is not known; add it with --memeval-prices"
                )


def check_keys(settings: Settings, dimensions: Collection[str], *, gates: bool = True) -> None:
    """Raise SettingsError for a default threshold, or one of the run's ``gates``, on a dimension that is none of
    ``dimensions``."""
    from pytest_memeval.metrics.thresholds import ThresholdError, check_key

    given = [("memeval_expect", threshold.path) for threshold in settings.default_expectations]
    if gates:
        given = [
            *(("--memeval-gate", gate.path) for gate in settings.gates_from("command line")),
            *(("memeval_gate", gate.path) for gate in settings.gates_from("ini")),
            *given,
        ]
    for where, path in given:
        try:
            check_key(path, dimensions)
        except ThresholdError as error:
            raise SettingsError(f"{where}: {error}") from None
