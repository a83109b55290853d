"""Who may import whom: data flows one way, and few modules know pytest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pytest_memeval"

KNOW_PYTEST = {
    "case_files.py",
    "fixtures.py",
    "hooks/budget.py",
    "hooks/cases.py",
    "hooks/controller.py",
    "hooks/ended.py",
    "hooks/foreign_fixtures.py",
    "hooks/forgotten_fixtures.py",
    "hooks/html.py",
    "hooks/junit_xml.py",
    "hooks/options.py",
    "hooks/plan.py",
    "hooks/in_turn.py",
    "hooks/interrupted.py",
    "hooks/interrupts.py",
    "hooks/stuck_threads.py",
    "hooks/item_hooks.py",
    "hooks/prefetch.py",
    "hooks/run_end.py",
    "hooks/sharding.py",
    "hooks/stop_at_once.py",
    "hooks/stopping.py",
    "hooks/workers.py",
    "items.py",
    "kind_items.py",
    "nodes/cases.py",
    "nodes/direct.py",
    "nodes/keys.py",
    "nodes/runs.py",
    "nodes/tracebacks.py",
    "nodes/warning_filters.py",
    "plugin.py",
    "qa_items.py",
    "resume/items.py",
    "session.py",
    "variant_items.py",
    "workers/crashes.py",
    "workers/last_words.py",
    "workers/schedule.py",
    "workers/scopes.py",
    "workers/sendable.py",
}
PYTEST_MODULES = {"pytest", "_pytest", "pluggy", "xdist"}

#: Sub-package → modules (or whole sub-packages) of this package that it may import besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "documents": set(),
    "routing": set(),
    "metrics": {"documents.problems", "estimates", "values"},
    "assets": {"documents", "values"},
    "cases": {"assets", "documents", "metrics", "options", "truths", "values"},
    "datasets": {"documents", "values"},
    "llm": {"copies", "documents", "loop_time", "loops", "own_code", "results", "values", "writing"},
    "engine": {
        "__version__",
        "assets",
        "documents",
        "estimates",
        "llm",
        "outputs",
        "own_code",
        "results",
        "search",
        "values",
    },
    "search": {"documents.problems", "llm.protocol", "values"},
    "tuning": {"documents", "llm", "metrics", "own_code", "report", "search", "values"},
    "judge": {
        "own_code",
        *(
            "assets",
            "datasets",
            "documents",
            "failures",
            "llm",
            "loop_time",
            "loops",
            "metrics",
            "recording",
            "results",
        ),
        "values",
    },
    "qa": {
        *("assets", "cases", "datasets", "documents", "engine", "failures", "harness", "judge", "kinds", "llm"),
        *(
            "__version__",
            "copies",
            "extensions",
            "identity",
            "lazy_names",
            "loop_time",
            "loops",
            "metrics",
            "options",
            "output_shapes",
            "outputs",
            "plan",
            "own_code",
            "recording",
            "results",
            "search",
            "settings",
            "values",
        ),
    },
    "rag": {
        *(
            "cases",
            "copies",
            "documents",
            "failures",
            "harness",
            "kinds",
            "llm",
            "loop_time",
            "loops",
            "metrics",
            "recording",
            "report",
        ),
        *("__version__", "extensions", "options", "identity", "lazy_names", "own_code", "plan", "results", "settings"),
        *("copies", "values"),
    },
    "kinds": {"custom_metrics", "expectations", "failures", "loop_time", "loops", "results", "time_limit"},
    "report": {
        *("aggregate", "case_counts", "documents.problems", "gates", "metrics", "qa_figures", "results", "values"),
        "writing",
    },
    "compare": {
        *("aggregate", "assets.prompts", "case_counts", "documents.problems", "gates", "metrics", "report", "results"),
    },
    "settings": {
        *("assets", "documents", "extensions", "llm", "metrics", "options", "own_parts", "owned_files", "scoring"),
        *("search", "stages", "user_cache", "writing"),
    },
    "measuring": {
        *(
            "case_clock",
            "copies",
            "corpus",
            "engine",
            "failures",
            "live_memories",
            "loop_time",
            "loops",
            "output_shapes",
            "outputs",
        ),
        *("own_code", "recording", "results", "stages", "time_limit", "values"),
    },
    "trials": {
        *("case_record", "custom_metrics", "engine", "kinds", "loops", "measuring", "metrics", "outputs", "restoring"),
        *("results", "runner", "time_limit"),
    },
    "resume": {
        *("__version__", "case_clock", "engine", "identity", "llm", "options", "report", "restoring", "results"),
        "trials",
    },
    "nodes": {
        *(
            "assets",
            "cases",
            "copies",
            "corpus",
            "documents",
            "engine",
            "engine_faults",
            "extensions",
            "plan",
            "report",
            "resume",
        ),
        *("results", "runner", "session", "stages", "trials", "variant_harness"),
    },
    "history": {"compare", "llm", "metrics", "report"},
    "runs": {
        *("__version__", "assets", "code_scopes", "compare", "engine", "garbage", "history", "llm", "options", "rag"),
        *("report", "results", "resume", "settings", "stopping", "values", "writing"),
    },
    "workers": {
        *("case_files", "case_record", "documents", "kinds", "own_code", "report.console", "results", "scopes"),
        *("session", "settings.variants"),
    },
    "conformance": {
        *("__version__", "cases", "datasets", "engine", "engine_faults", "extensions", "failures", "harness", "judge"),
        *(
            "live_memories",
            "llm",
            "loop_time",
            "loops",
            "metrics",
            "outputs",
            "own_code",
            "qa",
            "rag",
            "results",
            "runner",
        ),
        *("stages", "user_cache", "values"),
    },
}
#: Sub-packages at the top, each a way in, which may import whatever they need → the only modules that may import them.
ON_TOP: dict[str, set[str]] = {"api": set(), "cli": {"__main__"}, "hooks": {"plugin"}}
#: The same as :data:`MAY_IMPORT`, for type checking only.
MAY_NAME: dict[str, set[str]] = {
    "metrics": {"cases.models"},
    "tuning": {"cases.models"},
    "kinds": {"documents.problems", "harness", "metrics", "resume.items"},
    "measuring": {"assets", "cases.models", "llm", "metrics", "scoring", "search"},
    "resume": {"assets", "cases.models", "harness", "kinds", "runner", "settings"},
    "nodes": {"harness", "hooks.prefetch", "items", "llm", "routing"},
    "workers": {"cases", "runs.recorder"},
}
#: Imports beyond that, each with its reason.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("kinds/registry.py", "documents.braces"): "a file written as JSON tells its kind by a key, on whatever line",
    ("cases/skeleton.py", "llm.redaction"): "drafts of cases are made from people's logs, which may hold keys",
    (
        "cases/statistics.py",
        "report.console",
    ): "its table is set for a terminal, whose width of characters is known there",
    ("qa/kind.py", "qa_items"): "a kind names the class of its files, as pytest nodes",
    ("metrics/calibration.py", "documents.reader"): "labelled pairs are read from a file; nothing in a run calls this",
}


def imports(source: str, package: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """(full name, whether for type checking only) of everything that a module imports, at its top or inside functions.

    ``package`` is what relative imports are relative to.
    """
    tree = ast.parse(source)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join((*package[: len(package) - node.level + 1], *([node.module] if node.module else ())))
            start = base if node.level else node.module or ""
            # ``from package import module`` names a module of it
            folder = PACKAGE.parent.joinpath(*start.split("."))
            if start.split(".")[0] == PACKAGE.name and folder.is_dir():
                yield from ((f"{start}.{alias.name}", id(node) in typing) for alias in node.names)
            else:
                yield start, id(node) in typing


@cache
def modules() -> list[tuple[str, list[tuple[str, bool]]]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        package = (PACKAGE.name, *relative.parts[:-1])
        found.append((relative.as_posix(), list(imports(path.read_text(encoding="utf-8"), package))))
    return found


def own(name: str) -> str | None:
    """The name inside this package, ``None`` for another's."""
    first, _, rest = name.partition(".")
    return rest if first == PACKAGE.name and rest else None


def covered(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def strangers(module: str, found: list[tuple[str, bool]]) -> set[str]:
    """What a module of a sub-package imports of this package and may not, exceptions aside."""
    part = module.partition("/")[0]
    result = set()
    for name, typing in found:
        inside = own(name)
        if inside is None or covered(inside, {part} | MAY_IMPORT[part]):
            continue
        if not (typing and covered(inside, MAY_NAME.get(part, set()))):
            result.add(inside)
    return result


def test_few_modules_know_pytest() -> None:
    knowing = {module for module, found in modules() if any(name.split(".")[0] in PYTEST_MODULES for name, _ in found)}
    assert knowing == KNOW_PYTEST


def test_every_sub_package_has_its_rule() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*MAY_IMPORT, *ON_TOP}


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_data_flows_one_way(part: str) -> None:
    found = {
        (module, name)
        for module, names in modules()
        if module.startswith(f"{part}/")
        for name in strangers(module, names)
    }
    # An exception that is no longer needed has to go.
    assert found == {entry for entry in EXCEPTIONS if entry[0].startswith(f"{part}/")}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pytest_memeval.report.build", {"report.build"}),
        ("def f():\n    from pytest_memeval.report import build", {"report.build"}),
        ("from pytest_memeval import plugin", {"plugin"}),
        ("from ..engine.protocol import StageContext", {"engine.protocol"}),
        ("from .. import engine", {"engine"}),
        ("from pytest_memeval.cases.models import EvalCase", {"cases.models"}),
        ("from .stats import wilson\nfrom . import l1\nimport json\nfrom pytest_memeval.values import Memory", set()),
        ("if TYPE_CHECKING:\n    from pytest_memeval.cases.models import EvalCase", set()),
        ("if TYPE_CHECKING:\n    from pytest_memeval.cases.loader import load_cases", {"cases.loader"}),
    ],
)
def test_the_rules_see_every_kind_of_import(source: str, found: set[str]) -> None:
    assert strangers("metrics/l1.py", list(imports(source, (PACKAGE.name, "metrics")))) == found


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The modules that reach themselves again, as groups."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in arrows.get(todo.pop(), set()) - seen:
                seen.add(name)
                todo.append(name)
        reach[start] = seen
    groups = {tuple(sorted({other for other in reach[one] if one in reach.get(other, ())})) for one in arrows}
    return sorted(list(group) for group in groups if group)


def arrows() -> dict[str, set[str]]:
    """Module → the modules that it imports, be it late. What is named for types alone may look up."""
    known = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): found for name, found in modules()}

    def home(name: str) -> str:
        """The module that a name is of: ``a.b`` for ``a.b`` and for the ``c`` of ``a.b.c``."""
        return name if name in known else name.rpartition(".")[0]

    return {
        one: {home(inside) for name, typing in found if not typing and (inside := own(name))} - {one, "", "__version__"}
        for one, found in known.items()
    }


def test_no_module_comes_back_to_itself() -> None:
    """An import inside a function is late, but no way around the order."""
    found = {one: names for one, names in arrows().items() if one != "__init__"}
    assert circles(found) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]


#: Parts that reach themselves again although no module does.
ENTWINED = {
    # Messages and numbers are written by the report's part; gates and thresholds need them before there is a report.
    ("expectations", "gates", "kinds", "report"),
    # A kind names the class of its files, as pytest nodes, which are made with the kind's cases.
    ("qa", "qa_items"),
}


def test_no_part_comes_back_to_itself() -> None:
    """A sub-package, or a module beside them, is a part."""
    parts: dict[str, set[str]] = {}
    for one, names in arrows().items():
        if one != "__init__":
            own_part = one.partition(".")[0]
            parts.setdefault(own_part, set()).update({name.partition(".")[0] for name in names} - {own_part})
    assert {tuple(group) for group in circles(parts)} == ENTWINED


@pytest.mark.parametrize("part", sorted(ON_TOP))
def test_what_is_on_top_carries_nothing(part: str) -> None:
    users = {
        one
        for one, names in arrows().items()
        if not one.startswith(f"{part}.") and any(name.partition(".")[0] == part for name in names)
    }
    assert users == ON_TOP[part]
