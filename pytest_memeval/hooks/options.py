"""Options and ini values that must end the run before it starts."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_memeval.case_files import names_own, own_registries
from pytest_memeval.session import RESUME_FROM, settings_of

if TYPE_CHECKING:
    from pytest_memeval.settings.model import Settings


def check_options(config: pytest.Config) -> None:
    """Everything that must end the run before it starts, as one UsageError (exit status 4)."""
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.console import without_controls
    from pytest_memeval.settings.checks import check_models

    _warn_of_moved_root(config)
    settings = settings_of(config)
    try:
        settings.run_settings()
        for setup in settings.setups():
            check_models(setup)
            if setup.sets_questions:
                from pytest_memeval.qa.setup import check_settings

                check_settings(setup)
        settings.gates_from("command line")
        settings.gates_from("ini")
        if settings.output is not None:
            _check_output(settings)
        if settings.registry is not None or settings.templates is not None:
            settings.load_templates(settings.load_registry())
        for setup in settings.setups():
            _check_own_parts(config, setup)
        if settings.predictions is not None:
            from pytest_memeval.engine.predictions import load_rows

            for setup in settings.setups():
                load_rows(settings.predictions, setup.variant_name)
        for setup in settings.setups():
            if setup.prompts is not None or setup.prompt_version is not None:
                _check_prompts(config, setup)
        _check_keys(config, settings)
        if settings.resume is not None:
            from pytest_memeval.resume.run import StoredRun, find_journal

            journal = find_journal(settings.resume, config.invocation_params.dir)
            stored = config.stash[RESUME_FROM] = StoredRun(journal)
            stored.refuse_foreign()
    except (SettingsError, DocumentError) as error:
        raise pytest.UsageError(without_controls(str(error))) from None


def _warn_of_moved_root(config: pytest.Config) -> None:
    """Tell of an option's path that pytest took for one of the run's. Without an ini file its root lies above all of
    them, so that the cases have other node ids than in a run without the option."""
    told = list(map(str, config.invocation_params.args))
    if config.inipath is not None or any(word.partition("=")[0] == "--rootdir" for word in told):
        return
    start = config.invocation_params.dir
    named = [start / str(argument).partition("::")[0] for argument in config.args]
    inside = Path(os.path.commonpath([path.absolute() for path in (start, *named)]))
    for option, value in pairwise(told):
        path = (start / value).absolute()
        if not option.startswith("--memeval-") or "=" in option or value.startswith("-") or not path.exists():
            continue
        if config.rootpath != inside and config.rootpath == Path(os.path.commonpath([inside, path])):
            message = (
                f"{option} {value}: after a blank pytest takes the path for one of the run's, and {config.rootpath} for"
                f" the root that node ids begin at; write {option}={value}"
            )
            try:
                config.issue_config_time_warning(pytest.PytestConfigWarning(message), stacklevel=2)
            except pytest.PytestConfigWarning:  # where warnings are errors
                raise pytest.UsageError(message) from None


def _check_output(settings: Settings) -> None:
    """A folder that holds somebody else's files under the names of ours is left alone."""
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.write import foreign_file

    for folder in (settings.output, *(settings.output / name for name in settings.variant_names)):
        foreign = foreign_file(folder)
        if foreign is not None:
            raise SettingsError(
                f"{settings.where('output')}: {foreign} is no file of an earlier run and would be replaced; move it, or"
                " name another folder"
            )


def _check_own_parts(config: pytest.Config, settings: Settings) -> None:
    """A part of the project's own that cannot be imported ends the run here: every case would be an error with the
    same words. So does an engine for another version of the protocol."""
    from pytest_memeval.engine.protocol import protocol_problem
    from pytest_memeval.extensions import imported, is_address, load_metrics
    from pytest_memeval.options import SettingsError

    named = [
        ("llm", settings.llm),
        ("judge", settings.judge),
        ("memory", settings.memory),
        ("embedder", settings.embedder),
        ("rag_pipeline", settings.rag_pipeline),
        *(("evaluator", name) for name in settings.evaluator or ()),
    ]
    if settings.predictions is None:
        named.append(("engine", settings.engine))
    for option, name in named:
        # Engines, models, memories and embedders have short names, too, which are checked with the other values.
        short = option not in ("rag_pipeline", "evaluator")
        if name is None or (short and (":" not in name or is_address(name))):
            continue
        if not _may_be_found_later(config, name):
            found = imported(name, settings.where(option))
            problem = protocol_problem(found) if option == "engine" else None
            if problem is not None:
                raise SettingsError(f"{settings.where(option)}: {problem}")
    metrics = settings.metric or ()
    if metrics and not any(_may_be_found_later(config, name) for name in metrics):
        load_metrics(metrics, settings.where("metric"))


def _may_be_found_later(config: pytest.Config, name: str) -> bool:
    """Whether pytest may come to a folder that holds the module, and put that on the path, when it collects."""
    from importlib.util import find_spec

    top = name.partition(":")[0].partition(".")[0]
    try:
        return bool(top) and find_spec(top) is None and any(config.rootpath.rglob(f"{top}.py"))
    except ValueError:  # such as __main__
        return False


def _check_prompts(config: pytest.Config, settings: Settings) -> None:
    store = settings.load_prompts()
    try:
        settings.resolve_prompts(store)
    except ValueError as error:
        # A case file with prompts of its own may well have the version; it is checked when it is collected.
        if not names_own(config, "prompts"):
            raise pytest.UsageError(f"{settings.where('prompt_version')}: {error}") from None


def _check_keys(config: pytest.Config, settings: Settings) -> None:
    """Dimensions that no registry of the run has: neither the ini's, where any file goes by it, nor one of a file."""
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.metrics.catalog import METRICS
    from pytest_memeval.settings.checks import check_keys

    paths = [gate.path for origin in ("command line", "ini") for gate in settings.gates_from(origin)]
    paths += [threshold.path for threshold in settings.default_expectations]
    if not any(path.base in METRICS and METRICS[path.base].keys == "dimension" for path in paths):
        return
    known: dict[str, None] = {}
    try:
        for path in own_registries(config):
            known.update(dict.fromkeys((settings.load_registry() if path is None else load_registry(path)).ids))
    except DocumentError:
        return  # told when the file that names it is collected
    check_keys(settings, known or settings.load_registry().ids)
