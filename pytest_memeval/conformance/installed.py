"""What is installed and usable here, in lines for people."""

from __future__ import annotations

import importlib
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pytest_memeval import __version__
from pytest_memeval.conformance.finding import Finding
from pytest_memeval.extensions import ENGINE_GROUP, METRIC_GROUP, SHIPPED, entry_points, shipped_problem
from pytest_memeval.own_code import named, own_errors

#: What the plugin cannot do without: distribution → module.
CORE = {
    "pytest": "pytest",
    "pytest-xdist": "xdist",
    "PyYAML": "yaml",
    "rapidfuzz": "rapidfuzz",
    "rouge-score": "rouge_score",
    "nltk": "nltk",
    "openai": "openai",
    "pytest-html": "pytest_html",
    "numpy": "numpy",
}
#: Extra → its distributions and modules, and what it is for.
EXTRAS: dict[str, tuple[dict[str, str], str]] = {
    "search": ({"sqlite-vec": "sqlite_vec", "apsw": "apsw", "bm25s": "bm25s"}, "faster search"),
    "benchmarks": ({"ijson": "ijson"}, "large benchmark files"),
    "eval": ({"bert-score": "bert_score", "sentence-transformers": "sentence_transformers"}, "BERTScore, embeddings"),
    "langgraph": ({"langgraph-checkpoint": "langgraph"}, "engine langgraph"),
    "mem0": ({"mem0ai": "mem0"}, "engine mem0"),
    "powermem": ({"powermem": "powermem"}, "engine powermem"),
    "ragas": ({"ragas": "ragas"}, "RAGAS evaluators"),
}
KEYS = ("MEMEVAL_API_KEY", "MEMEVAL_JUDGE_API_KEY", "OPENAI_API_KEY")


def environment() -> Iterator[Finding]:
    """A finding for each thing that matters."""
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield Finding("pytest-memeval", "ok", f"{__version__} at {Path(__file__).parent.parent}")
    for name, module in CORE.items():
        version, problem = _import(name, module)
        yield Finding(name, "failed" if problem else "ok", problem or str(version))
    yield from _plugin()
    yield from _sqlite()
    for extra, (parts, purpose) in EXTRAS.items():
        yield _extra(extra, parts, purpose)
    yield from _settings()
    yield from _engines()
    yield from _metrics()


def _import(name: str, module: str) -> tuple[str | None, str | None]:
    """(version, what is wrong)."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None, "not installed"
    try:
        importlib.import_module(module)
    except own_errors() as error:  # whatever a broken installation does
        return version, f"{version} is installed, but cannot be imported: {named(error)}"
    return version, None


def _plugin() -> Iterator[Finding]:
    names = [point for point in entry_points("pytest11").values() if point.value == "pytest_memeval.plugin"]
    if names:
        yield Finding("plugin", "ok", "pytest loads it by itself")
    else:
        text = "pytest does not know it: install the package, or use pytest -p pytest_memeval.plugin"
        yield Finding("plugin", "warning", text)


def _sqlite() -> Iterator[Finding]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        yield Finding("sqlite", "ok", f"{sqlite3.sqlite_version} with full-text search")
    except sqlite3.OperationalError as error:
        text = f"{sqlite3.sqlite_version} has no FTS5 ({error}): search by words is not possible"
        yield Finding("sqlite", "failed", text)
    finally:
        connection.close()


def _extra(extra: str, parts: dict[str, str], purpose: str) -> Finding:
    item = f"[{extra}]"
    found = {name: _version(name) for name in parts}
    lacking = [
        name for name, version in found.items() if version is None or find_spec(parts[name].split(".")[0]) is None
    ]
    if lacking:
        text = f"{purpose}: {', '.join(lacking)} not installed (pip install 'pytest-memeval[{extra}]')"
        return Finding(item, "not checked", text)
    return Finding(item, "ok", f"{purpose}: {', '.join(f'{name} {version}' for name, version in found.items())}")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _settings() -> Iterator[Finding]:
    from pytest_memeval.user_cache import user_cache_folder

    cache = user_cache_folder()
    place = cache
    while not place.exists() and place != place.parent:
        place = place.parent
    if os.access(place, os.W_OK):
        yield Finding("cache", "ok", str(cache))
    else:
        yield Finding("cache", "warning", f"{cache} cannot be written to: name another with --memeval-cache-dir")
    present = [key for key in KEYS if os.environ.get(key)]
    yield Finding("keys", "ok", f"set: {', '.join(present)}" if present else "none set: fine for everything offline")


def _engines() -> Iterator[Finding]:
    for name in SHIPPED:
        problem = shipped_problem(name)
        yield Finding(f"engine {name}", "not checked" if problem else "ok", problem or "shipped")
    for name, point in sorted(entry_points(ENGINE_GROUP).items()):
        yield _loadable(f"engine {name}", point)


def _metrics() -> Iterator[Finding]:
    for name, point in sorted(entry_points(METRIC_GROUP).items()):
        yield _loadable(f"metric {name}", point)


def _loadable(item: str, point: metadata.EntryPoint) -> Finding:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "?"
    try:
        point.load()
    except own_errors() as error:  # whatever another package does when it is imported
        return Finding(item, "failed", f"{point.value} of {package}: {named(error)}")
    return Finding(item, "ok", f"{point.value} of {package}")
