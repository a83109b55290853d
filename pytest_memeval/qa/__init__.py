"""Question answering over memories: what reads conversations, what answers, what a run of both is worth.

The public names are imported from their modules when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_memeval.lazy_names import lazy_names

if TYPE_CHECKING:
    from pytest_memeval.qa.agent import BaseAgent as BaseAgent
    from pytest_memeval.qa.agent import BaseLLMClient as BaseLLMClient
    from pytest_memeval.qa.agent import run_eval as run_eval
    from pytest_memeval.qa.answering import ChatAnswerer as ChatAnswerer
    from pytest_memeval.qa.answering import ExtractiveAnswerer as ExtractiveAnswerer
    from pytest_memeval.qa.evaluation import EvalResult as EvalResult
    from pytest_memeval.qa.evaluation import compute_metrics as compute_metrics
    from pytest_memeval.qa.memories import Bm25Memory as Bm25Memory
    from pytest_memeval.qa.memories import FullContextMemory as FullContextMemory
    from pytest_memeval.qa.memories import NullMemory as NullMemory
    from pytest_memeval.qa.memories import RecentMemory as RecentMemory
    from pytest_memeval.qa.memories import VectorMemory as VectorMemory
    from pytest_memeval.qa.memory import BaseMemory as BaseMemory

_HOMES = {
    "agent": "BaseAgent BaseLLMClient run_eval",
    "answering": "ChatAnswerer ExtractiveAnswerer",
    "evaluation": "EvalResult compute_metrics",
    "memories": "Bm25Memory FullContextMemory NullMemory RecentMemory VectorMemory",
    "memory": "BaseMemory",
}

__all__ = [
    "BaseAgent",
    "BaseLLMClient",
    "BaseMemory",
    "Bm25Memory",
    "ChatAnswerer",
    "EvalResult",
    "ExtractiveAnswerer",
    "FullContextMemory",
    "NullMemory",
    "RecentMemory",
    "VectorMemory",
    "compute_metrics",
    "run_eval",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES, __all__)
