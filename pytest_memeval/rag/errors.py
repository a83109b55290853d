"""What is said of an exception that came out of an evaluator or a pipeline. Knows no chat model: it asks by name."""

from __future__ import annotations

from pytest_memeval.llm.redaction import redact
from pytest_memeval.own_code import named, place_of, text_of, without_addresses

#: Bugs, and what a second attempt would meet again.
_PERMANENT = (
    TypeError,
    AttributeError,
    NameError,
    NotImplementedError,
    AssertionError,
    ImportError,
    LookupError,
    ValueError,
    ArithmeticError,
)


def kind_of_error(error: BaseException) -> str:
    """A short stable word: the error's own ``kind`` where it has one (chat models' errors do)."""
    error = _first_of_group(error)
    kind = getattr(error, "kind", None)
    if isinstance(kind, str) and kind:
        return kind
    return "timeout" if isinstance(error, TimeoutError) else "evaluator_exception"


def describe(error: BaseException) -> str:
    """The error for people, without keys and tokens: its text; where it has no kind of its own, behind its type and
    with its place in the project's code."""
    error = _first_of_group(error)
    if isinstance(getattr(error, "kind", None), str) and text_of(error):
        return redact(without_addresses(text_of(error)))
    return redact(without_addresses(named(error) + place_of(error)))


def is_worth_another_try(error: BaseException) -> bool:
    """Whether a second attempt may succeed: not after a bug, nor where whoever raised it has retried already."""
    error = _first_of_group(error)
    return not isinstance(error, _PERMANENT) and not hasattr(error, "attempts") and not hasattr(error, "kind")


def _first_of_group(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
