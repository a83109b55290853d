"""What a project calls as one of this plugin's fixtures is called, and pytest takes for none: ``@pytest.fixture`` was
forgotten, and the plugin's own would be measured in silence."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import pytest
from _pytest.fixtures import getfixturemarker

from pytest_memeval.hooks.fixture_names import (
    PACKAGE,
    PREFIX,
    Misspelt,
    all_definitions,
    is_defined_in,
    misspelt_fixtures,
    nearest_of,
    our_names,
)
from pytest_memeval.options import OPTIONS
from pytest_memeval.session import ini_value


def warn_of_meant_fixtures(session: pytest.Session) -> None:
    """Name a fixture, or what should be one, that was meant to be one of ours: the reference engine would be measured
    in silence."""
    config = session.config
    requested = (name for item in session.items for name in getattr(item, "fixturenames", ()))
    definitions = all_definitions(session._fixturemanager)
    told = " ".join(
        f"{getattr(config.option, option.dest, None)} {ini_value(config, option) if option.ini else ''}"
        for option in OPTIONS
    )
    found = (
        *misspelt_fixtures(definitions, requested, config.rootpath),
        *forgotten_fixtures(definitions, config.pluginmanager.get_plugins(), config.rootpath, told),
    )
    for message, file, line in found:
        try:
            warnings.warn_explicit(pytest.PytestConfigWarning(message), None, file, line)
        except pytest.PytestConfigWarning:  # where warnings are errors
            raise pytest.UsageError(f"{file}:{line}: {message}") from None


def forgotten_fixtures(
    definitions: Mapping[str, Sequence[Any]], plugins: Iterable[object], root: Path, told: str
) -> Iterator[Misspelt]:
    """What the conftests and plugins under ``root`` have by the name of a fixture of ours, or nearly so, and is none.

    Nothing of a module in which a fixture replaces that of ours, nor of what ``told``, the values of the run's options,
    name as ``module:attribute``. What is only nearly called so was meant otherwise where code of its module uses it.
    """
    ours = our_names(definitions)
    for module in plugins:
        file = getattr(module, "__file__", None)
        if not isinstance(module, ModuleType) or not file or not _is_below(Path(file), root):
            continue
        if module.__name__.partition(".")[0] == PACKAGE:
            continue
        for name, value in list(vars(module).items()):
            near = _meant(name, value, ours, module)
            if near is None or f":{name}" in told or any(is_defined_in(module, one) for one in definitions[near]):
                continue
            if name == near or name not in _used_names(module):
                yield Misspelt(_sentence(name, near, value), file, _line_of(name, file))


def _is_below(file: Path, root: Path) -> bool:
    return file.is_relative_to(root) and "site-packages" not in file.relative_to(root).parts


def _meant(name: str, value: object, ours: Sequence[str], module: ModuleType) -> str | None:
    """Which fixture of ours the value was meant to be."""
    if name.startswith(("__", "pytest_")) or isinstance(value, ModuleType) or getfixturemarker(value) is not None:
        return None
    is_code = isinstance(value, FunctionType | type)
    origin = str(getattr(value if is_code else type(value), "__module__", ""))
    if origin.partition(".")[0] == PACKAGE:
        return None
    if name in ours:
        return name
    # Of names that are only near, those of data and of what was imported say something else.
    if not (origin == module.__name__ or not is_code) or (not is_code and origin == "builtins"):
        return None
    if not (isinstance(value, FunctionType) or name.startswith(PREFIX)):
        return None
    return nearest_of(name, ours)


def _used_names(module: ModuleType) -> set[str]:
    """The names that code of the module asks for, functions in functions and methods included."""
    found: set[str] = set()
    waiting: list[object] = list(vars(module).values())
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CodeType):
            found |= {*one.co_names, *one.co_freevars}
            waiting += one.co_consts
        elif isinstance(one, type):
            waiting += vars(one).values() if one.__module__ == module.__name__ else ()
        elif isinstance(one, property):
            waiting.append(one.fget)
        elif isinstance(one, FunctionType | staticmethod | classmethod) or getfixturemarker(one) is not None:
            waiting.append(getattr(inspect.unwrap(cast("Any", one)), "__code__", None))
    return found


def _sentence(name: str, near: str, value: object) -> str:
    if isinstance(value, FunctionType):
        what, remedy = "a function", "add @pytest.fixture"
    else:
        what = "a class" if isinstance(value, type) else f"an object of type {type(value).__name__}"
        remedy = f"write a function {near} with @pytest.fixture that returns it"
    if name == near:
        return f"{name} is {what} and no fixture, so it replaces nothing of memeval's; {remedy}"
    if isinstance(value, FunctionType):
        remedy = f"call it so, and {remedy}"
    return f"{name} is {what} and no fixture, and nothing uses it; did you mean {near!r}? Then {remedy}"


def _line_of(name: str, file: str) -> int:
    """Where the module gives itself the name."""
    try:
        body = ast.parse(Path(file).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return 1
    for node in ast.walk(ast.Module(body=body, type_ignores=[])):
        match node:
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                names = {found}
            case ast.Assign(targets=targets):
                names = {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=found)):
                names = {found}
            case ast.Import(names=several) | ast.ImportFrom(names=several):
                names = {one.asname or one.name for one in several}
            case _:
                continue
        if name in names:
            return node.lineno
    return 1
