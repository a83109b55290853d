"""What the terminal summary says, and what a run of several trials says anywhere."""

from __future__ import annotations

from collections.abc import Mapping

TERMINAL_TEXTS: Mapping[str, tuple[str, str]] = {
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
        " ({changed} changed, {errored} errored there, {absent} not in it{unusable})",
        "（有变化 {changed} 个，之前出错 {errored} 个，之前没有 {absent} 个{unusable}）",
    ),
    "resumed_unusable": (", {count} in it, but not to be taken", "，有记录但无法沿用 {count} 个"),
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
    "near_misses_own": (
        "{count} pair(s) that the matcher {matcher} left unmatched have similar texts: memeval show --case shows them.",
        "有 {count} 对记忆文本相近，但匹配器 {matcher} 未将其匹配：可用 memeval show --case 查看。",
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
    "left_threads": (
        "the process ends without {count} thread(s) that cases have left at something: {names}",
        "进程不再等待用例留下的 {count} 个仍在工作的线程：{names}",
    ),
    "nothing_saved": (
        "{where}: there was nothing to save, and {file} was not written",
        "{where}：没有可保存的内容，未写入 {file}",
    ),
    "part_saved": (
        "{where}: {file} holds {rows} row(s), and not those of all cases: the run was over a part of them",
        "{where}：{file} 含 {rows} 行，并非全部用例：本次运行只覆盖了一部分",
    ),
    "predictions_not_written": ("the predictions could not be written: {error}", "无法写入预测文件：{error}"),
    "summary_not_written": (
        "the report could not be added to the job summary (GITHUB_STEP_SUMMARY): {error}",
        "无法将报告写入作业摘要（GITHUB_STEP_SUMMARY）：{error}",
    ),
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

TRIAL_TEXTS: Mapping[str, tuple[str, str]] = {
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
