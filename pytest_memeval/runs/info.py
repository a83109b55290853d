"""What a report says of its run besides the cases: engine, models, prompts, settings and versions, its notes, its share
of a divided run."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval import __version__
from pytest_memeval.llm.redaction import without_keys
from pytest_memeval.report.messages import text
from pytest_memeval.results import RunInfo
from pytest_memeval.runs.notes import call_notes, judge_info, model_info, prediction_notes, repeated_notes, trial_notes

if TYPE_CHECKING:
    from pytest_memeval.runs.recorder import Recorder
    from pytest_memeval.settings.model import Settings


def run_info(recorder: Recorder, *, partial: str | None, notes: tuple[str, ...]) -> RunInfo:
    """The run as its report tells it. ``partial`` is :meth:`Recorder.partial`'s, ``notes`` what else is to be said."""
    settings = recorder.settings
    # In an order that does not depend on which process or case came first.
    metas = sorted(recorder.metas, key=lambda meta: json.dumps(meta, sort_keys=True))
    first: Mapping[str, Any] = {key: value for meta in reversed(metas) for key, value in meta.items()}
    versions, hashes, prompt_notes = _prompts(recorder.metas)
    set_notes = tuple(f"{path}: {info.note}" for path, info in sorted(recorder.sets.items()) if info.note)
    crash = (text("run_note.crashed", count=recorder.crashed),) if recorder.crashed else ()
    left = _left_notes(recorder)
    stage_set = settings.stage_set
    return RunInfo(
        run_id=recorder.run_id,
        timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_seconds=time.perf_counter() - recorder.started,
        stages=("all",) if stage_set is None else tuple(sorted(stage_set)),
        stage_input=settings.stage_input,
        supported_stages=tuple(sorted(recorder.supported_stages())),
        prompt_versions=versions,
        prompt_hashes=hashes,
        model=model_info(first.get("model", {}), recorder.results.values()),
        judge=_judge(recorder, judge_info(first.get("judge"), recorder.results.values(), settings)),
        engine=_engine(metas, settings),
        matcher=dict(first.get("matcher", {})),
        registry=_by_set(recorder.metas, "registry"),
        templates=_by_set(recorder.metas, "templates"),
        gates=tuple((str(gate), "command line") for gate in settings.gates_from("command line")),
        gates_enabled=not settings.no_gate and settings.part is None,
        max_error_rate=settings.max_error_rate,
        partial=partial,
        not_run=recorder.not_run(),
        protocol=first.get("protocol"),
        notes=(
            *set_notes,
            *prompt_notes,
            *crash,
            *notes,
            *left,
            *call_notes(recorder.results.values(), settings),
            *trial_notes(recorder.results.values(), settings),
            *repeated_notes(recorder.results.values()),
            *prediction_notes(recorder.results.values(), settings, partial),
        ),
        config={
            "rootdir": str(settings.rootdir),
            # An address may hold a password, another plugin's option a key.
            "options": {key: without_keys(_plain(value)) for key, value in sorted(settings.values.items())},
        },
        environment={
            "python": platform.python_version(),
            "platform": platform.platform(),
            "pytest_memeval": __version__,
            "command": without_keys(sys.argv[1:]),
            **({"prepared_in_vain": recorder.in_vain} if recorder.in_vain else {}),
            **({"stages_left_behind": recorder.left_behind} if recorder.left_behind else {}),
            **({"stages_not_cancelled": recorder.cancelled_in_vain} if recorder.cancelled_in_vain else {}),
            **({"releases_given_up": recorder.late_releases} if recorder.late_releases else {}),
            **({"resumed": recorder.resumed.to_json()} if recorder.resumed is not None else {}),
        },
    )


def shard_info(recorder: Recorder, *, chosen: bool, notes: tuple[str, ...]) -> Mapping[str, Any] | None:
    """What ``memeval merge`` needs to know of one part of a run, besides its cases."""
    part = recorder.settings.part
    if part is None:
        return None
    from pytest_memeval.settings.shard import text_digest

    return {
        "index": part.index,
        "count": part.count,
        "selected": {path: dict(sorted(nodes.items())) for path, nodes in sorted(recorder.shared_out.items())},
        "files": {path: text_digest(recorder.settings.rootdir / path) for path in sorted(recorder.sets)},
        "chosen": chosen,
        "metas": recorder.metas,
        "crashed": recorder.crashed,
        "notes": list(notes),
    }


def _left_notes(recorder: Recorder) -> tuple[str, ...]:
    counts = {
        "left_behind": recorder.left_behind,
        "cancelled_in_vain": recorder.cancelled_in_vain,
        "late_releases": recorder.late_releases,
    }
    return tuple(text(f"note.{key}", recorder.settings.lang, count=count) for key, count in counts.items() if count)


def _by_set(metas: Iterable[Mapping[str, Any]], name: str) -> dict[str, str]:
    """Case file → hash of one of its assets."""
    found: dict[str, str] = {}
    for meta in metas:
        found.update(meta.get(name, {}))
    return dict(sorted(found.items()))


def _judge(recorder: Recorder, known: dict[str, Any] | None) -> dict[str, Any] | None:
    return known if known is None or recorder.judge_controls is None else {**known, "controls": recorder.judge_controls}


def _engine(metas: Sequence[Mapping[str, Any]], settings: Settings) -> dict[str, Any]:
    """The engine that the run's processes tell of, that of distillation cases first; further ones, where they differ,
    are under ``others``. What stands for an engine where none is asked does so in a run of nothing else."""
    told = sorted(
        ("matcher" not in meta, json.dumps(meta["engine"], sort_keys=True)) for meta in metas if "engine" in meta
    )
    engines = [json.loads(text) for text in dict.fromkeys(text for _, text in told)]
    if not engines:
        alone = [meta["engine_if_alone"] for meta in metas if "engine_if_alone" in meta]
        if alone and len(alone) == len(metas):
            return dict(alone[0])
        # A run of questions alone may well have asked no engine.
        unasked = metas and all(meta.get("protocol") or meta.get("engine_if_alone") for meta in metas)
        return {} if unasked else _named_engine(settings)
    return {**engines[0], **({"others": engines[1:]} if engines[1:] else {})}


def _named_engine(settings: Settings) -> dict[str, Any]:
    """The engine of a run in which no case reached one: as far as the options tell. A conftest's is unknown."""
    if settings.predictions is not None:
        return {"name": "predictions"}
    return {"name": settings.engine} if "engine" in settings.origins else {}


def _prompts(metas: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Versions and hashes by prompt stage; by ``set: stage`` where case files differ in their prompts."""
    by_set: dict[str, Mapping[str, Any]] = {}
    for meta in metas:
        by_set.update(meta["prompts"])
    notes = tuple(dict.fromkeys(note for name in sorted(by_set) for note in by_set[name]["notes"]))
    distinct = {json.dumps(prompts, sort_keys=True) for prompts in by_set.values()}
    if len(distinct) == 1:
        only = next(iter(by_set.values()))
        return dict(only["versions"]), dict(only["hashes"]), notes
    versions, hashes = {}, {}
    for name in sorted(by_set):
        versions.update({f"{name}: {stage}": version for stage, version in by_set[name]["versions"].items()})
        hashes.update({f"{name}: {stage}": digest for stage, digest in by_set[name]["hashes"].items()})
    return versions, hashes, notes


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
