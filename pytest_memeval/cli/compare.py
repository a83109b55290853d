"""``memeval compare``: two reports held against each other, offline."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import refuse_replacing

if TYPE_CHECKING:
    from pytest_memeval.compare.conditions import Verdict
    from pytest_memeval.compare.model import Comparison

FORMATS = ("terminal", "json", "markdown", "html")
#: Ending of an output file → its format.
SUFFIXES: Mapping[str, str] = {
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".txt": "terminal",
}


def add_compare_command(commands: Any) -> None:
    """Register ``compare`` with the sub-commands of ``memeval``."""
    compare = commands.add_parser("compare", help="hold report B against report A: differences and how sure they are")
    compare.add_argument("a", metavar="A", help="report.json, run folder, or 'latest'")
    compare.add_argument("b", metavar="B", help="the same; differences are B - A")
    compare.add_argument("--format", choices=FORMATS, default="terminal", help="what is printed")
    compare.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write it here, as .json, .md, .html or .txt; repeatable",
    )
    compare.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help='exit 1 if it holds, such as "l1.dimension_micro_f1 < -0.02"; repeatable',
    )
    compare.add_argument(
        "--prompts", type=Path, action="append", default=[], metavar="DIR", help="a prompts folder; repeatable"
    )
    compare.add_argument("--lang", choices=("en", "zh"), default="en")
    compare.set_defaults(command=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from pytest_memeval.compare.build import compare_reports
    from pytest_memeval.compare.conditions import judge
    from pytest_memeval.compare.load import load_cases, prompt_texts
    from pytest_memeval.report.lines import paused_collector

    conditions = _conditions(arguments.fail_on)
    formats = [(path, _format_of(path)) for path in arguments.output]
    for path, kind in formats:
        refuse_replacing("--output", path, kind)
    (a, first), (b, second) = (load_cases(name, Path.cwd()) for name in (arguments.a, arguments.b))
    texts = prompt_texts((a, b), arguments.prompts)
    with paused_collector():
        names = (arguments.a, arguments.b)
        comparison = compare_reports(a, b, labels=names, prompt_texts=texts, records=(first, second))
        verdicts = [judge(condition, first, second, comparison) for condition in conditions]
    lang = arguments.lang
    colour = wants_colour()
    shown = rendered(comparison, arguments.format, lang, verdicts, colour=colour)
    _print(shown, arguments.format, coloured=colour and arguments.format == "terminal")
    for path, kind in formats:
        from pytest_memeval.report.write import write_lines

        write_lines(path, [rendered(comparison, kind, lang, verdicts)])
    # In JSON and HTML the verdicts would be in the way of whoever reads them by machine: they have their place there.
    if arguments.format != "json":
        for verdict in verdicts:
            _print(verdict_text(verdict, lang), "terminal", sys.stderr if verdict.fails else sys.stdout)
    return 1 if any(verdict.fails for verdict in verdicts) else 0


def rendered(
    comparison: Comparison, kind: str, lang: str, verdicts: Sequence[Verdict] = (), *, colour: bool = False
) -> str:
    """The comparison in one of :data:`FORMATS`."""
    if kind == "json":
        from pytest_memeval.report.json_report import dumps

        conditions = [
            {
                "condition": one.condition.text,
                "value": one.value,
                "interval": None if one.low is None else [one.low, one.high],
                "holds": one.holds,
            }
            for one in verdicts
        ]
        return dumps({**comparison.to_json(), "fail_on": conditions}, indent=2) + "\n"
    if kind == "markdown":
        from pytest_memeval.compare.render_markdown import markdown_text

        return markdown_text(comparison, lang)
    if kind == "html":
        from pytest_memeval.compare.render_html import html_text

        return html_text(comparison, lang)
    from pytest_memeval.compare.render_terminal import terminal_text

    return terminal_text(comparison, lang, colour=colour) + "\n"


def verdict_text(verdict: Verdict, lang: str) -> str:
    from pytest_memeval.compare.messages import text
    from pytest_memeval.compare.view import signed

    what = "fail_unknown" if verdict.holds is None else "fail_holds" if verdict.holds else "fail_holds_not"
    value = "" if verdict.value is None else f" ({signed(verdict.value)})"
    if verdict.condition.count is not None and verdict.value is not None:
        value = f" ({verdict.value:g})"
    return f"--fail-on {text('fail_met', lang, condition=verdict.condition.text + value, value=text(what, lang))}"


def _conditions(texts: Sequence[str]) -> list[Any]:
    from pytest_memeval.compare.conditions import parse_condition
    from pytest_memeval.metrics.thresholds import ThresholdError
    from pytest_memeval.options import SettingsError

    try:
        return [parse_condition(text) for text in texts]
    except ThresholdError as error:
        raise SettingsError(f"--fail-on: {error}") from None


def _format_of(path: Path) -> str:
    from pytest_memeval.options import SettingsError

    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise SettingsError(f"--output: {path} ends with none of {', '.join(SUFFIXES)}")
    return kind


def wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print(value: str, kind: str, stream: Any = None, *, coloured: bool = False) -> None:
    from pytest_memeval.report.console import console_text

    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None)
    if kind == "json" and (encoding or "").lower().replace("-", "") != "utf8":
        import json

        value = json.dumps(json.loads(value), indent=2)
    print(console_text(value.rstrip("\n"), encoding, coloured=coloured), file=stream)
