"""Outputs recorded elsewhere, served as if an engine had just produced them.

A predictions file is JSON Lines, one case a line: ``{"case_id": "eval-001", "l1": [memory, …], "l15": [decision, …],
"l2": [scene, …], "template": {mode: [section, …]}, "inject": {"pipeline": [block, …]}}`` with the fields of the value
classes. Stages may be left out; ``set`` (the case file's path, or its end) tells equal case ids of two files apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.outputs import OUTPUT_KEYS, OutputError, Outputs
from pytest_memeval.values import Block, Decision, Memory, Message, Scene, Section

#: Keys a row may have.
ROW_KEYS: tuple[str, ...] = ("case_id", "set", "variant", *OUTPUT_KEYS, "extra")


def load_predictions(path: Path) -> list[dict[str, Any]]:
    """Read and check a predictions file. Raises DocumentError with every problem and its line."""
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    seen: dict[tuple[str, str | None], int] = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError([Problem(path, 0, 0, f"not UTF-8 (byte {error.start})")]) from None
    except OSError as error:
        raise DocumentError([Problem(path, 0, 0, f"cannot be read: {error.strerror}")]) from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        problem, row = _read_row(line)
        if problem is None and row is not None:
            key = (row["case_id"], row.get("set"))
            if key in seen:
                problem = f"case_id {row['case_id']!r} is already on line {seen[key]}"
            seen.setdefault(key, number)
        if problem is not None:
            problems.append(Problem(path, number, 0, problem))
        elif row is not None:
            rows.append(row)
    if not rows and not problems:
        problems.append(Problem(path, 0, 0, "holds no predictions: one JSON object a line is expected"))
    if problems:
        raise DocumentError(problems)
    return rows


def _read_row(line: str) -> tuple[str | None, dict[str, Any] | None]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}", None
    if not isinstance(row, dict):
        return f"expected a JSON object, got {type(row).__name__}", None
    if not isinstance(row.get("case_id"), str) or not row["case_id"]:
        return "case_id is missing or no text", None
    for key in row:
        if key not in ROW_KEYS:
            return f"unknown key {key!r}{did_you_mean(key, ROW_KEYS)}", None
    try:
        Outputs.from_json(row)
    except OutputError as error:
        return str(error), None
    return None, row


class PredictionsEngine:
    """Serves recorded outputs. It has the stages that at least one row has; a case without a row is an error."""

    name = "predictions"
    concurrent = True

    def __init__(self, path: Path) -> None:
        self.path = path
        rows = load_predictions(path)
        self.version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            self._rows.setdefault(row["case_id"], []).append(row)
        self.stages = tuple(stage for stage in OUTPUT_KEYS if any(row.get(stage) is not None for row in rows))

    def supported_stages(self) -> tuple[str, ...]:
        return self.stages

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        """Nothing to fill: what the store would hold is already in the recorded outputs."""

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[Memory]:
        memories = self._outputs(ctx, "l1").l1 or []
        return [
            memory if memory.id is not None else replace(memory, id=f"pred-{index}")
            for index, memory in enumerate(memories)
        ]

    def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> list[Decision]:
        return self._outputs(ctx, "l15").l15 or []

    def aggregate(self, memories: Sequence[Memory], ctx: StageContext) -> list[Scene]:
        return self._outputs(ctx, "l2").l2 or []

    def query_template(self, mode: str, ctx: StageContext) -> list[Section]:
        template = self._outputs(ctx, "template").template or {}
        if mode not in template:
            raise StageError(f"{self.path.name} has no template {mode!r} for {ctx.case_id}", kind="no_prediction")
        return template[mode]

    def inject_recorded(self, ctx: StageContext) -> dict[str, list[Block]]:
        """The recorded blocks by what they were injected from: ``labelled`` and ``pipeline``."""
        outputs = self._outputs(ctx, "inject")
        found = {"labelled": outputs.inject_labelled, "pipeline": outputs.inject_pipeline}
        return {name: blocks for name, blocks in found.items() if blocks is not None}

    def _outputs(self, ctx: StageContext, stage: str) -> Outputs:
        row = self._row(ctx)
        if row.get(stage) is None:
            raise StageError(f"{self.path.name} has no {stage} for {ctx.case_id}", kind="no_prediction")
        return Outputs.from_json(row)

    def _row(self, ctx: StageContext) -> Mapping[str, Any]:
        rows = self._rows.get(ctx.case_id, [])
        named = [row for row in rows if row.get("set") and _is_end_of(row["set"], ctx.case_set)]
        general = [row for row in rows if not row.get("set")]
        for row in (*named, *general):
            return row
        raise StageError(
            f"{self.path.name} has no row for {ctx.case_id}{did_you_mean(ctx.case_id, self._rows)}",
            kind="no_prediction",
        )


def _is_end_of(end: str, path: str) -> bool:
    parts, wanted = Path(path).parts, Path(end).parts
    return parts[-len(wanted) :] == wanted


def prediction_rows(results: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows of a predictions file from case results (:class:`pytest_memeval.results.CaseResult`)."""
    return [
        {
            "case_id": result.case_id,
            "set": result.set,
            **{key: result.outputs[key] for key in OUTPUT_KEYS if key in result.outputs},
        }
        for result in results
        if result.outcome != "skipped"
    ]
