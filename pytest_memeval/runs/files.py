"""What a run leaves besides its reports: saved predictions, kept databases, the pointer to the newest run, a row in the
history, the job summary."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.writing import naming

if TYPE_CHECKING:
    from pytest_memeval.results import CaseResult
    from pytest_memeval.runs.recorder import Recorder
    from pytest_memeval.settings.model import Settings


class PredictionsNotWritten(OSError):
    """The file of ``--memeval-save-predictions`` could not be written; the reports were."""


class SummaryNotWritten(OSError):
    """The report could not be added to the job summary; it lies where it always does."""


def leave(recorder: Recorder, latest: Path, records: Iterable[CaseResult]) -> None:
    """Leave everything but the history; ``latest`` is where the newest run's report lies then.

    Raises PredictionsNotWritten where those cannot be written; nothing is added to the job summary then. Raises
    SummaryNotWritten where that cannot be.
    """
    from pytest_memeval.report.write import write_latest

    settings = recorder.settings
    if recorder.resume_from is not None:
        from pytest_memeval.resume.run import remove_superseded

        remove_superseded(recorder.resume_from, recorder.target)
    if settings.output is None:
        write_latest(recorder.base, latest)
    else:
        replace_databases(recorder.target / "databases", recorder.databases_folder)
    recorder.folder = recorder.target
    if settings.save_predictions is not None:
        recorder.remarks += _saved(recorder, Path(settings.save_predictions), records)
    _step_summary(recorder)


def remember(recorder: Recorder) -> None:
    """Leave a row in the history; a run is not the worse for a history that cannot be written."""
    settings = recorder.settings
    if settings.no_history or recorder.report is None or recorder.report["partial"] == "aborted":
        return
    if settings.part is not None:  # a part of a run says nothing of the whole
        return
    from pytest_memeval.history import store as history

    remark = history.remember(recorder.report, settings.cache_folder, recorder.target, settings.lang)
    if remark is not None:
        recorder.remarks.append(remark)


def _step_summary(recorder: Recorder) -> None:
    """Add the Markdown report to the job summary that GitHub Actions shows."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place and recorder.variant is None:
        shown = [recorder.target / "report.md"] if recorder.variants is None else recorder.variants.shown
        try:
            with naming(Path(place)), open(place, "a", encoding="utf-8") as file:
                file.writelines(path.read_text(encoding="utf-8") + "\n" for path in shown)
        except OSError as error:
            raise SummaryNotWritten(str(error)) from error


def nothing_saved(settings: Settings, name: str) -> str:
    """The remark that an option's file was not written."""
    from pytest_memeval.report.messages import text

    return text("terminal.nothing_saved", settings.lang, where=settings.where(name), file=settings.values[name])


def _saved(recorder: Recorder, target: Path, records: Iterable[CaseResult]) -> Iterator[str]:
    """Write the predictions; gives what is to be said of them: that there are none, or not those of all cases."""
    from pytest_memeval.report.messages import text

    settings = recorder.settings
    rows = _save_predictions(target, records)
    if not rows:
        yield nothing_saved(settings, "save_predictions")
    elif settings.part is None and (recorder.not_run() or _is_partial(recorder)):
        where = settings.where("save_predictions")
        yield text(
            "terminal.part_saved", settings.lang, where=where, file=settings.values["save_predictions"], rows=rows
        )


def _is_partial(recorder: Recorder) -> bool:
    reports = [recorder.report] if recorder.variants is None else recorder.variants.reports.values()
    return any(report is not None and report["partial"] is not None for report in reports)


def _save_predictions(target: Path, records: Iterable[CaseResult]) -> int:
    """Write them; gives the number of rows. Nothing is written where there is none."""
    from pytest_memeval.engine.predictions import prediction_rows
    from pytest_memeval.report.json_report import dumps
    from pytest_memeval.report.write import write_lines

    rows = prediction_rows(sorted(records, key=lambda record: record.node_id))
    if not rows:
        return 0
    try:
        write_lines(target, (dumps(row) + "\n" for row in rows))
    except OSError as error:
        raise PredictionsNotWritten(str(error)) from error
    return len(rows)


def replace_databases(folder: Path, new: Path) -> None:
    """Put this run's databases in the place of an older run's.

    A sub-folder that holds anything but a case's two databases is somebody else's and stays.
    """
    from pytest_memeval.engine.databases import MEMORY_FILE, WIKI_FILE

    for old in list(folder.iterdir()) if folder.is_dir() else ():
        if old.is_dir() and not old.is_symlink() and {file.name for file in old.iterdir()} == {MEMORY_FILE, WIKI_FILE}:
            shutil.rmtree(old)
    if new.is_dir():
        folder.mkdir(exist_ok=True)
        for case_folder in list(new.iterdir()):
            os.replace(case_folder, folder / case_folder.name)
        new.rmdir()
