"""What a plan says that asks nothing."""

from __future__ import annotations

from collections.abc import Mapping

PLAN_TEXTS: Mapping[str, tuple[str, str]] = {
    "title": ("memeval plan", "memeval 计划"),
    "total": (
        "{cases}: {calls} model calls, {cached} need no request (recorded or offline), {asked} to be asked",
        "共 {cases}：模型调用 {calls} 次，其中 {cached} 次无需请求（已有记录或离线），{asked} 次需要请求",
    ),
    "stage": ("stage", "阶段"),
    "cached": ("no request", "无需请求"),
    "asked": ("to ask", "待请求"),
    "input": ("input tokens", "输入 token"),
    "output": ("output tokens", "输出 token"),
    "cost": ("estimated cost: {cost} (model {model})", "预计费用：{cost}（模型 {model}）"),
    "free": ("estimated cost: none, this chat model asks no server", "预计费用：无，该聊天模型不请求服务器"),
    "unknown_price": (
        "estimated cost: unknown, the price of model {model} is not known; add it with --memeval-prices",
        "预计费用：未知，没有模型 {model} 的价格；可用 --memeval-prices 添加",
    ),
    "unknown_model": (
        "estimated cost: unknown, chat model {name} does not say which model it asks; give it an attribute `model`",
        "预计费用：未知，聊天模型 {name} 没有说明它请求哪个模型；请给它加上 `model` 属性",
    ),
    "embeddings": (
        "embeddings: {cached} texts in the cache, {asked} to be asked for, about {tokens} tokens; {cost}",
        "嵌入：缓存中已有 {cached} 条文本，待请求 {asked} 条，约 {tokens} 个 token；{cost}",
    ),
    "embeddings_unknown": ("the price of model {model} is not known", "没有模型 {model} 的价格"),
    "left_out": ("not planned, {count} case(s): {why}", "未计入计划的用例 {count} 个：{why}"),
    "others": ("{count} other test(s) were not run.", "另有 {count} 个其他测试未运行。"),
    "nothing_asked": ("Nothing was asked and no report was written.", "没有发出任何请求，也没有写报告。"),
}
