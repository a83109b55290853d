"""Evaluate LLM memory systems as pytest tests.

The public names are imported from their modules when they are first used, so that ``import pytest_memeval`` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_memeval.lazy_names import lazy_names

__version__ = "0.1.0"

#: Module → the public names that it defines.
_HOMES = {
    "api.run": "run",
    "api.report": "RunReport",
    "custom_metrics": "metric",
    "outputs": "Outputs",
    "documents.problems": "DocumentError",
    "options": "SettingsError",
    "values": "Block Decision Hit Memory Message Scene Section",
    "cases.models": (
        "CaseSet EvalCase GtConflictAction GtMemory GtScene InjectGroundTruth L15GroundTruth L1GroundTruth "
        "L2GroundTruth SearchGroundTruth SearchQuery"
    ),
    "cases.loader": "load_cases validate_case",
    "engine.protocol": "StageContext StageError",
    "llm.protocol": "ChatModel ChatReply Embedder Usage",
    "metrics.matching": "Matcher content_similarity match_memories",
    "metrics.l1": "L1Metrics aggregate_l1 compute_l1",
    "metrics.l15": "L15Metrics aggregate_l15 compute_l15",
    "metrics.l2": "aggregate_l2 compute_l2",
    "metrics.inject": "InjectMetrics aggregate_inject compute_inject",
    "metrics.ranking": "ndcg",
    "metrics.search": "RRFMetrics aggregate_search compute_search",
    "search.params": "SearchParams",
    "results": "CaseResult StageResult",
    "datasets.models": "Dataset QAPair QuestionType Sample Session",
    "datasets.locomo": "load_locomo",
    "datasets.longmemeval": "load_longmemeval",
    "tuning.analysis": "TuningResult",
    "tuning.grid": "GridSearch",
    "qa.agent": "BaseAgent BaseLLMClient run_eval",
    "qa.evaluation": "compute_metrics",
    "qa.memory": "BaseMemory",
    "judge.batch": "batch_judge judge_answer",
    "judge.chat_judge": "ChatJudge",
    "judge.protocol": "Judge",
    "judge.refusal": "is_unanswerable",
    "judge.verdict": "JudgeError Verdict",
    "metrics.text.pairs": "ALL_METRICS LIGHT_METRICS",
}

__all__ = [
    "ALL_METRICS",
    "LIGHT_METRICS",
    "BaseAgent",
    "BaseLLMClient",
    "BaseMemory",
    "Block",
    "CaseResult",
    "CaseSet",
    "ChatJudge",
    "ChatModel",
    "ChatReply",
    "Dataset",
    "Decision",
    "DocumentError",
    "Embedder",
    "EvalCase",
    "GridSearch",
    "GtConflictAction",
    "GtMemory",
    "GtScene",
    "Hit",
    "InjectGroundTruth",
    "InjectMetrics",
    "Judge",
    "JudgeError",
    "L1GroundTruth",
    "L1Metrics",
    "L2GroundTruth",
    "L15GroundTruth",
    "L15Metrics",
    "Matcher",
    "Memory",
    "Message",
    "Outputs",
    "QAPair",
    "QuestionType",
    "RRFMetrics",
    "RunReport",
    "Sample",
    "Scene",
    "SearchGroundTruth",
    "SearchParams",
    "SearchQuery",
    "Section",
    "Session",
    "SettingsError",
    "StageContext",
    "StageError",
    "StageResult",
    "TuningResult",
    "Usage",
    "Verdict",
    "__version__",
    "aggregate_inject",
    "aggregate_l1",
    "aggregate_l2",
    "aggregate_l15",
    "aggregate_search",
    "batch_judge",
    "compute_inject",
    "compute_l1",
    "compute_l2",
    "compute_l15",
    "compute_metrics",
    "compute_search",
    "content_similarity",
    "is_unanswerable",
    "judge_answer",
    "load_cases",
    "load_locomo",
    "load_longmemeval",
    "match_memories",
    "metric",
    "ndcg",
    "run",
    "run_eval",
    "validate_case",
]


__getattr__, __dir__ = lazy_names(__name__, _HOMES, __all__)


if TYPE_CHECKING:  # for type checkers; at run time __getattr__ serves
    from pytest_memeval.api.report import RunReport as RunReport
    from pytest_memeval.api.run import run as run
    from pytest_memeval.cases.loader import load_cases as load_cases
    from pytest_memeval.cases.loader import validate_case as validate_case
    from pytest_memeval.cases.models import CaseSet as CaseSet
    from pytest_memeval.cases.models import EvalCase as EvalCase
    from pytest_memeval.cases.models import GtConflictAction as GtConflictAction
    from pytest_memeval.cases.models import GtMemory as GtMemory
    from pytest_memeval.cases.models import GtScene as GtScene
    from pytest_memeval.cases.models import InjectGroundTruth as InjectGroundTruth
    from pytest_memeval.cases.models import L1GroundTruth as L1GroundTruth
    from pytest_memeval.cases.models import L2GroundTruth as L2GroundTruth
    from pytest_memeval.cases.models import L15GroundTruth as L15GroundTruth
    from pytest_memeval.cases.models import SearchGroundTruth as SearchGroundTruth
    from pytest_memeval.cases.models import SearchQuery as SearchQuery
    from pytest_memeval.custom_metrics import metric as metric
    from pytest_memeval.datasets.locomo import load_locomo as load_locomo
    from pytest_memeval.datasets.longmemeval import load_longmemeval as load_longmemeval
    from pytest_memeval.datasets.models import Dataset as Dataset
    from pytest_memeval.datasets.models import QAPair as QAPair
    from pytest_memeval.datasets.models import QuestionType as QuestionType
    from pytest_memeval.datasets.models import Sample as Sample
    from pytest_memeval.datasets.models import Session as Session
    from pytest_memeval.documents.problems import DocumentError as DocumentError
    from pytest_memeval.engine.protocol import StageContext as StageContext
    from pytest_memeval.engine.protocol import StageError as StageError
    from pytest_memeval.judge.batch import batch_judge as batch_judge
    from pytest_memeval.judge.batch import judge_answer as judge_answer
    from pytest_memeval.judge.chat_judge import ChatJudge as ChatJudge
    from pytest_memeval.judge.protocol import Judge as Judge
    from pytest_memeval.judge.refusal import is_unanswerable as is_unanswerable
    from pytest_memeval.judge.verdict import JudgeError as JudgeError
    from pytest_memeval.judge.verdict import Verdict as Verdict
    from pytest_memeval.llm.protocol import ChatModel as ChatModel
    from pytest_memeval.llm.protocol import ChatReply as ChatReply
    from pytest_memeval.llm.protocol import Embedder as Embedder
    from pytest_memeval.llm.protocol import Usage as Usage
    from pytest_memeval.metrics.inject import InjectMetrics as InjectMetrics
    from pytest_memeval.metrics.inject import aggregate_inject as aggregate_inject
    from pytest_memeval.metrics.inject import compute_inject as compute_inject
    from pytest_memeval.metrics.l1 import L1Metrics as L1Metrics
    from pytest_memeval.metrics.l1 import aggregate_l1 as aggregate_l1
    from pytest_memeval.metrics.l1 import compute_l1 as compute_l1
    from pytest_memeval.metrics.l2 import aggregate_l2 as aggregate_l2
    from pytest_memeval.metrics.l2 import compute_l2 as compute_l2
    from pytest_memeval.metrics.l15 import L15Metrics as L15Metrics
    from pytest_memeval.metrics.l15 import aggregate_l15 as aggregate_l15
    from pytest_memeval.metrics.l15 import compute_l15 as compute_l15
    from pytest_memeval.metrics.matching import Matcher as Matcher
    from pytest_memeval.metrics.matching import content_similarity as content_similarity
    from pytest_memeval.metrics.matching import match_memories as match_memories
    from pytest_memeval.metrics.ranking import ndcg as ndcg
    from pytest_memeval.metrics.search import RRFMetrics as RRFMetrics
    from pytest_memeval.metrics.search import aggregate_search as aggregate_search
    from pytest_memeval.metrics.search import compute_search as compute_search
    from pytest_memeval.metrics.text.pairs import ALL_METRICS as ALL_METRICS
    from pytest_memeval.metrics.text.pairs import LIGHT_METRICS as LIGHT_METRICS
    from pytest_memeval.options import SettingsError as SettingsError
    from pytest_memeval.outputs import Outputs as Outputs
    from pytest_memeval.qa.agent import BaseAgent as BaseAgent
    from pytest_memeval.qa.agent import BaseLLMClient as BaseLLMClient
    from pytest_memeval.qa.agent import run_eval as run_eval
    from pytest_memeval.qa.evaluation import compute_metrics as compute_metrics
    from pytest_memeval.qa.memory import BaseMemory as BaseMemory
    from pytest_memeval.results import CaseResult as CaseResult
    from pytest_memeval.results import StageResult as StageResult
    from pytest_memeval.search.params import SearchParams as SearchParams
    from pytest_memeval.tuning.analysis import TuningResult as TuningResult
    from pytest_memeval.tuning.grid import GridSearch as GridSearch
    from pytest_memeval.values import Block as Block
    from pytest_memeval.values import Decision as Decision
    from pytest_memeval.values import Hit as Hit
    from pytest_memeval.values import Memory as Memory
    from pytest_memeval.values import Message as Message
    from pytest_memeval.values import Scene as Scene
    from pytest_memeval.values import Section as Section
