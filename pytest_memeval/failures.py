"""What is said of an exception that came out of an engine: enough to find its cause, and no key or token."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_memeval.engine.protocol import StageError
from pytest_memeval.llm.protocol import ChatModelError
from pytest_memeval.llm.redaction import redact
from pytest_memeval.outputs import OutputError
from pytest_memeval.own_code import named, place_of, shown_file, skips, text_of, without_addresses
from pytest_memeval.results import CaseError

#: What the proxy refuses with (see llm/proxy.py), and how deep causes are followed.
_PROXY_CODES = ("not_recorded", "pending")
_MOST_CAUSES = 8
#: What an engine's methods are called with.
ENGINE_ARGUMENTS: Mapping[str, str] = {
    "extract": "conversation, ctx",
    "normalize": "memories, ctx",
    "resolve": "memories, ctx",
    "aggregate": "memories, ctx",
    "query_template": "mode, ctx",
    "inject": "mode, conversation, ctx",
    "search": "query, params, ctx",
    "load": "memories, scenes, ctx",
}


def case_error(stage: str, error: BaseException) -> CaseError:
    """The record of why ``stage`` could not be measured. A group of exceptions is told by its first one."""
    error, others = _first_of_group(error)
    if isinstance(error, StageError | ChatModelError):
        kind, text = error.kind, text_of(error)
    elif isinstance(error, OutputError):
        kind, text = "bad_output", text_of(error)
    elif (refused := _refused_by_proxy(error)) is not None:
        kind, text = refused
    elif isinstance(error, skips()):
        kind, text = "engine_exception", f"{_skipper(stage)} skipped: {text_of(error)}".rstrip(": ") + place_of(error)
    else:
        kind, text = "engine_exception", describe_exception(error)
    return CaseError(stage, kind, redact(without_addresses(text)) + (f" (and {others} more)" if others else ""))


def _skipper(stage: str) -> str:
    return "the metric" if stage.startswith("metrics.") else "the engine"


def _first_of_group(error: BaseException) -> tuple[BaseException, int]:
    others = 0
    while isinstance(error, BaseExceptionGroup):
        others += len(error.exceptions) - 1
        error = error.exceptions[0]
    return error, others


def _refused_by_proxy(error: BaseException) -> tuple[str, str] | None:
    """(kind, message) where an engine's own client was told by this package's proxy that an answer is not recorded, or
    waits for a batch: what is missing is an answer, and nothing is wrong with the engine. Looks behind exceptions that
    were raised from the client's."""
    seen: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if seen is None:
            return None
        told = _told_by_server(seen)
        if told.get("code") in _PROXY_CODES and isinstance(told.get("message"), str):
            return told["code"], told["message"]
        seen = seen.__cause__ or seen.__context__
    return None


def _told_by_server(error: BaseException) -> dict[str, Any]:
    """The error that a server answered with, as clients keep it: ``body`` (openai), ``response`` (httpx, requests)."""
    body: Any = getattr(error, "body", None)
    response: Any = getattr(error, "response", None)
    if not isinstance(body, dict) and callable(getattr(response, "json", None)):
        try:
            body = response.json()
        except Exception:  # whatever a client makes of a body that is none, or was not read
            return {}
    inner = body.get("error", body) if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def describe_exception(error: BaseException) -> str:
    """``TypeName: text (file.py:12 in function)`` of the innermost frame in the user's own code, else (an installed
    engine) of the innermost one. No stack trace."""
    return named(error) + place_of(error)


def told(error: BaseException) -> str:
    """:func:`describe_exception` as it may be shown: no keys, and the same in equal runs."""
    return redact(without_addresses(describe_exception(error)))


def signature_problem(function: Any, method: str, args: Sequence[object], needed: str | None = None) -> str | None:
    """Why an engine's method cannot be called as the protocol has it, in a sentence with its place; ``None`` where it
    can, or where its arguments cannot be told. Of another function, ``needed`` are the arguments that it has to take.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = "" if code is None else f" ({shown_file(code.co_filename)}:{code.co_firstlineno})"
        name = getattr(function, "__qualname__", method)
        return f"{method} needs ({needed or ENGINE_ARGUMENTS[method]}), and {name} takes {signature}{place}"
    return None
