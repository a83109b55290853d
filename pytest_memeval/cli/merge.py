"""``memeval merge``: the reports of a run that was shared out over machines, put together and judged as a whole."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.cli.support import refuse_foreign


def add_merge_command(commands: Any) -> None:
    """Register ``merge`` with the sub-commands of ``memeval``."""
    merge = commands.add_parser(
        "merge", help="put the reports of a run shared out with --memeval-shard together and evaluate its gates"
    )
    merge.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder of a part, or its report.json")
    merge.add_argument("--output", type=Path, help="folder for the reports (default: a new run in .memeval/runs)")
    merge.add_argument("--lang", choices=("en", "zh"), default="en")
    merge.add_argument("--no-history", action="store_true", help="leave no row of the whole run in the history")
    merge.add_argument(
        "--cache-dir", type=Path, help="folder of the history (default: the parts', else the user's cache folder)"
    )
    merge.set_defaults(command=_merge)


def _each_once(runs: list[Path]) -> list[Path]:
    """The runs without those that were named before, of which it is said."""
    found: dict[Path, Path] = {}
    for run in runs:
        place = (run if run.is_dir() else run.parent).resolve()
        if place in found:
            print(f"{run} was named before (as {found[place]}): the repeat is ignored", file=sys.stderr)
        else:
            found[place] = run
    return list(found.values())


def _history_folder(given: Path | None, report: Mapping[str, Any]) -> Path:
    """Where the whole run's row goes: where the parts had their caches, if this machine has the place for that."""
    from pytest_memeval.user_cache import user_cache_folder

    told = report["config"]["options"].get("cache_dir")
    return given or (Path(told) if told and Path(told).parent.is_dir() else user_cache_folder())


def _merge(arguments: argparse.Namespace) -> int:
    from pytest_memeval.report.console import console_text
    from pytest_memeval.report.reader import ReportError, readable
    from pytest_memeval.report.terminal import summary_lines
    from pytest_memeval.report.write import default_folder, write_latest, write_reports
    from pytest_memeval.runs.merge import (
        MergeError,
        calls_of_parts,
        check_parts,
        exit_status,
        load_part,
        merge_parts,
        write_journal,
    )

    try:
        parts = sorted(map(load_part, _each_once(arguments.runs)), key=lambda part: part.shard["index"])
        with readable("A part's report"):
            check_parts(parts)
            report = merge_parts(parts)
    except MergeError as error:
        raise ReportError(str(error)) from None
    base = Path.cwd()
    target = arguments.output or default_folder(base, report["run_id"])
    if any(part.folder.resolve() == target.resolve() for part in parts):
        raise ReportError(f"{target} is one of the parts: its own report would be lost. Name another with --output.")
    refuse_foreign(target)
    journal = target / f"journal-{report['run_id']}.jsonl"
    there = write_journal(parts, journal)
    write_reports(target, report, calls_of_parts(parts), arguments.lang, journal=journal if there else None)
    if arguments.output is None:
        write_latest(base, target)
    lines = [text for text, _ in summary_lines(report, arguments.lang, folder=str(target))]
    if not arguments.no_history and not report["config"]["options"].get("no_history"):
        from pytest_memeval.history.store import remember

        remark = remember(report, _history_folder(arguments.cache_dir, report), target.resolve(), arguments.lang)
        lines += [] if remark is None else [remark]
    for text in lines:
        print(console_text(text, sys.stdout.encoding))
    return exit_status(report)
