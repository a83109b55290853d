"""How a process asks questions: memory, answerer, judge, from settings and fixtures."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.metrics.text.pairs import metrics_spec
from pytest_memeval.options import SettingsError
from pytest_memeval.qa.answering import Answerer, ChatAnswerer, ExtractiveAnswerer
from pytest_memeval.qa.conversations import Conversations, Reader
from pytest_memeval.qa.memories import MEMORIES, UNRANKED, build_memory
from pytest_memeval.qa.planning import why_unplanned
from pytest_memeval.qa.readers import EngineReader, MemoryReader, can_answer, shares_nothing
from pytest_memeval.qa.run import ARMS, QASetup

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.settings.model import Settings

ANSWERERS: tuple[str, ...] = ("extractive", "chat")
#: Words for memories that are not one of this package's.
OTHER_MEMORIES: tuple[str, ...] = ("auto", "engine")

_making = threading.Lock()
_setups: WeakKeyDictionary[Harness, dict[tuple[int, ...], QASetup]] = WeakKeyDictionary()


def check_settings(settings: Settings) -> None:
    """Raise SettingsError for options of question answering that cannot be used."""
    name = settings.memory
    if name not in (*MEMORIES, *OTHER_MEMORIES) and ":" not in name:
        known = (*OTHER_MEMORIES, *MEMORIES)
        raise SettingsError(
            f"{settings.where('memory')}: unknown memory {name!r}{did_you_mean(name, known)} (or module:attribute)"
        )
    if settings.retrieval_k < 1:
        raise SettingsError(f"{settings.where('retrieval_k')}: at least 1 is needed, not {settings.retrieval_k}")
    arms_of(settings)


def arms_of(settings: Settings) -> tuple[str, ...]:
    """The arms asked for, in the order of :data:`~pytest_memeval.qa.run.ARMS`."""
    given = [part.strip() for part in (settings.arms or "").split(",") if part.strip()]
    for name in given:
        if name not in ARMS:
            raise SettingsError(f"{settings.where('arms')}: unknown arm {name!r}{did_you_mean(name, ARMS)}")
    return tuple(arm for arm in ARMS if arm in given)


def may_overlap(values: Mapping[str, Any]) -> bool:
    """Whether questions may be under way at once: not where the memory in use holds one conversation at a time."""
    key = _key(values)
    return not any(key in known and known[key].conversations.alone for known in _setups.values())


def _key(values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(id(values[name]) for name in sorted(values))


def setup_for(harness: Harness, values: Mapping[str, Any], case_set: Path) -> QASetup:
    """The process's setup for these fixture values, made when first asked for. Raises ValueError for bad options."""
    key = _key(values)
    # Asked for on the loop and, by whoever looks for an earlier run's results, off it.
    with _making:
        known = _setups.setdefault(harness, {})
        if key not in known:
            setup = known[key] = _made(harness, values, case_set)
            harness.closers.append(lambda: harness.loop.run(setup.conversations.close(), timeout=1.0))
        return known[key]


def _memory(settings: Settings, engine: object) -> tuple[str, Any]:
    """``own`` and a maker of memories, ``object`` and one that is shared, or ``engine`` and the engine."""
    name = settings.memory
    if name == "engine" and getattr(engine, "name", "") == "reference" and not can_answer(engine):
        from pytest_memeval.qa.reference import ReferenceMemory

        return "engine", ReferenceMemory(engine, settings.retrieval_k)
    if name == "engine" or (name == "auto" and can_answer(engine) and getattr(engine, "name", "") != "reference"):
        if not can_answer(engine):
            word = getattr(engine, "name", type(engine).__name__)
            raise SettingsError(
                f"{settings.where('memory')}: engine {word} does not support stage qa: it needs ingest_session (or"
                " ingest) and retrieve"
            )
        return "engine", engine
    if name in MEMORIES or name == "auto":
        return "own", partial(build_memory, "bm25" if name == "auto" else name, settings.retrieval_k)
    return _loaded(settings)


def _loaded(settings: Settings) -> tuple[str, Any]:
    from pytest_memeval.extensions import find_object, load_object

    where = settings.where("memory")
    example = load_object(settings.memory, where)
    target = find_object(settings.memory, where)
    if not can_answer(example):
        raise SettingsError(
            f"{where}: {settings.memory!r} is no memory: it needs ingest (or ingest_session) and retrieve"
        )
    if _wants_context(example.retrieve):
        return "engine", example
    # A class or a function makes a memory for every conversation; an object is one for all.
    if inspect.isclass(target) or inspect.isfunction(target):
        return "own", partial(load_object, settings.memory, where)
    return "object", example


def _wants_context(retrieve: Callable[..., Any]) -> bool:
    """Whether ``retrieve`` takes a context behind the query, as an engine's does."""
    try:
        parameters = list(inspect.signature(retrieve).parameters.values())
    except (TypeError, ValueError):
        return False
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) >= 2 or any(one.name == "ctx" for one in parameters)


def _made(harness: Harness, values: Mapping[str, Any], case_set: Path) -> QASetup:
    settings = harness.settings
    check_settings(settings)
    kind, target = _memory(settings, values["memeval_engine"])
    reading = None
    if kind == "engine":
        name = str(getattr(target, "name", type(target).__name__))
        llm = values["memeval_llm"]
        if harness.plan is not None:
            if (why := why_unplanned(target)) is not None:
                raise SettingsError(why)
            llm = reading = harness.plan.planning_model(llm)
        make = _engine_maker(harness, target, llm, case_set)
        alone = not shares_nothing(target)
        ranked = True
    else:
        example = target() if kind == "own" else target
        name = str(getattr(example, "name", "") or type(example).__name__)
        make = (lambda: MemoryReader(target())) if kind == "own" else (lambda: MemoryReader(target))
        alone = kind == "object" and not getattr(target, "concurrent", False)
        ranked = name not in UNRANKED
    answerer = _answerer(harness, values["memeval_llm"])
    judge = values["memeval_judge"]
    protocol = {
        "memory": name,
        "retrieval_k": settings.retrieval_k if name in ("bm25", "vector", "recent", "reference") else None,
        "answerer": answerer.name,
        "answer": answer_protocol(answerer),
        "judge": judge_identity(judge),
        "arms": list(arms_of(settings)),
        "adversarial_in_headline": bool(settings.adversarial_in_headline),
        "trials": harness.settings.trials,
        "text_metrics": metrics_spec(),
    }
    return QASetup(
        memory=name,
        answerer=answerer,
        conversations=Conversations(make, alone=alone),
        protocol=protocol,
        head=_head(kind, target, answerer, judge),
        identity=_identity(kind, target, protocol, values["memeval_llm"], judge, settings),
        judge=judge,
        arms=arms_of(settings),
        ranked=ranked,
        adversarial_counts=bool(settings.adversarial_in_headline),
        planned_reading=reading,
        planned_controls=settings.judge_controls or 0,
    )


def _identity(
    kind: str, target: Any, protocol: Mapping[str, Any], llm: Any, judge_object: Any, settings: Settings
) -> tuple[str, ...] | None:
    """A hash for each of the parts of a resume key behind the first: labels and templates (none here), prompts, engine,
    model, options, version. ``None`` where a memory, model or judge of the project's cannot be told from another."""
    from pytest_memeval import __version__
    from pytest_memeval.identity import identity_of
    from pytest_memeval.judge.own import OwnJudge
    from pytest_memeval.llm.own import projects_own

    own = kind == "own" and protocol["memory"] in MEMORIES
    memory = protocol["memory"] if own else identity_of(target.func if isinstance(target, partial) else target)
    if kind == "own" and not own:
        memory = identity_of(type(target()))
    if memory is None:
        return None
    answer, judge = protocol["answer"] or {}, protocol["judge"] or {}
    asked = kind == "engine" or protocol["answer"] is not None
    model = [getattr(llm, name, None) for name in ("name", "model", "endpoint")] if asked else None
    theirs = [projects_own(llm) if asked else None, judge_object.target if isinstance(judge_object, OwnJudge) else None]
    if any(one is not None and identity_of(one) is None for one in theirs):
        return None
    vectors = [settings.values[name] for name in ("embedder", "embedding_model", "embedding_base_url")]
    parts = (
        "",
        [answer.get("prompt_sha256"), judge.get("prompt_hashes")],
        [memory, protocol["retrieval_k"], *(vectors if kind == "engine" else ())],
        [model, {name: judge.get(name) for name in ("model", "endpoint")}],
        [protocol[name] for name in ("answerer", "arms", "trials")],
        __version__,
    )
    return tuple(
        hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()[:12] for part in parts
    )


def _engine_maker(harness: Harness, engine: object, llm: Any, case_set: Path) -> Callable[[], Reader]:
    prompts = harness.prompt_set()
    embedder = harness.search.embedder()
    return lambda: EngineReader(
        engine, llm, prompts, harness.registry, harness.templates, harness.folder, str(case_set), embedder
    )


def _answerer(harness: Harness, llm: Any) -> Answerer:
    if harness.settings.answerer == "extractive":
        return ExtractiveAnswerer()
    from pytest_memeval.assets.prompts import ANSWER_STAGES

    prompts = harness.prompt_store().resolve(harness.settings.prompt_version, ANSWER_STAGES)
    return ChatAnswerer(llm, prompts)


def judge_identity(judge: Any) -> dict[str, Any] | None:
    """What a judge's verdicts depend on besides what is judged; its name where it does not say, ``None`` for none."""
    if judge is None:
        return None
    if callable(getattr(judge, "identity", None)):
        return dict(judge.identity())
    return {"model": str(getattr(judge, "name", type(judge).__name__))}


def answer_protocol(answerer: Answerer) -> dict[str, Any] | None:
    """Model, prompt and parameters of the answers; ``None`` for an answerer that asks no model."""
    if not isinstance(answerer, ChatAnswerer):
        return None
    llm = answerer.llm
    return {"provider": getattr(llm, "name", None), "model": getattr(llm, "model", None), **answerer.protocol}


def _head(kind: str, target: Any, answerer: Answerer, judge: Any) -> dict[str, Any]:
    """What the head of the report says: the engine where one is asked, the model where one answers."""
    from pytest_memeval.recording import model_name

    head: dict[str, Any] = {}
    if kind == "engine":
        head["engine"] = {
            "name": getattr(target, "name", type(target).__name__),
            "version": getattr(target, "version", None),
        }
    if isinstance(answerer, ChatAnswerer):
        llm = answerer.llm
        head["model"] = {
            "provider": model_name(llm),
            "name": getattr(llm, "model", None),
            "endpoint": getattr(llm, "endpoint", None),
        }
    if judge is not None:
        head["judge"] = judge_identity(judge)
    return head
