"""pytest hooks and options. Importing this module is cheap: whatever is not needed by every start is imported late."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.case_files import SUFFIXES, is_case_file
from pytest_memeval.options import OPTIONS
from pytest_memeval.session import (
    CHOSEN_DIST,
    HARNESS,
    MADE,
    MISSPELT,
    SHARED_OPTIONS,
    harness_of,
    ini_value,
    refuse_misspelt,
    settings_of,
)

if TYPE_CHECKING:
    from pytest_memeval.compare.baseline import Baseline
    from pytest_memeval.harness import Harness
    from pytest_memeval.settings.model import Settings


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
    try:
        return (yield)
    except BaseException:
        # An interrupt at the end of the session. pytest's own start cleans up after it; a worker is started by xdist.
        if hasattr(config, "workerinput"):
            config._ensure_unconfigure()
        raise


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
    config.stash[MADE] = _add_hooks
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        if "memeval_stop" in worker:
            from pytest_memeval.hooks.budget import WorkerBudget

            config.pluginmanager.register(WorkerBudget(Path(worker["memeval_stop"])), "memeval-budget")
        if "memeval_decided" in worker:
            from pytest_memeval.hooks.stopping import WorkerStopper

            config.pluginmanager.register(WorkerStopper(Path(worker["memeval_decided"])), "memeval-stopper")
        return
    _look_for_misspelt(config)
    from pytest_memeval.hooks.controller import Controller

    controller = Controller(config)
    config.pluginmanager.register(controller, "memeval-controller")
    if getattr(config.option, "htmlpath", None):
        from pytest_memeval.hooks.html import HtmlHooks

        config.pluginmanager.register(HtmlHooks(config, controller), "memeval-html")
    if _plans(config):
        from pytest_memeval.hooks.plan import PlanHooks

        config.pluginmanager.register(PlanHooks(config), "memeval-plan")
    if _is_used(config):
        from pytest_memeval.hooks.options import check_options

        check_options(config)
        part = settings_of(config).part
        if part is not None:
            from pytest_memeval.hooks.sharding import EmptyPart

            empty = EmptyPart(config, part, lambda: controller.recorder)
            config.pluginmanager.register(empty, "memeval-empty-part")
        if settings_of(config).baseline is not None:
            controller.baseline = _load_baseline(settings_of(config))
        if settings_of(config).stop_when_decided and not _plans(config):
            from pytest_memeval.hooks.stopping import Stopper

            controller.stopper = Stopper(config)
            config.pluginmanager.register(controller.stopper, "memeval-stopper")
        limit = settings_of(config).max_cost
        if limit is not None:
            from pytest_memeval.hooks.budget import Budget

            controller.budget = Budget(config, limit)
            config.pluginmanager.register(controller.budget, "memeval-budget")


def _load_baseline(settings: Settings) -> Baseline:
    """The report to compare with, read before any case runs: one that cannot be used must not cost a run."""
    from pytest_memeval.compare.baseline import load_baseline
    from pytest_memeval.report.reader import ReportError

    try:
        return load_baseline(settings.baseline, settings.prompts)
    except ReportError as error:
        raise pytest.UsageError(f"{settings.where('baseline')}: {error}") from None


def _look_for_misspelt(config: pytest.Config) -> None:
    """Name the nearest ini key for one of ours that does not exist: pytest says only that it does not know it.

    One that is near a key ends a run that has to do with this plugin, by options or by cases; else it is a warning.
    """
    written = config.__dict__.get("_inicfg") or config.__dict__.get("inicfg") or {}
    ours = {option.dest: option.dest.removeprefix("memeval_") for option in OPTIONS if option.ini}
    near = []
    for key in sorted(written):
        if key.startswith("memeval") and key not in ours and not _is_known(config, key):
            from pytest_memeval.documents.problems import nearest

            # The beginning that all have alike would make any key near to some other.
            guess = nearest(key.removeprefix("memeval").lstrip("_-"), ours.values())
            meant = f"did you mean 'memeval_{guess}'?" if guess else f"known: {', '.join(sorted(ours)[:12])}, …"
            said = f"unknown ini key {key}; {meant}"
            if guess is not None:
                near.append(said)
            config.issue_config_time_warning(pytest.PytestConfigWarning(said), stacklevel=2)
    if near:
        config.stash[MISSPELT] = "\n".join(near)
        # Other ini keys say nothing of this run: a project may have tests that use no case.
        if any(option.flag and getattr(config.option, option.dest, None) is not None for option in OPTIONS):
            refuse_misspelt(config)


def _is_known(config: pytest.Config, key: str) -> bool:
    """Whether another plugin, or a conftest, has the ini key."""
    try:
        config.getini(key)
    except ValueError as error:
        return "unknown configuration" not in str(error)
    except pytest.UsageError:
        return True
    return True


def _add_hooks(config: pytest.Config, harness: Harness) -> None:
    """What this process does with cases, from when there are some."""
    from pytest_memeval.hooks.cases import CaseHooks
    from pytest_memeval.hooks.interrupts import CaseInterrupts, WorkerInterrupts
    from pytest_memeval.hooks.stuck_threads import StuckThreads
    from pytest_memeval.workers.sendable import SendableReports

    interrupts = WorkerInterrupts() if hasattr(config, "workerinput") else CaseInterrupts(config)
    config.pluginmanager.register(interrupts, "memeval-interrupts")
    config.pluginmanager.register(StuckThreads(config), "memeval-stuck-threads")
    config.pluginmanager.register(CaseHooks(config), "memeval-cases")
    config.pluginmanager.register(SendableReports(config), "memeval-sendable")
    if hasattr(config, "workerinput"):
        from pytest_memeval.hooks.stop_at_once import StopAtOnce

        config.pluginmanager.register(StopAtOnce(config), "memeval-stop-at-once")
    if _can_prepare(config, harness.settings):
        from pytest_memeval.hooks.prefetch import Prefetcher
        from pytest_memeval.nodes.keys import PREFETCHER

        prefetcher = config.stash[PREFETCHER] = Prefetcher(config, harness, harness.settings.concurrency)
        config.pluginmanager.register(prefetcher, "memeval-prefetch")


def _can_prepare(config: pytest.Config, settings: Settings) -> bool:
    """Whether cases may run before their turn: not under a debugger, nor where nothing is run at all."""
    option = config.option
    alone = ("usepdb", "trace", "collectonly", "setuponly", "setupplan", "setupshow")
    if getattr(config, "workerinput", {}).get("memeval_in_turn", False) or settings.plan:
        return False
    return settings.concurrency > 1 and not any(getattr(option, name, False) for name in alone)


def _is_used(config: pytest.Config) -> bool:
    """Whether any option or ini value of the plugin was given: only then is it worth checking them at the start."""
    return any(
        (option.flag and getattr(config.option, option.dest, None) is not None)
        or (option.ini and ini_value(config, option) != option.ini_default)
        for option in OPTIONS
    )


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, list[Any], list[Any]]:
    found = yield
    if file_path.suffix.lower() in SUFFIXES and is_case_file(file_path, parent, claimed=bool(found)):
        harness_of(parent.config)
        from pytest_memeval.items import CaseFile
        from pytest_memeval.kind_items import KindFile
        from pytest_memeval.kinds import kind_of

        kind = kind_of(file_path)
        if kind is not None:
            return [*found, (kind.file_class() or KindFile).from_parent(parent, path=file_path, kind=kind)]
        return [*found, CaseFile.from_parent(parent, path=file_path)]
    return found


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """With ``-v``, a passed case shows its main figure, and each why it could not be prepared ahead."""
    if getattr(report, "memeval_again", False):
        return "rerun", "R", "RERUN"
    if getattr(report, "memeval_over", False):
        return "", "", ""
    alone = getattr(report, "memeval_alone", None)
    if alone is not None and report.failed:
        return ("failed", "F", f"FAILED{alone}") if report.when == "call" else ("error", "E", f"ERROR{alone}")
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
        refuse_misspelt(config)
        from pytest_memeval.items import owner_of, select_items

        select_items(config, items)
        part = settings_of(config).part
        if part is not None:
            from pytest_memeval.hooks.sharding import keep_part

            keep_part(config, items, part, owner_of)
        if settings_of(config).stop_when_decided:
            from pytest_memeval.hooks.stopping import put_in_order

            put_in_order(items, settings_of(config).seed)
