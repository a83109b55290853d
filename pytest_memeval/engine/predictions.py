"""Outputs recorded elsewhere, served as if an engine had just produced them.

A predictions file is JSON Lines, one case a line: ``{"case_id": "eval-001", "l1": [memory, …], "l15": [decision, …],
"l2": [scene, …], "template": {mode: [section, …]}, "inject": {"pipeline": [block, …]}, "search": {query: [hit, …]}}``
with the fields of the value classes; ``memeval schema predictions`` prints its JSON Schema. Stages may be left out;
``set`` (the case file's path, or its end) tells equal case ids of two files apart. ``facts`` are what the recording run
noted (dropped labels, bad decisions …), counted as they were there; ``model`` names the chat model that it asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from pytest_memeval.documents.json_values import json_value
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean, json_fault
from pytest_memeval.documents.text import read_lines
from pytest_memeval.engine.protocol import StageContext, StageError
from pytest_memeval.engine.row_choice import RowChoice, SetsOfIds, is_end_of, rows_of_variant, set_parts, setup_problem
from pytest_memeval.llm.protocol import CallOptions, ChatModelError, ChatReply
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.outputs import OUTPUT_KEYS, OutputError, Outputs
from pytest_memeval.results import CallRecord, CaseResult
from pytest_memeval.values import Block, Decision, Hit, Memory, Message, Scene, Section

#: Keys a row may have.
ROW_KEYS: tuple[str, ...] = ("case_id", "set", "variant", *OUTPUT_KEYS, "facts", "model", "extra")
#: The place of a chat model that was asked when the outputs were recorded, and is not asked now.
RECORDED_OUTPUTS = "recorded outputs"
#: Kinds of facts that figures or readers need; a fact of another kind is left out of saved predictions.
KEPT_FACTS: tuple[str, ...] = ("dropped_label", "fuzzy_label", "invalid_item", "bad_decision", "note")
#: So many case files are named where a row fits more.
_NAMED = 3


def load_predictions(path: Path) -> list[dict[str, Any]]:
    """Read and check a predictions file. Raises DocumentError with every problem and its line."""
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        problem, row = _read_row(line)
        if problem is None and row is not None:
            key = (row["case_id"], set_parts(row), row.get("variant"))
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


def load_rows(path: Path, variant: str | None = None) -> list[dict[str, Any]]:
    """The rows that a run of this variant scores, ``None`` for a run without variants. Raises DocumentError."""
    rows = load_predictions(path)
    problem = setup_problem(rows) if variant is None else None
    if problem is not None:
        raise DocumentError([Problem(path, 0, 0, problem)])
    return rows_of_variant(rows, variant)


def _read_row(line: str) -> tuple[str | None, dict[str, Any] | None]:
    try:
        row = json_value(line, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        return f"not JSON: {json_fault(error)} (column {error.colno})", None
    except ValueError as error:
        return str(error), None
    if not isinstance(row, dict):
        return f"expected a JSON object, got {type(row).__name__}", None
    if not isinstance(row.get("case_id"), str) or not row["case_id"]:
        return "case_id is missing or no text", None
    for key in row:
        if key not in ROW_KEYS:
            return f"unknown key {key!r}{did_you_mean(key, ROW_KEYS)}", None
    for key in ("set", "variant", "model"):
        if not isinstance(row.get(key), str | None):
            return f"{key} must be text, got {type(row[key]).__name__}", None
    facts = row.get("facts")
    if facts is not None and not (isinstance(facts, list) and all(_is_fact(fact) for fact in facts)):
        return "facts must be a list of objects with a kind and a stage", None
    try:
        Outputs.from_json(row)
    except OutputError as error:
        return str(error), None
    return None, row


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


def _is_fact(fact: object) -> bool:
    return isinstance(fact, dict) and isinstance(fact.get("kind"), str) and isinstance(fact.get("stage"), str)


class PredictionsEngine:
    """Serves recorded outputs. It has the stages that at least one row has; a case without a row is an error."""

    name = "predictions"
    concurrent = True

    def __init__(self, path: Path, *, variant: str | None = None) -> None:
        self.path = path
        rows = load_rows(path, variant)
        self.version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        self._rows = RowChoice(rows)
        #: The run's case sets, so that no row is scored for cases of several.
        self.sets = SetsOfIds({})
        models = {row.get("model") for row in rows}
        #: The chat model that gave all of these outputs, where the file says so.
        self.model: str | None = models.pop() if len(models) == 1 else None
        self.stages = tuple(stage for stage in OUTPUT_KEYS if any(row.get(stage) is not None for row in rows))

    def supported_stages(self) -> tuple[str, ...]:
        return self.stages

    def no_model(self) -> NoModel:
        """The chat model of a run over these outputs: none is asked."""
        return NoModel(self.model)

    def load(self, memories: Sequence[Memory], scenes: Sequence[Scene], ctx: StageContext) -> None:
        """Nothing to fill: what the store would hold is already in the recorded outputs."""

    def extract(self, conversation: Sequence[Message], ctx: StageContext) -> list[Memory]:
        found = self._outputs(ctx, "l1").l1 or []
        self._replay_facts(ctx, "l1")
        return found

    def resolve(self, memories: Sequence[Memory], ctx: StageContext) -> list[Decision]:
        found = self._outputs(ctx, "l15").l15 or []
        self._replay_facts(ctx, "l15")
        return found

    def aggregate(self, memories: Sequence[Memory], ctx: StageContext) -> list[Scene]:
        found = self._outputs(ctx, "l2").l2 or []
        self._replay_facts(ctx, "l2")
        return found

    def query_template(self, mode: str, ctx: StageContext) -> list[Section]:
        template = self._outputs(ctx, "template").template or {}
        if mode not in template:
            known = did_you_mean(mode, template)
            raise StageError(f"{self.path.name} has no mode {mode!r} for {ctx.case_id}{known}", kind="no_prediction")
        return template[mode]

    def inject_recorded(self, ctx: StageContext) -> dict[str, list[Block]]:
        """The recorded blocks by what they were injected from: ``labelled`` and ``pipeline``."""
        outputs = self._outputs(ctx, "inject")
        self._replay_facts(ctx, "inject")
        found = {"labelled": outputs.inject_labelled, "pipeline": outputs.inject_pipeline}
        return {name: blocks for name, blocks in found.items() if blocks is not None}

    def search_recorded(self, queries: Sequence[str], ctx: StageContext) -> dict[str, list[Hit]]:
        """The recorded hits of these queries."""
        found = self._outputs(ctx, "search").search or {}
        self._replay_facts(ctx, "search")
        for query in queries:
            if query not in found:
                raise StageError(
                    f"{self.path.name} has no hits of query {query!r} for {ctx.case_id}{did_you_mean(query, found)}",
                    kind="no_prediction",
                )
        return {query: found[query] for query in queries}

    def _outputs(self, ctx: StageContext, stage: str) -> Outputs:
        row = self._row(ctx)
        if row.get(stage) is None:
            raise StageError(f"{self.path.name} has no {stage} for {ctx.case_id}", kind="no_prediction")
        return Outputs.from_json(row)

    def _replay_facts(self, ctx: StageContext, stage: str) -> None:
        for fact in self._row(ctx).get("facts") or ():
            if fact["stage"] == stage:
                ctx.record(fact["kind"], **{key: value for key, value in fact.items() if key not in ("kind", "stage")})

    def shared_by(self, case_id: str, case_set: str) -> list[str]:
        """The case sets of the run whose cases the case's row fits, where these are several."""
        row = self._rows.row_of(case_id, case_set)
        names = self._rows.sets_of(row, case_set, self.sets.of(case_id)) if row is not None else []
        return names if len(names) > 1 else []

    def _row(self, ctx: StageContext) -> Mapping[str, Any]:
        row = self._rows.row_of(ctx.case_id, ctx.case_set)
        if row is not None:
            shared = self.shared_by(ctx.case_id, ctx.case_set)
            if shared:
                more = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
                raise StageError(
                    f"{self.path.name} has one row for {ctx.case_id} of several case files,"
                    f" {', '.join(shared[:_NAMED])}{more}: give the row the one that it is of under the key 'set'",
                    kind="no_prediction",
                )
            return row
        rows = self._rows.by_case.get(ctx.case_id)
        if rows:
            held = ", ".join(sorted({row["set"] for row in rows}))
            raise StageError(
                f"{self.path.name} has rows for {ctx.case_id}, but of other case sets: {held}", kind="no_prediction"
            )
        raise StageError(
            f"{self.path.name} has no row for {ctx.case_id}{did_you_mean(ctx.case_id, self._rows.by_case)}",
            kind="no_prediction",
        )


class NoModel(SyncCompletion):
    """Stands where a chat model is expected while recorded outputs are scored. ``name`` is the model that was asked
    when they were recorded, as far as it is known, else ``none``."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or "none"
        #: Where a report looks for the server that was asked.
        self.endpoint = RECORDED_OUTPUTS if name else None

    async def complete(self, messages: Sequence[Mapping[str, str]], **asked: Unpack[CallOptions]) -> ChatReply:
        raise ChatModelError("no model is asked while recorded outputs are scored")


def unmatched_rows(path: Path, cases: Iterable[tuple[str, str]], variant: str | None = None) -> list[str]:
    """What the rows that belong to none of ``cases``, as (case set, case id), are called; in the file's order."""
    sets: dict[str, list[str]] = {}
    for case_set, case_id in cases:
        sets.setdefault(case_id, []).append(case_set)
    found = []
    for row in rows_of_variant(load_predictions(path), variant):
        wanted = row.get("set")
        held = sets.get(row["case_id"], ())
        if not (any(is_end_of(wanted, case_set) for case_set in held) if wanted else held):
            found.append(f"{row['case_id']} of {wanted}" if wanted else row["case_id"])
    return found


def prediction_rows(results: Iterable[CaseResult]) -> list[dict[str, Any]]:
    """Rows of a predictions file from case results, one a case: its own item's where tests used the case too."""
    rows: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for result in results:
        key = (result.case_id, result.set, result.variant)
        own = f"{result.set}::{result.case_id}" + ("" if result.variant is None else f"[{result.variant}]")
        if result.outcome == "skipped" or (key in rows and result.node_id != own):
            continue
        rows[key] = {
            "case_id": result.case_id,
            "set": result.set,
            **({"variant": result.variant} if result.variant is not None else {}),
            **{stage: result.outputs[stage] for stage in OUTPUT_KEYS if stage in result.outputs},
            **_kept_facts(result.facts),
            **_asked_model(result.calls),
        }
    return list(rows.values())


def _kept_facts(facts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    kept = [dict(fact) for fact in facts if fact.get("kind") in KEPT_FACTS and fact.get("stage")]
    return {"facts": kept} if kept else {}


def _asked_model(calls: Iterable[CallRecord]) -> dict[str, str]:
    names = {(call.provider, call.model) for call in calls if call.provider is not None and call.model is not None}
    if len(names) != 1:
        return {}
    provider, model = names.pop()
    return {"model": str(provider) if provider == model else f"{provider}/{model}"}
