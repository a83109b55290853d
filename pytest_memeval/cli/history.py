"""``memeval history``: what every finished run left, and a metric over time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import refuse_replacing

if TYPE_CHECKING:
    from pytest_memeval.history.store import HistoryRow


def add_history_command(commands: Any) -> None:
    """Register ``history`` with the sub-commands of ``memeval``."""
    history = commands.add_parser("history", help="list the finished runs of this project and plot a metric over time")
    history.add_argument("--metric", default="l1.dimension_micro_f1", metavar="PATH", help="the metric to plot")
    history.add_argument("--last", type=_positive, metavar="N", help="only the last N runs")
    history.add_argument("--model", metavar="TEXT", help="only runs whose model's name holds this")
    history.add_argument("--engine", metavar="TEXT", help="only runs whose engine's name holds this")
    history.add_argument("--all-projects", action="store_true", help="runs of every project, not only of this one")
    history.add_argument("--html", type=Path, metavar="FILE", help="also draw it into this page")
    history.add_argument("--json", action="store_true", help="print JSON")
    history.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of the history (default: as in pytest)")
    history.add_argument("--lang", choices=("en", "zh"), default="en")
    history.set_defaults(command=_history)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs")
    return number


def _history(arguments: argparse.Namespace) -> int:
    from pytest_memeval.cli.cache import cache_folder
    from pytest_memeval.compare.messages import text
    from pytest_memeval.history.series import history_html, history_text, series_of
    from pytest_memeval.history.store import History, HistoryError
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.console import console_text

    metric = _metric(arguments.metric)
    if arguments.html is not None and not arguments.html.absolute().parent.is_dir():
        raise SettingsError(f"--html: there is no folder {arguments.html.parent}")
    if arguments.html is not None:
        refuse_replacing("--html", arguments.html, "html")
    history = History(cache_folder(arguments.cache_dir))
    try:
        rows = history.rows()
    except HistoryError as error:
        raise SettingsError(str(error)) from None
    rows = _chosen(rows, arguments)
    series = series_of(rows, metric)
    encoding = getattr(sys.stdout, "encoding", None)
    if arguments.json:
        from dataclasses import asdict

        from pytest_memeval.report.json_report import dumps

        said = dumps({"metric": metric, "series": [asdict(one) for one in series]}, indent=2)
        print(console_text(said, encoding))
    elif not series:
        key = "history.no_metric" if rows else "history.empty"
        print(console_text(text(key, arguments.lang, metric=metric, path=str(history.path)), encoding))
    else:
        shown = history_text(series, metric, arguments.lang, ascii_only=not _has_blocks(encoding))
        print(console_text(shown, encoding))
    if arguments.html is not None:
        from pytest_memeval.report.write import write_lines

        write_lines(arguments.html, [history_html(series, metric, arguments.lang)])
    return 0


def _metric(name: str) -> str:
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_path
    from pytest_memeval.options import SettingsError

    try:
        path = parse_path(name)
    except ThresholdError as error:
        raise SettingsError(f"--metric: {error}") from None
    if path.filters:
        raise SettingsError(f"--metric: {name}: the history keeps metrics over all cases, without filters")
    return str(path)


def _chosen(rows: Sequence[HistoryRow], arguments: argparse.Namespace) -> list[HistoryRow]:
    here = Path.cwd()
    chosen = [
        row
        for row in rows
        if (arguments.all_projects or (row.project and Path(row.project) in (here, *here.parents)))
        and (not arguments.model or arguments.model in row.model)
        and (not arguments.engine or arguments.engine in row.engine)
    ]
    return chosen[-arguments.last :] if arguments.last else chosen


def _has_blocks(encoding: str | None) -> bool:
    try:
        "▁│".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
