"""Why a gate stands as it does, or an interval is missing: complete sentences."""

from __future__ import annotations

from collections.abc import Mapping

REASON_TEXTS: Mapping[str, tuple[str, str]] = {
    "stage_not_selected": ("Stage {stage} is not selected in this run.", "本次运行未选择阶段 {stage}。"),
    "nothing_measured": ("{why} No case of this run was scored.", "{why}本次运行没有任何用例被评分。"),
    "no_truth_in_file": ("No case of this file has labels for stage {stage}.", "该文件中没有用例标注了阶段 {stage}。"),
    "no_label_in_file": (
        "No memory of this file has a label {label}.",
        "该文件中没有记忆标注了 {label}。",
    ),
    "no_groups_in_file": (
        "No case of this file says which memories a scene holds.",
        "该文件中没有用例标注场景包含哪些记忆。",
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
    "other_registry": (
        "The registry of this file has no dimension {dimension}; the gate is for other files of this run.",
        "该文件的注册表没有维度 {dimension}；该门禁针对本次运行的其他文件。",
    ),
    "unknown_dimension": (
        "No registry of this run has a dimension {dimension}.",
        "本次运行的注册表都没有维度 {dimension}。",
    ),
    "unknown_dimension_nearest": (
        "No registry of this run has a dimension {dimension}; the nearest one is {nearest}.",
        "本次运行的注册表都没有维度 {dimension}；最接近的是 {nearest}。",
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
    "gone": (
        "{count} case(s) that the run measured are in this file no more, {first} for one: give them their ids back, or"
        " run again.",
        "该运行测量过的 {count} 个用例（如 {first}）已不在该文件中：请恢复其标识，或重新运行。",
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
        "{metric} was NaN, infinite or too large to count in {cases} case(s).",
        "有 {cases} 个用例的 {metric} 为 NaN、无穷大，或大到无法计算。",
    ),
    "mixed_numbers_texts": (
        "{metric} was a number in {numbers} case(s) and a text in {texts}, so no mean is made of it.",
        "{metric} 在 {numbers} 个用例中是数字，在 {texts} 个用例中是文本，因此不计算均值。",
    ),
    "mixed_numbers_mappings": (
        "{metric} was a number in {numbers} case(s) and a mapping in {mappings}, so no mean is made of it.",
        "{metric} 在 {numbers} 个用例中是数字，在 {mappings} 个用例中是映射，因此不计算均值。",
    ),
    "mixed_texts_mappings": (
        "{metric} was a text in {texts} case(s) and a mapping in {mappings}, so no mean is made of it.",
        "{metric} 在 {texts} 个用例中是文本，在 {mappings} 个用例中是映射，因此不计算均值。",
    ),
    "mixed_numbers_texts_mappings": (
        "{metric} was a number in {numbers} case(s), a text in {texts} and a mapping in {mappings}, so no mean is"
        " made of it.",
        "{metric} 在 {numbers} 个用例中是数字，在 {texts} 个用例中是文本，在 {mappings} 个用例中是映射，"
        "因此不计算均值。",
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
    "metric_not_measured": ("No case of this file measures {metric}.", "该文件中没有用例测得 {metric}。"),
    "metric_not_measured_known": (
        "No case of this file measures {metric}; measured were {known}.",
        "该文件中没有用例测得 {metric}；已测得的有 {known}。",
    ),
    "metric_not_measured_nearest": (
        "No case of this file measures {metric}; the nearest that was measured is {nearest}.",
        "该文件中没有用例测得 {metric}；已测得的最接近的指标是 {nearest}。",
    ),
    "no_baseline": ("The run has no baseline (--memeval-baseline).", "本次运行没有基线（--memeval-baseline）。"),
    "file_not_in_baseline": (
        "The baseline has no case of this file; the gate is for the files that both have.",
        "基线中没有该文件的用例；该门禁针对两边都有的文件。",
    ),
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
