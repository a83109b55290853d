"""What pytest-xdist's channel can carry. It raises for anything else, and that ends the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from numbers import Integral
from typing import Any
from warnings import WarningMessage

import pytest

from pytest_memeval.own_code import own_errors, text_of
from pytest_memeval.report.console import without_surrogates

#: Values that go through the channel as they are.
_PLAIN = frozenset((type(None), bool, float, complex, bytes))
#: The channel packs a smaller number into four bytes, which raises; Python refuses to write out a longer one.
_LEAST_INT, _MOST_DIGITS_BITS = -(2**31), 14_000
#: What lies deeper is told by its text: the channel follows a value as deep as it goes.
_DEEPEST = 50


def sendable(value: Any, depth: int = 0) -> Any:
    """``value`` as the channel can carry it: the same object where it can, else the nearest of the types it knows.

    Lone surrogates are escaped, subclasses become what they are a kind of, everything else its text.
    """
    kind = type(value)
    if kind is str:
        return without_surrogates(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if value >= _LEAST_INT and value.bit_length() <= _MOST_DIGITS_BITS else _number(value)
    if depth < _DEEPEST:
        for form, make in _CONTAINERS:
            if isinstance(value, form):
                return make(value, depth + 1)
    if isinstance(value, str):
        return without_surrogates(str.__str__(value))
    if isinstance(value, Integral):
        return sendable(int(value))
    if isinstance(value, float):
        return float.__float__(value)
    return _text(value)


def _text(value: object) -> str:
    try:
        return without_surrogates(str.__str__(str(value)))
    except own_errors() as error:
        return f"({type(value).__name__}, whose text cannot be had: {type(error).__name__})"


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= _MOST_DIGITS_BITS else hex(value)


def _mapping(value: Mapping[Any, Any], depth: int) -> Any:
    made = {_key(key, depth): sendable(item, depth) for key, item in value.items()}
    same = type(value) is dict and len(made) == len(value)
    return value if same and all(map(_is, made, value)) and all(map(_is, made.values(), value.values())) else made


def _key(value: Any, depth: int) -> Any:
    made = sendable(value, depth)
    return _text(value) if isinstance(made, dict | list | set) else made


def _sequence(form: Callable[[list[Any]], Any]) -> Callable[[Any, int], Any]:
    def make(value: Any, depth: int) -> Any:
        each = _key if form in (set, frozenset) else sendable
        made = [each(item, depth) for item in value]
        return value if type(value) is form and all(map(_is, made, value)) else form(made)

    return make


def _is(one: object, other: object) -> bool:
    return one is other


_CONTAINERS: tuple[tuple[type[Any], Callable[[Any, int], Any]], ...] = (
    (Mapping, _mapping),
    *((form, _sequence(form)) for form in (list, tuple, set, frozenset)),
)


class SendableReports:
    """Has what this process tells of its items arrive, whatever an engine or a project put into it, and has it say the
    same where nothing is sent."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if (report.longrepr is not None or report.sections) and item.get_closest_marker("memeval") is not None:
            hook = self._config.hook
            data = hook.pytest_report_to_serializable(config=self._config, report=report)
            clean = sendable(data)
            if clean is not data:
                read = hook.pytest_report_from_serializable(config=self._config, data=clean)
                report.longrepr, report.sections = read.longrepr, read.sections
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        data = yield
        if data is None or not hasattr(self._config, "workerinput"):
            return data
        clean: dict[str, Any] = sendable(data)
        return clean

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: WarningMessage) -> None:
        if hasattr(self._config, "workerinput"):
            given = warning_message.message
            if isinstance(given, Warning) and sendable(given.args) is not given.args:
                given.args = sendable(given.args)
            text = text_of(given) if isinstance(given, Warning) else given
            if sendable(text) is not text:
                warning_message.message = Warning(f"{type(given).__name__}: {sendable(text)}")
            warning_message.filename = sendable(warning_message.filename)
            warning_message.line = sendable(warning_message.line)
