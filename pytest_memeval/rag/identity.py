"""What a sample's scores depend on besides the sample: the parts of a resume key behind the first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_memeval import __version__
from pytest_memeval.identity import identity_of
from pytest_memeval.llm.own import projects_own
from pytest_memeval.rag.base import BaseEvaluator
from pytest_memeval.rag.calls import CaseChatModel
from pytest_memeval.rag.declared import declared_metrics
from pytest_memeval.rag.function_evaluator import FunctionEvaluator
from pytest_memeval.rag.prompts import RagPrompt, prompt_of

#: What an evaluator holds that changes how its work is done, and no score; its prompt is a part of its own.
_NOT_SCORES = frozenset(
    {
        "llm",
        "progress",
        "max_concurrency",
        "max_workers",
        "batch_size",
        "sample_timeout",
        "retries",
        "_places",
    }
)


def short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def key_parts(
    evaluators: Sequence[BaseEvaluator], pipeline: Any, max_tokens: int | None, trials: int = 1
) -> tuple[str, ...] | None:
    """A short hash for each of labels and templates (none here), prompts, engine, model, options, version; ``None``
    where nobody can tell an evaluator, a model or the pipeline from another."""
    known = [_evaluator(evaluator) for evaluator in evaluators]
    models = [_model(getattr(evaluator, "llm", None)) for evaluator in evaluators]
    system = "recorded answers" if pipeline is None else identity_of(pipeline)
    if system is None or None in known or None in models:
        return None
    prompts = [prompt and prompt.sha256 for prompt in map(prompt_of, evaluators)]
    options = known if trials == 1 else [known, trials]
    parts: Iterable[Any] = ("", prompts, system, [models, max_tokens], options, __version__)
    return tuple(short(json.dumps(part, sort_keys=True)) for part in parts)


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith("pytest_memeval.")


def _evaluator(evaluator: BaseEvaluator) -> list[Any] | None:
    if isinstance(evaluator, FunctionEvaluator):
        identity = identity_of(evaluator.function)
    elif _is_ours(evaluator):
        identity = f"{type(evaluator).__module__}:{type(evaluator).__qualname__}"
    else:
        identity = identity_of(evaluator)
    return None if identity is None else [identity, list(declared_metrics(evaluator)), _state(vars(evaluator))]


def _state(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a text can tell of; objects of the package by theirs, others by their class."""
    return {
        name: _told(value)
        for name, value in sorted(values.items())
        if name not in _NOT_SCORES and not isinstance(value, RagPrompt)
    }


def _told(value: Any, depth: int = 6) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    if depth and isinstance(value, list | tuple | set | frozenset):
        told = [_told(one, depth - 1) for one in value]
        return told if isinstance(value, list | tuple) else sorted(told, key=repr)
    if depth and isinstance(value, Mapping):
        return [[_told(key, depth - 1), _told(one, depth - 1)] for key, one in value.items()]
    kind = f"{type(value).__module__}:{type(value).__qualname__}"
    if depth and _is_ours(value) and hasattr(value, "__dict__"):
        return [kind, {name: _told(one, depth - 1) for name, one in sorted(vars(value).items())}]
    return kind


def _model(llm: Any) -> list[Any] | None:
    """What is asked: name, model, endpoint; the answers of a recorded one; the source of a project's own."""
    if llm is None:
        return []
    asked = llm.inner if isinstance(llm, CaseChatModel) else llm
    described = [str(getattr(asked, name, None)) for name in ("name", "model", "endpoint")]
    theirs = projects_own(asked)
    if theirs is not None or not _is_ours(asked):
        identity = identity_of(theirs or asked)
        return None if identity is None else [identity, *described]
    path = getattr(asked, "path", None)
    answers = hashlib.sha256(path.read_bytes()).hexdigest() if isinstance(path, Path) else None
    return [answers, *described]
