"""Evaluators and pipelines by name, as options give them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pytest_memeval.extensions import imported
from pytest_memeval.options import SettingsError
from pytest_memeval.own_code import own_errors
from pytest_memeval.rag.base import BaseEvaluator
from pytest_memeval.rag.declared import declared_metrics
from pytest_memeval.rag.errors import describe
from pytest_memeval.rag.prompts import prompt_of
from pytest_memeval.settings.model import Settings

#: Parameters of an evaluator's constructor that are given the model that judges.
MODEL_PARAMETERS = ("llm", "judge", "model")


def build_evaluators(names: Sequence[str], model: Callable[[], Any], where: str) -> list[BaseEvaluator]:
    """The evaluators that an option names. A function of a sample is one itself; a class, or another function, is
    called; one whose parameter is called ``llm`` (or
    ``judge``, ``model``) gets the model that ``model()`` makes. Without a name: the offline ones.

    Raises SettingsError for a name that leads to no evaluator, and for two that give the same metric.
    """
    if not names:
        from pytest_memeval.rag.offline import OfflineEvaluator

        return [OfflineEvaluator()]
    found = [_evaluator(name, model, where) for name in names]
    owners: dict[str, str] = {}
    for name, evaluator in zip(names, found, strict=True):
        for metric in declared_metrics(evaluator):
            if metric in owners:
                raise SettingsError(f"{where}: {owners[metric]} and {name} both give {metric!r}")
            owners[metric] = name
    return found


def _evaluator(name: str, model: Callable[[], Any], where: str) -> BaseEvaluator:
    target = imported(name, where)
    if inspect.isfunction(target) and any(map(_is_for_a_sample, inspect.signature(target).parameters.values())):
        from pytest_memeval.rag.function_evaluator import FunctionEvaluator

        return FunctionEvaluator(target)
    if inspect.isclass(target) or inspect.isfunction(target):
        try:
            wanted = inspect.signature(target).parameters
            given = {parameter: model() for parameter in MODEL_PARAMETERS if _needs(wanted.get(parameter))}
            target = target(**given)
        except SettingsError:
            raise
        except own_errors() as error:  # whatever a constructor of the project's does
            raise SettingsError(f"{where}: {name!r} cannot be made: {describe(error)}") from error
    if not isinstance(target, BaseEvaluator):
        raise SettingsError(
            f"{where}: {name!r} is no evaluator: a subclass of BaseEvaluator, or a function of a sample"
        )
    try:
        declared_metrics(target)
    except own_errors() as error:  # a property of the project's, or what is no names
        raise SettingsError(f"{where}: {name!r} does not say what it gives: {describe(error)}") from error
    return target


def _is_for_a_sample(parameter: inspect.Parameter) -> bool:
    """Whether a function needs more than a model: it does not make an evaluator then, but is one."""
    return _needs(parameter) and parameter.name not in MODEL_PARAMETERS


def _needs(parameter: inspect.Parameter | None) -> bool:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter is not None and parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def build_pipeline(name: str, where: str) -> Any:
    """The pipeline that an option names: a class is called, anything else taken as it is."""
    target = imported(name, where)
    if inspect.isclass(target):
        try:
            target = target()
        except own_errors() as error:  # whatever a constructor of the project's does
            raise SettingsError(f"{where}: {name!r} cannot be made: {describe(error)}") from error
    if not callable(target):
        raise SettingsError(f"{where}: {name!r} cannot be called, so it is no pipeline")
    return target


def pipeline_of(settings: Settings) -> Any:
    """The pipeline that the settings name, ``None`` where they name none. Raises SettingsError."""
    if settings.rag_pipeline is None:
        return None
    return build_pipeline(settings.rag_pipeline, settings.where("rag_pipeline"))


def evaluators_of(settings: Settings, fixture: Callable[[str], Any]) -> list[BaseEvaluator]:
    """The evaluators that the settings name. ``fixture`` gives ``memeval_judge`` and ``memeval_llm``, which are asked
    for only where an evaluator needs a model. Their calls are recorded with the cases that they are made for.

    Raises SettingsError, too, where a model is needed and none can judge.
    """
    from pytest_memeval.rag.calls import CaseChatModel

    where = settings.where("evaluator")
    made: list[CaseChatModel] = []

    def model() -> CaseChatModel:
        if not made:
            judge = fixture("memeval_judge")
            # A judge of answers asks a chat model of its own; a project's fixture may give just such a model.
            asked: Any = fixture("memeval_llm") if judge is None else getattr(judge, "model", None)
            if not callable(getattr(asked, "complete", None)):
                asked = judge
            if not callable(getattr(asked, "complete", None)):
                what = getattr(judge, "name", type(judge).__name__)
                raise SettingsError(f"{where}: a chat model is needed to judge, and the judge {what} has none")
            if getattr(asked, "name", None) == "embedded":
                raise SettingsError(
                    f"{where}: a model is needed, and the offline one is never a judge; name one with "
                    "--memeval-judge-model, or choose --memeval-llm openai or recorded"
                )
            made.append(CaseChatModel(asked))
        return made[0]

    evaluators = build_evaluators(settings.evaluator or (), model, where)
    for evaluator in evaluators:
        prompt = prompt_of(evaluator)
        if made and prompt is not None:
            made[0].versions[f"rag_{prompt.name}"] = prompt.version
    return evaluators
