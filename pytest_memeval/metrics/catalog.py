"""Every metric that reports, gates and ``expect:`` know by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["ratio", "proportion", "product", "count"]
Better = Literal["higher", "lower", "neither"]

#: Sections a metric path can start with, in report order. ``metrics`` holds custom metrics.
SECTIONS: tuple[str, ...] = (
    "l1",
    "l15",
    "l2",
    "inject",
    "search",
    "qa",
    "rag",
    "locomo",
    "longmemeval",
    "metrics",
)

#: Section → the stages whose results it measures.
SECTION_STAGES: Mapping[str, tuple[str, ...]] = {
    "l1": ("l1",),
    "l15": ("l15",),
    "l2": ("l2", "template"),
    "inject": ("inject",),
    "search": ("search",),
    "qa": ("qa",),
    "rag": ("rag",),
    "locomo": ("qa",),
    "longmemeval": ("qa",),
    "metrics": (),
}

#: Derived metric → the stages that must all be scored.
DERIVED_STAGES: Mapping[str, tuple[str, ...]] = {"l2.profile_quality": ("l1", "template")}


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """What is known of a metric without computing it.

    ``kind`` says how a set's value and its interval are formed: ``ratio`` (Σ numerators / Σ denominators),
    ``proportion`` (a ratio with one 0/1 observation a cluster: Wilson), ``product`` (a product of two ratios) or
    ``count`` (a sum, no interval). ``keys`` names what its values are split by (``dimension``, ``action``), if they
    are. ``low`` and ``high`` bound the value.
    """

    section: str
    name: str
    kind: Kind
    better: Better
    en: str
    zh: str
    stage: str
    low: float = 0.0
    high: float | None = 1.0
    keys: str | None = None

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"


def _m(
    section: str,
    name: str,
    en: str,
    zh: str,
    *,
    kind: Kind = "ratio",
    better: Better = "higher",
    stage: str | None = None,
    high: float | None = 1.0,
    keys: str | None = None,
) -> MetricSpec:
    return MetricSpec(section, name, kind, better, en, zh, stage or section, high=high, keys=keys)


#: The figures of question answering: name, in English, in Chinese.
_ANSWERS: tuple[tuple[str, str, str], ...] = (
    ("judge_score", "judge score", "裁判评分"),
    ("exact_match", "exact match", "完全匹配"),
    ("f1", "token F1", "词元 F1"),
    ("rouge1", "ROUGE-1", "ROUGE-1"),
    ("rouge2", "ROUGE-2", "ROUGE-2"),
    ("rougeL", "ROUGE-L", "ROUGE-L"),
    ("bleu1", "BLEU-1", "BLEU-1"),
    ("bleu2", "BLEU-2", "BLEU-2"),
    ("bleu4", "BLEU-4", "BLEU-4"),
    ("meteor", "METEOR", "METEOR"),
    ("meteor_no_wordnet", "METEOR without WordNet", "METEOR（无 WordNet）"),
)
_RETRIEVED: tuple[tuple[str, str, str], ...] = (
    ("turn_recall", "recall of evidence turns", "证据轮次召回率"),
    ("turn_hit", "hit of evidence turns", "证据轮次命中率"),
    ("session_recall", "recall of evidence sessions", "证据会话召回率"),
    ("session_hit", "hit of evidence sessions", "证据会话命中率"),
)


def _questions() -> tuple[MetricSpec, ...]:
    """The metrics of sets of questions. Those by type have a value per question type (or LoCoMo category, or arm)."""
    found = [
        *(_m("qa", name, en, zh) for name, en, zh in _ANSWERS),
        _m("qa", "adversarial_accuracy", "adversarial questions refused", "对抗问题拒答率"),
        _m("qa", "abstention_accuracy", "unanswerable questions refused", "无答案问题拒答率"),
        _m("qa", "refusal_rate", "answerable questions refused", "有答案问题拒答率", better="lower"),
        _m("qa", "context_tokens", "tokens of context", "上下文 token 数", better="neither", high=None),
        *(_m("qa", name, en, zh) for name, en, zh in _RETRIEVED),
        *(_m("qa", f"{name}_by_type", f"{en} by type", f"{zh}（按类型）", keys="type") for name, en, zh in _ANSWERS),
        _m("qa", "f1_by_arm", "token F1 of other arms", "其他对照组的词元 F1", better="neither", keys="arm"),
        MetricSpec("qa", "f1_lift_over", "ratio", "higher", "lift in token F1", "词元 F1 提升", "qa", -1.0, 1.0, "arm"),
        _m("locomo", "f1_official", "LoCoMo's own F1", "LoCoMo 官方 F1", stage="qa"),
        _m("locomo", "recall_official", "LoCoMo's own recall", "LoCoMo 官方召回率", stage="qa"),
        _m("locomo", "f1_official_by_category", "LoCoMo's own F1", "LoCoMo 官方 F1", stage="qa", keys="category"),
        _m("locomo", "recall_official_by_category", "LoCoMo's own recall", "官方召回率", stage="qa", keys="category"),
        _m("longmemeval", "accuracy", "accuracy", "准确率", stage="qa"),
        _m("longmemeval", "abstention_accuracy", "abstention accuracy", "拒答准确率", stage="qa"),
        _m("longmemeval", "accuracy_by_type", "accuracy by type", "准确率（按类型）", stage="qa", keys="type"),
    ]
    for level, en, zh in (("", "sessions", "会话"), ("turn_", "turns", "轮次")):
        for name, what, was in (
            ("recall_any", "any evidence found", "找到任一证据"),
            ("recall_all", "all evidence found", "找到全部证据"),
            ("ndcg_any", "LongMemEval's NDCG", "LongMemEval 的 NDCG"),
        ):
            found.append(_m("longmemeval", f"{level}{name}", f"{what} ({en})", f"{was}（{zh}）", stage="qa"))
    return tuple(found)


_ALL: tuple[MetricSpec, ...] = (
    _m("l1", "dimension_micro_f1", "dimension micro F1", "维度微平均 F1"),
    _m("l1", "dimension_micro_precision", "dimension micro precision", "维度微平均精确率"),
    _m("l1", "dimension_micro_recall", "dimension micro recall", "维度微平均召回率"),
    _m("l1", "per_dimension_f1", "F1 per dimension", "各维度 F1", keys="dimension"),
    _m("l1", "per_dimension_precision", "precision per dimension", "各维度精确率", keys="dimension"),
    _m("l1", "per_dimension_recall", "recall per dimension", "各维度召回率", keys="dimension"),
    _m("l1", "strict_match_rate", "strict match rate", "严格匹配率", kind="proportion"),
    _m("l1", "memory_type_accuracy", "memory type accuracy", "记忆类型准确率"),
    _m("l1", "time_velocity_accuracy", "time velocity accuracy", "时效类型准确率"),
    _m("l1", "priority_mae", "priority MAE (points)", "优先级平均绝对误差（分）", better="lower", high=None),
    _m("l1", "priority_within_10", "priority within 10 % of the scale", "优先级误差在量程 10% 内占比"),
    _m("l1", "memory_precision", "memory precision", "记忆精确率"),
    _m("l1", "memory_recall", "memory recall", "记忆召回率"),
    _m(
        "l1",
        "total_tp",
        "dimension true positives",
        "维度真正例数",
        kind="count",
        better="neither",
        high=None,
    ),
    _m("l1", "total_fp", "dimension false positives", "维度假正例数", kind="count", better="lower", high=None),
    _m("l1", "total_fn", "dimension false negatives", "维度假负例数", kind="count", better="lower", high=None),
    _m("l1", "dropped_labels", "dropped labels", "被丢弃的标签数", kind="count", better="lower", high=None),
    _m("l1", "invalid_items", "invalid items", "无效条目数", kind="count", better="lower", high=None),
    _m("l1", "near_misses", "near misses", "近似未匹配对数", kind="count", better="lower", high=None),
    _m("l15", "action_accuracy", "action accuracy", "动作准确率"),
    _m("l15", "decision_accuracy", "decision accuracy (action and targets)", "决策准确率（动作与目标）"),
    _m("l15", "action_accuracy_reached", "action accuracy, reached only", "动作准确率（仅已抽取）"),
    _m("l15", "decision_accuracy_reached", "decision accuracy, reached only", "决策准确率（仅已抽取）"),
    _m("l15", "action_precision", "precision per action", "各动作精确率", keys="action"),
    _m("l15", "action_recall", "recall per action", "各动作召回率", keys="action"),
    _m("l15", "merged_content_match", "merged content match", "合并内容匹配率"),
    _m("l15", "bad_decisions", "bad decisions", "无效决策数", kind="count", better="lower", high=None),
    _m(
        "l15",
        "unreached",
        "labelled actions not reached",
        "未到达的标注动作数",
        kind="count",
        better="lower",
        high=None,
    ),
    _m("l2", "section_hit_rate", "section hit rate", "分区命中率", stage="template"),
    _m("l2", "section_miss_rate", "section miss rate", "分区缺失率", stage="template", better="lower"),
    _m(
        "l2",
        "section_misentry_rate",
        "section mis-entry rate",
        "分区误入率",
        stage="template",
        better="lower",
    ),
    _m("l2", "profile_quality", "profile quality", "画像质量", stage="template", kind="product"),
    _m(
        "l2",
        "total_evaluated",
        "section labels evaluated",
        "已评估分区标注数",
        stage="template",
        kind="count",
        better="neither",
        high=None,
    ),
    _m("l2", "scene_grouping_f1", "scene grouping F1", "场景聚合 F1"),
    _m("l2", "scene_stability", "scene stability over trials", "多次试验间的场景稳定性"),
    _m("l2", "scene_grouping_precision", "scene grouping precision", "场景聚合精确率"),
    _m("l2", "scene_grouping_recall", "scene grouping recall", "场景聚合召回率"),
    _m("l2", "scene_label_recall", "scene label recall", "场景标签召回率"),
    _m("l2", "scene_label_precision", "scene label precision", "场景标签精确率"),
    _m(
        "l2",
        "scene_count_ratio",
        "scenes made / scenes labelled",
        "场景数比（生成/标注）",
        better="neither",
        high=None,
    ),
    _m("l2", "memories_per_scene", "memories per scene", "每场景记忆数", better="neither", high=None),
    _m(
        "l2",
        "unreached",
        "labelled memories not reached",
        "未到达的标注记忆数",
        kind="count",
        better="lower",
        high=None,
    ),
    _m("inject", "inject_hit_rate", "injection hit rate", "注入命中率"),
    _m("inject", "reference_coverage", "reference coverage", "引用覆盖率"),
    _m("inject", "pipeline_hit_rate", "injection hit rate, pipeline's memories", "注入命中率（流水线记忆）"),
    _m("inject", "pipeline_coverage", "reference coverage, pipeline's memories", "引用覆盖率（流水线记忆）"),
    _m("inject", "redundancy", "repeated memories in the blocks", "注入块间重复率", better="lower"),
    _m(
        "inject", "pipeline_redundancy", "repeated memories, pipeline's", "注入块间重复率（流水线记忆）", better="lower"
    ),
    _m("inject", "tokens_per_block", "tokens per block", "每个注入块的 token 数", better="neither", high=None),
    _m("inject", "budget_use", "share of the token budget used", "token 预算使用率", better="neither", high=None),
    _m(
        "inject",
        "over_budget",
        "injections over their token budget",
        "超出 token 预算的注入数",
        kind="count",
        better="lower",
        high=None,
    ),
    _m("search", "ndcg", "NDCG", "NDCG"),
    _m("search", "mrr", "MRR", "MRR"),
    _m("search", "recall", "recall", "召回率"),
    _m("search", "hit", "hit rate", "命中率"),
    _m("search", "map", "MAP", "MAP"),
    _m("search", "queries", "queries", "查询数", kind="count", better="neither", high=None),
    _m(
        "search",
        "excluded_queries",
        "queries without a relevant memory",
        "无相关记忆的查询数",
        kind="count",
        better="lower",
        high=None,
    ),
)

#: What is known of metrics in sections whose names are open: an evaluator may give others, and none has to be there.
_OPEN: tuple[MetricSpec, ...] = (
    _m("rag", "faithfulness", "faithfulness", "忠实度"),
    _m("rag", "answer_relevancy", "answer relevancy", "答案相关性"),
    _m("rag", "context_precision", "context precision", "上下文精确率"),
    _m("rag", "context_recall", "context recall", "上下文召回率"),
    _m("rag", "non_llm_context_recall", "context recall by matching", "上下文召回率（文本匹配）"),
    _m(
        "rag",
        "non_llm_context_precision_with_reference",
        "context precision by matching",
        "上下文精确率（文本匹配）",
    ),
    _m("rag", "answer_exact_match", "answer exact match", "答案完全匹配", kind="proportion"),
    _m("rag", "answer_f1", "answer token F1", "答案词元 F1"),
    _m("rag", "answer_rouge1", "answer ROUGE-1", "答案 ROUGE-1"),
    _m("rag", "answer_rouge2", "answer ROUGE-2", "答案 ROUGE-2"),
    _m("rag", "answer_rougeL", "answer ROUGE-L", "答案 ROUGE-L"),
    _m("rag", "citation_coverage", "sentences with a citation", "含引用的句子占比"),
    _m("rag", "citation_validity", "citations of a passage that exists", "有效引用占比"),
    _m("rag", "context_passages", "retrieved passages", "检索段落数", better="neither", high=None),
    _m("rag", "context_characters", "retrieved characters", "检索字符数", better="neither", high=None),
)
OPEN_METRICS: Mapping[str, MetricSpec] = {spec.path: spec for spec in (*_OPEN, *_questions())}

METRICS: Mapping[str, MetricSpec] = {spec.path: spec for spec in _ALL}


def spec_of(path: str) -> MetricSpec | None:
    """What is known of ``section.metric``, ``None`` for a metric that only its evaluator knows."""
    return METRICS.get(path) or OPEN_METRICS.get(path)


#: Metrics whose name takes a cut-off, ``search.ndcg@10``.
AT_K: frozenset[str] = frozenset({"search.ndcg", "search.recall", "search.hit"})


def metrics_of(section: str) -> tuple[MetricSpec, ...]:
    """The section's metrics in report order; empty for a section whose metrics are open-ended (``qa``, ``metrics``)."""
    return tuple(spec for spec in _ALL if spec.section == section)


#: Default gates of a distillation set, used where neither the file nor the ini gives any.
DEFAULT_DISTILL_GATES: tuple[str, ...] = (
    "P0 l1.dimension_micro_f1 >= 0.75",
    "P0 l1.strict_match_rate >= 0.50",
    "P0 l2.section_hit_rate >= 0.70",
    "P0 l2.profile_quality >= 0.50",
    "P1 l1.memory_type_accuracy >= 0.85",
    "P1 l1.time_velocity_accuracy >= 0.80",
    "P1 l15.action_accuracy >= 0.80",
    "P1 l2.scene_grouping_f1 >= 0.60",
    "P1 search.ndcg@10 >= 0.60",
)


def metric_stages(section: str, metric: str) -> tuple[str, ...]:
    """The stages that must be scored for a metric to be measured in a case; empty for custom metrics."""
    base = f"{section}.{metric}"
    if base in DERIVED_STAGES:
        return DERIVED_STAGES[base]
    spec = METRICS.get(base)
    return (spec.stage,) if spec is not None else SECTION_STAGES.get(section, ())
