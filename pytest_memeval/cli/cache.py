"""``memeval cache``: what is recorded, what can go, and the recorded answers as a file to commit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import refuse_replacing, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_memeval.llm.cache import AnswerCache


def add_cache_commands(commands: Any) -> None:
    """Register ``cache stats|prune|export|import`` with the sub-commands of ``memeval``."""
    cache = commands.add_parser("cache", help="recorded answers: stats, prune, export, import")
    actions = cache.add_subparsers(required=True, metavar="ACTION")

    def add(name: str, help_text: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=help_text)
        parser.add_argument(
            "--cache-dir",
            type=Path,
            metavar="DIR",
            help="cache folder (default: the project's ini memeval_cache_dir, else the user's cache folder)",
        )
        parser.set_defaults(command=lambda arguments: _guarded(command, arguments))
        return parser

    add("stats", "how many answers of which models are recorded", _stats)

    prune = add("prune", "remove the answers that fit all the conditions given", _prune)
    prune.add_argument("--older-than", type=_days, metavar="DAYS", help="recorded more than this many days ago")
    prune.add_argument("--endpoint", metavar="NAME", help="recorded from this server")
    prune.add_argument("--model", metavar="NAME", help="asked of this model")
    prune.add_argument("--stage", metavar="STAGE", help="given to this prompt stage")
    prune.add_argument("--pending", action="store_true", help="also forget the requests that wait for an answer")

    export = add("export", "write the answers as sorted JSONL, to read, compare and commit", _export)
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument("--model", metavar="NAME", help="only this model's answers")
    export.add_argument("--stage", metavar="STAGE", help="only this prompt stage's answers")

    take = add("import", "take answers in: an export, or the results of a batch", _import)
    take.add_argument("file", type=Path, nargs="+", metavar="FILE")


def cache_folder(given: Path | None) -> Path:
    """The cache folder: the one given, else the ini's of the project in the current folder, else the user's."""
    from pytest_memeval.cli.ini import ini_value
    from pytest_memeval.user_cache import user_cache_folder

    if given is not None:
        return given
    found = ini_value("memeval_cache_dir", Path.cwd())
    return user_cache_folder() if found is None or not found[0].strip() else found[1] / found[0].strip()


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def _guarded(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """A cache file that cannot be used is one sentence, and what the cache warns of is another."""
    import warnings

    from pytest_memeval.llm.cache_file import CacheError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return command(arguments)
        except (CacheError, OSError) as error:
            say(str(error), sys.stderr)
            return 2
        finally:
            for warning in caught:
                say(f"warning: {warning.message}", sys.stderr)


@contextmanager
def _opened(arguments: argparse.Namespace, *, must_exist: bool = True) -> Iterator[AnswerCache]:
    from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
    from pytest_memeval.llm.cache_file import CacheError

    path = cache_folder(arguments.cache_dir) / CACHE_FILE_NAME
    if must_exist and not path.is_file():
        raise CacheError(f"there is no cache {path}; name its folder with --cache-dir")
    with AnswerCache(path) as cache:
        yield cache


def _stats(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as cache:
        stats = cache.stats()
    say(
        f"{stats.path}: {_count(stats.answers, 'answer')}, {_count(stats.embeddings, 'embedding')}, {_size(stats.size)}"
    )
    for (endpoint, model), number in stats.by_model.items():
        say(f"  {number:>7}  {model or 'model not named'} on {endpoint}")
    for stage, number in stats.by_stage.items():
        say(f"  {number:>7}  {stage or 'stage not named'}")
    if stats.usage.input_tokens is not None:
        say(f"tokens: {stats.usage.input_tokens} in, {stats.usage.output_tokens or 0} out")
    if stats.oldest:
        say(f"recorded from {stats.oldest} to {stats.newest}")
    if stats.pending:
        say(f"{_count(stats.pending, 'request')} waiting for an answer")
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    conditions = {name: getattr(arguments, name) for name in ("endpoint", "model", "stage")}
    if arguments.older_than is None and not arguments.pending and not any(conditions.values()):
        say("memeval cache prune: name a condition (--older-than, --endpoint, --model, --stage, --pending)", sys.stderr)
        return 2
    before = None if arguments.older_than is None else datetime.now(UTC) - timedelta(days=arguments.older_than)
    with _opened(arguments) as cache:
        removed = cache.prune(before=before, pending=arguments.pending, **conditions)
        left = len(cache)
    say(f"removed {_count(removed, 'row')}; {_count(left, 'answer')} left in {cache.path}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from pytest_memeval.llm.export import export_jsonl

    refuse_replacing("FILE", arguments.file, "answers")
    with _opened(arguments) as cache:
        answers, vectors = export_jsonl(cache, arguments.file, model=arguments.model, stage=arguments.stage)
    also = f" and {_count(vectors, 'embedding')}" if vectors else ""
    say(f"{_count(answers, 'answer')}{also} written to {arguments.file}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from pytest_memeval.llm.batch import REQUESTS_FILE_NAME, BatchRequests, import_answers

    skipped = 0
    with _opened(arguments, must_exist=False) as cache:
        requests = BatchRequests(cache.path.with_name(REQUESTS_FILE_NAME))
        for file in arguments.file:
            result = import_answers(file, cache, requests=requests)
            for problem in result.skipped:
                say(f"{problem} (skipped)", sys.stderr)
            skipped += len(result.skipped)
            present = f", {result.present} known already" if result.present else ""
            left_out = f", {len(result.skipped)} skipped" if result.skipped else ""
            vectors = f", {_count(result.embeddings, 'embedding')} added" if result.embeddings else ""
            say(f"{file}: {_count(result.added, 'answer')} added{present}{left_out}{vectors}")
        waiting = len(cache.pending_keys())
        if waiting:
            say(f"{_count(waiting, 'request')} still waiting for an answer: {requests.path}")
    return 1 if skipped else 0


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
