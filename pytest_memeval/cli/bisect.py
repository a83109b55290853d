"""``memeval bisect``: runs versions, or takes their runs from before, and finds the first that regressed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import configured, say

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptStore
    from pytest_memeval.compare.bisect import BisectResult, Step

#: Statuses with which pytest ends when the cases have run.
RAN = (0, 1)
#: What a run is marked as that did not get to its last case.
CUT = ("aborted", "decided")
ARGUMENTS_NAME = "bisect.json"


def add_bisect_command(commands: Any) -> None:
    """Register ``bisect`` with the sub-commands of ``memeval``."""
    bisect = commands.add_parser("bisect", help="find the first prompt version that made a metric worse")
    bisect.add_argument("--metric", required=True, metavar="PATH", help="such as l1.dimension_micro_f1")
    bisect.add_argument("--good", required=True, metavar="VERSION", help="a version that was good, such as v001")
    bisect.add_argument("--bad", required=True, metavar="VERSION", help="a later version that is not")
    bisect.add_argument(
        "--stage", metavar="STAGE", help="only this prompt stage's version (l1, l15, l2); others active"
    )
    bisect.add_argument("--alpha", type=float, default=0.05, metavar="X", help="level of the whole search (0.05)")
    bisect.add_argument("--runs", type=Path, default=Path(".memeval/bisect"), metavar="DIR", help="where runs are kept")
    bisect.add_argument("--fresh", action="store_true", help="run every version anew (after a change of the engine)")
    bisect.add_argument("--prompts", type=Path, metavar="DIR", help="prompts folder (default: the project's)")
    bisect.add_argument("--lang", choices=("en", "zh"), default="en")
    bisect.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="case files, and after -- options for pytest")
    bisect.set_defaults(command=_bisect)


def _bisect(arguments: argparse.Namespace) -> int:
    from pytest_memeval.assets.prompts import load_prompts
    from pytest_memeval.compare.bisect import bisect

    path, lower = _metric(arguments.metric)
    if not 0 < arguments.alpha < 1:
        _refuse(f"--alpha: {arguments.alpha} is not between 0 and 1")
    folder = arguments.prompts or configured("memeval_prompts")
    store = load_prompts(folder)
    versions = version_range(store, arguments.good, arguments.bad, arguments.stage)
    runner = _Runner(arguments, store, folder)
    lang = arguments.lang
    say(_text("bisect.versions", lang, versions=", ".join(versions), metric=str(path)))
    result = bisect(
        versions,
        runner.report,
        path,
        lower_is_better=lower,
        alpha=arguments.alpha,
        on_step=lambda step: say(step_text(step, lang)),
    )
    for line in result_lines(result, arguments.runs, lang):
        say(line)
    if not runner.asked:
        say(_text("bisect.no_prompts", lang))
    return 0 if result.outcome == "found" else 1


def _metric(name: str) -> tuple[Any, bool]:
    from pytest_memeval.metrics.thresholds import ThresholdError, parse_path

    try:
        path = parse_path(name)
    except ThresholdError as error:
        _refuse(f"--metric: {error}")
    spec = path.spec
    if spec is not None and (spec.better == "neither" or spec.kind == "count"):
        _refuse(f"--metric: {name} has no better and worse, or is a count: nothing regresses in it")
    return path, spec is not None and spec.better == "lower"


def version_range(store: PromptStore, good: str, bad: str, stage: str | None = None) -> list[str]:
    """The frozen versions from ``good`` to ``bad`` in their order, of one prompt stage or of any; ``@working`` comes
    last. Raises PromptError for one that does not exist, SettingsError for a bad one that is not after the good."""
    from pytest_memeval.assets.prompts import PROMPT_STAGES, WORKING, PromptError, stage_name
    from pytest_memeval.documents.problems import did_you_mean

    stages = [stage_name(stage)] if stage else list(PROMPT_STAGES)
    known = {version for name in stages for version in store.versions(name)}
    ordered = sorted(known - {WORKING}, key=lambda version: int(version[1:])) + ([WORKING] if WORKING in known else [])
    for version in (good, bad):
        if version not in ordered:
            raise PromptError(f"prompt version {version!r} does not exist{did_you_mean(version, ordered)}")
    first, last = ordered.index(good), ordered.index(bad)
    if first >= last:
        _refuse(f"--bad {bad} does not come after --good {good}")
    chosen = ordered[first : last + 1]
    return chosen if bad == WORKING else [version for version in chosen if version != WORKING]


class _Runner:
    """Runs versions in processes of their own, and knows which runs can be used again."""

    def __init__(self, arguments: argparse.Namespace, store: PromptStore, prompts: Path | None) -> None:
        self._arguments, self._store = arguments, store
        #: Whether a model was asked in any of the runs.
        self.asked = False
        self._words = list(arguments.pytest)
        if arguments.prompts is not None:
            self._words += ["--memeval-prompts", str(arguments.prompts)]

    def report(self, version: str) -> Mapping[str, Any]:
        found = self._report(version)
        self.asked = self.asked or (found.get("usage") or {}).get("calls") != 0
        return found

    def _report(self, version: str) -> Mapping[str, Any]:
        from pytest_memeval.report.reader import ReportError, load_report

        lang = self._arguments.lang
        stage = self._arguments.stage
        spec = f"{stage}={version}" if stage else version
        folder = self._arguments.runs / (f"{stage}-{version}" if stage else version).replace("@", "")
        hashes = self._store.resolve(spec).hashes
        if not self._arguments.fresh:
            try:
                old = load_report(folder)
            except ReportError:
                old = None
            if old is not None and self._same_arguments(folder) and is_usable(old, hashes):
                say(_text("bisect.reused", lang, version=version, folder=str(folder)))
                return old
        say(_text("bisect.runs", lang, version=version, folder=str(folder)))
        command = [sys.executable, "-m", "pytest", "-q", *self._words, "--memeval-prompt-version", spec]
        done = subprocess.run(
            [*command, "--memeval-output", str(folder), "--memeval-no-gate"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode not in RAN:
            tail = " | ".join(done.stdout.strip().splitlines()[-3:])
            raise ReportError(f"pytest ended with status {done.returncode} on version {version}: {tail}")
        (folder / ARGUMENTS_NAME).write_text(json.dumps(self._words), encoding="utf-8")
        return load_report(folder)

    def _same_arguments(self, folder: Path) -> bool:
        try:
            words: Sequence[str] = json.loads((folder / ARGUMENTS_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return words == self._words


def is_usable(report: Mapping[str, Any], hashes: Mapping[str, str]) -> bool:
    """Whether a run of before is that of these prompt texts, over whole files whose cases are still the same."""
    if report.get("prompt_hashes") != dict(hashes) or report.get("partial") in CUT or report.get("not_run"):
        return False
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.documents.problems import DocumentError

    root = Path((report.get("config") or {}).get("rootdir", "."))
    for name in report["case_sets"]:
        then = {entry["case_id"]: entry["content_hash"] for entry in report["per_case"] if entry["set"] == name}
        try:
            now = {case.case_id: case.content_hash for case in load_case_set(root / name).cases}
        except (DocumentError, OSError):
            return False
        if any(now.get(case) != digest for case, digest in then.items()):
            return False
        if report.get("partial") is None and now.keys() != then.keys():
            return False
    return True


def step_text(step: Step, lang: str) -> str:
    from pytest_memeval.compare.view import p_text, signed

    result = step.result
    interval = "" if result.low is None or result.high is None else f" [{signed(result.low)}, {signed(result.high)}]"
    key = "worse" if step.worse else "better" if step.better else "noise"
    values = {"version": step.version, "against": step.against, "difference": signed(result.difference) + interval}
    lost = _text("bisect.lost", lang, count=step.lost) if step.lost else ""
    said = _text(f"bisect.{key}", lang)
    return _text("bisect.step", lang, **values, p=p_text(result.p_value), cases=step.cases, finding=said) + lost


def result_lines(result: BisectResult, runs: Path, lang: str) -> list[str]:
    """What the search says at its end."""
    lines = [_text("bisect.alpha", lang, alpha=f"{result.alpha:.3g}", count=len(result.steps))]
    if result.outcome == "found":
        lines.append(_text("bisect.found", lang, first=result.first, before=result.before))
        lines.append(
            f"memeval compare {(runs / str(result.before)).as_posix()} {(runs / str(result.first)).as_posix()}"
        )
    elif result.outcome == "not_worse":
        lines.append(_text("bisect.not_worse", lang))
    elif result.outcome == "incomparable":
        lines.append(_text("bisect.incomparable", lang, reason=result.reason))
    else:
        lines.append(_text("bisect.unclear", lang, candidates=", ".join(result.candidates)))
    return lines


def _text(key: str, lang: str, **values: Any) -> str:
    from pytest_memeval.compare.messages import text

    return text(key, lang, **values)


def _refuse(why: str) -> Any:
    from pytest_memeval.options import SettingsError

    raise SettingsError(why)
