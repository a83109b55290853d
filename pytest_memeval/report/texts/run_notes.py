"""What happened in a run, as its report stores it: in English, put into Chinese where it is read."""

from __future__ import annotations

from collections.abc import Mapping

RUN_NOTES: Mapping[str, tuple[str, str]] = {
    "no_case": (
        "{count} row(s) of {file} belong to no case of this run: {rows}",
        "{file} 中有 {count} 行不属于本次运行的任何用例：{rows}",
    ),
    "repeated": (
        "{count} case(s) count more than once, since tests with gate=True are counted beside a case's own item and"
        " beside each other: {cases}",
        "有 {count} 个用例被计入多次：带 gate=True 的测试会与用例自身的测试项以及彼此重复计数：{cases}",
    ),
    "once": (
        "{count} case(s) were measured once: --memeval-trials is for items of case files, and not for tests in Python",
        "有 {count} 个用例只测量了一次：--memeval-trials 只用于用例文件，不用于 Python 测试",
    ),
    "pending": (
        "{count} case(s) wait for answers: have the requests in {file} answered (OpenAI Batch format), take the answers"
        " in with `memeval cache import FILE`, and run again; the next stage follows.",
        "有 {count} 个用例在等待回答：请让 {file} 中的请求得到回答（OpenAI Batch 格式），用 `memeval cache import FILE`"
        " 导入回答后再次运行，接着进行下一阶段。",
    ),
    "refused": (
        "The model server ended the run's calls, {count} case(s) could not be measured: {why}.",
        "模型服务器终止了本次运行的调用，有 {count} 个用例无法测得：{why}。",
    ),
    "budget": (
        "Stopped at the budget: ${spent} spent, --memeval-max-cost is ${limit}; {count} case(s) were not started. What"
        " was answered is in the cache: a run with a higher limit goes on.",
        "已达预算而停止：已花费 ${spent}，--memeval-max-cost 为 ${limit}；有 {count} 个用例未开始。"
        "已有的回答在缓存中：提高上限后再次运行会接着进行。",
    ),
    "budget_of_call": (
        "Stopped at the budget: ${spent} spent, max_cost is ${limit}.",
        "已达预算而停止：已花费 ${spent}，max_cost 为 ${limit}。",
    ),
    "unpriced": (
        "{option} did not count requests whose cost is not known: {models}. A reply needs its usage, and the model a"
        " price (--memeval-prices).",
        "{option} 未计入费用未知的请求：{models}。回答须带有 usage，模型须有价格（--memeval-prices）。",
    ),
    "crashed": ("{count} case(s) errored because their worker process died", "有 {count} 个用例因工作进程崩溃而出错"),
    "out_of_workers": (
        "{count} case(s) were not run because their workers died and no more were started (--max-worker-restart)",
        "有 {count} 个用例因工作进程崩溃且不再启动新进程（--max-worker-restart）而未运行",
    ),
    "in_code": (
        "{count} case(s) are built in the code of a test and were left out",
        "有 {count} 个用例在测试代码中构造，已略去",
    ),
    "gone": (
        "{count} case(s) of the run are no longer in their files and were left out",
        "该运行有 {count} 个用例已不在其文件中，已略去",
    ),
    "changed": (
        "{count} case(s) were changed since the run; their outputs are those of the run",
        "有 {count} 个用例在该运行之后被修改；其输出仍为该运行的输出",
    ),
    "added": (
        "{count} case(s) of the files were not part of the run and are not measured",
        "文件中有 {count} 个用例不在该运行之内，未测量",
    ),
    "prompt_fallback": (
        "prompt stage {stage} has no version {version}; its active {active} is used",
        "提示词阶段 {stage} 没有版本 {version}，使用其当前版本 {active}",
    ),
}
