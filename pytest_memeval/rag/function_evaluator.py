"""A function of the project's as an evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_memeval.rag.base import BaseEvaluator
from pytest_memeval.rag.pipeline import call
from pytest_memeval.rag.types import EvalResult, EvalSample


class FunctionEvaluator(BaseEvaluator):
    """``function(sample)``, sync or async, which returns one score (a number, a boolean, a text, or ``None``): it gives
    the metric of the function's name. A plain one is called in a thread. What it raises is the sample's error."""

    def __init__(self, function: Callable[[EvalSample], Any]) -> None:
        super().__init__()
        self.function = function
        self.metrics = (function.__name__,)

    @property
    def name(self) -> str:
        return self.function.__name__

    async def evaluate_sample(self, sample: EvalSample) -> EvalResult:
        return EvalResult(sample, {self.metrics[0]: await call(self.function, sample)})
