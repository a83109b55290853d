"""What reports say of a run that stops when it is decided, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

#: Reasons of gates.
STOP_SENTENCES: Mapping[str, tuple[str, str]] = {
    "decided_pass": (
        "Stopped early: the first {cases} cases of {all} in random order show that the whole set meets it ({value} in"
        " these).",
        "提前停止：随机顺序的前 {cases} 个用例（共 {all} 个）已表明整个用例集达标（在这些用例上为 {value}）。",
    ),
    "decided_fail": (
        "Stopped early: the first {cases} cases of {all} in random order show that the whole set misses it ({value} in"
        " these).",
        "提前停止：随机顺序的前 {cases} 个用例（共 {all} 个）已表明整个用例集未达标（在这些用例上为 {value}）。",
    ),
    "not_decided": (
        "The set's other gates were decided and its other cases left out, but this gate was open.",
        "该用例集的其他门禁已可判定，其余用例未运行，但此门禁尚无定论。",
    ),
}

STOP_NOTES: Mapping[str, tuple[str, str]] = {
    "partial_decided": (
        "Stopped early: decided. {run} of {total} cases were run, in random order (seed {seed}): every figure is an"
        " estimate from this part.",
        "提前停止：已可判定。按随机顺序（种子 {seed}）运行了 {total} 个用例中的 {run} 个："
        "所有数值均为由这一部分得出的估计。",
    ),
}

STOP_TEXTS: Mapping[str, tuple[str, str]] = {
    "title": ("Stopping when decided", "可判定即停止"),
    "scope": ("set", "用例集"),
    "gate": ("gate", "门禁"),
    "verdict": ("verdict", "判定"),
    "cases": ("cases used", "所用用例数"),
    "value": ("value in these", "在这些用例上的值"),
    "reason": ("reason", "原因"),
    "PASS": ("PASS", "通过（PASS）"),
    "FAIL": ("FAIL", "未达标（FAIL）"),
    "UNDECIDED": ("UNDECIDED", "无定论（UNDECIDED）"),
    "stopped": (
        "{path} stopped early: decided by the first {used} of {total} cases in random order; {more} more were under"
        " way, {left_out} were not run.",
        "{path} 提前停止：随机顺序的前 {used} 个用例（共 {total} 个）已可判定；"
        "另有 {more} 个当时已在运行，{left_out} 个未运行。",
    ),
    "whole": (
        "{path} was run to the end ({total} cases): its gates go by the whole set, whatever stands below.",
        "{path} 已全部运行（{total} 个用例）：其门禁按整个用例集判定，与下列判定无关。",
    ),
    "cut": (
        "{path} was cut short after {run} of {total} cases, and not because it was decided.",
        "{path} 在运行 {run} 个用例（共 {total} 个）后中止，并非因为已可判定。",
    ),
    "promise": (
        "A verdict on the run differs from that of all cases in at most {percent} % of random orders (this one: seed"
        " {seed}).",
        "对整次运行的判定与全部用例的判定不同的随机顺序至多占 {percent}%（本次顺序：种子 {seed}）。",
    ),
    "assumed": (
        "For F1 and precision this supposes that no case has more than {most_wrong} wrong predictions"
        " (--memeval-stop-most-wrong).",
        "对 F1 与精确率，此结论假定任何用例的错误预测不超过 {most_wrong} 个（--memeval-stop-most-wrong）。",
    ),
    "difference": (
        "Not testable: a difference from a baseline. The set is run to the end.",
        "无法检验：与基线之差。该用例集将全部运行。",
    ),
    "unbounded": (
        "Not testable: nothing says beforehand how much a single case can count for {metric}. The set is run to the"
        " end.",
        "无法检验：事先无法得知单个用例在 {metric} 中的最大份量。该用例集将全部运行。",
    ),
    "by_hand": (
        "Not testable: tests written in Python count for this set. The set is run to the end.",
        "无法检验：有用 Python 编写的测试计入该用例集。该用例集将全部运行。",
    ),
    "no_labels": (
        "Not testable: no selected case has labels for {metric}. The set is run to the end.",
        "无法检验：所选用例均未标注 {metric}。该用例集将全部运行。",
    ),
    "exceeded": (
        "Not testable any more: {case} gave {error}. The set is run to the end.",
        "已无法检验：{case} 给出 {error}。该用例集将全部运行。",
    ),
    "not_finite": (
        "Not testable any more: a figure of {case} is NaN, infinite or too large to count. The set is run to the end.",
        "已无法检验：{case} 的一个数值为 NaN、无穷大，或大到无法计算。该用例集将全部运行。",
    ),
    "errored": (
        "{errored} case(s) could not be measured, which leaves no verdict before the end.",
        "有 {errored} 个用例无法测量，因此在结束之前没有判定。",
    ),
}
