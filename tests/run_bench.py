"""Cases, engines and runs for tests of stages, runner and scoring, without pytest's fixtures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_memeval.assets.prompts import load_prompts
from pytest_memeval.assets.registry import load_registry
from pytest_memeval.assets.templates import load_templates
from pytest_memeval.case_record import case_result
from pytest_memeval.cases.models import (
    EvalCase,
    GtConflictAction,
    GtMemory,
    GtScene,
    InjectGroundTruth,
    L1GroundTruth,
    L2GroundTruth,
    L15GroundTruth,
)
from pytest_memeval.llm.embedded import EmbeddedChatModel
from pytest_memeval.loops import LoopThread
from pytest_memeval.outputs import Outputs
from pytest_memeval.runner import CaseRun
from pytest_memeval.scoring import CaseScorer, ScoringOptions
from pytest_memeval.settings.case import RunSettings
from pytest_memeval.values import Block, Decision, Memory, Message, Scene, Section

REGISTRY = load_registry(None)
TEMPLATES = load_templates(None, REGISTRY)
PROMPTS = load_prompts(None).resolve(None)

TEXTS = ("works as a nurse in Graz", "drinks green tea every morning", "is learning to play the cello")
DIMENSIONS = ("identity", "habits", "skills")


def truth(*texts: str, dimensions: Sequence[str] = DIMENSIONS) -> L1GroundTruth:
    return L1GroundTruth(
        tuple(
            GtMemory(text, (dimensions[at % len(dimensions)],), "persona", 80, "static", ("msg_1",))
            for at, text in enumerate(texts)
        )
    )


def memory(memory_id: str | None, content: str, *dimensions: str) -> Memory:
    return Memory(memory_id, content, dimensions or ("identity",), "persona", 80, "static")


def full_case(**fields: Any) -> EvalCase:
    """A case with labels for every stage: three memories, the second of which updates the stored ``m1``."""
    values: dict[str, Any] = {
        "case_id": "eval-001",
        "conversation": tuple(Message(f"msg_{n}", "user", text) for n, text in enumerate(TEXTS, 1)),
        "existing_memories": (memory("m1", "drinks coffee every morning", "habits"),),
        "existing_scenes": (Scene("s1", "Mornings", ("m1",)),),
        "expected_l1": truth(*TEXTS),
        "expected_l15": L15GroundTruth(
            (
                GtConflictAction(0, "store"),
                GtConflictAction(1, "update", ("m1",), "drinks green tea every morning"),
                GtConflictAction(2, "store"),
            )
        ),
        "expected_l2": L2GroundTruth(
            ("Work", "Mornings"),
            (GtScene("Work", (0, 2)), GtScene("Mornings", (1,))),
            {"daily": {0: "basic_info", 1: "daily_life"}},
        ),
        "expected_inject": InjectGroundTruth("daily", (Message("msg_9", "user", "hello"),), (0, 1)),
        "content_hash": "h",
    }
    return EvalCase(**{**values, **fields})


@dataclass
class ListEngine:
    """An engine over plain lists, one store a context, that does everything right; every call is logged.

    ``broken`` maps a method to what it raises, or to a function that gives its result instead.
    """

    broken: Mapping[str, Any] = field(default_factory=dict)
    name: str = "lists"
    version: str = "1"
    log: list[tuple[str, Any]] = field(default_factory=list)

    def _before(self, method: str, ctx: Any, *args: Any) -> Any:
        self.log.append((method, args))
        wrong = self.broken.get(method)
        if isinstance(wrong, BaseException):
            raise wrong
        return wrong(*args, ctx) if callable(wrong) else None

    def _store(self, ctx: Any) -> Any:
        ctx.memory_db.execute("CREATE TABLE IF NOT EXISTS m (id TEXT, content TEXT, dimension TEXT)")
        return ctx.memory_db

    def _rows(self, ctx: Any) -> list[tuple[str, str, str]]:
        rows: list[tuple[str, str, str]] = self._store(ctx).execute("SELECT * FROM m").fetchall()
        return rows

    def load(self, memories: list[Memory], scenes: list[Scene], ctx: Any) -> None:
        self._before("load", ctx, memories, scenes)
        for one in memories:
            self._store(ctx).execute("INSERT INTO m VALUES (?, ?, ?)", (one.id, one.content, one.dimensions[0]))

    def extract(self, conversation: list[Message], ctx: Any) -> Any:
        given = self._before("extract", ctx, conversation)
        if given is not None:
            return given
        return [memory(f"n{at}", one.content, DIMENSIONS[at % 3]) for at, one in enumerate(conversation)]

    def resolve(self, memories: list[Memory], ctx: Any) -> Any:
        given = self._before("resolve", ctx, memories)
        if given is not None:
            return given
        decisions = []
        for at, one in enumerate(memories):
            old = next((row[0] for row in self._rows(ctx) if row[2] == one.dimensions[0] == "habits"), None)
            if old is not None:
                self._store(ctx).execute("UPDATE m SET content = ? WHERE id = ?", (one.content, old))
                decisions.append(Decision(at, "update", (old,), one.content, old))
            else:
                self._store(ctx).execute("INSERT INTO m VALUES (?, ?, ?)", (one.id, one.content, one.dimensions[0]))
                decisions.append(Decision(at, "store", result_id=one.id))
        return decisions

    def aggregate(self, memories: list[Memory], ctx: Any) -> Any:
        given = self._before("aggregate", ctx, memories)
        if given is not None:
            return given
        ids = [str(one.id) for one in memories]
        return [
            Scene("s1", "Mornings", tuple(ids[1:2]), "updated"),
            Scene("s2", "Work", (*ids[:1], *ids[2:]), "created"),
        ]

    def query_template(self, mode: str, ctx: Any) -> Any:
        given = self._before("query_template", ctx, mode)
        if given is not None:
            return given
        places = {"identity": "basic_info", "habits": "daily_life"}
        return [
            Section(section, section, tuple(row[0] for row in self._rows(ctx) if row[2] == dimension))
            for dimension, section in places.items()
        ]

    def inject(self, mode: str, conversation: list[Message], ctx: Any) -> Any:
        given = self._before("inject", ctx, mode)
        if given is not None:
            return given
        return [Block("all", tuple(row[0] for row in self._rows(ctx)), True, "…")]


class Without:
    """An engine without some of its methods."""

    def __init__(self, engine: Any, *methods: str) -> None:
        self._engine = engine
        self._hidden = set(methods)

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(name)
        return getattr(self._engine, name)


@contextmanager
def open_run(case: EvalCase, engine: Any, llm: Any = None, **settings: Any) -> Iterator[CaseRun]:
    keep = {key: settings.pop(key) for key in ("passing", "databases", "get_folder") if key in settings}
    chained = settings.get("chained", True)
    settings.setdefault("scoring", ScoringOptions(chained=chained))
    loop = LoopThread("test-loop")
    run = CaseRun(
        case,
        engine=engine,
        llm=llm or EmbeddedChatModel(),
        prompts=PROMPTS,
        registry=REGISTRY,
        templates=TEMPLATES,
        settings=RunSettings(**settings),
        loop=loop,
        **keep,
    )
    try:
        yield run
    finally:
        run.close()
        loop.close()


def finished(case: EvalCase, engine: Any, llm: Any = None, **settings: Any) -> Any:
    """The CaseResult of a whole run."""
    with open_run(case, engine, llm, **settings) as run:
        run.run_all()
        return case_result(run, node_id=f"set.yaml::{case.case_id}", set_path="set.yaml")


def scorer(
    case: EvalCase, *, chained: bool = True, facts: Sequence[Mapping[str, Any]] = (), **outputs: Any
) -> CaseScorer:
    return CaseScorer(case, Outputs(facts=[dict(fact) for fact in facts], **outputs), ScoringOptions(chained=chained))
