"""Chat models, matchers and judges of the project's own, as options name them: ``module:attribute``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_memeval.extensions import load_named
from pytest_memeval.identity import identity_of, source_digest
from pytest_memeval.llm.factory import CHAT_MODEL_NAMES
from pytest_memeval.options import SettingsError
from pytest_memeval.values import kind_of_value

if TYPE_CHECKING:
    from pytest_memeval.judge.own import OwnJudge
    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.protocol import ChatModel


class OwnMatcher:
    """``target`` as a :class:`Matcher`: an object with a method ``match``, or the function itself.

    It is called as ``match(predicted, truth)`` with lists of texts and returns ``(truth index, prediction index,
    similarity)`` triples. From which similarity on two texts match is its own affair.
    """

    def __init__(self, target: Any, name: str) -> None:
        self.target = target
        self._function = target if inspect.isroutine(target) else target.match
        self._name = name

    def match(self, predicted: Sequence[str], truth: Sequence[str]) -> list[tuple[int, int, float]]:
        return list(self._function(list(predicted), list(truth)))

    def describe(self) -> dict[str, Any]:
        """What a report says of the matcher."""
        described = {"kind": "own", "name": self._name}
        identity = identity_of(self.target)
        return described if identity is None else {**described, "identity": identity}


def own_matcher(name: str, where: str) -> OwnMatcher:
    """The matcher that an option names. Raises SettingsError."""
    return OwnMatcher(_part(name, where, "match", "match(predicted, truth)"), name)


def own_judge(name: str, where: str) -> OwnJudge:
    """The judge that an option names. Raises SettingsError."""
    from pytest_memeval.judge.own import OwnJudge

    target = _part(name, where, "judge", "judge(question, truth, prediction, mode)")
    return OwnJudge(target, identity=identity_of(target))


def own_chat_model(
    name: str, where: str, *, mode: str = "off", cache: AnswerCache | None = None, planned: bool = False
) -> ChatModel:
    """The chat model that an option names.

    One with a ``version`` is answered from ``cache`` by ``mode``, since version and source tell when it has changed;
    any other is asked every time. Raises SettingsError for a name that leads to none, and for a mode that needs what it
    lacks; a run that only plans asks nothing, and takes any.
    """
    from pytest_memeval.llm.cached_model import CachedChatModel
    from pytest_memeval.llm.own import OwnChatModel

    target = _part(name, where, "complete", "complete(messages, *, stage)")
    identity = identity_of(target)
    versioned = getattr(target, "version", None) is not None
    if versioned:
        owner = target if inspect.isroutine(target) else type(target)
        digest = source_digest(owner.__module__)
        identity = identity if digest is None else f"{identity} sha256:{digest}"
    model = OwnChatModel(target, identity=identity)
    if model.name.partition("/")[0] in CHAT_MODEL_NAMES:
        raise SettingsError(
            f"{where}: {name!r} calls itself {model.name!r}, which is a name of a model of this package"
        )
    if mode == "batch":
        raise SettingsError(f"{where}: {name!r} cannot be asked in batches: --memeval-cache batch is for openai")
    if mode == "replay" and not versioned and not planned:
        raise SettingsError(
            f"{where}: --memeval-cache replay has no answers of {name!r}: give it a version, for example version = '1',"
            " and its answers are kept"
        )
    return CachedChatModel(model, cache, mode) if versioned and cache is not None and mode != "off" else model


def _part(name: str, where: str, method: str, call: str) -> Any:
    target = load_named(name, where)
    if not inspect.isroutine(target) and not callable(getattr(target, method, None)):
        raise SettingsError(f"{where}: {name!r} gives {kind_of_value(target)}, which has no method {call}")
    return target
