"""``memeval judge-check``: what a judge's verdicts are worth, by known answers and by people's labels."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import refuse_replacing, say

if TYPE_CHECKING:
    from pytest_memeval.judge.controls import ControlQuestion
    from pytest_memeval.judge.human import Agreement, Labels
    from pytest_memeval.judge.protocol import NamedJudge
    from pytest_memeval.judge.trust import Trust


def add_judge_commands(commands: Any) -> None:
    """Register ``judge-check`` with the sub-commands of ``memeval``."""
    check = commands.add_parser("judge-check", help="check a judge on known answers, and against people's labels")
    check.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="questions: a LoCoMo or LongMemEval file, or JSON Lines"
    )
    check.add_argument(
        "--sheet", type=Path, metavar="CSV", help="write the answers of the run FILE there, for people to label"
    )
    check.add_argument("--human", type=Path, metavar="CSV", help="answers with people's labels, to agree with")
    check.add_argument(
        "--controls", type=int, default=100, metavar="N", help="right and wrong answers each (default: 100)"
    )
    check.add_argument("--seed", type=int, default=0, metavar="S", help="seed of their drawing (default: 0)")
    check.add_argument("--mode", default="auto", help="judge mode of every question (default: auto, by its type)")
    check.add_argument(
        "--judge", metavar="NAME", help="a judge of your own, as module:attribute (default: ini memeval_judge)"
    )
    check.add_argument("--model", metavar="NAME", help="the judge's model (default: ini memeval_judge_model)")
    check.add_argument("--base-url", metavar="URL", help="its server (default: ini memeval_judge_base_url)")
    check.add_argument("--prompts", type=Path, metavar="DIR", help="own judge prompts (default: ini memeval_prompts)")
    check.add_argument("--cache", default="auto", metavar="MODE", help="as --memeval-cache (default: auto)")
    check.add_argument("--cache-dir", type=Path, metavar="DIR", help="cache folder, as in memeval cache")
    check.add_argument("--concurrency", type=int, default=8, metavar="N", help="requests at once (default: 8)")
    check.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    check.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from pytest_memeval.judge.human import read_labels
    from pytest_memeval.judge.modes import check_mode
    from pytest_memeval.judge.questions import read_questions
    from pytest_memeval.options import SettingsError
    from pytest_memeval.report.write import write_lines

    if arguments.sheet is not None:
        return _write_sheet(arguments)
    if not arguments.files and arguments.human is None:
        raise SettingsError("memeval judge-check: name a file of questions, or labels with --human")
    for name in ("controls", "concurrency"):
        if getattr(arguments, name) < 1:
            raise SettingsError(f"--{name}: {getattr(arguments, name)} is less than 1")
    if arguments.mode != "auto":
        try:
            check_mode(arguments.mode)
        except ValueError as error:
            raise SettingsError(f"--mode: {error}") from None
    if arguments.json is not None:
        refuse_replacing("--json", arguments.json, "judge")
    # Everything is read before anything is asked: a fault in the second file must not cost the first one's answers.
    questions = [question for path in arguments.files for question in read_questions(path, arguments.mode)]
    labels = None if arguments.human is None else read_labels(arguments.human)
    needs_model = bool(questions) or (labels is not None and any(row.judge is None for row in labels.rows))
    judge = _judge(arguments) if needs_model else None
    figures: dict[str, Any] = {"judge": None if judge is None else judge.identity()}
    good = True
    if arguments.files:
        assert judge is not None or not questions
        good = _check_controls(arguments, judge, questions, figures)
    if labels is not None:
        good = _check_labels(arguments, judge, labels, figures) and good
    if arguments.json is not None:
        write_lines(arguments.json, [json.dumps(figures, indent=2, ensure_ascii=False) + "\n"])
    return 0 if good else 1


def _write_sheet(arguments: argparse.Namespace) -> int:
    from pytest_memeval.cli.judge_sheet import write_sheet
    from pytest_memeval.options import SettingsError

    if len(arguments.files) != 1 or arguments.human is not None:
        raise SettingsError("memeval judge-check --sheet CSV RUN: name one run, and no labels")
    count = write_sheet(arguments.files[0], arguments.sheet)
    say(
        f"{count} answers in {arguments.sheet}: fill in its column human, then"
        f" memeval judge-check --human {arguments.sheet}"
    )
    return 0


def _judge(arguments: argparse.Namespace) -> NamedJudge:
    own = arguments.judge or (None if arguments.model else _ini("memeval_judge"))
    if own is None:
        return _chat_judge(arguments)
    from pytest_memeval.cli.doctor import import_from_here
    from pytest_memeval.options import SettingsError
    from pytest_memeval.own_parts import own_judge

    if arguments.model:
        raise SettingsError("--judge: there is --model, too: one judge is checked")
    import_from_here()
    return own_judge(own, "--judge" if arguments.judge else "memeval_judge")


def _chat_judge(arguments: argparse.Namespace) -> NamedJudge:
    from pytest_memeval.assets.prompts import JUDGE_STAGES, load_prompts
    from pytest_memeval.cli.cache import cache_folder
    from pytest_memeval.judge.chat_judge import ChatJudge
    from pytest_memeval.llm.batch import REQUESTS_FILE_NAME, BatchRequests
    from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
    from pytest_memeval.llm.factory import ModelSetupError, build_chat_model
    from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings
    from pytest_memeval.options import SettingsError

    folder = cache_folder(arguments.cache_dir)
    url = arguments.base_url or _ini("memeval_judge_base_url") or _ini("memeval_base_url") or DEFAULT_BASE_URL
    prompts = arguments.prompts or _ini_path("memeval_prompts")
    try:
        settings = ModelSettings(
            model=arguments.model or _ini("memeval_judge_model"),
            base_url=url,
            role="judge",
            endpoint_name=_endpoint(url),
        )
        if settings.model is None:
            raise SettingsError("memeval judge-check: name the judge with --model or --judge (or their ini twins)")
        model = build_chat_model(
            "openai",
            settings=settings,
            cache=AnswerCache(folder / CACHE_FILE_NAME, readonly=arguments.cache == "replay"),
            mode=arguments.cache,
            requests=BatchRequests(folder / REQUESTS_FILE_NAME) if arguments.cache == "batch" else None,
        )
    except SettingsError:
        raise
    except (ModelSetupError, ValueError) as error:
        raise SettingsError(str(error)) from None
    return ChatJudge(model, prompts=load_prompts(prompts).resolve(None, JUDGE_STAGES))


def _endpoint(url: str) -> str | None:
    """The name under which runs keep this judge's answers, where they have one for it."""
    shared = url == (_ini("memeval_base_url") or url) and _ini("memeval_judge_base_url") in (None, url)
    return _ini("memeval_judge_endpoint") or (_ini("memeval_endpoint") if shared else None)


def _ini(name: str) -> str | None:
    from pytest_memeval.cli.ini import ini_value

    found = ini_value(name, Path.cwd())
    return None if found is None else found[0].strip() or None


def _ini_path(name: str) -> Path | None:
    from pytest_memeval.cli.ini import ini_value

    found = ini_value(name, Path.cwd())
    return found[1] / found[0] if found is not None and found[0].strip() else None


def _check_controls(
    arguments: argparse.Namespace,
    judge: NamedJudge | None,
    questions: Sequence[ControlQuestion],
    figures: dict[str, Any],
) -> bool:
    from pytest_memeval.judge.controls import make_controls
    from pytest_memeval.judge.trust import ask_controls, trust_of
    from pytest_memeval.llm.sync import run_sync

    controls = make_controls(questions, arguments.controls, seed=arguments.seed)
    for line in _setup_lines(judge, len(questions), controls.skipped):
        say(line)
    if judge is None or not controls.controls:
        say("No control answer can be made of these questions.")
        return False
    trust = trust_of(controls, run_sync(ask_controls(judge, controls.controls, concurrency=arguments.concurrency)))
    figures["controls"] = trust.to_json()
    for line in _trust_lines(trust):
        say(line)
    return trust.trustworthy is True


def _setup_lines(judge: NamedJudge | None, count: int, skipped: dict[str, int]) -> list[str]:
    lines = []
    if judge is not None:
        identity = judge.identity()
        place = "" if identity["endpoint"] is None else f" on {identity['endpoint']}"
        lines.append(f"judge {identity['model']}{place}")
    left = "".join(f", {number} without controls ({why})" for why, number in skipped.items())
    return [*lines, f"{count} questions{left}"]


def _trust_lines(trust: Trust) -> list[str]:
    from pytest_memeval.judge.trust import LEAST_BOUND

    found = trust.to_json()
    lines = []
    for name, words in (
        ("sensitivity", "right answers taken for right"),
        ("specificity", "wrong answers taken for wrong"),
    ):
        rate = found[name]
        errors = f", {rate['errors']} without a verdict" if rate["errors"] else ""
        if rate["value"] is None:
            lines.append(f"{name} -: no verdict{errors}")
            continue
        hits = round(rate["value"] * rate["n"])
        low, high = rate["interval"]
        lines.append(f"{name} {rate['value']:.3f} [{low:.3f}, {high:.3f}]: {hits} of {rate['n']} {words}{errors}")
    lines += [*_table("question type", found["by_type"]), *_table("made as", found["by_variant"]), ""]
    if trust.trustworthy is None:
        reasons = Counter(outcome.error for outcome in trust.outcomes if outcome.error)
        why = f": {reasons.most_common(1)[0][0]}" if reasons else ""
        return [*lines, f"The judge could not be checked{why}"]
    bound = f"{LEAST_BOUND:g}"
    if trust.trustworthy:
        return [*lines, f"The judge can be trusted: both lower bounds are at least {bound}."]
    return [*lines, f"The judge is not trustworthy: a lower bound is below {bound}."]


def _table(title: str, rows: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    width = max(len(name) for name in (title, *rows))
    lines = ["", f"{title:<{width}}  {'right':>12}  {'wrong':>12}"]
    for name, kinds in rows.items():
        cells = [
            f"{kinds[kind]['as_expected']} of {kinds[kind]['judged']}" if kind in kinds else "-"
            for kind in ("right", "wrong")
        ]
        lines.append(f"{name or '(none)':<{width}}  {cells[0]:>12}  {cells[1]:>12}")
    return lines


def _check_labels(
    arguments: argparse.Namespace, judge: NamedJudge | None, labels: Labels, figures: dict[str, Any]
) -> bool:
    from pytest_memeval.judge.human import agreement_with
    from pytest_memeval.llm.sync import run_sync

    verdicts = run_sync(_verdicts(judge, labels, arguments))
    agreement = agreement_with(labels.rows, verdicts, seed=arguments.seed)
    figures["human"] = {**agreement.to_json(), "unlabelled": labels.blank}
    for line in _agreement_lines(agreement, len(labels.rows), labels.blank):
        say(line)
    return agreement.kappa.agreement is not None


async def _verdicts(judge: NamedJudge | None, labels: Labels, arguments: argparse.Namespace) -> list[bool | None]:
    import asyncio

    from pytest_memeval.judge.chat_judge import judge_refusal
    from pytest_memeval.judge.modes import RULE_MODE, mode_for
    from pytest_memeval.judge.verdict import JudgeError

    slots = asyncio.Semaphore(arguments.concurrency)

    async def one(row: Any) -> bool | None:
        if row.judge is not None:
            return bool(row.judge)
        wanted = row.mode if arguments.mode == "auto" else arguments.mode
        mode = mode_for(row.question_type, row.question_id, wanted)
        if mode == RULE_MODE:
            return judge_refusal(row.prediction).right
        assert judge is not None
        async with slots:
            try:
                verdict = await judge.judge(
                    row.question, row.ground_truth, row.prediction, mode, question_date=row.question_date
                )
            except JudgeError:
                return None
        return verdict.right

    return await asyncio.gather(*(one(row) for row in labels.rows))


def _agreement_lines(agreement: Agreement, rows: int, blank: int) -> list[str]:
    kappa = agreement.kappa
    left = f", {blank} rows without a label" if blank else ""
    errors = f", {agreement.errors} without a verdict" if agreement.errors else ""
    lines = [f"{rows} answers with people's labels{left}{errors}"]
    if kappa.agreement is None:
        return [*lines, f"kappa -: {kappa.reason}"]
    interval = f" [{kappa.low:.3f}, {kappa.high:.3f}]" if kappa.low is not None else f" (no interval: {kappa.reason})"
    value = f"kappa {kappa.value:.3f}{interval}" if kappa.value is not None else f"kappa -: {kappa.reason}"
    return [
        *lines,
        f"{value}, the same in {kappa.agreement:.1%}",
        f"of {agreement.right[1]} that people call right it takes {agreement.right[0]} for right,"
        f" of {agreement.wrong[1]} that they call wrong {agreement.wrong[0]} for wrong",
    ]
