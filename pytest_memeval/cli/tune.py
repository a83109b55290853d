"""``memeval tune``: a grid over search parameters on a case set's labelled queries."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.cli.support import configured, refuse_replacing, say

if TYPE_CHECKING:
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.llm.embedding_usage import EmbeddingLedger, EmbeddingUsage
    from pytest_memeval.llm.protocol import Embedder
    from pytest_memeval.tuning.analysis import TuningResult
    from pytest_memeval.tuning.builtin import VectorRanks
    from pytest_memeval.tuning.grid import GridSearch
    from pytest_memeval.tuning.queries import Document, QuerySet
    from pytest_memeval.tuning.rankers import Ranker

DEFAULT_GRID = ("rrf_k=10,30,60,90,120", "bm25_weight=0.3:0.7:0.1")

#: Seconds between two lines of progress where a terminal does not show them in place.
_QUIET = 10.0


def add_tune_command(commands: Any) -> None:
    """Register ``tune`` with the sub-commands of ``memeval``."""
    tune = commands.add_parser(
        "tune",
        help=(
            "try every combination of search parameters on a case set's queries and say whether any is better than"
            " luck; exit 0 for any conclusion, 1 where something was not measured (without queries: all), 2 for an"
            " input that cannot be used, 130 when stopped by Ctrl-C (what was found so far is written)"
        ),
    )
    tune.add_argument("set", type=Path, metavar="SET", help="case file with expected_search_results")
    tune.add_argument(
        "--grid",
        nargs="+",
        metavar="NAME=VALUES",
        default=list(DEFAULT_GRID),
        help=(
            "values to try: rrf_k=10,30,60 or bm25_weight=0.3:0.7:0.1 (from:to:step); also top_k, bm25_k1, bm25_b"
            f" (default: {' '.join(DEFAULT_GRID)})"
        ),
    )
    tune.add_argument(
        "--current",
        nargs="+",
        metavar="NAME=VALUE",
        default=[],
        help="values that stand now (default: the reference engine's)",
    )
    tune.add_argument("--metric", default="ndcg@10", help="ndcg@k, recall@k, hit@k, mrr or map (default: ndcg@10)")
    tune.add_argument(
        "--embedder",
        default="lexical",
        metavar="NAME",
        help="vectors of the built-in search: lexical, openai, sentence-transformers, module:attribute or none",
    )
    tune.add_argument("--model", metavar="NAME", help="embedding model of openai or sentence-transformers")
    tune.add_argument("--base-url", metavar="URL", help="server of the embedder openai (default: OpenAI's)")
    tune.add_argument("--rpm", type=float, metavar="N", help="requests a minute to the embedder openai at most")
    tune.add_argument("--tpm", type=float, metavar="N", help="tokens a minute to the embedder openai at most")
    tune.add_argument("--cache-dir", type=Path, metavar="DIR", help="cache folder of embeddings, as in memeval cache")
    tune.add_argument(
        "--search",
        metavar="TARGET",
        help="tune another system: module:attribute of a function search(query, params), or an http:// address",
    )
    tune.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="of one call over HTTP, or of an async function (default: 30)",
    )
    tune.add_argument("--threads", type=int, default=1, metavar="N", help="calls of --search at a time")
    tune.add_argument("--export-corpus", type=Path, metavar="FILE", help="only write the memories as JSON Lines")
    tune.add_argument("--folds", type=int, default=5, metavar="N", help="folds of the cross-validation")
    tune.add_argument(
        "--group-by",
        choices=("case", "query"),
        default="case",
        help="what varies independently: a case with all its queries, or each query",
    )
    tune.add_argument("--seed", type=int, default=0, metavar="N", help="deals folds and signs")
    tune.add_argument("--output", type=Path, metavar="DIR", help="folder of the report (default: .memeval/tune/<id>)")
    tune.add_argument("--lang", choices=("en", "zh"), default="en")
    tune.set_defaults(command=_tune)


def _tune(arguments: argparse.Namespace) -> int:
    from pytest_memeval.engine.protocol import StageError
    from pytest_memeval.llm.cache_file import CacheError
    from pytest_memeval.llm.protocol import ChatModelError
    from pytest_memeval.options import SettingsError
    from pytest_memeval.search.errors import SearchError
    from pytest_memeval.tuning.grid import MeasurementError
    from pytest_memeval.tuning.queries import TuningError
    from pytest_memeval.tuning.space import SpaceError

    try:
        return _run(arguments)
    except KeyboardInterrupt:
        say("stopped before the current values were measured: there is nothing to write", sys.stderr)
        return 130
    except MeasurementError as error:
        say(str(error), sys.stderr)
        return 1
    except (TuningError, SpaceError, SearchError, CacheError) as error:
        raise SettingsError(str(error)) from None
    except (ChatModelError, StageError) as error:
        say(f"the embedder failed: {error}", sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    from pytest_memeval.corpus import corpus_of
    from pytest_memeval.documents.bounds import seconds_problem
    from pytest_memeval.tuning.conclusion import NO_QUERIES
    from pytest_memeval.tuning.document import FILES
    from pytest_memeval.tuning.grid import GridSearch
    from pytest_memeval.tuning.queries import Document, TuningError, queries_of
    from pytest_memeval.tuning.space import parse_space

    if (why := seconds_problem(arguments.timeout)) is not None:
        raise TuningError(f"--timeout: {why}")
    if arguments.threads < 1:
        raise TuningError(f"--threads: {arguments.threads} is less than 1")
    for option in ("rpm", "tpm"):
        limit = getattr(arguments, option)
        if limit is not None and not 1 <= limit < float("inf"):
            raise TuningError(f"--{option} must be 1 or more, not {limit:g}")
    space = parse_space(arguments.grid, arguments.current, free=arguments.search is not None)
    grid = GridSearch(space, metric=arguments.metric, folds=arguments.folds, seed=arguments.seed)
    case_set = _load(arguments.set)
    corpus = [Document(str(memory.id), memory.content) for memory in corpus_of(case_set).memories]
    queries = queries_of(case_set.cases, group_by=arguments.group_by)
    if arguments.export_corpus is not None:
        return _export(arguments.export_corpus, corpus)
    if arguments.output is not None:
        # Before anything is measured: a grid over a server takes long.
        for name, kind in FILES.items():
            refuse_replacing("--output", arguments.output / name, kind)
    started = time.perf_counter()
    ranker, search = _ranker(arguments, corpus, queries)
    with _Progress() as progress:
        result = grid.search(ranker, queries, progress=progress)
    document = _document(arguments, grid, result, search, len(corpus), time.perf_counter() - started)
    _report(document, arguments.output, arguments.lang)
    if result.partial:
        return 130
    return 1 if result.conclusion in (None, NO_QUERIES) or any(result.unmeasured.values()) else 0


def _document(
    arguments: argparse.Namespace,
    grid: GridSearch,
    result: TuningResult,
    search: dict[str, Any],
    memories: int,
    seconds: float,
) -> dict[str, Any]:
    """What ``tuning.json`` holds."""
    from pytest_memeval.report.write import new_run_id
    from pytest_memeval.tuning.document import SCHEMA_VERSION

    section = result.section()
    if grid.metric.k is not None and 2 * grid.metric.k > memories:
        section["notes"].append({"note": "small_corpus", "k": grid.metric.k, "memories": memories})
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "tuning",
        "run_id": new_run_id(),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "duration_seconds": round(seconds, 3),
        "case_set": arguments.set.as_posix(),
        "corpus": {"memories": memories},
        "search": search,
        "config": {
            "grid": {name: list(values) for name, values in grid.space.axes.items()},
            "metric": str(grid.metric),
            "folds": arguments.folds,
            "seed": arguments.seed,
            "group_by": arguments.group_by,
        },
        "rrf": section,
    }


def _report(document: dict[str, Any], output: Path | None, lang: str) -> None:
    from pytest_memeval.report.write import make_home
    from pytest_memeval.tuning.document import terminal_lines, write_tuning
    from pytest_memeval.tuning.messages import text

    folder = output or make_home(Path()) / "tune" / document["run_id"]
    write_tuning(folder, document, lang)
    for line in terminal_lines(document, lang):
        say(line)
    say(text("files", lang, folder=folder.as_posix()))


def _load(path: Path) -> CaseSet:
    """The case set, all of whose cases have to be sound: a query left out would change the result unseen."""
    from pytest_memeval.assets.registry import load_registry
    from pytest_memeval.assets.templates import load_templates
    from pytest_memeval.cases.loader import load_case_set
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.tuning.queries import TuningError

    if not path.is_file():
        raise TuningError(f"{path}: no such case file")
    registry = load_registry(configured("memeval_registry"))
    templates = load_templates(configured("memeval_templates"), registry)
    case_set = load_case_set(path, registry=registry, templates=templates)
    problems = [*case_set.problems, *(problem for case in case_set.cases for problem in case.problems)]
    if problems:
        raise DocumentError(problems)
    return case_set


def _export(file: Path, corpus: Sequence[Document]) -> int:
    from pytest_memeval.report.write import write_lines

    refuse_replacing("--export-corpus", file, "corpus")
    rows = (json.dumps({"id": one.id, "content": one.content}, ensure_ascii=False) + "\n" for one in corpus)
    write_lines(file, rows)
    say(f"{len(corpus)} memories written to {file}")
    return 0


def _ranker(
    arguments: argparse.Namespace, corpus: Sequence[Document], queries: QuerySet
) -> tuple[Ranker, dict[str, Any]]:
    """What is tuned, and its description for the report."""
    from pytest_memeval.llm.embedding_usage import EmbeddingLedger
    from pytest_memeval.llm.redaction import redact
    from pytest_memeval.tuning.builtin import BuiltinRoutes
    from pytest_memeval.tuning.external import load_search
    from pytest_memeval.tuning.queries import check_truths
    from pytest_memeval.tuning.rankers import CallableRanker, RouteRanker

    check_truths(queries.queries, [document.id for document in corpus])
    if arguments.search is not None:
        search = load_search(arguments.search, corpus, timeout=arguments.timeout)
        known = frozenset(document.id for document in corpus)
        return CallableRanker(search, known, arguments.threads, arguments.timeout), {
            "kind": "external",
            "target": redact(arguments.search),
        }
    ledger = EmbeddingLedger()
    embedder = _embedder(arguments, ledger)
    vectors = _vectors(corpus, queries, embedder) if embedder is not None and queries.queries else None
    description = {
        "kind": "built-in",
        "embedder": arguments.embedder if embedder is None else embedder.name,
        "backend": None if vectors is None else vectors.backend,
        "why": None if vectors is None else vectors.why,
        "dimension": None if vectors is None else vectors.dimension,
        **_asked(ledger.take(), arguments.model),
    }
    return RouteRanker(BuiltinRoutes(corpus, queries.queries, vectors)), description


def _vectors(corpus: Sequence[Document], queries: QuerySet, embedder: Embedder) -> VectorRanks:
    """The vector route's ranks. What an embedder of the user's own raises is told as a StageError."""
    from pytest_memeval.engine.protocol import StageError
    from pytest_memeval.llm.cache_file import CacheError
    from pytest_memeval.llm.protocol import ChatModelError
    from pytest_memeval.llm.redaction import redact
    from pytest_memeval.own_code import named, own_errors
    from pytest_memeval.tuning.builtin import vector_ranks
    from pytest_memeval.tuning.queries import TuningError

    try:
        return vector_ranks(corpus, queries.queries, embedder)
    except (TuningError, StageError, ChatModelError, CacheError):
        raise
    except own_errors() as error:  # whatever an embedder of the project's does
        raise StageError(redact(named(error)), kind="embedder") from None


def _asked(usage: EmbeddingUsage, model: str | None) -> dict[str, Any]:
    """What an embedding server was asked for, with its list price; nothing where it was asked for nothing."""
    from pytest_memeval.llm.cost import load_prices

    if not usage:
        return {}
    price = load_prices().find(model)
    cost = None if price is None else usage.input_tokens * price.input / 1e6
    return {"embeddings": {**usage.to_json(), "spent_usd": cost}}


def _embedder(arguments: argparse.Namespace, ledger: EmbeddingLedger) -> Embedder | None:
    """What the built-in search embeds texts with, which adds what it sends to ``ledger``; ``None`` for none. Sends
    nothing."""
    from pytest_memeval.cli.cache import cache_folder
    from pytest_memeval.embedders import build_embedder
    from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
    from pytest_memeval.llm.rate import RateLimiter
    from pytest_memeval.llm.settings import DEFAULT_BASE_URL, ModelSettings
    from pytest_memeval.tuning.external import import_object
    from pytest_memeval.tuning.queries import TuningError

    name, model, address = arguments.embedder, arguments.model, arguments.base_url
    if model is not None and name not in ("openai", "sentence-transformers"):
        raise TuningError(f"--model {model} needs --embedder openai or sentence-transformers, not {name}")
    if address is not None and name != "openai":
        raise TuningError(f"--base-url needs --embedder openai, not {name}")
    if name == "none":
        return None
    if ":" in name:
        given: Embedder = import_object(name, "--embedder")
        return given
    if name != "openai":
        return build_embedder(name, model=model)
    if model is None:
        raise TuningError("--embedder openai needs the name of a model: --model NAME")
    try:
        settings = ModelSettings(model=model, base_url=address or DEFAULT_BASE_URL)
    except ValueError as error:
        raise TuningError(f"--base-url: {error}") from None
    cache = AnswerCache(cache_folder(arguments.cache_dir) / CACHE_FILE_NAME)
    limiter = RateLimiter(arguments.rpm, arguments.tpm)
    return build_embedder(name, settings=settings, cache=cache, limiter=limiter, ledger=ledger)


class _Progress:
    """Says on standard error how far a long run is: in place on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._started = time.monotonic()
        self._width = 0

    def __enter__(self) -> _Progress:
        return self

    def __call__(self, done: int, total: int, best: float | None) -> None:
        now = time.monotonic()
        in_place = sys.stderr.isatty()
        waited = now - (self._shown or self._started)
        if waited < (0.2 if in_place else _QUIET):
            return
        self._shown = now
        left = (now - self._started) / done * (total - done)
        line = f"{done} of {total} combinations, about {left:.0f} s left"
        if best is not None:
            line += f", best so far {best:.4f}"
        if in_place:
            self._width = max(self._width, len(line))
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
        else:
            say(line, sys.stderr)

    def __exit__(self, *_: object) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
