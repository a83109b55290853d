"""The console command ``memeval``: what works on files and stored runs without a pytest session."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_memeval import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command. Returns 0, 1 (something was found or missed) or 2 (an input cannot be used)."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.report.reader import ReportError
    from pytest_memeval.settings import SettingsError

    try:
        return command(arguments)
    except (DocumentError, ReportError, SettingsError) as error:
        _say(str(error), sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe went away
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memeval", description="Evaluation of LLM memory systems: files and runs.")
    parser.add_argument("--version", action="version", version=f"pytest-memeval {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    validate = commands.add_parser("validate", help="check case files and list every problem; exit 1 if there is any")
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE")
    validate.add_argument("--registry", type=Path, help="registry for files that name none")
    validate.add_argument("--templates", type=Path, help="templates for files that name none")
    validate.set_defaults(command=_validate)

    schema = commands.add_parser("schema", help="print the JSON Schema of a case file, a report or another format")
    schema.add_argument("what", nargs="?", default="cases", choices=("cases", "report", "registry", "template"))
    schema.set_defaults(command=_schema)

    rescore = commands.add_parser("rescore", help="score a stored run again: other matcher, labels or gates")
    rescore.add_argument("run", type=Path, help="run folder, its report.json, or 'latest'")
    rescore.add_argument("--root", type=Path, help="folder that the run's case file paths are relative to")
    rescore.add_argument("--matcher", help="indel, levenshtein, difflib or optimal (default: the run's)")
    rescore.add_argument("--match-threshold", type=float, help="similarity from which two memories match")
    rescore.add_argument("--unknown-label", choices=("drop", "fp"))
    rescore.add_argument("--gate", action="append", default=[], metavar="GATE", help="repeatable")
    rescore.add_argument("--output", type=Path, help="folder for the new reports (default: RUN/rescored)")
    rescore.add_argument("--lang", choices=("en", "zh"), default="en")
    rescore.set_defaults(command=_rescore)

    init = commands.add_parser("init", help="copy the shipped prompts into the project, to edit them there")
    init.add_argument("--prompts", action="store_true", required=True, help="copy the prompts")
    init.add_argument("folder", nargs="?", type=Path, default=Path("prompts"))
    init.set_defaults(command=_init)
    return parser


def _say(text: str, stream: Any = None) -> None:
    from pytest_memeval.report.console import console_text

    stream = stream or sys.stdout
    print(console_text(text, getattr(stream, "encoding", None)), file=stream)


def _validate(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.loader import load_case_set

    registry = load_registry(arguments.registry)
    templates = load_templates(arguments.templates, registry)
    found = 0
    for path in arguments.files:
        if not path.is_file():
            _say(f"{path}: no such file", sys.stderr)
            return 2
        case_set = load_case_set(path, registry=registry, templates=templates)
        problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
        for problem in problems:
            _say(str(problem))
        for warning in case_set.warnings:
            _say(f"{warning} (warning)")
        found += len(problems)
        words = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        _say(f"{path}: {len(case_set.cases)} cases, {words}")
    return 1 if found else 0


def _schema(arguments: argparse.Namespace) -> int:
    if arguments.what == "cases":
        from pytest_memeval.cases.schema import case_schema

        schema = case_schema()
    else:
        file = Path(__file__).parent / "data" / "schemas" / f"{arguments.what}.schema.json"
        schema = json.loads(file.read_text(encoding="utf-8"))
    _say(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0


def _rescore(arguments: argparse.Namespace) -> int:
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.report.calls import read_calls
    from pytest_memeval.report.console import console_text
    from pytest_memeval.report.reader import ReportError, find_report, load_report
    from pytest_memeval.report.terminal import summary_lines
    from pytest_memeval.report.write import latest_folder, write_reports
    from pytest_memeval.rescore import Rescoring, case_files, rescore_report
    from pytest_memeval.settings import parse_gate_options

    place = arguments.run
    if str(place) == "latest" and not place.exists():
        found = latest_folder(Path.cwd())
        if found is None:
            raise ReportError("There is no run in .memeval/runs of this folder.")
        place = found
    report = load_report(place)
    folder = find_report(place).parent
    options = report["config"].get("options", {})
    root = arguments.root or Path(report["config"].get("rootdir", "."))
    change = Rescoring(
        scoring=_scoring(arguments, report, options),
        gates=parse_gate_options(arguments.gate, "command line"),
        expect=(),
    )
    sets = _load_sets(case_files(report, root), options)
    problems = [problem for loaded in sets.values() for problem in loaded.problems]
    if problems:
        raise DocumentError(problems)
    again, _ = rescore_report(report, sets, change)
    target = arguments.output or folder / "rescored"
    calls = folder / "calls.jsonl.gz"
    write_reports(target, again, read_calls(calls).values() if calls.exists() else (), arguments.lang)
    for text, _ in summary_lines(again, arguments.lang, folder=str(target)):
        print(console_text(text, sys.stdout.encoding))
    failed = again["summary"]["passed_p0"] is False or again["counts"]["errored"] or again["counts"]["not_run"]
    return 1 if failed else 0


def _scoring(arguments: argparse.Namespace, report: dict[str, Any], options: dict[str, Any]) -> Any:
    from pytest_memeval.metrics.matching import build_matcher
    from pytest_memeval.scoring import ScoringOptions
    from pytest_memeval.settings import SettingsError

    name = arguments.matcher or options.get("matcher", "indel")
    threshold = arguments.match_threshold
    try:
        matcher = build_matcher(name, options.get("match_threshold", 0.5) if threshold is None else threshold)
    except ValueError as error:
        raise SettingsError(f"--matcher: {error}") from None
    unknown = arguments.unknown_label or options.get("unknown_label", "drop")
    return ScoringOptions(matcher, unknown, report["stages"]["input"] == "chained")


def _load_sets(files: dict[str, Path], options: dict[str, Any]) -> dict[str, Any]:
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.report.reader import ReportError

    def path_of(key: str) -> Path | None:
        return Path(options[key]) if options.get(key) else None

    registry = load_registry(path_of("registry"))
    templates = load_templates(path_of("templates"), registry)
    for name, file in files.items():
        if not file.is_file():
            raise ReportError(f"The run's case file {name} is not at {file}; name its folder with --root.")
    return {name: load_case_set(file, registry=registry, templates=templates) for name, file in files.items()}


def _init(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.prompts import copy_prompts

    copy_prompts(arguments.folder)
    _say(f"Prompts are in {arguments.folder}; use them with memeval_prompts = {arguments.folder.as_posix()}")
    return 0
