"""What is said of a case beside its record: flat figures for others' reports, the figure of ``-v``, the run's head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_memeval.expectations import case_value
from pytest_memeval.kinds import KindRun
from pytest_memeval.metrics.thresholds import parse_path
from pytest_memeval.runner import CaseRun

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.llm.proxy_calls import CaseLine
    from pytest_memeval.metrics.sections import SectionRecord
    from pytest_memeval.results import CallRecord


@cache
def property_name(section: str, name: str) -> str:
    return f"memeval.{section}.{name}"


def measured_sections(run: CaseRun | KindRun) -> Mapping[str, SectionRecord]:
    """The case's figures as far as it got."""
    if isinstance(run, KindRun):
        return run.sections
    return run.sections(run.measured)


def call_properties(run: CaseRun | KindRun, line: CaseLine | None, harness: Harness) -> Iterator[tuple[str, float]]:
    """A case's model calls as flat figures: how many, their tokens, list price and seconds. ``line``
    holds those that its engine made through the proxy."""
    calls = [call for result in run.results.values() for call in result.calls]
    if line is not None:
        calls += line.calls
    if not calls:
        return
    from pytest_memeval.llm.cost import price_of_call
    from pytest_memeval.report.entries import usage_of
    from pytest_memeval.runs.notes import is_judging

    settings = harness.settings

    def cost(call: CallRecord) -> float | None:
        asked = (settings.judge_model if is_judging(call) else None) or settings.model
        return price_of_call(call, harness.prices, asked)

    usage = usage_of(replace(call, cost=cost(call)) for call in calls)
    for name in ("calls", "input_tokens", "output_tokens", "cost_usd"):
        if usage[name] is not None:
            yield f"memeval.usage.{name}", usage[name]
    yield "memeval.usage.attempts", sum(call.attempts for call in calls)
    seconds: dict[str, float] = {}
    for call in calls:
        seconds[call.stage] = seconds.get(call.stage, 0.0) + call.latency
    for stage, latency in seconds.items():
        yield f"memeval.latency.{stage}", round(latency, 6)


MAIN_FIGURES = tuple(
    (parse_path(path), label)
    for path, label in (
        ("l1.dimension_micro_f1", "l1 F1"),
        ("l15.action_accuracy", "l15 accuracy"),
        ("l2.section_hit_rate", "section hit"),
        ("l2.scene_grouping_f1", "scene F1"),
        ("inject.reference_coverage", "inject coverage"),
        ("search.ndcg@10", "search nDCG@10"),
    )
)


def main_figure(run: CaseRun) -> str:
    """The figure that ``-v`` shows for a case: that of the first scored stage."""
    sections = measured_sections(run)
    for path, label in MAIN_FIGURES:
        value = case_value(sections, path)
        if value is not None:
            return f"{label} {value:.2f}"
    return ""


def process_meta(run: CaseRun, owner: str, harness: Harness) -> Mapping[str, Any]:
    """Engine, model, prompts and matcher of a case, for the head of the report."""
    prompts, llm = run.prompts, run.llm
    engine = run.engine
    version = getattr(engine, "version", None)
    return {
        "engine": {
            "name": str(getattr(engine, "name", type(engine).__name__)),
            "version": None if version is None else str(version),
        },
        "supported_stages": list(run.supported),
        "model": {
            "provider": getattr(llm, "name", None),
            "name": getattr(llm, "model", None),
            "endpoint": getattr(llm, "endpoint", None),
        },
        "matcher": harness.run_settings.scoring.describe(),
        "prompts": {
            owner: {"versions": dict(prompts.versions), "hashes": dict(prompts.hashes), "notes": list(prompts.notes)}
        },
        "registry": {owner: run.registry.content_hash},
        "templates": {owner: run.templates.content_hash},
        **({"engine_ignored": True} if _ignores_engine(harness) else {}),
    }


def _ignores_engine(harness: Harness) -> bool:
    """Whether an engine was named, and a fixture of the project's gave the one that ran."""
    settings = harness.settings
    named = "engine" in settings.origins and settings.predictions is None
    return named and not harness.engine_was_asked
