"""``memeval doctor``: what is installed and usable, and whether an engine keeps to the protocol."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_memeval.conformance_finding import Finding
    from pytest_memeval.harness import Harness
    from pytest_memeval.settings import Settings

_MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED ", "not checked": "-      "}


def add_doctor_command(commands: Any) -> None:
    """Register ``doctor`` with the sub-commands of ``memeval``."""
    doctor = commands.add_parser(
        "doctor", help="say what is installed and usable; check an engine; exit 1 if something is wrong"
    )
    doctor.add_argument("--engine", metavar="NAME", help="check this engine: a short name, or module:attribute")
    doctor.add_argument("--llm", metavar="NAME", help="chat model for the check: embedded (default) or openai")
    doctor.add_argument("--model", metavar="NAME", help="name of the model on the server")
    doctor.add_argument("--base-url", metavar="URL", help="address of an OpenAI-compatible server")
    doctor.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one tiny case (default 60)")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    if arguments.engine is None:
        from pytest_memeval.doctor import environment

        return _say(environment(), arguments.json, done="everything needed is there")
    return _say(_checked(arguments), arguments.json, done="the engine keeps to the protocol")


def _say(findings: Iterable[Finding], as_json: bool, *, done: str) -> int:
    from pytest_memeval.report.console import console_text

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
        print(f"failed: {', '.join(failed)}" if failed else done)
    return 1 if failed else 0


def _checked(arguments: argparse.Namespace) -> Iterable[Finding]:
    from pytest_memeval.conformance import Check
    from pytest_memeval.harness import Harness

    import_from_here()
    harness = Harness(_settings(arguments))
    try:
        make, fresh = _maker(harness)
        yield from Check(make, harness, harness.build_llm(), fresh=fresh, patience=arguments.timeout).findings()
    finally:
        harness.close()


def import_from_here() -> None:
    """Have modules found where a pytest run in this folder finds them: here, and where ``pythonpath`` says."""
    from pytest_memeval.ini import ini_value

    found = ini_value("pythonpath", Path.cwd())
    places = [found[1] / part for part in found[0].split()] if found is not None else []
    for place in (*places, Path.cwd()):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))


def _settings(arguments: argparse.Namespace) -> Settings:
    from pytest_memeval.options import Option
    from pytest_memeval.settings import read_settings

    given = {"engine": arguments.engine, "llm": arguments.llm, "model": arguments.model, "base-url": arguments.base_url}

    def value_of(option: Option) -> Any:
        return given.get(option.name)

    settings = read_settings(value_of, lambda option: option.ini_default, rootdir=Path.cwd(), invocation_dir=Path.cwd())
    settings.check_models()
    return settings


def _maker(harness: Harness) -> tuple[Callable[[], object], bool]:
    """What gives the engine, and whether it gives a new one each time."""
    return harness.build_engine, harness.build_engine() is not harness.build_engine()
