"""What is wrong with an engine as it stands, before anything is asked of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.engine.protocol import STAGE_METHODS, protocol_problem
from pytest_memeval.failures import told
from pytest_memeval.own_code import own_errors
from pytest_memeval.stages import STAGE_ALIASES
from pytest_memeval.values import ALL_STAGES, kind_of_value

#: What is read of an engine: what it says of itself, and what may be called.
_READ = (
    *("name", "version", "concurrent", "protocol", "supported_stages"),
    *("load", "normalize", "await_indexed", "release", *STAGE_METHODS.values()),
    *("ingest", "ingest_session", "flush", "retrieve", "reset"),
)


def engine_fault(engine: object) -> str | None:
    """Why an engine cannot be measured at all, in a sentence: what it says of itself cannot be had, or it was written
    for another protocol. ``None`` where nothing is wrong."""
    return _is_no_object(engine) or unreadable(engine) or protocol_problem(engine)


def _is_no_object(engine: object) -> str | None:
    """A class whose methods want an object: each of its calls would lack the first argument."""
    if not inspect.isclass(engine):
        return None
    for method in STAGE_METHODS.values():
        if inspect.isfunction(inspect.getattr_static(engine, method, None)):
            return (
                f"engine {engine.__name__} is a class, and its {method} needs an object of it: give {engine.__name__}()"
            )
    return None


def unreadable(engine: object) -> str | None:
    """Which attribute of the engine cannot be read, or why its ``supported_stages()`` gives no stages."""
    kind = type(engine).__name__
    for word in _READ:
        try:
            getattr(engine, word, None)
        except own_errors() as error:
            return f"engine {kind}: its {word} cannot be read: {told(error)}"
    declared = getattr(engine, "supported_stages", None)
    if callable(declared):
        try:
            given = declared()
            if inspect.iscoroutine(given):
                given.close()
            stages = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
        except own_errors() as error:
            return f"engine {kind}: its supported_stages() failed: {told(error)}"
        if stages is None or not all(isinstance(stage, str) for stage in stages):
            what = kind_of_value(given)
            return f"engine {kind}: its supported_stages() gives {what}, and not a list of stages such as ['l1', 'l2']"
        for stage in stages:
            if stage not in ALL_STAGES:
                guess = f"; did you mean {STAGE_ALIASES[stage]!r}?" if stage in STAGE_ALIASES else ""
                guess = guess or did_you_mean(stage, ALL_STAGES)
                return f"engine {kind}: its supported_stages() gives {stage!r}, which is no stage{guess}"
    return None
