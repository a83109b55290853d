"""What others add: objects named ``module:attribute``, engines and metrics of installed packages.

A package offers an engine under a short name with an entry point of group ``memeval.engines``, a metric with one of
group ``memeval.metrics``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.own_code import named, own_errors, text_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pytest_memeval.harness import Harness

ENGINE_GROUP = "memeval.engines"
METRIC_GROUP = "memeval.metrics"
#: Engine of this package → where it is made.
SHIPPED: Mapping[str, str] = {
    "reference": "pytest_memeval.engine.reference.engine:ReferenceEngine",
    "langgraph": "pytest_memeval.engine.adapters.langgraph:LanggraphEngine",
    "mem0": "pytest_memeval.engine.adapters.mem0:Mem0Engine",
    "powermem": "pytest_memeval.engine.adapters.powermem:PowerMemEngine",
    "sgme": "pytest_memeval.engine.adapters.sgme:SgmeEngine",
}


def find_object(name: str, where: str) -> Any:
    """Import ``module:attribute``. SettingsError for what is not there, with the nearest name that is; ModuleNotFound-
    Error where that is a module."""
    from pytest_memeval.options import SettingsError

    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        raise SettingsError(f"{where}: {name!r} is not of the form module:attribute")
    target: Any = None
    try:
        target = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except ModuleNotFoundError:
        raise
    except AttributeError as error:
        if target is None:  # of the module itself, while it was imported
            raise SettingsError(f"{where}: {name!r} cannot be imported: {_described(error)}") from error
        guess = _nearest(part, (one for one in dir(target) if not one.startswith("_")))
        raise SettingsError(f"{where}: {name!r} cannot be imported: {error}{guess}") from None
    except (ImportError, ValueError) as error:
        raise SettingsError(f"{where}: {name!r} cannot be imported: {error}") from None
    except own_errors() as error:  # whatever a module does when it is imported
        raise SettingsError(f"{where}: {name!r} cannot be imported: {_described(error)}") from error
    return target


def _described(error: BaseException) -> str:
    from pytest_memeval.failures import told

    return told(error)


def _nearest(name: str, known: Iterable[str]) -> str:
    from pytest_memeval.documents.problems import nearest

    guess = nearest(name, known)
    return "" if guess is None else f"; did you mean {guess!r}?"


def _no_module(name: str, error: ModuleNotFoundError) -> str:
    """What to say of a module that is not there: the nearest one in the same place, where it is the one asked for."""
    missing, asked = error.name or "", name.partition(":")[0]
    if asked != missing and not asked.startswith(f"{missing}."):
        return str(error)
    parent, _, last = missing.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    guess = _nearest(last, {module.name for module in pkgutil.iter_modules(path)})
    return f"{error}{guess}"


def imported(name: str, where: str) -> Any:
    """Import ``module:attribute``. Raises SettingsError, with the nearest name where there is one."""
    from pytest_memeval.options import SettingsError

    try:
        return find_object(name, where)
    except ModuleNotFoundError as error:
        raise SettingsError(f"{where}: {name!r} cannot be imported: {_no_module(name, error)}") from None


def load_object(name: str, where: str) -> Any:
    """Import ``module:attribute``; a class, or a function, is called without arguments. Raises SettingsError."""
    return made(imported(name, where), name, where)


def load_named(name: str, where: str) -> Any:
    """Import ``module:attribute``; a class, or a function that needs no argument, is called, and a function that does
    is taken as it is. Raises SettingsError."""

    target = imported(name, where)
    if inspect.isfunction(target) and any(
        one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        for one in inspect.signature(target).parameters.values()
    ):
        return target
    return made(target, name, where)


def made(target: Any, name: str, where: str) -> Any:
    """The object itself, or what a class or function gives when it is called. Raises SettingsError."""
    if inspect.isclass(target) or inspect.isfunction(target):
        return _given(target, name, where)
    return target


def _given(make: Callable[..., Any], name: str, where: str, *args: Any) -> Any:
    """What a constructor or function of somebody's gives. Raises SettingsError for whatever it raises, but for what
    this package's own engines say of their set-up."""
    from pytest_memeval.documents.problems import DocumentError
    from pytest_memeval.engine.protocol import EngineSetupError
    from pytest_memeval.options import SettingsError

    try:
        return make(*args)
    except (SettingsError, EngineSetupError, DocumentError):
        raise
    except own_errors() as error:
        if isinstance(error, TypeError) and _needs_arguments(make, args):
            text = text_of(error)
            raise SettingsError(f"{where}: {name!r} cannot be called without arguments: {text}") from None
        raise SettingsError(f"{where}: {name!r} cannot be made: {_described(error)}") from error


def _needs_arguments(make: Callable[..., Any], args: Sequence[Any]) -> bool:
    try:
        inspect.signature(make).bind(*args)
    except (TypeError, ValueError):
        return True
    return False


# -- entry points --------------------------------------------------------------------------------------------------


def entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed packages by name; the first package that has a name keeps it."""
    from importlib.metadata import entry_points as installed

    found: dict[str, EntryPoint] = {}
    for point in installed(group=group):
        found.setdefault(point.name, point)
    return found


def _loaded(point: EntryPoint, where: str) -> Any:
    from pytest_memeval.options import SettingsError

    try:
        return point.load()
    except own_errors() as error:  # whatever another package does when it is imported
        package = f" of package {point.dist.name}" if point.dist is not None else ""
        text = named(error)
        raise SettingsError(
            f"{where}: entry point {point.name!r}{package} ({point.value}) cannot be loaded: {text}"
        ) from None


def shipped_problem(name: str) -> str | None:
    """Why an engine of this package cannot be used here, in a sentence; ``None`` where it can."""
    from pytest_memeval.options import SettingsError

    try:
        target = find_object(SHIPPED[name], name)
    except (SettingsError, ModuleNotFoundError) as error:
        return str(error)
    lacks = getattr(target, "lacks", None)
    return lacks() if callable(lacks) else None


def engine_names() -> tuple[str, ...]:
    """Every engine that can be named without a module."""
    return tuple(sorted({*SHIPPED, *entry_points(ENGINE_GROUP)}))


def engine_problem(name: str) -> str | None:
    """What is wrong with the name of an engine; ``None`` where nothing is. Imports no engine."""
    if name == "http":
        return "the http engine is named by its address, http://localhost:8000"
    if ":" in name or name in SHIPPED or name in entry_points(ENGINE_GROUP):
        return None
    from pytest_memeval.documents.problems import did_you_mean

    return f"unknown engine {name!r} (your own is named module:attribute){did_you_mean(name, engine_names())}"


def build_engine(name: str, where: str, harness: Harness | None = None) -> object:
    """The engine that is named: a short name, an address, or ``module:attribute``.

    One with a short name and a class method ``from_settings(harness)`` is made by that where there is a harness. Raises
    SettingsError.
    """
    from pytest_memeval.engine.protocol import EngineSetupError
    from pytest_memeval.options import SettingsError

    try:
        return usable(_made(name, where, harness), where)
    except EngineSetupError as error:
        raise SettingsError(f"{where}: {error}") from None


def is_address(name: str) -> bool:
    """Whether an engine is named by the address of a server."""
    return name.startswith(("http://", "https://"))


def _made(name: str, where: str, harness: Harness | None) -> object:
    from pytest_memeval.options import SettingsError

    if is_address(name):
        from pytest_memeval.engine.adapters.http import HttpEngine

        return HttpEngine(name, timeout=180.0 if harness is None else harness.settings.request_timeout)
    if ":" in name:
        return load_object(name, where)
    if name in SHIPPED:
        target = find_object(SHIPPED[name], where)
    else:
        point = entry_points(ENGINE_GROUP).get(name)
        if point is None:
            raise SettingsError(f"{where}: {engine_problem(name)}")
        target = _loaded(point, where)
    maker = getattr(target, "from_settings", None)
    if harness is not None and callable(maker):
        return _given(maker, name, where, harness)
    return made(target, name, where)


def usable(engine: object, where: str) -> object:
    """The engine, if it can be asked and was written for this protocol. Raises SettingsError."""
    from pytest_memeval.engine_faults import engine_fault
    from pytest_memeval.options import SettingsError

    problem = engine_fault(engine)
    if problem is not None:
        raise SettingsError(f"{where}: {problem}")
    return engine


def load_metrics(names: Sequence[str], where: str) -> None:
    """Register the metrics of installed packages and those that an option names. Raises SettingsError."""
    from pytest_memeval.custom_metrics import MetricError, register_entry
    from pytest_memeval.options import SettingsError

    try:
        for name, point in sorted(entry_points(METRIC_GROUP).items()):
            register_entry(name, _loaded(point, METRIC_GROUP))
        for name in names:
            _load_named_metric(name, where)
    except MetricError as error:
        raise SettingsError(f"{where}: {error}") from None


def _load_named_metric(name: str, where: str) -> None:
    """``module:function`` is that function alone, ``module`` every function that it registers. Of a module that a
    conftest imports, the others stay: that is their registration."""
    from pytest_memeval.custom_metrics import pass_over, register_module, register_named
    from pytest_memeval.options import SettingsError

    module, colon, function = name.partition(":")
    if not colon and module:
        try:
            imported(f"{module}:__name__", where)
        except SettingsError as error:
            raise SettingsError(str(error).replace(f"{module}:__name__", module)) from None
        register_module(module)
        return
    target = imported(name, where)
    pass_over(module)
    register_named(function.rpartition(".")[2], target)
