"""The console command ``memeval``: what works on files and stored runs without a pytest session."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_memeval import __version__
from pytest_memeval.cli.streams import readers_may_go
from pytest_memeval.cli.support import configured, refuse_foreign, say, told_of

#: Formats that have a JSON Schema.
SCHEMAS = (
    "cases",
    "predictions",
    "qa",
    "rag",
    "report",
    "registry",
    "template",
    "tuning",
    "engine-http",
    "distractors",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command. Returns 0, 1 (something was found or missed) or 2 (an input cannot be used)."""
    with readers_may_go():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    unknown = _unknown_command(parser, words)
    if unknown is not None:
        say(unknown, sys.stderr)
        return 2
    arguments = parser.parse_args(words)
    command: Callable[[argparse.Namespace], int] = arguments.command
    from pytest_memeval.assets.prompts import PromptError
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.reader import ReportError

    try:
        return command(arguments)
    except (DocumentError, ReportError, SettingsError, PromptError) as error:
        say(str(error), sys.stderr)
        return 2
    except OSError as error:
        say(f"{error.filename or 'memeval'}: {error.strerror or error}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except SystemExit as error:  # of the project's code: no command leaves that way, and no status of its own is told
        from pytest_memeval.failures import told

        say(f"memeval {words[0]}: code that it called ended the process: {told(error)}", sys.stderr)
        return 2


def _unknown_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    from pytest_memeval.documents.problems import did_you_mean

    commands = next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    if not words or words[0].startswith("-") or words[0] in commands:
        return None
    return f"memeval: unknown command {words[0]!r}{did_you_mean(words[0], commands)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memeval", description="Evaluation of LLM memory systems: files and runs.")
    parser.add_argument("--version", action="version", version=f"pytest-memeval {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    validate = commands.add_parser("validate", help="check case files and list every problem; exit 1 if there is any")
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE")
    validate.add_argument("--registry", type=Path, help="registry for files that name none")
    validate.add_argument("--templates", type=Path, help="templates for files that name none")
    validate.add_argument("--strict", action="store_true", help="exit 1 for a warning, too")
    validate.add_argument("--hints", action="store_true", help="list every hint, however many there are")
    validate.add_argument("--stats", action="store_true", help="print lengths, languages and what the cases cover")
    validate.set_defaults(command=_validate)

    schema = commands.add_parser("schema", help="print the JSON Schema of a case file, a report or another format")
    schema.add_argument("what", nargs="?", default="cases", choices=SCHEMAS)
    schema.set_defaults(command=_schema)

    rescore = commands.add_parser("rescore", help="score a stored run again: other matcher, labels or gates")
    rescore.add_argument("run", type=Path, help="run folder, its report.json, or 'latest'")
    rescore.add_argument("--root", type=Path, help="folder that the run's case file paths are relative to")
    rescore.add_argument("--matcher", help="as --memeval-matcher (default: the run's)")
    rescore.add_argument("--match-threshold", type=float, help="similarity from which two memories match")
    rescore.add_argument("--unknown-label", choices=("drop", "fp"))
    rescore.add_argument("--gate", action="append", default=[], metavar="GATE", help="repeatable")
    rescore.add_argument("--output", type=Path, help="folder for the new reports (default: RUN/rescored)")
    rescore.add_argument("--lang", choices=("en", "zh"), default="en")
    rescore.set_defaults(command=_rescore)

    init = commands.add_parser("init", help="add a first case, an engine to replace, a CI job and the configuration")
    init.add_argument("--prompts", action="store_true", help="copy the shipped prompts instead, to edit them there")
    init.add_argument(
        "folder", nargs="?", type=Path, help="the project (default: this folder); with --prompts: prompts"
    )
    init.set_defaults(command=_init)

    from pytest_memeval.cli.bisect import add_bisect_command
    from pytest_memeval.cli.cache import add_cache_commands
    from pytest_memeval.cli.compare import add_compare_command
    from pytest_memeval.cli.doctor import add_doctor_command
    from pytest_memeval.cli.history import add_history_command
    from pytest_memeval.cli.judge import add_judge_commands
    from pytest_memeval.cli.labels import add_label_commands
    from pytest_memeval.cli.merge import add_merge_command
    from pytest_memeval.cli.power import add_power_command
    from pytest_memeval.cli.proxy import add_proxy_command
    from pytest_memeval.cli.show import add_show_command
    from pytest_memeval.cli.tune import add_tune_command

    add_cache_commands(commands)
    add_compare_command(commands)
    add_judge_commands(commands)
    add_history_command(commands)
    add_doctor_command(commands)
    add_bisect_command(commands)
    add_label_commands(commands)
    add_merge_command(commands)
    add_power_command(commands)
    add_proxy_command(commands)
    add_show_command(commands)
    add_tune_command(commands)
    return parser


def _validate(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.prompts import load_prompts
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.folders import case_files_in, forgotten_in, passed_over_in
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.cli.kinds import say_kind_set
    from pytest_memeval.cli.labels import say_review
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.kinds import kind_of

    files = case_files_in(arguments.files)
    registry = load_registry(arguments.registry or configured("memeval_registry"))
    templates = load_templates(arguments.templates or configured("memeval_templates"), registry)
    if (prompts := configured("memeval_prompts")) is not None:
        load_prompts(prompts)
    found = 0
    for path in files:
        kind = kind_of(path)
        if kind is not None:
            found += say_kind_set(kind.load(path, None), strict=arguments.strict)
            continue
        case_set = load_case_set(path, registry=registry, templates=templates)
        problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
        if case_set.meta.prompts is not None:
            try:
                load_prompts(case_set.meta.prompts)
            except DocumentError as error:
                problems.extend(error.problems)
        for problem in problems:
            say(str(problem))
        for warning in case_set.warnings:
            say(f"{warning} (warning)")
        warned = len(case_set.warnings) + say_review(case_set, all_hints=arguments.hints, stats=arguments.stats)
        found += len(problems) + (warned if arguments.strict else 0)
        cases = "1 case" if len(case_set.cases) == 1 else f"{len(case_set.cases)} cases"
        words = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        say(f"{path}: {cases}, {words}")
    for folder in arguments.files:
        for line in (*forgotten_in(folder, files), *passed_over_in(folder, files)) if folder.is_dir() else ():
            say(f"note: {line}", sys.stderr)
    return 1 if found else 0


def _schema(arguments: argparse.Namespace) -> int:
    if arguments.what == "cases":
        from pytest_memeval.cases.schema import case_schema

        schema = case_schema()
    else:
        file = Path(__file__).parent.parent / "data" / "schemas" / f"{arguments.what}.schema.json"
        schema = json.loads(file.read_text(encoding="utf-8"))
    # Escapes, and not question marks, where the console cannot show a character: this is read by programs.
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    print(json.dumps(schema, indent=2, ensure_ascii=encoding != "utf8"))
    return 0


def _rescore(arguments: argparse.Namespace) -> int:
    from pytest_memeval.report.reader import ReportError, find_report, load_report, readable
    from pytest_memeval.report.write import latest_folder

    place = arguments.run
    if str(place) == "latest" and not place.exists():
        found = latest_folder(Path.cwd())
        if found is None:
            raise ReportError("There is no run in .memeval/runs of this folder.")
        place = found
    report = load_report(place)
    with readable(str(place)):
        return _rescored(arguments, report, find_report(place).parent)


def _rescored(arguments: argparse.Namespace, report: dict[str, Any], folder: Path) -> int:
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.report.calls import read_calls
    from pytest_memeval.report.console import console_text
    from pytest_memeval.report.reader import ReportError
    from pytest_memeval.report.terminal import summary_lines
    from pytest_memeval.report.write import write_reports
    from pytest_memeval.rescore import Rescoring, case_files, rescore_report
    from pytest_memeval.settings.texts import parse_expectations, parse_gate_options

    options = report["config"].get("options", {})
    root = arguments.root or Path(report["config"].get("rootdir", "."))
    change = Rescoring(
        scoring=_scoring(arguments, report, options),
        gates=_gates(arguments.gate),
        ini_gates=parse_gate_options(options.get("gate_ini") or (), "ini"),
        expect=parse_expectations(options.get("expect") or ()),
    )
    files = case_files(report, root)
    sets = _load_sets(files, options)
    _say_files(files, chosen=arguments.root is not None)
    problems = [problem for loaded in sets.values() for problem in loaded.problems]
    if problems:
        raise DocumentError(problems)
    with told_of(arguments.matcher, "--matcher"):
        again, _ = rescore_report(report, sets, change)
    target = arguments.output or folder / "rescored"
    if target.resolve() == folder.resolve():
        raise ReportError(
            f"{target} is the run itself: its own report would be lost. Name another folder with --output."
        )
    refuse_foreign(target)
    calls = folder / "calls.jsonl.gz"
    write_reports(target, again, read_calls(calls).values() if calls.exists() else (), arguments.lang)
    for text, _ in summary_lines(again, arguments.lang, folder=str(target)):
        print(console_text(text, sys.stdout.encoding))
    failed = again["summary"]["passed_p0"] is False or again["counts"]["errored"] or again["counts"]["not_run"]
    return 1 if failed else 0


def _say_files(files: dict[str, Path], *, chosen: bool) -> None:
    """Which case files are used, where they are not this folder's; with a warning where this folder has others of the
    same names, as in a second checkout of the project."""
    for name, file in files.items():
        here = Path.cwd() / name
        if here.is_file() and here.samefile(file):
            continue
        say(f"labels are read from {file}", sys.stderr)
        if here.is_file() and not chosen:
            say(f"warning: this folder holds another {name}, which is not used; --root . uses it", sys.stderr)


def _gates(texts: Sequence[str]) -> Any:
    from pytest_memeval.options import SettingsError
    from pytest_memeval.settings.texts import parse_gate_options

    try:
        return parse_gate_options(texts, "command line")
    except SettingsError as error:
        raise SettingsError(str(error).replace("--memeval-gate", "--gate", 1)) from None


def _scoring(arguments: argparse.Namespace, report: dict[str, Any], options: dict[str, Any]) -> Any:
    from pytest_memeval.options import SettingsError
    from pytest_memeval.scoring import ScoringOptions
    from pytest_memeval.settings.texts import matcher_of

    name = arguments.matcher or options.get("matcher", "indel")
    threshold = arguments.match_threshold
    what = "--matcher" if threshold is None else "--match-threshold"
    if ":" in name and arguments.matcher is None:
        # A report that somebody else wrote must not name code that is run here.
        raise SettingsError(f"the run was matched by {name!r}: name that, or another, with --matcher")
    if ":" in name:
        from pytest_memeval.cli.doctor import import_from_here

        import_from_here()
    elif threshold is None:
        threshold = options.get("match_threshold")
    matcher = matcher_of(name, threshold, what)
    unknown = arguments.unknown_label or options.get("unknown_label", "drop")
    return ScoringOptions(matcher, unknown, report["stages"]["input"] == "chained")


def _load_sets(files: dict[str, Path], options: dict[str, Any]) -> dict[str, Any]:
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.kinds import kind_of
    from pytest_memeval.report.reader import ReportError

    def path_of(key: str) -> Path | None:
        return Path(options[key]) if options.get(key) else None

    registry = load_registry(path_of("registry"))
    templates = load_templates(path_of("templates"), registry)
    for name, file in files.items():
        if not file.is_file():
            raise ReportError(f"The run's case file {name} is not at {file}; name its folder with --root.")
    return {
        name: kind.load(file, None)
        if (kind := kind_of(file)) is not None
        else load_case_set(file, registry=registry, templates=templates)
        for name, file in files.items()
    }


def _init(arguments: argparse.Namespace) -> int:
    if arguments.prompts:
        from pytest_memeval.assets.prompts import copy_prompts

        folder = arguments.folder or Path("prompts")
        copy_prompts(folder)
        say(f"Prompts are in {folder}; use them with memeval_prompts = {folder.as_posix()}")
        return 0
    from pytest_memeval.cli.starter import start
    from pytest_memeval.options import SettingsError

    folder = arguments.folder or Path()
    if not folder.is_dir():
        raise SettingsError(f"{folder}: no such folder")
    for step in start(folder):
        say(f"{step.verb:<6} {step.file}" + (f": {step.text}" if step.text else ""))
    say("Run pytest cases/ now. Then put your own memory system into the engine, and your own cases beside the first.")
    return 0
