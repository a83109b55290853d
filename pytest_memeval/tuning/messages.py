"""Every text of a tuning report, in English and in Chinese."""

from __future__ import annotations

from typing import Any

from pytest_memeval.report.languages import in_language

_TEXTS: dict[str, tuple[str, str]] = {
    "title": ("Retrieval tuning", "检索调参"),
    "input": (
        "{memories} memories, {queries} queries in {groups} groups, {combinations} combinations, {metric}",
        "{memories} 条记忆，{queries} 个查询（{groups} 组），{combinations} 个组合，{metric}",
    ),
    "partial": (
        "PARTIAL: stopped early, {not_reached} combinations were not tried.",
        "不完整：提前停止，{not_reached} 个组合未尝试。",
    ),
    "verdict.conclusive": ("Conclusive", "有结论"),
    "verdict.inconclusive_no_effect": ("Nothing to tune: no effect", "无可调：没有影响"),
    "verdict.inconclusive_below_noise": ("No recommendation: below noise", "不作推荐：低于噪声"),
    "verdict.inconclusive_bm25_only": ("No recommendation: there are no vectors", "不作推荐：没有向量"),
    "verdict.no_queries": ("Nothing to measure: no queries", "无可测：没有查询"),
    "verdict.none": ("Nothing could be compared", "无法比较"),
    # Reasons
    "reason.better": (
        "{chosen} is better than the current values, also after allowing for everything that was tried"
        " (p = {p}), and the gain holds on queries that did not choose it.",
        "{chosen} 优于当前值：计入全部尝试后依然成立（p = {p}），在未参与选择的查询上也成立。",
    ),
    "reason.current_is_best": (
        "The current values are better than every combination that measures differently (p = {p}): keep them.",
        "当前值优于每一个测得结果不同的组合（p = {p}）：保持不变。",
    ),
    "reason.not_beyond_luck": (
        "{chosen} looks better, but the best of so many would often look so by luck alone (p = {p}).",
        "{chosen} 看似更好，但在这么多组合中，仅凭运气也常会如此（p = {p}）。",
    ),
    "reason.not_on_unseen": (
        "{chosen} looks better, but the gain does not hold on queries that did not choose it: its interval reaches 0.",
        "{chosen} 看似更好，但在未参与选择的查询上增益不成立：其区间包含 0。",
    ),
    "reason.within_error": (
        "The best combination is within one standard error of the current values (p = {p}).",
        "最佳组合与当前值之差在一个标准误之内（p = {p}）。",
    ),
    "reason.none_better": (
        "No combination is better than the current values, and not all are clearly worse (p = {p}).",
        "没有组合优于当前值，但也并非全部明显更差（p = {p}）。",
    ),
    "reason.few_groups": (
        "{groups} groups of queries are too few to tell a gain from luck; at least 6 are needed.",
        "只有 {groups} 组查询，不足以区分增益与运气；至少需要 6 组。",
    ),
    "reason.no_effect": (
        "None of the {combinations} measured combinations changes {metric} of any query.",
        "已测的 {combinations} 个组合都不改变任何查询的 {metric}。",
    ),
    "reason.no_effect_text_empty": (
        "The text route finds nothing for any query, so there is nothing to fuse.",
        "文本路对所有查询都没有结果，没有可融合的内容。",
    ),
    "reason.no_effect_vector_empty": (
        "The vector route finds nothing for any query, so there is nothing to fuse.",
        "向量路对所有查询都没有结果，没有可融合的内容。",
    ),
    "reason.no_effect_same_order": (
        "Both routes rank every query alike, so their fusion is the same with any values.",
        "两路对每个查询的排序相同，取任何值融合结果都一样。",
    ),
    "reason.bm25_only": (
        "There is only the text route: {parameters} weigh two routes against each other. Leave them out of the grid to"
        " tune the others, or choose an embedder.",
        "只有文本路：{parameters} 用于权衡两路。要调其他参数，请将其移出网格，或选择一个嵌入器。",
    ),
    "reason.no_queries": (
        "No query has a relevant memory ({without_truth} have none).",
        "没有查询标注了相关记忆（{without_truth} 个查询无标注）。",
    ),
    "reason.nothing_to_compare": (
        "No combination but the current values could be measured.",
        "除当前值外，没有任何组合可以测得。",
    ),
    # Lines
    "embeddings": (
        "The embedding server was sent {requests} requests of {tokens} tokens, {cost}.",
        "向嵌入服务器发出请求 {requests} 次，共 {tokens} 个 token，{cost}。",
    ),
    "unknown_cost": ("price not known", "价格未知"),
    "current": ("current", "当前"),
    "best": ("best", "最佳"),
    "recommended": ("recommended", "推荐"),
    "stands": ("none: the current values stand", "无：保持当前值"),
    "on_its_own": ("{gain} on the queries that chose it", "{gain}（在参与选择的查询上）"),
    "unseen": (
        "Gain on queries left out: {gain} {interval} (seen: {apparent})",
        "留出查询上的增益：{gain} {interval}（表面：{apparent}）",
    ),
    "unseen_reason": (
        "Gain on queries left out: {gain}, no interval: {reason} (seen: {apparent})",
        "留出查询上的增益：{gain}，无区间：{reason}（表面：{apparent}）",
    ),
    "unseen_none": ("Gain on queries left out: not measurable, {reason}", "留出查询上的增益：无法测得，{reason}"),
    "interval.nothing to measure": ("nothing to measure", "没有可测的内容"),
    "interval.fewer than 5 clusters": ("fewer than 5 groups", "少于 5 组"),
    "interval.no variation between clusters": ("every group gains the same", "各组增益相同"),
    "interval.the numbers are too far apart for an interval": (
        "the numbers are too far apart for an interval",
        "数值相差过大，无法给出区间",
    ),
    "how": (
        "Cross-validation: {folds} folds over groups of queries, dealt {repeats} times; values chosen on the rest.",
        "交叉验证：按查询组分 {folds} 折，重分 {repeats} 次；取值由其余查询选出。",
    ),
    "chosen_often": ("The parts chose: {choices}", "各部分所选：{choices}"),
    "sensitivity": ("Sensitivity", "敏感度"),
    "spread_note": (
        "Spread: the largest minus the smallest mean over all combinations with a value. Noise: the spread that random"
        " order of the values would exceed in 5 % of cases.",
        "跨度：取某值的所有组合之均值，其最大与最小之差。噪声：随机打乱取值时，仅 5 % 的情形会超过的跨度。",
    ),
    "parameter": ("parameter", "参数"),
    "value": ("value", "取值"),
    "marginal": ("mean over all others", "对其余取平均"),
    "at_best": ("others at their best", "其余取最佳"),
    "spread": ("spread", "跨度"),
    "noise": ("noise", "噪声"),
    "changed": ("queries changed", "受影响查询"),
    "effect": ("effect", "影响"),
    "effect.none": ("none", "无"),
    "effect.within_noise": ("within noise", "噪声以内"),
    "effect.beyond_noise": ("beyond noise", "超出噪声"),
    "effect.unknown": ("unknown", "未知"),
    "diagnosis": ("What the two routes return", "两路的返回"),
    "diagnosis.overlap": ("Overlap of the first ten: {overlap}", "前十重合度：{overlap}"),
    "diagnosis.both": (
        "Documents that both routes return: {in_both}, at different ranks: {at_different_ranks}",
        "两路都返回的文档：{in_both}，名次不同：{at_different_ranks}",
    ),
    "diagnosis.empty": (
        "Queries for which the text route finds nothing: {empty_text} of {queries}; the vector route: {empty_vector}",
        "文本路无结果的查询：{empty_text} / {queries}；向量路：{empty_vector}",
    ),
    "diagnosis.relevant": (
        "Relevant memories: {relevant}, returned by both: {relevant_in_both}, by neither: {relevant_in_neither}",
        "相关记忆：{relevant}，两路都返回：{relevant_in_both}，都未返回：{relevant_in_neither}",
    ),
    "diagnosis.same_order": ("Queries that both routes rank alike: {same_order}", "两路排序相同的查询：{same_order}"),
    "remarks": ("Remarks", "备注"),
    "note.ceiling": (
        "The current score, {score}, leaves hardly anything to gain: harder queries would tell more.",
        "当前得分 {score} 已接近上限：更难的查询才能说明问题。",
    ),
    "note.top_k_open": (
        "{metric} never falls when more is returned: it cannot say what a longer list costs its reader.",
        "返回更多时 {metric} 不会下降：它无法反映更长列表的代价。",
    ),
    "note.top_k_below": (
        "A top_k below {k} can only lose under {metric}, one above it changes nothing.",
        "在 {metric} 下，top_k 小于 {k} 只会更差，大于它则没有影响。",
    ),
    "note.top_k_beyond": (
        "{metric} looks at the first {k} hits only: no top_k of this grid can matter.",
        "{metric} 只看前 {k} 个结果：网格中的 top_k 都不会有影响。",
    ),
    "note.edge": (
        "The recommended {name} = {value} is at the edge of the grid: values beyond it may be better still.",
        "推荐的 {name} = {value} 位于网格边缘：更远的取值可能更好。",
    ),
    "note.small_corpus": (
        "The cut-off {k} is close to the size of the corpus ({memories}): nearly everything is found anyhow.",
        "截断 {k} 接近语料规模（{memories}）：几乎总能找到。",
    ),
    "without_truth": (
        "{count} queries without a relevant memory were left out.",
        "{count} 个没有相关记忆的查询被排除。",
    ),
    "failed": (
        "{failed} combinations could not be compared, because a query failed under them:",
        "{failed} 个组合因查询失败而无法比较：",
    ),
    "failure": ("{count} calls: {kind}", "{count} 次调用：{kind}"),
    "slow_vectors": ("Vectors are searched by {backend}: {why}.", "向量检索使用 {backend}：{why}。"),
    "results": ("Best combinations", "最佳组合"),
    "score": ("score", "得分"),
    "more": ("{count} more in tuning.json.", "另有 {count} 个，见 tuning.json。"),
    "curves": (
        "Solid: others at their best. Dashed: mean over all others. Dotted: the score of the current values.",
        "实线：其余取最佳。虚线：对其余取平均。点线：当前值的得分。",
    ),
    "files": ("report: {folder}", "报告：{folder}"),
    "search": ("Search", "检索"),
}  # fmt: skip


def text(key: str, lang: str, **values: Any) -> str:
    """The text for a key in ``en`` or ``zh``. KeyError for an unknown key, and for a value that is missing."""
    return in_language(_TEXTS[key], lang).format(**values)
