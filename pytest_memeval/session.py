"""What a pytest config has of this plugin: its settings, its harness, and who makes them when first asked for.

Importing this module is cheap: whatever is not needed by every start is imported late.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_memeval.options import Option

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.interrupts import Interrupts
    from pytest_memeval.results import CaseResult
    from pytest_memeval.resume.run import StoredRun
    from pytest_memeval.runs.recorder import Recorder
    from pytest_memeval.settings.model import Settings

#: Options that many projects define themselves: registered late, and only when used.
SHARED_OPTIONS = {
    "slow": "run evaluation cases tagged slow",
    "integration": "run evaluation cases tagged integration (real models)",
}

SETTINGS = pytest.StashKey["Settings"]()
HARNESS = pytest.StashKey["Harness"]()
#: The last record's text and the result that it stands for, where the item ran in the controller's own process.
HANDED = pytest.StashKey[tuple[str, "CaseResult"]]()
#: The ``--dist`` that the user gave, "no" for none.
CHOSEN_DIST = pytest.StashKey[str]()
#: The run that this one goes on with, on the controller.
RESUME_FROM = pytest.StashKey["StoredRun"]()
#: What is to be said of ini keys of ours that are misspelt: fatal as soon as there are cases.
MISSPELT = pytest.StashKey[str]()
#: How interrupts are taken by the process that makes the report, from when it knows of cases.
INTERRUPTS: pytest.StashKey[Interrupts] = pytest.StashKey()
#: Whether the time of a case was over in this process.
OVERDUE = pytest.StashKey[bool]()
#: Told of the harness once it is made.
MADE = pytest.StashKey[Callable[[pytest.Config, "Harness"], None]]()


def ini_value(config: pytest.Config, option: Option) -> Any:
    try:
        return config.getini(option.dest)
    except (ValueError, pytest.UsageError) as error:
        # pytest says what is wrong with the value, but not with which.
        raise pytest.UsageError(f"{option.dest}: {error}") from None


def refuse_misspelt(config: pytest.Config) -> None:
    """Raises UsageError where an ini key is misspelt: what it should set decides by its default unnoticed."""
    text = config.stash.get(MISSPELT, None)
    if text is not None:
        raise pytest.UsageError(text)


def settings_of(config: pytest.Config) -> Settings:
    """The run's settings; a bad one is a UsageError."""
    known = config.stash.get(SETTINGS, None)
    if known is None:
        from pytest_memeval.options import SettingsError
        from pytest_memeval.settings.reading import read_settings

        try:
            known = read_settings(
                lambda option: getattr(config.option, option.dest, None),
                lambda option: ini_value(config, option),
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
        from pytest_memeval.own_code import relate_to

        given: dict[str, Any] = getattr(config, "workerinput", {})
        settings = settings_of(config)
        known = config.stash[HARNESS] = Harness(settings, run_uid=given.get("testrunuid", ""))
        config.add_cleanup(relate_to(config.invocation_params.dir))
        known.workers = int(given.get("workercount", 1))
        known.resume_from = _resume_from(config)
        config.add_cleanup(known.close)
        if settings.keep_db:
            known.keep_databases_in(Path(given["memeval_databases"]) if given else _recorder(config).databases_folder)
        config.stash[MADE](config, known)
    return known


def harness_at_collection(config: pytest.Config) -> Harness:
    """The harness, with the project's own metrics loaded; one that cannot be is an error of what is collected."""
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.console import without_controls

    harness = harness_of(config)
    try:
        _ = harness.run_settings  # made for its checks
    except SettingsError as error:
        raise pytest.Collector.CollectError(without_controls(str(error))) from None
    return harness


def _resume_from(config: pytest.Config) -> StoredRun | None:
    """The run to go on with: its journal is found once, on the controller."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return config.stash.get(RESUME_FROM, None)
    from pytest_memeval.resume.run import StoredRun, journal_of_text

    if "memeval_resume_lines" in worker:
        # Another machine than the controller's has no such file.
        path = journal_of_text(worker["memeval_resume_lines"])
        config.add_cleanup(lambda: path.unlink(missing_ok=True))
        return StoredRun(path)
    return StoredRun(Path(worker["memeval_resume"])) if "memeval_resume" in worker else None


def _recorder(config: pytest.Config) -> Recorder:
    controller: Any = config.pluginmanager.getplugin("memeval-controller")
    recorder: Recorder = controller.recorder
    return recorder
