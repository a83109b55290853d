"""Metrics of a project's own: functions ``(case, outputs)`` whose values are section ``metrics`` of the report.

What a function may return, and what becomes of it over a set:

- a number: the mean over the cases that gave one; ``True`` and ``False``: the share of the former
- a text: how often each text was given, ``metrics.<name>.<text>`` in gates
- a mapping of names to numbers or booleans: a mean or share each, ``metrics.<name>.<key>``
- ``None``: not measured in this case, which is left out

Anything else, NaN, infinity and every exception is an error of the metric in this case: counted, never a zero.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from types import ModuleType
from typing import Any, TypeVar, overload

from pytest_memeval.copies import copied
from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.loop_time import apart, is_cancelled
from pytest_memeval.metrics.sections import SECTION_KEYS, SectionRecord
from pytest_memeval.own_code import own_ends, own_errors
from pytest_memeval.results import CaseError, StageStatus
from pytest_memeval.values import DISTILL_STAGES

SECTION = "metrics"
ENTRY_POINTS = "memeval.metrics"
KINDS: tuple[str, ...] = ("distill", "qa", "rag")

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KEY = re.compile(r"[^\s{}]+")


class MetricError(ValueError):
    """A metric that cannot be used; one sentence."""


@dataclass(frozen=True)
class CustomMetric:
    """A function with the cases that it is for: their ``kinds``, and the ``stages`` whose output it needs."""

    name: str
    function: Callable[..., Any]
    kinds: tuple[str, ...] = ("distill",)
    stages: tuple[str, ...] = ()
    #: Whether its module registers it by :func:`metric`, and whether an option names it.
    decorated: bool = False
    named: bool = False

    @property
    def path(self) -> str:
        return f"{SECTION}.{self.name}"

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


_REGISTERED: dict[str, CustomMetric] = {}
#: Those of a module of which an option names another function, and that nobody else has imported.
_PASSED_OVER: dict[str, CustomMetric] = {}


@overload
def metric(function: Function, /) -> Function: ...
@overload
def metric(
    *, name: str | None = None, kinds: tuple[str, ...] = ("distill",), stages: tuple[str, ...] = ()
) -> Callable[[Function], Function]: ...
def metric(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    kinds: tuple[str, ...] = ("distill",),
    stages: tuple[str, ...] = (),
) -> Any:
    """Register a function ``(case, outputs) -> number | bool | str | mapping | None`` as metric ``metrics.<name>``.

    ``case`` is the :class:`EvalCase`, ``outputs`` has the stages' outputs (``outputs.l1``, ``outputs.template`` …;
    ``None`` for a stage that did not run). For cases of another kind (``kinds=("qa",)``) both are that kind's: its
    case, and a dict of its outputs. ``stages`` are those that the metric needs: a case in which one of them did not
    run is left out, and one in which it failed counts as an error of the metric. Without any, every case counts, and
    every failed stage does. The function may be ``async``. Raises MetricError for a name that is taken or none.
    """

    def decorate(given: Any) -> Any:
        called = name or str(getattr(given, "__name__", ""))
        register(CustomMetric(called, given, tuple(kinds), tuple(stages), decorated=True))
        return given

    return decorate if function is None else decorate(function)


def register(added: CustomMetric) -> None:
    """Add a metric, or put a newer version of the same function in its place. Raises MetricError."""
    if not _NAME.fullmatch(added.name):
        raise MetricError(f"{added.name!r} is no name of a metric: letters, digits and underscores, a letter first")
    if added.name in SECTION_KEYS:
        raise MetricError(f"the name {added.name!r} is taken: reports use it themselves; give the metric another")
    if not callable(added.function):
        raise MetricError(f"metric {added.name}: {type(added.function).__name__} is no function")
    for word, known, what in (
        *((kind, KINDS, "kind") for kind in added.kinds),
        *((stage, DISTILL_STAGES, "stage") for stage in added.stages),
    ):
        if word not in known:
            raise MetricError(f"metric {added.name}: unknown {what} {word!r}{did_you_mean(word, known)}")
    before = _REGISTERED.get(added.name)
    if before is not None and _home(before.function) != _home(added.function):
        places = f"{'.'.join(_home(before.function))} and {'.'.join(_home(added.function))}"
        raise MetricError(f"two metrics are called {added.name!r}: {places}")
    _REGISTERED[added.name] = added


def _home(function: Any) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", repr(function)))


def registered(kind: str) -> list[CustomMetric]:
    """The metrics for cases of a kind, by name."""
    if not _REGISTERED:
        return []
    return [_REGISTERED[name] for name in sorted(_REGISTERED) if kind in _REGISTERED[name].kinds]


@contextmanager
def also(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Have these functions registered for a while. Raises MetricError."""
    before = dict(_REGISTERED)
    try:
        for name, function in functions.items():
            if not any(function is known.function for known in _REGISTERED.values()):
                register(CustomMetric(name, function))
        yield
    finally:
        _REGISTERED.clear()
        _REGISTERED.update(before)


def register_entry(name: str, target: object) -> None:
    """Register what an entry point or an option leads to, unless its decorator has done so. Raises MetricError."""
    if not any(target is known.function for known in _REGISTERED.values()):
        register(CustomMetric(name, target))  # type: ignore[arg-type]  # register says so of what is no function


def of_module(module: str) -> list[CustomMetric]:
    """The metrics that a module registers with the decorator, by name."""
    found = {**_PASSED_OVER, **_REGISTERED}
    own = (found[name] for name in sorted(found) if found[name].decorated)
    return [one for one in own if _home(one.function)[0] == module]


def register_named(name: str, target: object) -> None:
    """Register what an option names, as its decorator has it, and none of the others that importing its module for the
    option has registered (:func:`pass_over`). Raises MetricError."""
    for known in [one for one in _PASSED_OVER.values() if one.function is target]:
        register(_PASSED_OVER.pop(known.name))
    register_entry(name, target)
    for known in [one for one in _REGISTERED.values() if one.function is target]:
        _REGISTERED[known.name] = replace(known, named=True)


def register_module(module: str) -> None:
    """Register all of a module's own. Raises MetricError where it has none."""
    found = of_module(module)
    if not found:
        raise MetricError(f"module {module!r} has no function with @metric; name a function as '{module}:function'")
    for one in found:
        _PASSED_OVER.pop(one.name, None)
        register(replace(one, named=True))


def pass_over(module: str) -> None:
    """Take out what the module has registered where it was imported for what options name alone."""
    for one in () if _is_used(module) else of_module(module):
        if not one.named and _REGISTERED.pop(one.name, None) is not None:
            _PASSED_OVER[one.name] = one


def take_up_imported() -> None:
    """Register what was passed over of a module that others have imported since, a conftest or a test module: to them
    importing it is registering its metrics."""
    for module in {_home(one.function)[0] for one in _PASSED_OVER.values()}:
        if _is_used(module):
            register_module(module)


def _is_used(name: str) -> bool:
    """Whether somebody imports the module: another one holds it, or a metric of it (the packages that it lies in always
    do), or it is pytest that has loaded it, as a conftest or plugin."""
    loader = getattr(getattr(sys.modules.get(name), "__spec__", None), "loader", None)
    if type(loader).__name__ == "AssertionRewritingHook":
        return True
    wanted = {id(one.function) for one in of_module(name)}
    if name in sys.modules:
        wanted.add(id(sys.modules[name]))
    others = [
        vars(module)
        for other, module in list(sys.modules.items())
        if other != name and not name.startswith(f"{other}.") and isinstance(module, ModuleType)
    ]
    return any(id(value) in wanted for held in others for value in list(held.values()))


# -- one case ------------------------------------------------------------------------------------------------------


@dataclass
class CaseMetrics:
    """The custom metrics of one case. Values of asynchronous functions may be there before the others'."""

    case: object
    kind: str = "distill"
    #: Runs work that has to end with the case's time limit.
    guard: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]] | None = None
    values: dict[str, Any] = field(default_factory=dict)
    statuses: dict[str, StageStatus] = field(default_factory=dict)
    errors: list[CaseError] = field(default_factory=list)
    section: SectionRecord | None = None
    done: bool = False
    _turn: asyncio.Lock | None = None
    #: The loop that this is awaited on: one that was left behind may never give the turn back.
    _loop: asyncio.AbstractEventLoop | None = None

    def awaits(self, wanted: Callable[[CustomMetric], StageStatus | None]) -> list[CustomMetric]:
        """The metrics that can be awaited and have no value yet."""
        found = registered(self.kind)
        return [one for one in found if one.is_async and one.name not in self.values and wanted(one) is None]

    async def begin(self, outputs: object, wanted: Callable[[CustomMetric], StageStatus | None]) -> None:
        """Compute what can be awaited; whoever comes second waits for the first."""
        if not self.awaits(wanted):
            return
        loop = asyncio.get_running_loop()
        if self._turn is None or self._loop is not loop:
            self._turn, self._loop = asyncio.Lock(), loop
        async with self._turn:
            for one in self.awaits(wanted):
                await self._take(one, self._asked(one, outputs))

    def give_up(self, error: BaseException, wanted: Callable[[CustomMetric], StageStatus | None]) -> None:
        """What can be awaited and has no value yet gets none: an error of each of these metrics."""
        for one in self.awaits(wanted):
            self.values[one.name] = error

    async def _take(self, one: CustomMetric, start: Callable[[], Awaitable[Any]]) -> None:
        guard = self.guard
        try:
            self.values[one.name] = await (apart(start) if guard is None else guard(start))
        except asyncio.CancelledError as error:
            if is_cancelled() or guard is not self.guard or one.name in self.values:
                raise
            self.values[one.name] = error  # nobody cancelled the case: something inside of the function was
        except own_errors() as error:  # whatever the project's function does: an error of this metric alone
            self.values[one.name] = error

    def finish(
        self,
        outputs: object,
        wanted: Callable[[CustomMetric], StageStatus | None],
        wait: Callable[[Any], Any],
    ) -> None:
        """Compute the rest and read all values. ``wanted`` gives the status of a metric that is not to be computed
        here, ``wait`` runs a coroutine and waits for it."""
        if self.done:
            return
        self.done = True
        ratios: dict[str, tuple[float, float]] = {}
        tables: dict[str, dict[str, float]] = {}
        shares: list[str] = []
        for one in registered(self.kind):
            status = wanted(one)
            if status is None:
                if one.name not in self.values:
                    self._compute(one, outputs, wait)
                status = self._read(one, ratios, tables, shares)
            self.statuses[one.path] = status
        if ratios or tables:
            self.section = SectionRecord(ratios=ratios, tables=tables, shares=tuple(shares))

    def _asked(self, one: CustomMetric, outputs: object) -> Callable[[], Any]:
        """The function with a case and outputs of its own: other metrics and the report have them as they were."""
        ask = partial(one.function, copied(self.case), copied(outputs))
        if not one.is_async:
            return ask

        async def answer() -> Any:
            # Before another case has its turn: what is given may be a table that is filled anew in each.
            return copied(await ask())

        return answer

    def _compute(self, one: CustomMetric, outputs: object, wait: Callable[[Any], Any]) -> None:
        if one.is_async:
            wait(self._take(one, self._asked(one, outputs)))
            return
        try:
            self.values[one.name] = self._asked(one, outputs)()
        except own_ends() as error:  # whatever the project's function does: an error of this metric alone
            self.values[one.name] = error

    def _read(
        self,
        one: CustomMetric,
        ratios: dict[str, tuple[float, float]],
        tables: dict[str, dict[str, float]],
        shares: list[str],
    ) -> StageStatus:
        value = self.values[one.name]
        if value is None:
            return "no_truth"
        try:
            if isinstance(value, BaseException):
                raise value
            if isinstance(value, str):
                tables[one.name] = {_key(value): 1}
            elif isinstance(value, Mapping):
                found = {f"{one.name}.{_key(key)}": part for key, part in value.items()}
                if len(found) < len(value):
                    raise MetricError(f"two of its keys have the same name: {list(value)}")
                ratios.update({name: (_part(name, part), 1.0) for name, part in found.items()})
                shares += [name for name, part in found.items() if isinstance(part, bool)]
            else:
                ratios[one.name] = (_number(value), 1.0)
                shares += [one.name] if isinstance(value, bool) else []
        except own_ends() as error:  # the function's own, raised again, or what is wrong with its value
            from pytest_memeval.failures import case_error, signature_problem

            told = case_error(one.path, error)
            kind = "metric_value" if isinstance(error, MetricError) else "metric_exception"
            message = str(error) if isinstance(error, MetricError) else told.message
            if isinstance(error, TypeError):  # raised by the call itself it names no file but this one
                wanted = f"metric {one.name}"
                message = signature_problem(one.function, wanted, (None, None), "case, outputs") or message
            self.errors.append(CaseError(one.path, kind, message))
            return "errored"
        return "scored"


def _part(name: str, value: object) -> float:
    if not isinstance(value, Real):
        given = type(value).__name__
        raise MetricError(f"{name}: a mapping holds numbers and bools, not {given}; leave out what was not measured")
    return _number(value)


def _number(value: object) -> float:
    if not isinstance(value, Real):
        raise MetricError(f"a metric gives a number, a bool, a text or a mapping, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise MetricError("a metric gave a number that is too large: beyond 1.8e308 there is none") from None
    if not math.isfinite(number):
        raise MetricError(f"a metric gave {number}; give None where there is nothing to measure")
    return number


def _key(key: object) -> str:
    """A key as gates can name it: no white space and no braces."""
    text = "_".join(str(key).split())
    if not _KEY.fullmatch(text):
        raise MetricError(f"{key!r} cannot be a key: it is empty or has braces")
    return text
