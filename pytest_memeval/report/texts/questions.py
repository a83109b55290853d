"""The texts about sets of questions, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

QUESTION_TEXTS: Mapping[str, tuple[str, str]] = {
    "title": ("Questions", "问答"),
    "type": ("type", "类型"),
    "all": ("all with an answer", "有答案的全部问题"),
    "n": ("n", "题数"),
    "judge": ("judge", "裁判"),
    "refused": ("refused", "拒答率"),
    "turn_recall": ("turn recall", "轮次召回"),
    "session_recall": ("session recall", "会话召回"),
    "asked": (
        "memory {memory}, answerer {answerer}, {judge}, captions {captions}, {trials}",
        "记忆 {memory}，回答 {answerer}，{judge}，图片说明 {captions}，{trials}",
    ),
    "no_judge": ("no judge", "无裁判"),
    "judged_by": ("judge {name}", "裁判 {name}"),
    "captions_none": ("none in the data", "数据中没有"),
    "captions_on": ("as text", "作为文本"),
    "captions_off": ("off", "关闭"),
    "single_run": ("single run", "单次运行"),
    "trials": ("{count} trials", "{count} 次试验"),
    "headline_measured": (
        "headline: {metric} {value} {interval} over {n} questions{scope}, {errors} error(s); errors as wrong {bound}; "
        "interval from {clusters} {texts}",
        "主指标：{metric} {value} {interval}，共 {n} 题{scope}，{errors} 个错误；错误计为答错时 {bound}；"
        "区间来自 {clusters} 个{texts}",
    ),
    "headline_errors_as_wrong": (
        "headline: {metric} {bound}{scope}, errors counted as wrong, since {errors} of {of} questions could not be "
        "measured; "
        "measured ones alone {value} {interval}; interval from {clusters} {texts}",
        "主指标：{metric} {bound}{scope}（{of} 题中有 {errors} 题无法测量，故错误计为答错）；"
        "仅计可测题目为 {value} {interval}；区间来自 {clusters} 个{texts}",
    ),
    "official": (
        "{name} {value} {interval} over {n} questions{scope}; errors as wrong {bound}",
        "{name} {value} {interval}，共 {n} 题{scope}；错误计为答错时 {bound}",
    ),
    "of_categories": (" of categories {numbers}", "（类别 {numbers}）"),
    "scope_longmemeval": (", abstention questions included", "，含应拒答的问题"),
    "as_wrong": ("errors as wrong", "错误计为答错"),
    "always_refuse": ("refusing every question would get {figures}", "全部拒答将得到 {figures}"),
    "ceiling": (
        "{wrong} of {n} published answers are wrong by the errata file: a perfect answerer gets {value} of them",
        "按勘误文件，{n} 个公布答案中有 {wrong} 个有误：完全正确的回答者在公布答案上只能得到 {value}",
    ),
    "corrected": ("against corrected labels: {figures}", "按更正后的标注：{figures}"),
    "controls": (
        "judge: sensitivity {sensitivity}, specificity {specificity} by {wanted} controls of each kind; "
        "accuracy {raw}, corrected {corrected} {interval}",
        "裁判：灵敏度 {sensitivity}，特异度 {specificity}（两类对照各 {wanted} 个）；"
        "准确率 {raw}，校正后 {corrected} {interval}",
    ),
    "untrusted": (
        "judge not trustworthy: gates on its scores are unmeasured",
        "裁判不可信：依赖其评分的门禁视为未测得",
    ),
    "retrieval": (
        "evidence found: {figures}; {tokens} tokens of context a question",
        "证据召回：{figures}；每题上下文 {tokens} 个 token",
    ),
    "arms": ("F1 of other arms: {figures}", "其他对照组的 F1：{figures}"),
    "task_averaged": ("averaged over types: {figures}", "按类型平均：{figures}"),
    "by_conversation": ("By conversation", "按对话"),
    "conversation": ("conversation", "对话"),
    "by_haystack": ("By haystack", "按会话集"),
    "haystack": ("haystack", "会话集"),
    "texts_conversation": ("conversation(s)", "对话"),
    "texts_haystack": ("haystack(s)", "会话集"),
    "protocol": ("Protocol", "测量协议"),
    "latency": ("Seconds", "耗时（秒）"),
}
