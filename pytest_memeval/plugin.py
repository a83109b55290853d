"""pytest hooks and options. Importing this module is cheap: whatever is not needed by every start is imported late."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.options import OPTIONS, Option

if TYPE_CHECKING:
    from pytest_memeval.baseline import Baseline
    from pytest_memeval.harness import Harness
    from pytest_memeval.recorder import Recorder
    from pytest_memeval.results import CaseResult
    from pytest_memeval.resume import StoredRun
    from pytest_memeval.settings import Settings

#: Options that many projects define themselves: registered late, and only when used.
SHARED_OPTIONS = {
    "slow": "run evaluation cases tagged slow",
    "integration": "run evaluation cases tagged integration (real models)",
}
#: A case file that brings prompts or a registry of its own, in either style of YAML.
OWN = {key: re.compile(rf"""(?m)(^|[{{,])\s*["']?{key}["']?\s*:""") for key in ("prompts", "registry")}
SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl"})

SETTINGS = pytest.StashKey["Settings"]()
HARNESS = pytest.StashKey["Harness"]()
#: The last record's text and the result that it stands for, where the item ran in the controller's own process.
HANDED = pytest.StashKey[tuple[str, "CaseResult"]]()
PATTERNS = pytest.StashKey[list[Any]]()
#: The ``--dist`` that the user gave, "no" for none.
CHOSEN_DIST = pytest.StashKey[str]()
#: The run that this one goes on with, on the controller.
RESUME_FROM = pytest.StashKey["StoredRun"]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _leave_as_they_are(pluginmanager)
    group = parser.getgroup("memeval", "evaluation of LLM memory systems (pytest-memeval)")
    for option in OPTIONS:
        if option.flag:
            keywords: dict[str, Any] = {"default": None, "dest": option.dest, "help": option.help}
            if option.kind == "flag":
                keywords["action"] = "store_true"
            else:
                keywords["metavar"] = option.metavar or ("{" + ",".join(option.choices) + "}")
                if option.kind == "list":
                    keywords["action"] = "append"
            group.addoption(option.option, **keywords)
        if option.ini:
            kind: Any = {"flag": "bool", "list": "linelist"}.get(option.kind, "string")
            parser.addini(option.dest, help=option.help, type=kind, default=option.ini_default)


def _leave_as_they_are(pluginmanager: pytest.PytestPluginManager) -> None:
    """Have pytest import this package's modules as any other's.

    It rewrites the asserts of a plugin's whole distribution: compiling the modules of a run anew takes over a second,
    once in each environment, and at every start in one that cannot be written to. No assert here is a test's.
    """
    hook: Any = pluginmanager.rewrite_hook
    marked, known = getattr(hook, "_must_rewrite", None), getattr(hook, "_marked_for_rewrite_cache", None)
    if isinstance(marked, set) and isinstance(known, dict):
        marked.discard(__name__.partition(".")[0])
        known.clear()


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, Any, Any]:
    try:
        return (yield)
    finally:
        for word, text in SHARED_OPTIONS.items():
            flag = f"--run-{word}"
            if flag in args or "-h" in args or "--help" in args:
                # The errors say that a conftest or another plugin owns it.
                with contextlib.suppress(ValueError, argparse.ArgumentError):
                    parser.getgroup("memeval").addoption(
                        flag, action="store_true", default=False, dest=f"memeval_run_{word}", help=text
                    )


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    if _plans(config) and hasattr(config.option, "numprocesses"):
        # A plan asks nobody: there is nothing to share out between processes.
        config.option.numprocesses = 0
    # xdist is about to put its default in the place of none.
    config.stash[CHOSEN_DIST] = "load" if config.getoption("distload", False) else config.getoption("dist", "no")
    return (yield)


def _plans(config: pytest.Config) -> bool:
    return bool(config.getoption("memeval_plan", None) or config.getini("memeval_plan"))


def pytest_configure(config: pytest.Config) -> None:
    add = config.addinivalue_line
    add("markers", "memeval(case=..., gate=False): an evaluation case, or a test that uses one")
    for word in ("easy", "medium", "hard", "real", "synthetic", "edge", "unspecified"):
        add("markers", f"{word}: difficulty or source of an evaluation case")
    for word in SHARED_OPTIONS:
        add("markers", f"{word}: opened by --run-{word}")
    from pytest_memeval import fixtures

    config.pluginmanager.register(fixtures, "memeval-fixtures")
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        if "memeval_stop" in worker:
            from pytest_memeval.budget import WorkerBudget

            config.pluginmanager.register(WorkerBudget(Path(worker["memeval_stop"])), "memeval-budget")
        return
    _warn_of_misspelt(config)
    from pytest_memeval.controller import Controller

    controller = Controller(config)
    config.pluginmanager.register(controller, "memeval-controller")
    if getattr(config.option, "htmlpath", None):
        from pytest_memeval.html_hooks import HtmlHooks

        config.pluginmanager.register(HtmlHooks(config, controller), "memeval-html")
    if _plans(config):
        from pytest_memeval.plan_hooks import PlanHooks

        config.pluginmanager.register(PlanHooks(config), "memeval-plan")
    if _is_used(config):
        check_options(config)
        part = settings_of(config).part
        if part is not None:
            from pytest_memeval.sharding import EmptyPart

            empty = EmptyPart(config, part, lambda: controller.recorder)
            config.pluginmanager.register(empty, "memeval-empty-part")
        if settings_of(config).baseline is not None:
            controller.baseline = _load_baseline(settings_of(config))
        limit = settings_of(config).max_cost
        if limit is not None:
            from pytest_memeval.budget import Budget

            controller.budget = Budget(config, limit)
            config.pluginmanager.register(controller.budget, "memeval-budget")


def _load_baseline(settings: Settings) -> Baseline:
    """The report to compare with, read before any case runs: one that cannot be used must not cost a run."""
    from pytest_memeval.baseline import load_baseline
    from pytest_memeval.report.reader import ReportError

    try:
        return load_baseline(settings.baseline, settings.prompts)
    except ReportError as error:
        raise pytest.UsageError(f"{settings.where('baseline')}: {error}") from None


def _warn_of_misspelt(config: pytest.Config) -> None:
    """Name the nearest ini key for one of ours that does not exist: pytest says only that it does not know it."""
    written = config.__dict__.get("_inicfg") or config.__dict__.get("inicfg") or {}
    ours = {option.dest for option in OPTIONS if option.ini}
    for key in sorted(written):
        if key.startswith("memeval") and key not in ours:
            from pytest_memeval.documents.problems import did_you_mean

            said = f"unknown ini key {key}{did_you_mean(key, sorted(ours))}"
            config.issue_config_time_warning(pytest.PytestConfigWarning(said), stacklevel=2)


def _is_used(config: pytest.Config) -> bool:
    """Whether any option or ini value of the plugin was given: only then is it worth checking them at the start."""
    return any(
        (option.flag and getattr(config.option, option.dest, None) is not None)
        or (option.ini and _ini_value(config, option) != option.ini_default)
        for option in OPTIONS
    )


def _ini_value(config: pytest.Config, option: Option) -> Any:
    try:
        return config.getini(option.dest)
    except (ValueError, pytest.UsageError) as error:
        # pytest says what is wrong with the value, but not with which.
        raise pytest.UsageError(f"{option.dest}: {error}") from None


def settings_of(config: pytest.Config) -> Settings:
    """The run's settings; a bad one is a UsageError."""
    known = config.stash.get(SETTINGS, None)
    if known is None:
        from pytest_memeval.settings import SettingsError, read_settings

        try:
            known = read_settings(
                lambda option: getattr(config.option, option.dest, None),
                lambda option: _ini_value(config, option),
                rootdir=config.rootpath,
                invocation_dir=config.invocation_params.dir,
            )
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[SETTINGS] = known
    return known


def harness_of(config: pytest.Config) -> Harness:
    """This process's harness, made when first needed and closed with the run."""
    known = config.stash.get(HARNESS, None)
    if known is None:
        from pytest_memeval.harness import Harness

        given: dict[str, Any] = getattr(config, "workerinput", {})
        settings = settings_of(config)
        known = config.stash[HARNESS] = Harness(settings, run_uid=given.get("testrunuid", ""))
        known.workers = int(given.get("workercount", 1))
        known.resume_from = _resume_from(config)
        config.add_cleanup(known.close)
        if settings.keep_db:
            known.keep_databases_in(Path(given["memeval_databases"]) if given else _recorder(config).databases_folder)
        from pytest_memeval.case_hooks import CaseHooks

        config.pluginmanager.register(CaseHooks(config), "memeval-cases")
        if _can_prepare(config, settings):
            from pytest_memeval.node_keys import PREFETCHER
            from pytest_memeval.prefetch import Prefetcher

            prefetcher = config.stash[PREFETCHER] = Prefetcher(config, known, settings.concurrency)
            config.pluginmanager.register(prefetcher, "memeval-prefetch")
    return known


def _resume_from(config: pytest.Config) -> StoredRun | None:
    """The run to go on with: its journal is found once, on the controller."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return config.stash.get(RESUME_FROM, None)
    from pytest_memeval.resume import StoredRun, journal_of_text

    if "memeval_resume_lines" in worker:
        # Another machine than the controller's has no such file.
        path = journal_of_text(worker["memeval_resume_lines"])
        config.add_cleanup(lambda: path.unlink(missing_ok=True))
        return StoredRun(path)
    return StoredRun(Path(worker["memeval_resume"])) if "memeval_resume" in worker else None


def _can_prepare(config: pytest.Config, settings: Settings) -> bool:
    """Whether cases may run before their turn: not under a debugger, nor where nothing is run at all."""
    option = config.option
    alone = ("usepdb", "trace", "collectonly", "setuponly", "setupplan", "setupshow")
    if getattr(config, "workerinput", {}).get("memeval_in_turn", False) or settings.plan:
        return False
    return settings.concurrency > 1 and not any(getattr(option, name, False) for name in alone)


def _recorder(config: pytest.Config) -> Recorder:
    controller: Any = config.pluginmanager.getplugin("memeval-controller")
    recorder: Recorder = controller.recorder
    return recorder


def check_options(config: pytest.Config) -> None:
    """Everything that must end the run before it starts, as one UsageError (exit status 4)."""
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.settings import SettingsError

    settings = settings_of(config)
    try:
        settings.run_settings()
        for setup in settings.setups():
            setup.check_models()
            setup.check_questions()
        settings.gates_from("command line")
        settings.gates_from("ini")
        if settings.output is not None:
            _check_output(settings)
        if settings.registry is not None or settings.templates is not None:
            settings.load_templates(settings.load_registry())
        for setup in settings.setups():
            _check_engine(config, setup)
        if settings.predictions is not None:
            from pytest_memeval.engine.predictions import load_predictions

            load_predictions(settings.predictions)
        for setup in settings.setups():
            if setup.prompts is not None or setup.prompt_version is not None:
                _check_prompts(config, setup)
        _check_keys(config, settings)
        if settings.resume is not None:
            from pytest_memeval.resume import StoredRun, find_journal

            journal = find_journal(settings.resume, config.invocation_params.dir)
            config.stash[RESUME_FROM] = StoredRun(journal)
    except (SettingsError, DocumentError) as error:
        raise pytest.UsageError(str(error)) from None


def _check_output(settings: Settings) -> None:
    """A folder that holds somebody else's files under the names of ours is left alone."""
    from pytest_memeval.report.write import foreign_file
    from pytest_memeval.settings import SettingsError

    for folder in (settings.output, *(settings.output / name for name in settings.variant_names)):
        foreign = foreign_file(folder)
        if foreign is not None:
            raise SettingsError(
                f"{settings.where('output')}: {foreign} is no file of an earlier run and would be replaced; move it, or"
                " name another folder"
            )


def _check_engine(config: pytest.Config, settings: Settings) -> None:
    """An engine that cannot be imported ends the run here: every case would be an error with the same words."""
    from pytest_memeval.extensions import is_address

    if settings.predictions is not None or ":" not in settings.engine or is_address(settings.engine):
        return
    from pytest_memeval.harness import find_object

    where = settings.where("engine")
    top = settings.engine.partition(":")[0].partition(".")[0]
    try:
        find_object(settings.engine, where)
    except ModuleNotFoundError as error:
        # pytest may come to a folder that holds it, and put that on the path, when it collects.
        if error.name == top and any(config.rootpath.rglob(f"{top}.py")):
            return
        raise pytest.UsageError(f"{where}: {settings.engine!r} cannot be imported: {error}") from None


def _check_prompts(config: pytest.Config, settings: Settings) -> None:
    store = settings.load_prompts()
    try:
        settings.resolve_prompts(store)
    except ValueError as error:
        # A case file with prompts of its own may well have the version; it is checked when it is collected.
        if not _names_own(config, "prompts"):
            raise pytest.UsageError(f"{settings.where('prompt_version')}: {error}") from None


def _check_keys(config: pytest.Config, settings: Settings) -> None:
    from pytest_memeval.metrics.catalog import METRICS
    from pytest_memeval.settings import SettingsError

    paths = [gate.path for origin in ("command line", "ini") for gate in settings.gates_from(origin)]
    paths += [threshold.path for threshold in settings.default_expectations]
    if not any(path.base in METRICS and METRICS[path.base].keys == "dimension" for path in paths):
        return
    try:
        settings.check_keys(settings.load_registry())
    except SettingsError:
        # A case file with a registry of its own may know the dimension; it is checked when it is collected.
        if not _names_own(config, "registry"):
            raise


def _names_own(config: pytest.Config, key: str) -> bool:
    """Whether a case file of the run seems to bring its own ``prompts`` or ``registry``."""
    from pytest_memeval.cases.loader import looks_like_case_file

    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        files = path.rglob("*") if path.is_dir() else [path]
        for file in files:
            if file.suffix in (".yaml", ".yml"):
                likely = looks_like_case_file(file)
            else:
                likely = file.suffix in SUFFIXES and matches_files(config, file)
            ours = file.is_file() and (file == path or likely)
            if ours and OWN[key].search(file.read_text(encoding="utf-8", errors="replace")):
                return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, list[Any], list[Any]]:
    found = yield
    if file_path.suffix in SUFFIXES and _is_case_file(file_path, parent, claimed=bool(found)):
        harness_of(parent.config)
        from pytest_memeval.items import CaseFile
        from pytest_memeval.kinds import kind_of

        kind = kind_of(file_path)
        if kind is not None:
            return [*found, kind.file_class().from_parent(parent, path=file_path, kind=kind)]
        return [*found, CaseFile.from_parent(parent, path=file_path)]
    return found


def _is_case_file(path: Path, parent: pytest.Collector, *, claimed: bool) -> bool:
    """Whether the file becomes tests; no file is opened whose name does not say that it may."""
    config = parent.config
    named = parent.session.isinitpath(path)
    if not named and not matches_files(config, path):
        return False
    if path.suffix in (".jsonl", ".json"):
        return not claimed
    from pytest_memeval.cases.loader import looks_like_case_file

    # A YAML file named on the command line is ours even if it does not look it, unless another plugin collects it.
    return looks_like_case_file(path) or (named and not claimed)


def matches_files(config: pytest.Config, path: Path) -> bool:
    """Whether the ini ``memeval_files`` covers the path."""
    patterns = config.stash.get(PATTERNS, None)
    if patterns is None:
        from pytest_memeval.globs import glob_pattern

        patterns = config.stash[PATTERNS] = [glob_pattern(text) for text in config.getini("memeval_files")]
    try:
        relative = path.relative_to(config.rootpath).as_posix()
    except ValueError:
        relative = path.name
    return any(pattern.match(relative) for pattern in patterns)


def unmatched_folders(config: pytest.Config) -> list[str]:
    """A sentence for each folder on the command line in which only files that ``memeval_files`` leaves out look like
    case files."""
    from pytest_memeval.cases.loader import looks_like_case_file

    found = []
    for argument in config.args:
        folder = config.invocation_params.dir / argument.partition("::")[0]
        if not folder.is_dir():
            continue
        files = (file for suffix in (".yaml", ".yml") for file in sorted(folder.rglob(f"*{suffix}")))
        other = next((file for file in files if not matches_files(config, file) and looks_like_case_file(file)), None)
        if other is not None:
            patterns = ", ".join(config.getini("memeval_files"))
            found.append(
                f"{other.relative_to(folder).as_posix()} in {argument} looks like a case file, but no pattern of"
                f" memeval_files has it ({patterns}); name the file itself, or add a pattern"
            )
    return found


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """With ``-v``, a passed case shows its main figure."""
    if getattr(report, "memeval_again", False):
        return "rerun", "R", "RERUN"
    main = getattr(report, "memeval_main", None)
    if main is None or report.when != "call" or not report.passed or hasattr(report, "wasxfail"):
        return None
    return "passed", ".", f"PASSED {main}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A node may have "memeval" among its keywords for other reasons, but asking for that first is cheap.
    if HARNESS not in config.stash and any(
        "memeval" in item.keywords and item.get_closest_marker("memeval") is not None for item in items
    ):
        harness_of(config)
    if HARNESS in config.stash:
        from pytest_memeval.items import owner_of, select_items

        select_items(config, items)
        part = settings_of(config).part
        if part is not None:
            from pytest_memeval.sharding import keep_part

            keep_part(config, items, part, owner_of)
