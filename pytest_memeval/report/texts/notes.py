"""What a reader must know before the figures: complete sentences."""

from __future__ import annotations

from collections.abc import Mapping

NOTE_TEXTS: Mapping[str, tuple[str, str]] = {
    "embedded": (
        "Chat model `embedded`: these figures are a pipeline check, not quality.",
        "聊天模型为 `embedded`：以下数值只用于检查流程是否打通，不代表质量。",
    ),
    "partial_selected": (
        "Partial run: only a selection of the cases was run; gates count over these.",
        "部分运行：只运行了选定的用例，门禁按这些用例计算。",
    ),
    "partial_aborted": (
        "The run was cut short; its P0 gates are unmeasured.",
        "运行提前中止，P0 门禁均为未测得。",
    ),
    "hurried": (
        "Interrupted with {count} results: so that the process ended at once, bootstrap intervals, per_case.csv,"
        " calls.jsonl.gz and comparisons were left out. `memeval rescore` makes the first two; the calls are in"
        " journal.jsonl.",
        "中断时已有 {count} 个结果：为使进程立即结束，未计算自助法区间和对比，也未写出 per_case.csv 与 calls.jsonl.gz。"
        "前两者可用 `memeval rescore` 补出；调用记录在 journal.jsonl 中。",
    ),
    "left_behind": (
        "Blocking stages that did not end when their case did, by a time limit or an interrupt: {count}, left behind in"
        " their threads.",
        "因超时或中断、在用例结束时仍未返回的阻塞阶段：{count} 个，已留在各自线程中不再等待。",
    ),
    "cancelled_in_vain": (
        "Asynchronous stages that were cancelled, by a time limit or an interrupt, and did not end: {count}. Code in"
        " them swallows asyncio.CancelledError.",
        "因超时或中断被取消、却没有结束的异步阶段：{count} 个。其代码吞掉了 asyncio.CancelledError。",
    ),
    "late_releases": (
        "The engine's release() did not come back in time: {count} time(s). Each was given up; after three an engine is"
        " not asked again.",
        "引擎的 release() 未能及时返回：{count} 次，均已放弃等待；满三次后不再调用。",
    ),
    "not_run": ("{count} selected case(s) left no result.", "有 {count} 个所选用例没有留下结果。"),
    "broken_file": (
        "{path} could not be read, so none of its cases was run ({problem}).",
        "{path} 无法读取，其用例均未运行（{problem}）。",
    ),
    "shard": (
        "Part {index} of {count} of a run: gates are evaluated by `memeval merge` on all parts together.",
        "这是一次运行的第 {index} 部分（共 {count} 部分）：门禁由 `memeval merge` 对全部部分一并判定。",
    ),
    "variant": (
        "Variant {name} of a run over {names}: its gates decide nothing, those of {last} do.",
        "这是一次比较 {names} 的运行中的变体 {name}：其门禁不影响结果，由 {last} 的门禁判定。",
    ),
    "candidate": (
        "Candidate {name} of a run over {names}: its gates decide.",
        "这是一次比较 {names} 的运行中的候选 {name}：由其门禁判定。",
    ),
    "gates_off": ("Gates are switched off for this run.", "本次运行已关闭门禁。"),
    "no_p0": ("No P0 gate applies to this run.", "本次运行没有适用的 P0 门禁。"),
    "section_unknown_near": (
        "The engine put memories into section {section}, which mode {mode} does not have, in {cases} case(s); no label"
        " can point there. The nearest that it has is {nearest}.",
        "引擎在 {cases} 个用例中把记忆放入 {section}，而模式 {mode} 没有这一分区，标注无法指向它。"
        "最接近的分区是 {nearest}。",
    ),
    "section_unknown": (
        "The engine put memories into section {section}, which mode {mode} does not have, in {cases} case(s); no label"
        " can point there.",
        "引擎在 {cases} 个用例中把记忆放入 {section}，而模式 {mode} 没有这一分区，标注无法指向它。",
    ),
    "section_unknown_more": (
        "The engine filled {count} further section(s) that their modes do not have.",
        "引擎还填充了 {count} 个其模式中没有的分区。",
    ),
    "metric_undeclared_near": (
        "Evaluator {evaluator} gave {metric} in {cases} case(s), which is none of the metrics that it declares. The"
        " nearest of those is {nearest}.",
        "评估器 {evaluator} 在 {cases} 个用例中给出了未声明的指标 {metric}；最接近的已声明指标是 {nearest}。",
    ),
    "metric_undeclared": (
        "Evaluator {evaluator} gave {metric} in {cases} case(s), which is none of the metrics that it declares.",
        "评估器 {evaluator} 在 {cases} 个用例中给出了未声明的指标 {metric}。",
    ),
    "metric_undeclared_more": (
        "Evaluators gave {count} further metric(s) that they do not declare.",
        "评估器还给出了 {count} 个未声明的指标。",
    ),
    "action_unknown_near": (
        "The engine decided {action} in {cases} case(s), which is no action; such decisions count as none. The actions"
        " are {known}; the nearest is {nearest}.",
        "引擎在 {cases} 个用例中给出的动作 {action} 不存在，这样的决定视为未作决定。可用的动作有 {known}；"
        "最接近的是 {nearest}。",
    ),
    "action_unknown": (
        "The engine decided {action} in {cases} case(s), which is no action; such decisions count as none. The actions"
        " are {known}.",
        "引擎在 {cases} 个用例中给出的动作 {action} 不存在，这样的决定视为未作决定。可用的动作有 {known}。",
    ),
    "action_unknown_more": (
        "The engine gave {count} further action(s) that do not exist.",
        "引擎还给出了 {count} 个不存在的动作。",
    ),
    "decision_lost": (
        "The engine decided about memories that do not exist (memory_index counts from 0) in {cases} case(s); such"
        " decisions count as none.",
        "引擎在 {cases} 个用例中对不存在的记忆作了决定（memory_index 从 0 开始），这样的决定视为未作决定。",
    ),
    "search_numpy": (
        "Search by vectors ran as an exact numpy scan, not on sqlite-vec: {why}. The ranking is the same.",
        "向量检索使用 numpy 精确扫描，而非 sqlite-vec：{why}。排序结果相同。",
    ),
    "search_excluded": (
        "{count} search queries have no relevant memory: nothing can be found there, and they are in no mean.",
        "有 {count} 个检索查询没有相关记忆：无从检索，未计入任何均值。",
    ),
    "search_close": (
        "Search: the cut-off {k} is close to the corpus of {documents} memories, so any ranking does well at it.",
        "检索：截断值 {k} 接近语料规模（{documents} 条记忆），任何排序都会得高分。",
    ),
    "search_unknown": (
        "{count} hits are no memory of the corpus and only take places in the rankings: an engine with ids of its own"
        " has to tell by source_ids or content which memory a hit is.",
        "有 {count} 条命中不属于语料，只占排名位置：使用自有 id 的引擎须通过 source_ids 或 content 指明命中的记忆。",
    ),
    "search_beyond": (
        "Search: figures at {k} see only the {top_k} hits that top_k lets through.",
        "检索：截断值 {k} 的指标只能看到 top_k 限定的 {top_k} 条结果。",
    ),
    "search_ceiling": (
        "{metric} is {value}, near its ceiling: these queries can hardly tell a better system from this one.",
        "{metric} 为 {value}，已接近上限：这些查询很难再区分更好的系统。",
    ),
    "truth_input": (
        "Stage input is `truth`: each stage was given the labelled memories, not what the stage before produced.",
        "阶段输入为 `truth`：各阶段使用标注记忆，而非上一阶段的产出。",
    ),
}

#: Why vectors were searched by the scan.
VECTOR_TEXTS: Mapping[str, tuple[str, str]] = {
    "asked_for": ("it was asked for", "应要求"),
    "no_package": ("the package sqlite-vec is not installed (extra search)", "未安装 sqlite-vec（extra search）"),
    "no_extensions": (
        "this Python's sqlite3 cannot load extensions, and apsw is not installed (extra search)",
        "此 Python 的 sqlite3 不能加载扩展，且未安装 apsw（extra search）",
    ),
    "not_loaded": ("sqlite-vec could not be loaded", "sqlite-vec 加载失败"),
}
