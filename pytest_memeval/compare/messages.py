"""Every text of comparisons, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_memeval.report.languages import worded

_TEXTS: Mapping[str, tuple[str, str]] = {
    "title": ("Comparison of two runs", "两次运行的对比"),
    "sign": ("Every difference is B − A.", "所有差值均为 B − A。"),
    "same": ("Nothing changed: {count} cases compared, all equal.", "没有变化：对比了 {count} 个用例，全部相同。"),
    "same_partly": (
        "{count} cases compared: all that can be compared is equal.",
        "对比了 {count} 个用例：可对比的部分全部相同。",
    ),
    "side": (
        "{letter}: {label} | prompts {prompts} | model {model} | engine {engine} | {scored} scored, {errored} errored,"
        " {skipped} skipped, {not_run} not run",
        "{letter}：{label} | 提示词 {prompts} | 模型 {model} | 引擎 {engine} | 已评分 {scored}，出错 {errored}，"
        "跳过 {skipped}，未运行 {not_run}",
    ),
    "limits": (
        "{name} differs (A: {a}; B: {b}): what depends on it is not compared.",
        "{name} 不同（A：{a}；B：{b}）：依赖它的指标不作对比。",
    ),
    "subject": ("{name}: {a} → {b}", "{name}：{a} → {b}"),
    "note": ("{name} differs: A: {a}; B: {b}", "{name} 不同：A：{a}；B：{b}"),
    "causes": (
        "More than one thing differs ({names}): the difference cannot be put down to one of them.",
        "不止一处不同（{names}）：差异无法归因于其中某一处。",
    ),
    "partial_decided": (
        "{letter} stopped early: decided. Its figures are estimates from a part of the cases.",
        "{letter} 提前停止：已可判定。其数值是由部分用例得出的估计。",
    ),
    "partial": ("{letter} is a partial run ({partial}).", "{letter} 是部分运行（{partial}）。"),
    "embedded": (
        "{letter} was made with the offline model `embedded`: its figures are a pipeline check, not quality.",
        "{letter} 使用离线模型 `embedded`：其数值只用于检查流程，不代表质量。",
    ),
    "content": (
        "{count} case(s) have another content in B and are left out.",
        "{count} 个用例在 B 中内容不同，不参与对比。",
    ),
    "moved": (
        "{count} case(s) lie in a file of another name and were recognised by their content.",
        "{count} 个用例位于不同名的文件中，按内容识别。",
    ),
    "zero": (
        "The reports share no case with the same content: nothing can be compared.",
        "两份报告没有内容相同的用例：无从对比。",
    ),
    "compared": (
        "{count} cases compared, {unchanged} of them unchanged.",
        "对比了 {count} 个用例，其中 {unchanged} 个没有变化。",
    ),
    "uncompared": (
        "In {count} other(s) not every figure could be compared: whether they changed cannot be told.",
        "另有 {count} 个用例并非所有数值都可对比：无法判断是否变化。",
    ),
    "absent": (
        "B has no figure of {metrics} in {count} case(s) where A has one: none of these counts as improved.",
        "有 {count} 个用例 B 没有 {metrics} 而 A 有：这些指标均不视为改进。",
    ),
    "lost_cases": (
        "B lost {count} case(s) that A measured: no metric over them counts as improved.",
        "B 缺少 A 已测得的 {count} 个用例：涉及它们的指标均不视为改进。",
    ),
    "tested": (
        "{count} metrics were tested together; Holm's p is adjusted for that.",
        "共同检验了 {count} 个指标，Holm p 已据此校正。",
    ),
    "tested_dimensions": (
        "{count} dimensions were tested together; Holm's p is adjusted for that.",
        "共同检验了 {count} 个维度，Holm p 已据此校正。",
    ),
    "metrics": ("Metrics", "指标"),
    "counts": ("Counts", "计数"),
    "heat_map": ("F1 per dimension", "各维度 F1"),
    "changes": ("Cases that changed most", "变化最大的用例"),
    "memories": ("Memories of {case}", "{case} 的记忆"),
    "confusions": ("Confusions that changed", "变化的混淆"),
    "prompts": ("Difference of the prompts", "提示词差异"),
    "newly_errored": ("Newly errored", "新出错"),
    "recovered": ("No longer errored", "不再出错"),
    "newly_skipped": ("Newly skipped", "新跳过"),
    "vanished": ("Only in A", "仅在 A 中"),
    "added": ("Only in B", "仅在 B 中"),
    "content_changed": ("Other content in B: not compared", "B 中内容不同，不对比"),
    "only_a": ("Metrics that only A has", "仅 A 有的指标"),
    "only_b": ("Metrics that only B has", "仅 B 有的指标"),
    "blocked": ("Not compared", "未对比"),
    "held_back": (
        "{count} case(s) are left out of the metrics that depend on {names}: it differs in their files.",
        "依赖于{names}的指标不含 {count} 个用例：其文件的该设置不同。",
    ),
    "blocked_note": ("Values as reported; {name} differs.", "为各自报告的数值；{name} 不同。"),
    "blocked_own": (
        "Values as reported, each over its run's own cases, which are not the same; {name} differs.",
        "为各自报告的数值，两次运行的用例并不相同；{name} 不同。",
    ),
    "no_text": (
        "The text is in no prompt folder at hand; name one with --prompts.",
        "手头的提示词文件夹中没有该文本；可用 --prompts 指定。",
    ),
    "metric": ("metric", "指标"),
    "dimension": ("dimension", "维度"),
    "value_a": ("A", "A"),
    "value_b": ("B", "B"),
    "difference": ("B − A", "B − A"),
    "interval": ("95 % interval", "95% 区间"),
    "p": ("p", "p"),
    "holm": ("Holm p", "Holm p"),
    "wtl": ("won/tied/lost", "胜/平/负"),
    "cases": ("cases", "用例"),
    "finding": ("finding", "结论"),
    "case": ("case", "用例"),
    "reason": ("reason", "原因"),
    "figures": ("figures, A → B", "数值 A → B"),
    "truth": ("labelled", "标注"),
    "stage": ("stage", "阶段"),
    "expected": ("expected", "应为"),
    "given": ("given", "实为"),
    "change": ("change", "变化"),
    "prompt_lines": ("lines of the prompts that name them", "提示词中提到它们的行"),
    "not_run": ("left no result", "没有结果"),
    "decided": ("not run: stopped early, decided", "未运行：提前停止（已可判定）"),
    "no_match": ("nothing", "无"),
    "not_labelled": ("(not labelled)", "（无标注）"),
    "no_truth_text": ("memory {index}", "记忆 {index}"),
    "missed": ("missed", "漏标"),
    "extra": ("extra", "多标"),
    "more": ("… and {count} more", "…… 另有 {count} 条"),
    "signal.clear": ("clear", "明确"),
    "signal.likely": ("likely", "可能"),
    "signal.unclear": ("within noise", "在噪声内"),
    "signal.units": ("only units differ", "仅单位数不同"),
    "signal.too_few": ("too few differ", "有差异的太少"),
    "signal.same": ("same", "相同"),
    "signal.untested": ("", ""),
    "signal.unmeasured": ("not measured", "未测得"),
    "signal.incomparable": ("not compared", "未对比"),
    "direction.better": ("better", "改进"),
    "direction.worse": ("worse", "退步"),
    "direction.coverage_lost": ("higher, but {lost} case(s) lost", "数值更好，但缺少 {lost} 个用例"),
    "direction.coverage_absent": (
        "higher, but without {lost} case(s) that A measured",
        "数值更好，但有 {lost} 个 A 已测得的用例未测得",
    ),
    "change.appeared": ("appeared", "新出现"),
    "change.vanished": ("vanished", "已消失"),
    "change.more": ("more", "增多"),
    "change.less": ("less", "减少"),
    "baseline": ("Compared with the baseline", "与基线对比"),
    "short": (
        "Δ {path} = {difference} {interval} ({relation}), {finding}",
        "Δ {path} = {difference} {interval}（{relation}），{finding}",
    ),
    "short_none": ("no difference beyond noise in {count} metrics tested", "检验的 {count} 个指标均无超出噪声的差异"),
    "cost": ("list price: A ${a}, B ${b}", "标价：A {a} 美元，B {b} 美元"),
    "history.title": ("{metric} over time", "{metric} 随时间的变化"),
    "history.series": ("{metric} | model {model} | engine {engine}", "{metric} | 模型 {model} | 引擎 {engine}"),
    "history.time": ("time (UTC)", "时间（UTC）"),
    "history.commit": ("commit", "提交"),
    "history.prompts": ("prompts", "提示词"),
    "history.engine": ("engine version", "引擎版本"),
    "history.cases": ("cases", "用例"),
    "history.value": ("value", "数值"),
    "history.range": ("from {low} to {high}", "从 {low} 到 {high}"),
    "history.break": ("not comparable with the run before: {what}", "与前一次不可比：{what}"),
    "history.break_note": (
        "{sign} stands where a run cannot be compared with the one before.",
        "{sign} 表示该次运行与前一次不可比。",
    ),
    "history.break.cases": ("other cases", "用例不同"),
    "history.break.labels": ("labels or texts changed", "标注或文本有变"),
    "history.break.matcher": ("other matcher", "匹配器不同"),
    "history.break.registry": ("other registry", "注册表不同"),
    "history.break.judge": ("other judge", "评判模型不同"),
    "history.break.stage_input": ("other stage input", "阶段输入不同"),
    "history.decided": ("stopped early: decided", "提前停止：已可判定"),
    "history.partial": ("a selection of the cases", "部分用例"),
    "history.errored": ("{count} errored", "出错 {count}"),
    "history.empty": (
        "No run of this project is in {path}; --all-projects shows those of others.",
        "{path} 中没有本项目的运行；--all-projects 可显示其他项目的运行。",
    ),
    "history.no_metric": ("No run in {path} has a value for {metric}.", "{path} 中没有运行测得 {metric}。"),
    "history.not_written": ("The history was not written: {error}", "历史未写入：{error}"),
    "history.aside": (
        "The history was damaged; it was set aside as {name} and a new one begun.",
        "历史文件已损坏，已另存为 {name}，并新建了一份。",
    ),
    "bisect.no_prompts": (
        "No model was asked in any of these runs: this engine asked no prompts, so no version can make a difference.",
        "这些运行都没有调用模型：该引擎没有使用提示词，版本之间不会有差异。",
    ),
    "bisect.versions": ("{metric}: searching {versions}", "{metric}：在 {versions} 中查找"),
    "bisect.reused": ("{version}: run of before, {folder}", "{version}：沿用先前的运行 {folder}"),
    "bisect.runs": ("{version}: runs into {folder}", "{version}：运行，输出到 {folder}"),
    "bisect.step": (
        "  {version} − {against} = {difference}, p {p}, {cases} cases: {finding}",
        "  {version} − {against} = {difference}，p {p}，{cases} 个用例：{finding}",
    ),
    "bisect.worse": ("worse", "退步"),
    "bisect.better": ("better", "更好"),
    "bisect.noise": ("within noise", "在噪声内"),
    "bisect.lost": (" ({count} case(s) lost)", "（缺少 {count} 个用例）"),
    "bisect.alpha": (
        "{count} paired test(s), each at level {alpha}, so that the whole search keeps its level.",
        "共 {count} 次配对检验，每次水平 {alpha}，以保证整个查找的水平。",
    ),
    "bisect.found": (
        "{first} is the first version that regressed; {before} before it had not.",
        "{first} 是第一个退步的版本；其前的 {before} 尚未退步。",
    ),
    "bisect.not_worse": (
        "Cannot tell: the bad version is not worse than the good one beyond noise. More cases would be needed.",
        "无法判定：坏版本并不比好版本差到超出噪声。需要更多用例。",
    ),
    "bisect.unclear": (
        "Cannot tell: it is one of {candidates}, which the noise does not allow to tell apart.",
        "无法判定：是 {candidates} 之一，噪声使它们无法区分。",
    ),
    "bisect.incomparable": ("Cannot tell: {reason}.", "无法判定：{reason}。"),
    "fail_met": ("{condition}: {value}", "{condition}：{value}"),
    "fail_holds": ("holds: exit status 1", "成立：退出状态 1"),
    "fail_holds_not": ("does not hold", "不成立"),
    "fail_unknown": (
        "cannot be told, since there is no difference to measure: exit status 1",
        "没有可测的差值，无法判定：退出状态 1",
    ),
}

#: Names of settings in Chinese; in English they speak for themselves.
_SETTINGS_ZH: Mapping[str, str] = {
    "case_sets": "用例集版本",
    "registry": "维度注册表",
    "templates": "模板",
    "matcher": "匹配器",
    "judge": "评判模型",
    "stage_input": "阶段输入",
    "metrics_spec": "指标规格",
    "engine": "引擎",
    "model": "模型",
    "stages": "所选阶段",
    "supported_stages": "引擎支持的阶段",
    "package": "pytest-memeval 版本",
}


def text(key: str, lang: str = "en", **values: Any) -> str:
    """The text named ``key`` with its values put in. An unknown key raises KeyError."""
    return worded(_TEXTS, key, lang, values)


def setting_title(name: str, lang: str = "en") -> str:
    if lang == "zh":
        first, _, rest = name.partition(" ")
        before = {"prompt": "提示词", "protocol": "测量协议"}.get(first)
        return f"{before} {rest}" if before and rest else _SETTINGS_ZH.get(name, name)
    return name.replace("_", " ")
