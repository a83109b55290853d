"""Writes the parts of the reference pages that are made from the code: ``python docs/generate.py``.

A page keeps what stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->`` up to date; the rest of it is
written by hand. ``--check`` changes nothing and ends with status 1 where a page is old.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from pytest_memeval.cases import tables
from pytest_memeval.cases.fieldtypes import Anything, Integer, ListOf, MapOf, Number, OneOf, Table, Text
from pytest_memeval.cli.main import _parser
from pytest_memeval.metrics.catalog import AT_K, DEFAULT_DISTILL_GATES, MetricSpec, metrics_of
from pytest_memeval.options import OPTIONS, Option
from pytest_memeval.plugin import SHARED_OPTIONS

REFERENCE = Path(__file__).parent / "reference"
PAGES = tuple(REFERENCE / f"{name}.md" for name in ("options", "metrics", "case-format", "cli"))

_PART = re.compile(
    r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<close><!-- end: (?P=name) -->)", re.DOTALL
)

#: Metric → (formula, when it is null besides a denominator of 0 or what its edge is).
FORMULAS: Mapping[str, tuple[str, str]] = {
    "l1.dimension_micro_f1": ("2·TP / (2·TP + FP + FN)", "0 if one side is empty, null if both are"),
    "l1.dimension_micro_precision": ("TP / (TP + FP)", "null if nothing was predicted"),
    "l1.dimension_micro_recall": ("TP / (TP + FN)", "null if nothing is labelled"),
    "l1.per_dimension_f1": ("the same, of one dimension", "null without support"),
    "l1.per_dimension_precision": ("the same, of one dimension", "null without a prediction"),
    "l1.per_dimension_recall": ("the same, of one dimension", "null without a label"),
    "l1.strict_match_rate": (
        "cases in which every memory matched, with equal dimension sets and nothing left over / cases",
        "a case with nothing expected and nothing found is a match",
    ),
    "l1.memory_type_accuracy": (
        "matched pairs with the right type / matched pairs whose label has a type",
        "a prediction without one is wrong",
    ),
    "l1.time_velocity_accuracy": (
        "matched pairs with the right velocity / matched pairs whose label has one",
        "a prediction without one is wrong",
    ),
    "l1.priority_mae": (
        "Σ |predicted − labelled| / matched pairs with a priority on both sides",
        "a prediction without one is left out",
    ),
    "l1.priority_within_10": (
        "pairs at most a tenth of the registry's priority scale apart (10 points on 0–100) / matched pairs whose label"
        " has a priority",
        "a prediction without one is not within",
    ),
    "l1.memory_precision": ("matched / predicted memories", "null if nothing was predicted"),
    "l1.memory_recall": ("matched / labelled memories", "null if nothing is labelled"),
    "l1.total_tp": ("Σ TP", ""),
    "l1.total_fp": ("Σ FP", ""),
    "l1.total_fn": ("Σ FN", ""),
    "l1.dropped_labels": (
        "predicted labels that the registry does not know",
        "also FP with `memeval_unknown_label = fp`",
    ),
    "l1.invalid_items": ("items of a model's answer that had to be dropped", ""),
    "l1.near_misses": ("pairs of what stayed unmatched, a memory in one at most, alike from 0.3 to the threshold", ""),
    "l15.action_accuracy": ("right actions / labelled actions", "no decision, or an unreached memory, is wrong"),
    "l15.decision_accuracy": ("right action and right target set / labelled actions", "`store` has no targets"),
    "l15.action_accuracy_reached": ("right actions / labelled actions whose memory was extracted", ""),
    "l15.decision_accuracy_reached": ("right decisions / labelled actions whose memory was extracted", ""),
    "l15.action_precision": ("right / decided, of one action", "null if the action was never decided"),
    "l15.action_recall": ("right / labelled, of one action", "null if the action is never labelled"),
    "l15.merged_content_match": (
        "matching merged texts / right actions with a labelled merged text",
        "no merged text is no match",
    ),
    "l15.bad_decisions": ("unknown actions, invented ids, second decisions for one memory", ""),
    "l15.unreached": ("labelled actions whose memory was not extracted", ""),
    "l2.section_hit_rate": (
        "labelled (mode, memory) pairs in their section / labelled pairs",
        "an unreached memory is a miss",
    ),
    "l2.section_miss_rate": (
        "labelled pairs in no section / labelled pairs",
        "in a wrong section only: neither hit nor miss",
    ),
    "l2.section_misentry_rate": (
        "placements that are not an expected one / placements",
        "memories that the store held before count on neither side",
    ),
    "l2.profile_quality": (
        "dimension micro F1 × section hit rate, both over the cases with section labels",
        "null if either factor is",
    ),
    "l2.total_evaluated": ("labelled (mode, memory) pairs", ""),
    "l2.scene_grouping_f1": (
        "2·R / (M + L): pairs of reached memories in one scene, made (M), labelled (L), both (R)",
        "null without any pair on either side",
    ),
    "l2.scene_stability": (
        "mean over every two trials of a case: 2 x pairs grouped in both / (pairs of one + pairs of the other)",
        "null with one trial, and where no trial groups a pair",
    ),
    "l2.scene_grouping_precision": ("R / M", "null if no pair was made"),
    "l2.scene_grouping_recall": ("R / L", "null if no pair is labelled"),
    "l2.scene_label_recall": ("matched / labelled scene labels", ""),
    "l2.scene_label_precision": ("matched labels / scenes made", "null if no scene was made"),
    "l2.scene_count_ratio": ("scenes made / scenes labelled", "1: as many as labelled"),
    "l2.memories_per_scene": ("memories in scenes / scenes made", ""),
    "l2.unreached": ("labelled memories without a place in the store", ""),
    "inject.inject_hit_rate": (
        "present blocks with a referenced memory / present blocks",
        "null without a present block",
    ),
    "inject.reference_coverage": ("distinct referenced memories in a present block / referenced memories", ""),
    "inject.pipeline_hit_rate": ("as `inject_hit_rate`, on the pipeline's own memories", ""),
    "inject.pipeline_coverage": (
        "as `reference_coverage`, on the pipeline's own memories",
        "an unreached one is not covered",
    ),
    "inject.redundancy": (
        "placements of a memory that stands in an earlier place already / placements in present blocks",
        "null without a placement",
    ),
    "inject.pipeline_redundancy": ("as `redundancy`, on the pipeline's own memories", ""),
    "inject.tokens_per_block": (
        "estimated tokens of the present blocks' texts / present blocks with a text",
        "a wide character is a token, four others are one",
    ),
    "inject.budget_use": ("estimated tokens / token budget of the mode", "null where no mode has a budget"),
    "inject.over_budget": ("injections whose estimated tokens are more than the budget", ""),
    "search.ndcg": ("DCG@k / ideal DCG@k, discount log2(i + 1)", "one name per cut-off: `search.ndcg@10`"),
    "search.mrr": ("mean of 1 / rank of the first relevant hit", "0 without one"),
    "search.recall": ("relevant among the first k / relevant", "one name per cut-off"),
    "search.hit": ("queries with a relevant hit among the first k / queries", "one name per cut-off"),
    "search.map": ("mean over queries of the average precision", "0 without a relevant hit"),
    "search.queries": ("labelled queries", ""),
    "search.excluded_queries": ("queries without a relevant memory", "in none of the means"),
}

#: How an interval is formed, by kind of metric.
INTERVALS = {
    "ratio": "ratio",
    "proportion": "Wilson",
    "product": "product",
    "count": "none",
}


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return row(*headers) + row(*("---" for _ in headers)) + "".join(row(*cells) for cells in rows)


# -- options -------------------------------------------------------------------------------------------------------


def option_values(option: Option) -> str:
    if option.kind == "flag":
        return "switch"
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    kinds = {"int": "whole number", "float": "number", "list": "text, repeatable", "text": "text"}
    return "path" if option.relative else kinds[option.kind]


def option_default(option: Option) -> str:
    if option.ini_default:
        return ", ".join(f"`{value}`" for value in option.ini_default)
    if option.default is None or option.kind == "flag":
        return "–"
    return f"`{option.default}`"


def options_table() -> str:
    rows = []
    for option in OPTIONS:
        metavar = "" if option.kind == "flag" else " " + (option.metavar or "{" + ",".join(option.choices) + "}")
        rows.append(
            (
                f"`{option.option}{metavar}`" if option.flag else "–",
                f"`{option.dest}`" if option.ini else "–",
                option_values(option),
                option_default(option),
                option.help,
            )
        )
    return table(("option", "ini", "value", "default", "meaning"), rows)


def shared_options_table() -> str:
    return table(("option", "meaning"), [(f"`--run-{word}`", help) for word, help in SHARED_OPTIONS.items()])


# -- metrics -------------------------------------------------------------------------------------------------------


def metric_name(spec: MetricSpec) -> str:
    if spec.path in AT_K:
        return f"`{spec.path}@k`"
    return f"`{spec.path}.<{spec.keys}>`" if spec.keys else f"`{spec.path}`"


def metric_range(spec: MetricSpec) -> str:
    return f"from {spec.low:g}" if spec.high is None else f"{spec.low:g} to {spec.high:g}"


def metrics_table(section: str) -> str:
    better = {"higher": "↑", "lower": "↓", "neither": ""}
    rows = []
    for spec in metrics_of(section):
        formula, edge = FORMULAS[spec.path]
        rows.append(
            (
                metric_name(spec),
                formula,
                metric_range(spec),
                better[spec.better],
                edge,
                INTERVALS[spec.kind],
                spec.stage,
            )
        )
    return table(("metric", "formula", "range", "better", "edges", "interval", "stage"), rows)


def default_gates() -> str:
    return "```text\n" + "".join(f"{gate}\n" for gate in DEFAULT_DISTILL_GATES) + "```\n"


# -- case format ---------------------------------------------------------------------------------------------------


def type_text(kind: Any) -> str:
    if isinstance(kind, Text):
        return " or ".join(f"`{choice}`" for choice in kind.choices) or "text"
    if isinstance(kind, Integer):
        return "whole number"
    if isinstance(kind, Number):
        return "number"
    if isinstance(kind, ListOf):
        return f"list of {plural(type_text(kind.element))}"
    if isinstance(kind, MapOf):
        return f"mapping to {type_text(kind.element)}"
    if isinstance(kind, Table):
        return "mapping"
    if isinstance(kind, OneOf):
        return "mapping or list"
    return "mapping" if isinstance(kind, Anything) else "text or list"


def plural(text: str) -> str:
    return f"{text}s" if text in ("text", "whole number", "number", "mapping") else text


def fields_table(fields: Mapping[str, Any]) -> str:
    rows = [
        (f"`{name}`", type_text(field.type), "yes" if field.required or field.needed else "", field.description)
        for name, field in fields.items()
    ]
    return table(("key", "value", "required", "meaning"), rows)


# -- console command -----------------------------------------------------------------------------------------------


def subcommands(parser: argparse.ArgumentParser, before: str) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, help and parser of each command; of a group of commands, those in it."""
    found = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
    if found is None:
        return
    helps = {action.dest: action.help or "" for action in found._choices_actions}
    for name, command in found.choices.items():
        inner = list(subcommands(command, f"{before}{name} "))
        yield from inner or [(f"{before}{name}", helps[name], command)]


def commands() -> str:
    parts = []
    for name, text, command in subcommands(_parser(), ""):
        parts.append(f"### memeval {name}\n\n{sentence(text)}\n\n")
        rows = []
        for action in command._actions:
            if action.dest == "help":
                continue
            names = ", ".join(f"`{text}`" for text in action.option_strings) or f"`{action.metavar or action.dest}`"
            rows.append((names, argument_values(action), action.help or ""))
        parts.append(table(("argument", "value", "meaning"), rows) + "\n")
    return "".join(parts)


def argument_values(action: argparse.Action) -> str:
    default = "" if action.default in (None, [], False, argparse.SUPPRESS) else f"default `{action.default}`"
    if action.nargs == 0:
        return "switch"
    many = {"+": "one or more", "*": "any number"}.get(str(action.nargs), "")
    words = ", ".join(f"`{choice}`" for choice in action.choices or ())
    return "; ".join(filter(None, (many, words, default)))


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


PARTS: Mapping[str, Callable[[], str]] = {
    "options": options_table,
    "shared-options": shared_options_table,
    **{f"metrics-{section}": partial(metrics_table, section) for section in ("l1", "l15", "l2", "inject", "search")},
    "default-gates": default_gates,
    "file-keys": lambda: fields_table(tables.CASE_FILE.fields),
    "meta-keys": lambda: fields_table(tables.META.fields),
    "case-keys": lambda: fields_table(tables.CASE.fields),
    "memory-keys": lambda: fields_table(tables.GT_MEMORY.fields),
    "existing-memory-keys": lambda: fields_table(tables.EXISTING_MEMORY.fields),
    "existing-scene-keys": lambda: fields_table(tables.EXISTING_SCENE.fields),
    "action-keys": lambda: fields_table(tables.ACTION.fields),
    "l2-keys": lambda: fields_table(tables.EXPECTED_L2.fields),
    "scene-keys": lambda: fields_table(tables.GT_SCENE.fields),
    "inject-keys": lambda: fields_table(tables.EXPECTED_INJECT.fields),
    "search-keys": lambda: fields_table(tables.SEARCH_ENTRY.fields),
    "commands": commands,
}


def fill(page: Path, text: str) -> str:
    """The page's text with every generated part made anew. An unknown part, or a page without any, is a ValueError."""
    names = [match["name"] for match in _PART.finditer(text)]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        raise ValueError(f"{page}: {f'unknown parts {unknown}' if unknown else 'no generated part'}")
    return _PART.sub(lambda match: f"{match['open']}\n{PARTS[match['name']]()}\n{match['close']}", text)


def main() -> int:
    check = "--check" in sys.argv[1:]
    old = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = fill(page, text)
        if new == text:
            continue
        old += 1
        print(f"{page}: {'old' if check else 'written'}")
        if not check:
            page.write_text(new, encoding="utf-8", newline="\n")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
