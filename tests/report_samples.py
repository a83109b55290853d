"""Case results for tests of aggregation, gates and reports, made by the real metric functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_memeval.cases.models import GtMemory
from pytest_memeval.metrics.l1 import compute_l1
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.results import CallRecord, CaseError, CaseResult, RunInfo, SetInfo
from pytest_memeval.values import Memory

SET = "cases/v001.yaml"
STAGES = ("l1", "l15", "l2", "template", "inject", "search")
DIMENSIONS = ("identity", "family", "skills", "habits", "goals")


def ratio_record(**ratios: tuple[float, float]) -> SectionRecord:
    return SectionRecord(ratios=ratios)


def case(case_id: str, sections: Mapping[str, SectionRecord] | None = None, **fields: Any) -> CaseResult:
    """A case whose given sections are scored, unless ``stages`` says otherwise."""
    found = dict(sections or {})
    stages = fields.pop("stages", None)
    if stages is None:
        stages = {name: "scored" if name in found else "no_truth" for name in STAGES}
        if "l2" in found:
            stages["template"] = "scored"
    return CaseResult(
        node_id=fields.pop("node_id", f"{fields.get('set', SET)}::{case_id}"),
        set=fields.pop("set", SET),
        case_id=case_id,
        outcome=fields.pop("outcome", "scored"),
        stages=stages,
        sections=found,
        **fields,
    )


def l1_section(number: int) -> SectionRecord:
    """L1 figures of a small extraction whose quality depends on ``number``."""
    one, two = DIMENSIONS[number % 5], DIMENSIONS[(number + 1) % 5]
    truth = [
        GtMemory(content=f"lives in city {number}", dimensions=(one,), memory_type="persona", priority=80),
        GtMemory(content=f"plays instrument {number * 7}", dimensions=(two,), time_velocity="static"),
    ]
    found = [
        Memory(None, f"lives in city {number}", (one if number % 3 else two,), "persona", 75.0),
        Memory(None, "plays an instrument" if number % 4 else "unrelated words", (two,), None, None, "static"),
    ]
    return compute_l1(found, truth).section()


def full_case(number: int, **fields: Any) -> CaseResult:
    """A case with figures in l1 and l2, a call, outputs and facts."""
    sections = {
        "l1": l1_section(number),
        "l2": SectionRecord(
            ratios={
                "section_hit_rate": (number % 3, 2),
                "section_miss_rate": (0 if number % 3 else 1, 2),
                "_profile_l1_f1": (2 * (number % 3), 4),
                "_profile_hit_rate": (number % 3, 2),
            },
            counts={"total_evaluated": 2},
        ),
    }
    call = CallRecord(
        id=f"call-{number}",
        stage="l1_extraction",
        version="v002",
        provider="embedded",
        model="embedded",
        request=({"role": "user", "content": f"secret prompt {number}"},),
        answer=f"secret answer {number}",
        finish_reason="stop",
        input_tokens=100,
        output_tokens=None if number == 3 else 20,
        latency=0.25,
    )
    given: dict[str, Any] = {
        "source": "synthetic",
        "difficulty": ("easy", "medium", "hard")[number % 3],
        "tags": ("slow",) if number % 2 else (),
        "line": 10 * number,
        "content_hash": f"{number:08x}",
        "stages": {"l1": "scored", "l15": "no_truth", "l2": "ran", "template": "scored", "inject": "no_truth"},
        "outputs": {
            "l1": [{"content": f"secret memory {number}", "dimensions": ["identity"], "memory_type": "persona"}]
        },
        "facts": ({"kind": "dropped_label", "label": "secret label", "memory_index": 0},),
        "calls": (call,),
        "duration_seconds": 0.5,
        "timings": {"l1": 0.3, "template": 0.1},
    }
    return case(f"eval-{number:03d}", sections, **{**given, **fields})


def errored_case(number: int, **fields: Any) -> CaseResult:
    given: dict[str, Any] = {
        "outcome": "errored",
        "stages": {"l1": "errored", "l15": "no_truth", "l2": "void", "template": "void", "inject": "no_truth"},
        "errors": (CaseError("l1", "unusable_answer", "the answer is no JSON: secret text | <b>"),),
    }
    return case(f"eval-{number:03d}", {}, **{**given, **fields})


def set_info(**fields: Any) -> SetInfo:
    given: dict[str, Any] = {
        "path": SET,
        "version": "v001",
        "cases": 12,
        "gates": (("P0 l1.dimension_micro_f1 >= 0.3", "file"), ("P1 l2.section_hit_rate >= 0.9", "file")),
        "truth_counts": {"l1": 12, "template": 12},
    }
    return SetInfo(**{**given, **fields})


def run_info(**fields: Any) -> RunInfo:
    given: dict[str, Any] = {
        "run_id": "20260806T101530.123456Z-1a2b3c",
        "timestamp": "2026-08-06T10:15:30+00:00",
        "duration_seconds": 12.5,
        "stages": STAGES,
        "stage_input": "chained",
        "supported_stages": ("l1", "l15", "l2", "template", "inject"),
        "prompt_versions": {"l1_extraction": "v002", "l1_conflict": "v002", "l2_scene": "v002"},
        "prompt_hashes": {"l1_extraction": "0" * 64},
        "model": {"provider": "embedded", "name": "embedded"},
        "engine": {"name": "reference", "version": "1"},
        "matcher": {"name": "indel", "threshold": 0.5, "assignment": "greedy"},
        "config": {"concurrency": 8},
        "environment": {"python": "3.11"},
    }
    return RunInfo(**{**given, **fields})
