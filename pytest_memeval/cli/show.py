"""``memeval show``: a stored run as a page, one case in the terminal, or the cases that failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.cli.support import refuse_replacing


def add_show_command(commands: Any) -> None:
    """Register ``show`` with the sub-commands of ``memeval``."""
    show = commands.add_parser("show", help="look at a stored run: summary, one case, failed cases, or an HTML page")
    show.add_argument(
        "run", type=Path, help="run folder, its report.json, or 'latest'; or a tuning document, or its folder"
    )
    show.add_argument("--html", type=Path, metavar="FILE", help="write it as one page that needs nothing else")
    show.add_argument(
        "--tuning", type=Path, metavar="FILE", help="show a tuning document, or its folder, with the run's figures"
    )
    show.add_argument(
        "--case", action="append", default=[], metavar="ID", help="print this case: its id or node id; repeatable"
    )
    show.add_argument("--failed", action="store_true", help="print the cases that errored or missed own thresholds")
    show.add_argument(
        "--annotate",
        choices=("github",),
        help="print failed cases as annotations of their lines, for a GitHub Actions job",
    )
    show.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of the history (default: as in pytest)")
    show.add_argument("--lang", choices=("en", "zh"), default="en")
    show.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    from pytest_memeval.report.reader import find_report, load_report, readable
    from pytest_memeval.tuning.document import is_tuning

    if arguments.html is not None:
        refuse_replacing("--html", arguments.html, "html")
    place = run_place(arguments.run)
    if is_tuning(place):
        _show_tuning(arguments, place)
        return 0
    report = load_report(place)
    with readable(str(place)):
        _show_report(arguments, report, find_report(place).parent)
    return 0


def _show_report(arguments: argparse.Namespace, report: Mapping[str, Any], folder: Path) -> None:
    from pytest_memeval.tuning.document import load_tuning, terminal_lines

    lang = arguments.lang
    tuning = None if arguments.tuning is None else load_tuning(arguments.tuning)
    if arguments.html is not None:
        write_page(arguments.html, report, folder, lang=lang, cache_dir=arguments.cache_dir, tuning=tuning)
        _print([(str(arguments.html), {})])
    if arguments.annotate is not None:
        _print((line, {}) for line in github_annotations(report))
    if arguments.case:
        from pytest_memeval.report.case_text import case_lines

        for entry in [chosen for name in arguments.case for chosen in _cases_named(report, name)]:
            _print(case_lines(entry, lang))
    elif arguments.failed:
        _print(_failed(report, lang))
    elif arguments.html is None and arguments.annotate is None:
        from pytest_memeval.report.case_text import funnel_lines
        from pytest_memeval.report.terminal import summary_lines

        _print((*summary_lines(report, lang, folder=str(folder), decides_exit=False), ("", {})))
        _print(funnel_lines(report, lang))
        if tuning is not None:
            _print((line, {}) for line in ("", *terminal_lines(tuning, lang)))


def _show_tuning(arguments: argparse.Namespace, place: Path) -> None:
    """A tuning document by itself: it has figures of parameters, and no cases. Raises ReportError."""
    from pytest_memeval.report.reader import ReportError
    from pytest_memeval.report.write import write_lines
    from pytest_memeval.tuning.document import load_tuning, terminal_lines
    from pytest_memeval.tuning.html_page import html_page

    given = ("case", arguments.case), ("failed", arguments.failed), ("annotate", arguments.annotate)
    wrong = [name for name, value in (*given, ("tuning", arguments.tuning)) if value]
    if wrong:
        raise ReportError(f"{place} is a tuning document, which --{wrong[0]} does not go with: name a run.")
    document = load_tuning(place)
    if arguments.html is None:
        _print((line, {}) for line in terminal_lines(document, arguments.lang))
        return
    write_lines(arguments.html, [html_page(document, arguments.lang)])
    _print([(str(arguments.html), {})])


def run_place(run: Path) -> Path:
    """The path meant by ``run``, where ``latest`` is the newest run of the current folder. Raises ReportError."""
    from pytest_memeval.report.reader import ReportError
    from pytest_memeval.report.write import LATEST_NAME, latest_folder

    if str(run) != LATEST_NAME or run.exists():
        return run
    found = latest_folder(Path.cwd())
    if found is None:
        raise ReportError("There is no run in .memeval/runs of this folder.")
    return found


def write_page(
    target: Path,
    report: Mapping[str, Any],
    folder: Path,
    *,
    lang: str,
    cache_dir: Path | None = None,
    tuning: Mapping[str, Any] | None = None,
) -> None:
    """Write a stored run's page, with the prompts and answers that lie in its folder, and with what a tuning document
    says. Raises ReportError, OSError."""
    from pytest_memeval.cli.cache import cache_folder
    from pytest_memeval.page_parts import baseline_html, history_points, tuning_html
    from pytest_memeval.report.calls import CALLS_NAME, read_calls
    from pytest_memeval.report.html.page import html_page
    from pytest_memeval.report.write import write_lines

    stored = folder / CALLS_NAME
    page = html_page(
        report,
        lang,
        calls=read_calls(stored).values() if stored.exists() else (),
        comparison=baseline_html(report),
        history=history_points(report, cache_folder(cache_dir)),
        tuning=tuning_html(tuning),
    )
    write_lines(target, [page])


def _cases_named(report: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The cases with this node id, else with this id in any file. Raises ReportError, naming the nearest one."""
    from pytest_memeval.documents.problems import did_you_mean
    from pytest_memeval.report.reader import ReportError

    for key in ("node_id", "case_id"):
        found = [entry for entry in report["per_case"] if entry[key] == name]
        if found:
            return found
    known = [entry[key] for entry in report["per_case"] for key in ("case_id", "node_id")]
    raise ReportError(f"The run has no case {name!r}{did_you_mean(name, known)}")


def _failed(report: Mapping[str, Any], lang: str) -> Iterable[tuple[str, Mapping[str, bool]]]:
    from pytest_memeval.report.case_text import case_list_lines, failed_cases
    from pytest_memeval.report.messages import text

    failed = failed_cases(report)
    if not failed:
        return [(text("html.none_failed", lang), {})]
    return case_list_lines(failed, lang)


def github_annotations(report: Mapping[str, Any]) -> list[str]:
    """A GitHub Actions workflow command for each case that failed, at its line of its file."""
    from pytest_memeval.report.case_text import failed_cases, failures_of

    return [
        f"::error file={_property(entry['set'])},line={max(1, entry['line'])},title={_property(entry['case_id'])}"
        f"::{_message(chr(10).join(failures_of(entry)))}"
        for entry in failed_cases(report)
    ]


def _message(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _message(value).replace(":", "%3A").replace(",", "%2C")


def _print(lines: Iterable[tuple[str, Mapping[str, bool]]]) -> None:
    from pytest_memeval.cli.compare import wants_colour
    from pytest_memeval.report.console import console_text, painted, without_controls

    encoding, colour = getattr(sys.stdout, "encoding", None), wants_colour()
    for line, markup in lines:
        shown = console_text(line, encoding)
        print(painted(shown, markup) if colour else without_controls(shown))
