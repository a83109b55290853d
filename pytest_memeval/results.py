"""What a case's run leaves behind, in the one JSON form used by the journal, by reports and between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from sys import intern
from typing import Any, Literal, cast

from pytest_memeval.metrics.sections import SectionRecord

Outcome = Literal["scored", "errored", "skipped"]

#: What became of a stage in a case.
#:
#: - ``scored``: has labels, was measured;  ``ran``: needed on the way, ran unscored
#: - ``errored``: has labels, could not be measured;  ``ran_errored``: needed on the way, failed
#: - ``void``: has labels, but a stage it builds on failed
#: - ``unsupported``: has labels, the engine lacks the stage
#: - ``unselected``: has labels, not among the selected stages;  ``no_truth``: no labels, not needed
#: - ``skipped``: has labels, the whole case was skipped
StageStatus = Literal[
    "scored", "ran", "errored", "ran_errored", "void", "unsupported", "unselected", "no_truth", "skipped"
]


@dataclass(frozen=True, slots=True)
class CaseError:
    """Why something could not be measured. ``kind`` is a short stable word, ``message`` is for people."""

    stage: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call. ``latency`` in seconds; ``error`` is set where no usable answer came. ``cost`` is the list
    price of its tokens in US dollars, ``None`` where that is not known."""

    id: str
    stage: str
    version: str | None = None
    provider: str | None = None
    model: str | None = None
    request: tuple[Mapping[str, str], ...] = ()
    answer: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency: float = 0.0
    error: str | None = None
    cached: bool = False
    attempts: int = 1
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class StageResult:
    """A stage's result in one case. ``output`` is what the engine returned (after normalisation), ``metrics`` the
    case's figures where the stage has labels, ``error`` why it could not be measured, ``seconds`` its own work."""

    output: Any = None
    metrics: SectionRecord | None = None
    error: CaseError | None = None
    calls: tuple[CallRecord, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Everything recorded of one case.

    ``outputs`` holds each stage's output in JSON form, enough to score the case again. ``facts`` are the engine's and
    the harness's notes (``{"kind": …, …}``: dropped labels, bad decisions …). ``timings`` and ``duration_seconds``
    are all that may differ between equal runs.
    """

    node_id: str
    set: str
    case_id: str
    outcome: Outcome
    variant: str | None = None
    kind: str = "distill"
    source: str = "unspecified"
    difficulty: str = "unspecified"
    tags: tuple[str, ...] = ()
    line: int = 0
    content_hash: str = ""
    #: What the case shares with others of its file (a conversation, a document); empty where it stands alone.
    cluster: str = ""
    stages: Mapping[str, StageStatus] = field(default_factory=dict)
    sections: Mapping[str, SectionRecord] = field(default_factory=dict)
    errors: tuple[CaseError, ...] = ()
    missed_expectations: tuple[str, ...] = ()
    has_expectations: bool = False
    #: What the case gave to the system: ``conversation`` and ``existing_memories``, so that a report can be read
    #: without its case file. Empty for kinds whose cases share their input.
    input: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[CallRecord, ...] = ()
    duration_seconds: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    #: Where the case was measured several times: each trial by itself (:mod:`pytest_memeval.trials.case`).
    trials: tuple[Mapping[str, Any], ...] = ()
    #: What an embedding server was asked for since the process's last record, with its list price: ``{requests, texts,
    #: input_tokens, unknown_tokens, spent_usd}``; empty for nothing. It, too, may differ between equal runs.
    embeddings: Mapping[str, float | None] = field(default_factory=dict)
    #: What the outputs depend on (:mod:`pytest_memeval.resume.key`); kept in the journal alone.
    resume_key: str = ""

    def to_json(self) -> dict[str, Any]:
        """The case's JSON form: plain dicts, lists, strings and numbers only."""
        return {
            "node_id": self.node_id,
            "set": self.set,
            "case_id": self.case_id,
            "variant": self.variant,
            "kind": self.kind,
            "source": self.source,
            "difficulty": self.difficulty,
            "tags": list(self.tags),
            "line": self.line,
            "content_hash": self.content_hash,
            "cluster": self.cluster,
            "outcome": self.outcome,
            "stages": dict(self.stages),
            "sections": {name: section.to_json() for name, section in self.sections.items()},
            "errors": [asdict(error) for error in self.errors],
            "missed_expectations": list(self.missed_expectations),
            "has_expectations": self.has_expectations,
            **({"input": dict(self.input)} if self.input else {}),
            "outputs": dict(self.outputs),
            "facts": [dict(fact) for fact in self.facts],
            "calls": [asdict(call) for call in self.calls],
            "duration_seconds": self.duration_seconds,
            "timings": dict(self.timings),
            **({"trials": [dict(trial) for trial in self.trials]} if self.trials else {}),
            **({"embeddings": dict(self.embeddings)} if self.embeddings else {}),
            "resume_key": self.resume_key,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaseResult:
        """Read :meth:`to_json`'s form back; a missing required key raises KeyError."""
        plain = {
            key: data[key] for key in ("node_id", "set", "case_id", "variant", "kind", "source", "difficulty", "line")
        }
        # Words that thousands of cases share are kept once.
        plain.update((key, intern(plain[key])) for key in ("set", "kind", "source", "difficulty"))
        return cls(
            **plain,
            content_hash=data["content_hash"],
            cluster=intern(data.get("cluster") or ""),
            outcome=data["outcome"],
            tags=tuple(data["tags"]),
            stages={intern(stage): cast("StageStatus", intern(status)) for stage, status in data["stages"].items()},
            sections={name: SectionRecord.from_json(section) for name, section in data["sections"].items()},
            errors=tuple(CaseError(**error) for error in data["errors"]),
            missed_expectations=tuple(data["missed_expectations"]),
            has_expectations=data["has_expectations"],
            input=dict(data.get("input") or {}),
            outputs=dict(data["outputs"]),
            facts=tuple(dict(fact) for fact in data["facts"]),
            calls=tuple(CallRecord(**{**call, "request": tuple(call["request"])}) for call in data["calls"]),
            duration_seconds=data["duration_seconds"],
            timings=dict(data["timings"]),
            trials=tuple(data.get("trials", ())),
            embeddings=dict(data.get("embeddings") or {}),
            resume_key=data.get("resume_key", ""),
        )


@dataclass(frozen=True, slots=True)
class SetInfo:
    """What the gates need to know of a case file: one scope.

    ``path`` is relative to the rootdir, with forward slashes. ``gates`` are the scope's own gates as (text, origin),
    origin ``default``, ``ini`` or ``file``. ``truth_counts`` says how many cases of the *file* have labels for a stage.
    ``note`` is what the file's author says of its gates (``meta.gates_note``).
    """

    path: str
    kind: str = "distill"
    version: str | None = None
    cases: int = 0
    gates: tuple[tuple[str, str], ...] = ()
    truth_counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    note: str | None = None
    #: What the file fixes of how its cases are measured, where its kind says so (a data set's hash, revision, units).
    protocol: Mapping[str, Any] | None = None
    #: The dimensions of the file's registry, where its cases are labelled with any.
    dimensions: tuple[str, ...] | None = None
    #: Whether it is a test module with cases that are in no file (:mod:`pytest_memeval.code_scopes`).
    in_code: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "version": self.version,
            "cases": self.cases,
            "gates": [list(gate) for gate in self.gates],
            "truth_counts": dict(self.truth_counts),
            "warnings": list(self.warnings),
            "note": self.note,
            **({"protocol": dict(self.protocol)} if self.protocol is not None else {}),
            **({"dimensions": list(self.dimensions)} if self.dimensions is not None else {}),
            **({"in_code": True} if self.in_code else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetInfo:
        return cls(
            path=data["path"],
            kind=data["kind"],
            version=data["version"],
            cases=data["cases"],
            gates=tuple((gate[0], gate[1]) for gate in data["gates"]),
            truth_counts=dict(data["truth_counts"]),
            warnings=tuple(data["warnings"]),
            note=data.get("note"),
            protocol=data.get("protocol"),
            dimensions=None if data.get("dimensions") is None else tuple(data["dimensions"]),
            in_code=bool(data.get("in_code", False)),
        )


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run besides its cases. Everything but ``run_id``, ``timestamp``, ``duration_seconds``,
    ``environment`` and ``config`` is equal between equal runs."""

    run_id: str
    timestamp: str
    duration_seconds: float
    stages: tuple[str, ...]
    stage_input: str
    supported_stages: tuple[str, ...]
    prompt_versions: Mapping[str, str] = field(default_factory=dict)
    prompt_hashes: Mapping[str, str] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    #: ``{model, served_model, endpoint, prompt_versions, prompt_hashes, controls}``; ``None`` where nothing was judged.
    judge: Mapping[str, Any] | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    matcher: Mapping[str, Any] = field(default_factory=dict)
    #: Case file → hash of the registry, and of the templates, that its labels were checked against.
    registry: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[tuple[str, str], ...] = ()
    gates_enabled: bool = True
    max_error_rate: float = 0.0
    partial: str | None = None
    not_run: tuple[tuple[str, str], ...] = ()
    #: Those of ``not_run`` that the run did measure, and that were in their files no more when it was scored again.
    gone: tuple[tuple[str, str], ...] = ()
    #: Case files that could not be read, each with the first thing that is wrong with it.
    broken_files: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    #: For one part of a run that is shared out over machines: which, and what is needed to put the parts together.
    shard: Mapping[str, Any] | None = None
    #: What the run fixes of how questions are asked (memory, answerer, prompt, judge), where any were.
    protocol: Mapping[str, Any] | None = None
    #: What became of ``--memeval-stop-when-decided`` (:meth:`pytest_memeval.stopping.StopRule.to_json`).
    stopping: Mapping[str, Any] | None = None
    #: For one variant of a run over several: ``{name, candidate, of}``, the names in their order.
    variant: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
