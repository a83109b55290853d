"""Every text of reports and of the terminal summary, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_memeval.metrics.catalog import spec_of
from pytest_memeval.report.html.texts import HTML_TEXTS
from pytest_memeval.report.question_texts import QUESTION_TEXTS

LANGUAGES: tuple[str, ...] = ("en", "zh")

_STATUS = {
    "passed": ("passed", "通过"),
    "missed": ("missed", "未达标"),
    "unmeasured": ("unmeasured", "未测得"),
    "not_applicable": ("not applicable", "不适用"),
    "scored": ("scored", "已评分"),
    "errored": ("errored", "出错"),
    "skipped": ("skipped", "跳过"),
    "not_run": ("not run", "未运行"),
    "unsupported": ("not supported", "引擎不支持"),
    "unselected": ("not selected", "未选择"),
    "no_truth": ("no labels", "无标注"),
}

#: Reasons of gates and of missing intervals: complete sentences.
_SENTENCES = {
    "stage_not_selected": ("Stage {stage} is not selected in this run.", "本次运行未选择阶段 {stage}。"),
    "nothing_measured": ("{why} No case of this run was scored.", "{why}本次运行没有任何用例被评分。"),
    "no_truth_in_file": ("No case of this file has labels for stage {stage}.", "该文件中没有用例标注了阶段 {stage}。"),
    "no_label_in_file": (
        "No memory of this file has a label {label}.",
        "该文件中没有记忆标注了 {label}。",
    ),
    "stage_unsupported": ("The engine does not support stage {stage}.", "引擎不支持阶段 {stage}。"),
    "judge_untrusted": (
        "The judge is not trustworthy: its controls leave sensitivity or specificity possibly below 0.8.",
        "裁判不可信：对照答案显示其灵敏度或特异度可能低于 0.8。",
    ),
    "other_kind": (
        "Cases of kind {kind} have no section {section}; the gate is for other files of this run.",
        "类型为 {kind} 的用例没有 {section} 部分；该门禁针对本次运行的其他文件。",
    ),
    "selection_left_no_truth": (
        "None of the selected cases has labels for stage {stage}.",
        "所选用例均未标注阶段 {stage}。",
    ),
    "no_truth_in_cases": (
        "The file has labels for stage {stage}, but no case that was run has any.",
        "文件中有阶段 {stage} 的标注，但已运行的用例都没有。",
    ),
    "no_case_matches": ("No case matches {filter}.", "没有符合 {filter} 的用例。"),
    "aborted": (
        "The run was cut short, so its P0 gates cannot be decided.",
        "运行提前中止，无法判定 P0 门禁。",
    ),
    "not_run": (
        "{missing} selected case(s) left no result ({here} of them in this file).",
        "有 {missing} 个所选用例没有留下结果（其中 {here} 个在该文件中）。",
    ),
    "broken_files": (
        "A case file of the run could not be read: {files}.",
        "本次运行有用例文件无法读取：{files}。",
    ),
    "all_skipped": (
        "Every case with labels for stage {stage} was skipped ({skipped}).",
        "标注了阶段 {stage} 的用例（{skipped} 个）全部被跳过。",
    ),
    "too_many_errors": (
        "{errored} of {labelled} errored (allowed share: {rate:g}).",
        "{labelled} 个用例中有 {errored} 个出错（允许比例：{rate:g}）。",
    ),
    "not_finite": (
        "{metric} was not a finite number in {cases} case(s).",
        "有 {cases} 个用例的 {metric} 不是有限数值。",
    ),
    "judge_not_trustworthy": (
        "The judge is not trustworthy: on control answers its sensitivity may be as low as {sensitivity}, its"
        " specificity as low as {specificity}, where both need {least}.",
        "评判模型不可信：在对照答案上，灵敏度下限为 {sensitivity}，特异度下限为 {specificity}，两者都须达到 {least}。",
    ),
    "no_value": (
        "No case gives {metric} anything to divide by, so it has no value.",
        "没有用例为 {metric} 提供分母，因此无值。",
    ),
    "no_baseline": ("The run has no baseline (--memeval-baseline).", "本次运行没有基线（--memeval-baseline）。"),
    "no_difference": (
        "This run and the baseline share no case that gives {metric} a value on both sides.",
        "本次运行与基线没有能在两边都得出 {metric} 的共同用例。",
    ),
    "not_comparable": (
        "The run and its baseline differ in {setting}, on which {metric} depends.",
        "本次运行与基线的 {setting} 不同，而 {metric} 依赖于它。",
    ),
    "threshold_met": ("{value} meets {op} {threshold}.", "{value} 满足 {op} {threshold}。"),
    "threshold_missed": ("{value} does not meet {op} {threshold}.", "{value} 不满足 {op} {threshold}。"),
    "threshold_met_in_selection": (
        "{value} meets {op} {threshold}, on a selection of {cases} of the file's {all} cases.",
        "{value} 满足 {op} {threshold}（仅选取了文件 {all} 个用例中的 {cases} 个）。",
    ),
    "threshold_missed_in_selection": (
        "{value} does not meet {op} {threshold}, on a selection of {cases} of the file's {all} cases.",
        "{value} 不满足 {op} {threshold}（仅选取了文件 {all} 个用例中的 {cases} 个）。",
    ),
}

_NOTES = {
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

_TERMINAL = {
    "title": ("memory evaluation", "记忆评测"),
    "model_line": (
        "model {model} | engine {engine} | prompts {prompts} | input {input}",
        "模型 {model} | 引擎 {engine} | 提示词 {prompts} | 阶段输入 {input}",
    ),
    "counts_line": (
        "{cases}: {scored} scored, {errored} errored, {skipped} skipped, {not_run} not run",
        "共 {cases}：已评分 {scored}，出错 {errored}，跳过 {skipped}，未运行 {not_run}",
    ),
    "resumed": (
        "{cases} of {total} case(s) taken from run {run}, {again} run anew{why}",
        "从运行 {run} 沿用 {cases} 个用例（共 {total} 个），重新运行 {again} 个{why}",
    ),
    "resumed_why": (
        " ({changed} changed, {errored} errored there, {absent} not in it)",
        "（有变化 {changed} 个，之前出错 {errored} 个，之前没有 {absent} 个）",
    ),
    "resumed_changed": ("; what changed: {parts}", "；变化之处：{parts}"),
    "variant_line": (
        "{name}: {scored} scored, {errored} errored, {skipped} skipped, {not_run} not run{figures}",
        "{name}：已评分 {scored}，出错 {errored}，跳过 {skipped}，未运行 {not_run}{figures}",
    ),
    "variant_absent": ("{name}: none of its cases was selected", "{name}：没有选中任何用例"),
    "no_candidate": (
        "no case of the candidate {name} was selected: no gates decide",
        "没有选中候选 {name} 的任何用例：没有门禁可判定",
    ),
    "against": ("{b} against {a}:", "{b} 与 {a} 相比："),
    "empty_part": (
        "none of the run's {count} case(s) falls to part {part}",
        "本次运行的 {count} 个用例中没有属于第 {part} 部分的",
    ),
    "own_thresholds": (
        "{count} of {total} cases have no thresholds of their own: a passed test means measured, the gates decide.",
        "{total} 个用例中有 {count} 个没有自己的阈值：测试通过只表示已测得，是否达标由门禁决定。",
    ),
    "near_misses": (
        "{count} pair(s) came close to matching: see --memeval-matcher or ini memeval_match_threshold ({threshold}).",
        "有 {count} 对记忆接近匹配但未达阈值：可调整 --memeval-matcher 或 ini memeval_match_threshold（{threshold}）。",
    ),
    "dropped_labels": (
        "{count} predicted label(s) are unknown to the registry and were dropped: {labels}.",
        "有 {count} 个预测标签不在注册表中，已丢弃：{labels}。",
    ),
    "nothing_measured": ("nothing was measured: no case was scored", "未测得任何结果：没有用例被评分"),
    "engine_ignored": (
        "{where} {name} was ignored: a fixture memeval_engine of the project's gave the engine",
        "{where} {name} 未生效：项目自己的 memeval_engine fixture 提供了引擎",
    ),
    "predictions_not_written": ("the predictions could not be written: {error}", "无法写入预测文件：{error}"),
    "report_at": ("report: {folder}", "报告：{folder}"),
    "p0_missed": ("P0 gate missed: exit status 1", "P0 门禁未达标：退出状态 1"),
    "p0_unmeasured": ("P0 gate unmeasured: exit status 1", "P0 门禁未测得：退出状态 1"),
    "p0_missed_plain": ("P0 gate missed", "P0 门禁未达标"),
    "p0_unmeasured_plain": ("P0 gate unmeasured", "P0 门禁未测得"),
    "progress": ("{done} of {total} cases, {errored} errored", "已完成 {done} / {total} 个用例，出错 {errored}"),
    "not_run_exit": (
        "{count} selected case(s) left no result: exit status 1",
        "有 {count} 个所选用例没有留下结果：退出状态 1",
    ),
    "not_written": ("the report could not be written: {error}", "无法写入报告：{error}"),
    "p0_passed": ("all P0 gates passed", "P0 门禁全部通过"),
    "errors_title": ("errors by stage: {errors}", "各阶段错误：{errors}"),
    "more_gates": ("{count} gate(s) not applicable (-v shows them)", "{count} 个门禁不适用（-v 可显示）"),
    "usage_line": (
        "{calls} model calls, {input} input and {output} output tokens{unknown}{cost}",
        "模型调用 {calls} 次，输入 {input}、输出 {output} 个 token{unknown}{cost}",
    ),
    "calls_line": (
        "{attempts} requests sent ({retries} of them retries), {cached} answers from the cache{spent}",
        "发出请求 {attempts} 次（其中重试 {retries} 次），{cached} 次由缓存回答{spent}",
    ),
    "recorded_line": ("{cached} recorded answers, no request sent", "使用录制的回答 {cached} 条，未发出请求"),
    "embeddings_line": (
        "{texts} texts embedded by {requests} requests, {input_tokens} tokens{spent}",
        "嵌入文本 {texts} 条，请求 {requests} 次，共 {input_tokens} 个 token{spent}",
    ),
    "spent": ("; this run's own requests cost ${cost}", "；本次运行的请求花费 {cost} 美元"),
    "stage_line": (
        "  {stage}: {calls} calls, {failed} failed, latency p50 {p50}, p95 {p95}",
        "  {stage}：调用 {calls} 次，失败 {failed} 次，延迟 p50 {p50}，p95 {p95}",
    ),
    "usage_cost": ("; list price ${cost}", "；标价 {cost} 美元"),
    "usage_unknown": (" ({count} call(s) without token counts)", "（{count} 次调用未给出 token 数）"),
}

_TRIALS = {
    "title": ("Trials", "多次试验"),
    "mean": ("L1 F1, mean", "L1 F1 均值"),
    "sd": ("standard deviation", "标准差"),
    "low": ("lowest", "最低"),
    "high": ("highest", "最高"),
    "head": (
        "{count} trials of each of {cases} case(s), {errored} of them errored in at least one",
        "{cases} 个用例各测 {count} 次，其中 {errored} 个至少有一次出错",
    ),
    "expect": (
        "{cases} case(s) with thresholds of their own: pass^{k} {all:.3f} (all trials), pass@{k} {one:.3f} (any),"
        " one trial {single:.3f}",
        "{cases} 个用例有自己的阈值：pass^{k} {all:.3f}（全部通过），pass@{k} {one:.3f}（至少一次），单次 {single:.3f}",
    ),
    "stability": (
        "scenes: two trials of a case agree in {value:.3f} of the grouped pairs (F1)",
        "场景：同一用例两次试验的聚合对一致度（F1）为 {value:.3f}",
    ),
    "split_cases": (
        "{path}: {share:.0%} of the variance comes from trials; standard error {error:.4f}, with twice the cases"
        " {cases:.4f}, with twice the trials {trials:.4f}: add cases",
        "{path}：方差的 {share:.0%} 来自试验之间；标准误 {error:.4f}，"
        "用例加倍为 {cases:.4f}，试验加倍为 {trials:.4f}：应增加用例",
    ),
    "split_trials": (
        "{path}: {share:.0%} of the variance comes from trials; standard error {error:.4f}, with twice the cases"
        " {cases:.4f}, with twice the trials {trials:.4f}: more trials do as well",
        "{path}：方差的 {share:.0%} 来自试验之间；标准误 {error:.4f}，"
        "用例加倍为 {cases:.4f}，试验加倍为 {trials:.4f}：增加试验同样有效",
    ),
}

_PLAN = {
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
    "embeddings": (
        "embeddings: {cached} texts in the cache, {asked} to be asked for, about {tokens} tokens; {cost}",
        "嵌入：缓存中已有 {cached} 条文本，待请求 {asked} 条，约 {tokens} 个 token；{cost}",
    ),
    "embeddings_cost": ("estimated cost: {cost} (model {model})", "预计费用：{cost}（模型 {model}）"),
    "embeddings_unknown": ("the price of model {model} is not known", "没有模型 {model} 的价格"),
    "left_out": ("not planned, {count} case(s): {why}", "未计入计划的用例 {count} 个：{why}"),
    "others": ("{count} other test(s) were not run.", "另有 {count} 个其他测试未运行。"),
    "nothing_asked": ("Nothing was asked and no report was written.", "没有发出任何请求，也没有写报告。"),
}

_WORDS = {
    "one_case": ("{count} case", "{count} 个用例"),
    "many_cases": ("{count} cases", "{count} 个用例"),
    "level": ("level", "级别"),
    "metric": ("metric", "指标"),
    "value": ("value", "数值"),
    "interval": ("95 % interval", "95% 区间"),
    "threshold": ("threshold", "阈值"),
    "status": ("status", "状态"),
    "reason": ("reason", "原因"),
    "scope": ("case set", "用例集"),
    "section": ("section", "部分"),
    "stage": ("stage", "阶段"),
    "n": ("n (units / cases / clusters)", "n（单位/用例/簇）"),
    "unknown": ("unknown", "未知"),
    "none": ("none", "无"),
    "report_title": ("Memory evaluation report", "记忆评测报告"),
    "run": ("Run", "运行"),
    "model": ("model", "模型"),
    "engine": ("engine", "引擎"),
    "prompts": ("prompts", "提示词"),
    "matcher": ("matcher", "匹配器"),
    "stage_input": ("stage input", "阶段输入"),
    "duration": ("duration", "用时"),
    "seconds": ("{seconds:.1f} s", "{seconds:.1f} 秒"),
    "gates": ("Gates", "门禁"),
    "counts": ("Counts", "计数"),
    "metrics": ("Metrics", "指标"),
    "per_dimension": ("F1 per dimension", "各维度 F1"),
    "dimension": ("dimension", "维度"),
    "support": ("support", "支持数"),
    "heat": ("F1", "F1"),
    "heat_note": ("Below {limit} is marked with ⚠.", "低于 {limit} 的以 ⚠ 标记。"),
    "confusions": ("Confusions", "混淆"),
    "confusions_note": (
        "Dimension missed → dimension given instead, in matched memories.",
        "已匹配记忆中：漏标的维度 → 多标的维度。",
    ),
    "action_confusions": ("Conflict actions confused", "冲突处理动作混淆"),
    "action_confusions_note": ("Labelled action → action taken.", "标注动作 → 实际动作。"),
    "missed_label": ("expected", "应为"),
    "given_label": ("given", "实为"),
    "count": ("count", "次数"),
    "misses": ("Misses by kind", "各类失误"),
    "kind": ("kind", "类别"),
    "of": ("of", "总数"),
    "worst": ("Worst cases", "最差用例"),
    "case": ("case", "用例"),
    "f1": ("L1 F1", "L1 F1"),
    "missed_memories": ("memories missed", "漏抽记忆"),
    "spurious_memories": ("memories not expected", "多抽记忆"),
    "wrong_dimensions": ("wrong dimension labels", "维度标注错误"),
    "wrong_type": ("wrong memory type", "记忆类型错误"),
    "wrong_velocity": ("wrong time velocity", "时效类型错误"),
    "wrong_action": ("wrong conflict action", "冲突处理动作错误"),
    "section_miss": ("memory in no section", "记忆未进入任何分区"),
    "section_misentry": ("memory in a wrong section", "记忆误入分区"),
    "scene_pairs": ("scene pairs not found", "未聚到一起的场景记忆对"),
    "inject_empty": ("blocks without a referenced memory", "未含被引用记忆的注入块"),
    "inject_uncovered": ("referenced memories not injected", "未注入的被引用记忆"),
    "errors": ("Errors", "错误"),
    "error_kind": ("kind", "类型"),
    "message": ("message", "信息"),
    "notes": ("Notes", "说明"),
    "more": ("… and {count} more", "…… 另有 {count} 条"),
    "no_gates": ("No gates.", "没有门禁。"),
    "usage": ("usage", "用量"),
    "model_calls": ("Model calls", "模型调用"),
    "calls": ("calls", "调用"),
    "failed": ("failed", "失败"),
    "cached": ("cached", "缓存"),
    "requests": ("requests", "请求"),
    "retries": ("retries", "重试"),
    "tokens_in": ("input tokens", "输入 token"),
    "tokens_out": ("output tokens", "输出 token"),
    "list_price": ("list price, $", "标价（美元）"),
    "expectations": ("Missed thresholds of single cases", "单个用例未达到的阈值"),
}

#: Why vectors were searched by the scan.
_VECTORS = {
    "asked_for": ("it was asked for", "应要求"),
    "no_package": ("the package sqlite-vec is not installed (extra search)", "未安装 sqlite-vec（extra search）"),
    "no_extensions": (
        "this Python's sqlite3 cannot load extensions, and apsw is not installed (extra search)",
        "此 Python 的 sqlite3 不能加载扩展，且未安装 apsw（extra search）",
    ),
    "not_loaded": ("sqlite-vec could not be loaded", "sqlite-vec 加载失败"),
}

_TEXTS: Mapping[str, tuple[str, str]] = {
    **{f"vectors.{key}": value for key, value in _VECTORS.items()},
    **{f"status.{key}": value for key, value in _STATUS.items()},
    **{f"reason.{key}": value for key, value in _SENTENCES.items()},
    **{f"note.{key}": value for key, value in _NOTES.items()},
    **{f"terminal.{key}": value for key, value in _TERMINAL.items()},
    **{f"trials.{key}": value for key, value in _TRIALS.items()},
    **{f"plan.{key}": value for key, value in _PLAN.items()},
    **{f"html.{key}": value for key, value in HTML_TEXTS.items()},
    **{f"question.{key}": value for key, value in QUESTION_TEXTS.items()},
    **_WORDS,
}


def text(key: str, lang: str = "en", **values: Any) -> str:
    """The text named ``key`` with its values put in. An unknown key raises KeyError."""
    pair = _TEXTS[key]
    template = pair[1] if lang == "zh" else pair[0]
    return template.format(**values) if values else template


def cases_text(count: int, lang: str = "en") -> str:
    """``1 case``, ``2 cases``."""
    return text("one_case" if count == 1 else "many_cases", lang, count=count)


def sentence(reason_id: str, lang: str = "en", values: Mapping[str, Any] | None = None) -> str:
    """A gate's reason as a sentence."""
    values = dict(values or {})
    if "why_id" in values:  # a reason that names another one
        values["why"] = sentence(values["why_id"], lang, values["why_values"])
    return text(f"reason.{reason_id}", lang, **values)


def metric_title(path: str, lang: str = "en") -> str:
    """A metric's name for people: ``dimension micro F1``; the path itself for one that the catalogue lacks."""
    base, _, key = path.partition("{")[0].partition(".")
    name, _, inner = key.partition(".")
    plain, _, cut = name.partition("@")
    spec = spec_of(f"{base}.{plain}")
    if spec is None:
        return path
    title = spec.zh if lang == "zh" else spec.en
    return title + (f"@{cut}" if cut else "") + (f" {inner}" if inner else "")
