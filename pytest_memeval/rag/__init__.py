"""Evaluating retrieval-augmented generation: an evaluator base, evaluators with and without a model, RAGAS behind it.

The names are imported from their modules when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_memeval.lazy_names import lazy_names

_HOMES = {
    "base": "BaseEvaluator",
    "types": "EvalDataset EvalResult EvalSample Score",
    "summary": "MetricSummary SummaryResult summarize",
    "offline": (
        "AnswerOverlap CitationCoverage ContextLength ContextPrecisionByMatching ContextRecallByMatching "
        "OfflineEvaluator PassageMatcher"
    ),
    "model_based": "AnswerRelevancy ContextPrecision ContextRecall Faithfulness ModelEvaluator",
    "ragas_evaluator": "RagasEvaluator run_ragas_evaluation",
    "pipeline": "DatasetGenerator PipelineAnswer RAGQueryPipeline answer_dataset",
    "rows": "load_rag_dataset",
}

__all__ = [
    "AnswerOverlap",
    "AnswerRelevancy",
    "BaseEvaluator",
    "CitationCoverage",
    "ContextLength",
    "ContextPrecision",
    "ContextPrecisionByMatching",
    "ContextRecall",
    "ContextRecallByMatching",
    "DatasetGenerator",
    "EvalDataset",
    "EvalResult",
    "EvalSample",
    "Faithfulness",
    "MetricSummary",
    "ModelEvaluator",
    "OfflineEvaluator",
    "PassageMatcher",
    "PipelineAnswer",
    "RAGQueryPipeline",
    "RagasEvaluator",
    "Score",
    "SummaryResult",
    "answer_dataset",
    "load_rag_dataset",
    "run_ragas_evaluation",
    "summarize",
]


__getattr__, __dir__ = lazy_names(__name__, _HOMES, __all__)


if TYPE_CHECKING:  # for type checkers; at run time __getattr__ serves
    from pytest_memeval.rag.base import BaseEvaluator as BaseEvaluator
    from pytest_memeval.rag.model_based import AnswerRelevancy as AnswerRelevancy
    from pytest_memeval.rag.model_based import ContextPrecision as ContextPrecision
    from pytest_memeval.rag.model_based import ContextRecall as ContextRecall
    from pytest_memeval.rag.model_based import Faithfulness as Faithfulness
    from pytest_memeval.rag.model_based import ModelEvaluator as ModelEvaluator
    from pytest_memeval.rag.offline import AnswerOverlap as AnswerOverlap
    from pytest_memeval.rag.offline import CitationCoverage as CitationCoverage
    from pytest_memeval.rag.offline import ContextLength as ContextLength
    from pytest_memeval.rag.offline import ContextPrecisionByMatching as ContextPrecisionByMatching
    from pytest_memeval.rag.offline import ContextRecallByMatching as ContextRecallByMatching
    from pytest_memeval.rag.offline import OfflineEvaluator as OfflineEvaluator
    from pytest_memeval.rag.offline import PassageMatcher as PassageMatcher
    from pytest_memeval.rag.pipeline import DatasetGenerator as DatasetGenerator
    from pytest_memeval.rag.pipeline import PipelineAnswer as PipelineAnswer
    from pytest_memeval.rag.pipeline import RAGQueryPipeline as RAGQueryPipeline
    from pytest_memeval.rag.pipeline import answer_dataset as answer_dataset
    from pytest_memeval.rag.ragas_evaluator import RagasEvaluator as RagasEvaluator
    from pytest_memeval.rag.ragas_evaluator import run_ragas_evaluation as run_ragas_evaluation
    from pytest_memeval.rag.rows import load_rag_dataset as load_rag_dataset
    from pytest_memeval.rag.summary import MetricSummary as MetricSummary
    from pytest_memeval.rag.summary import SummaryResult as SummaryResult
    from pytest_memeval.rag.summary import summarize as summarize
    from pytest_memeval.rag.types import EvalDataset as EvalDataset
    from pytest_memeval.rag.types import EvalResult as EvalResult
    from pytest_memeval.rag.types import EvalSample as EvalSample
    from pytest_memeval.rag.types import Score as Score
