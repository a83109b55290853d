"""Running the system under test: a pipeline answers queries, a generator makes the samples themselves."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from pytest_memeval.loop_time import apart
from pytest_memeval.rag.types import EvalDataset, EvalSample


@dataclass(frozen=True)
class PipelineAnswer:
    """What a pipeline gave for a query: its answer, the passages that it retrieved (best first), anything else."""

    response: str
    contexts: Sequence[str] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class RAGQueryPipeline(Protocol):
    """A retrieval-augmented system: a callable that answers a query and returns its contexts.

    Called as ``pipeline(query)``, plain or ``async``; returns a :class:`PipelineAnswer`, ``(response, contexts)``, or a
    mapping with ``response`` and ``contexts``. What it raises is an error of the case, never an answer.

    Optional: ``answer(query, contexts)`` returns an answer made of given contexts, which playing back saved contexts
    needs; ``concurrent`` says whether several queries may be under way at once (without a word of it, where it is
    ``async``); ``name`` and ``version`` are shown in reports.
    """

    def __call__(self, query: str) -> Any: ...


@runtime_checkable
class DatasetGenerator(Protocol):
    """Makes a data set's samples: anything with ``generate()``, plain or ``async``, that returns an
    :class:`~pytest_memeval.rag.types.EvalDataset` or its samples. Equal calls have to give equal samples: every process
    of a run makes them for itself."""

    def generate(self) -> Any: ...


class PipelineError(Exception):
    """A pipeline gave nothing that can be evaluated. ``kind`` is a short stable word."""

    def __init__(self, message: str, kind: str = "generation_error") -> None:
        super().__init__(message)
        self.kind = kind


def _is_asynchronous(function: Any) -> bool:
    """Whether it is a coroutine function, or an object that is called by one."""
    target = function
    if not inspect.isroutine(function):
        target = getattr(function, "__call__", None)  # noqa: B004  # its method is wanted, not whether there is one
    return inspect.iscoroutinefunction(target)


async def call(function: Any, *args: Any) -> Any:
    """Call a plain function in a thread of its own, an asynchronous one here."""
    if _is_asynchronous(function):
        return await apart(partial(function, *args))
    from pytest_memeval.loops import in_daemon_thread

    result = await in_daemon_thread(function, *args)
    return await apart(lambda: result) if isinstance(result, Awaitable) else result


async def ask(pipeline: Any, query: str) -> PipelineAnswer:
    """The pipeline's answer to a query. Raises PipelineError for one of another shape, and what the pipeline raises."""
    return checked_answer(await call(pipeline, query))


async def answer_on(pipeline: Any, query: str, contexts: Sequence[str]) -> str:
    """The pipeline's answer made of given contexts. Raises PipelineError where it cannot make one."""
    answer = getattr(pipeline, "answer", None)
    if not callable(answer):
        name = name_of(pipeline)
        raise PipelineError(
            f"pipeline {name} has no answer(query, contexts), so it cannot be run on saved contexts", "no_answer_method"
        )
    return _text(await call(answer, query, list(contexts)))


def name_of(pipeline: Any) -> str:
    """The pipeline's ``name``, a function's own (also of a ``functools.partial``), else its class's."""
    named = getattr(pipeline, "name", None) or getattr(pipeline, "__qualname__", None)
    if named is None and isinstance(pipeline, partial):
        return name_of(pipeline.func)
    return str(named or type(pipeline).__name__)


def can_overlap(pipeline: Any) -> bool:
    """Whether several queries may be in the pipeline at once: what it says, else where it is asynchronous."""
    said = getattr(pipeline, "concurrent", None)
    if said is not None:
        return bool(said)
    return _is_asynchronous(pipeline)


def checked_answer(given: Any) -> PipelineAnswer:
    """What a pipeline returned, in one shape. Raises PipelineError."""
    meta: Mapping[str, Any] = {}
    if isinstance(given, PipelineAnswer):
        response, contexts, meta = given.response, given.contexts, given.meta
    elif isinstance(given, Mapping):
        missing = [key for key in ("response", "contexts") if key not in given]
        if missing:
            raise PipelineError(f"the pipeline's mapping has no {missing[0]!r}: it has {', '.join(map(str, given))}")
        response, contexts = given["response"], given["contexts"]
    elif isinstance(given, tuple) and len(given) == 2:
        response, contexts = given
    else:
        wanted = "PipelineAnswer, (response, contexts) or a mapping with both"
        raise PipelineError(f"the pipeline must return a {wanted}, not {type(given).__name__}")
    return PipelineAnswer(_text(response), _passages(contexts), meta)


def _text(response: Any) -> str:
    if not isinstance(response, str):
        raise PipelineError(f"the pipeline's response must be text, not {type(response).__name__}")
    return response


def _passages(contexts: Any) -> tuple[str, ...]:
    if isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise PipelineError(f"the pipeline's contexts must be a list of texts, not {type(contexts).__name__}")
    passages = tuple(contexts)
    for place, passage in enumerate(passages, 1):
        if not isinstance(passage, str):
            raise PipelineError(f"context {place} of the pipeline must be text, not {type(passage).__name__}")
    return passages


async def answered(pipeline: Any, sample: EvalSample, contexts: Sequence[str] | None = None) -> EvalSample:
    """The sample with the pipeline's response and contexts; with ``contexts``, with a response made of those."""
    if contexts is not None:
        return replace(sample, context=tuple(contexts), response=await answer_on(pipeline, sample.query, contexts))
    answer = await ask(pipeline, sample.query)
    return replace(
        sample, context=tuple(answer.contexts), response=answer.response, meta={**sample.meta, **answer.meta}
    )


async def answer_dataset(
    dataset: EvalDataset, pipeline: Any, *, max_concurrency: int = 8
) -> tuple[EvalDataset, list[tuple[EvalSample, Exception]]]:
    """Every query of a data set answered, and the samples that the pipeline failed on, each with its exception: those
    are not in the data set returned. A pipeline that cannot overlap is asked one query at a time."""
    from pytest_memeval.rag.concurrency import in_order

    async def one(sample: EvalSample) -> EvalSample | Exception:
        try:
            return await answered(pipeline, sample)
        except Exception as error:  # the caller is told of it, with its sample
            return error

    places = max_concurrency if can_overlap(pipeline) else 1
    given = await in_order(list(dataset.samples), one, max_concurrency=places)
    pairs = list(zip(dataset.samples, given, strict=True))
    good = [found for _, found in pairs if isinstance(found, EvalSample)]
    failed = [(sample, found) for sample, found in pairs if isinstance(found, Exception)]
    return replace(dataset, samples=tuple(good)), failed
