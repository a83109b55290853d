"""``memeval doctor``: what is installed and usable, and whether an engine, or another part, keeps to its protocol."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.documents.bounds import seconds_problem

if TYPE_CHECKING:
    from pytest_memeval.conformance.finding import Finding
    from pytest_memeval.harness import Harness
    from pytest_memeval.settings.model import Settings

_MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "not checked": "-      "}


def add_doctor_command(commands: Any) -> None:
    """Register ``doctor`` with the sub-commands of ``memeval``."""
    doctor = commands.add_parser(
        "doctor", help="say what is installed and usable; check an engine; exit 1 if something is wrong"
    )
    doctor.add_argument("--engine", metavar="NAME", help="check this engine: a short name, or module:attribute")
    doctor.add_argument(
        "--llm", metavar="NAME", help="chat model for the check of an engine; module:attribute is checked itself, too"
    )
    doctor.add_argument("--matcher", metavar="NAME", help="check this matcher")
    doctor.add_argument("--judge", metavar="NAME", help="check this judge, as module:attribute")
    doctor.add_argument(
        "--evaluator", metavar="NAME", action="append", default=[], help="check this evaluator; repeatable"
    )
    doctor.add_argument("--model", metavar="NAME", help="name of the model on the server")
    doctor.add_argument("--base-url", metavar="URL", help="address of an OpenAI-compatible server")
    doctor.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one tiny case (default 60)")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    if (why := seconds_problem(arguments.timeout)) is not None:
        from pytest_memeval.options import SettingsError

        raise SettingsError(f"--timeout: {why}")
    parts = arguments.matcher or arguments.judge or arguments.evaluator or ":" in (arguments.llm or "")
    if arguments.engine is None and not parts:
        from pytest_memeval.conformance.installed import environment

        return _say(environment(), arguments.json, done="everything needed is there")
    done = "the parts keep to their protocols" if parts else "the engine keeps to the protocol"
    return _say(_checked(arguments), arguments.json, done=done)


def _say(findings: Iterable[Finding], as_json: bool, *, done: str) -> int:
    from pytest_memeval.report.console import console_text
    from pytest_memeval.values import ALL_STAGES

    seen = []
    for finding in findings:
        seen.append(finding)
        if not as_json:
            line = f"{_MARKS[finding.status]} {finding.item:<16} {finding.text}"
            print(console_text(line, sys.stdout.encoding), flush=True)
    failed = [finding.item for finding in seen if finding.status == "failed"]
    if as_json:
        print(json.dumps([asdict(finding) for finding in seen], indent=2, ensure_ascii=True))
    else:
        untried = [finding.item for finding in seen if finding.status == "not checked" and finding.item in ALL_STAGES]
        passed = f"{done}; not checked: {', '.join(untried)}" if untried else done
        print(f"failed: {', '.join(failed)}" if failed else passed)
    return 1 if failed else 0


def _checked(arguments: argparse.Namespace) -> Iterable[Finding]:
    from pytest_memeval.conformance.engine import Check
    from pytest_memeval.harness import Harness
    from pytest_memeval.own_code import relate_to

    import_from_here()
    harness = Harness(_settings(arguments))
    unrelate = relate_to(Path.cwd())
    try:
        if arguments.engine is not None:
            make, fresh = _maker(harness)
            yield from Check(make, harness, harness.build_llm(), fresh=fresh, patience=arguments.timeout).findings()
        yield from _parts(arguments, harness)
    finally:
        harness.close()
        unrelate()


def _parts(arguments: argparse.Namespace, harness: Harness) -> Iterator[Finding]:
    from pytest_memeval.conformance import parts as check
    from pytest_memeval.rag.chosen import build_evaluators

    loop, patience = harness.loop, arguments.timeout
    if ":" in (arguments.llm or ""):
        yield from check.model_findings(harness.build_llm(), loop, patience)
    if arguments.matcher is not None:
        yield from check.matcher_findings(harness.settings.build_matcher())
    judge = harness.build_judge()
    if judge is not None:
        yield from check.judge_findings(judge, loop, patience)
    evaluators = build_evaluators(arguments.evaluator, harness.build_llm, "--evaluator") if arguments.evaluator else []
    for name, evaluator in zip(arguments.evaluator, evaluators, strict=True):
        yield from check.evaluator_findings(name, evaluator, loop, patience)


def import_from_here() -> None:
    """Have modules found where a pytest run in this folder finds them: here, and where ``pythonpath`` says."""
    from pytest_memeval.cli.ini import ini_value

    found = ini_value("pythonpath", Path.cwd())
    places = [found[1] / part for part in found[0].split()] if found is not None else []
    for place in (*places, Path.cwd()):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))


def _settings(arguments: argparse.Namespace) -> Settings:
    from pytest_memeval.options import Option
    from pytest_memeval.settings.checks import check_models
    from pytest_memeval.settings.reading import read_settings

    given = {
        "engine": arguments.engine,
        "llm": arguments.llm,
        "model": arguments.model,
        "base-url": arguments.base_url,
        "matcher": arguments.matcher,
        "judge": arguments.judge,
        "cache": "off" if ":" in (arguments.llm or "") else None,
    }

    def value_of(option: Option) -> Any:
        return given.get(option.name)

    settings = read_settings(
        value_of,
        lambda option: option.ini_default,
        rootdir=Path.cwd(),
        invocation_dir=Path.cwd(),
        called=lambda option: f"--{option.name}",  # as they are named here
    )
    check_models(settings)
    return settings


def _maker(harness: Harness) -> tuple[Callable[[], object], bool]:
    """What gives the engine, and whether it gives a new one each time."""
    return harness.build_engine, harness.build_engine() is not harness.build_engine()
