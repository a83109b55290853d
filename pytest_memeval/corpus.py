"""What the queries of a case set are searched in: all of its labelled memories, and distractors."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_memeval.case_clock import case_clock
from pytest_memeval.engine.databases import OpenDatabases
from pytest_memeval.live_memories import labelled_memories
from pytest_memeval.loop_time import hidden
from pytest_memeval.loops import is_left_behind
from pytest_memeval.metrics.search import CUTOFFS
from pytest_memeval.metrics.thresholds import Threshold
from pytest_memeval.values import Hit, Memory

if TYPE_CHECKING:
    from pytest_memeval.cases.models import CaseSet, EvalCase


@dataclass(frozen=True)
class SearchCorpus:
    """The memories that one case set's queries are asked of, the same for all of its cases.

    ``name`` is one word that stands for the set where an engine is told a case id. ``cutoffs`` are those of the search
    figures. ``clock`` is the latest of the cases' clocks.
    """

    name: str
    memories: tuple[Memory, ...]
    clock: datetime
    cutoffs: tuple[int, ...] = CUTOFFS

    def own_ids(self, hits: Sequence[Hit]) -> tuple[list[Hit], bool]:
        """The hits under the corpus's ids, and whether some had to be found by their content.

        An engine with ids of its own tells by ``source_ids`` which memories a hit comes from, or by its content. A hit
        that is none of the corpus keeps id and content: it takes a place in the ranking.
        """
        found: list[Hit] = []
        by_content = False
        for hit in hits:
            ids: Sequence[str] = (hit.id,)
            if hit.id not in self._contents:
                ids = [source for source in hit.source_ids if source in self._contents]
                if not ids and (known := self._ids.get(_folded(hit.content))) is not None:
                    ids, by_content = (known,), True
            if ids and ids[0] in self._contents:
                # What the corpus says is not repeated in reports.
                found += (Hit(identifier, hit.score, "", hit.source_ids) for identifier in ids)
            else:
                found.append(hit)
        return found, by_content

    def unknown(self, hits: Sequence[Hit]) -> int:
        """How many of the hits, under :meth:`own_ids`, are no memory of the corpus."""
        return sum(hit.id not in self._contents for hit in hits)

    @cached_property
    def digest(self) -> str:
        """Equal for equal memories under equal ids."""
        text = "\0".join(f"{memory.id}\0{memory.content}" for memory in self.memories)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _contents(self) -> Mapping[str, str]:
        return {str(memory.id): memory.content for memory in self.memories}

    @cached_property
    def _ids(self) -> Mapping[str, str]:
        # Of equal contents the first stands for all.
        return {_folded(memory.content): str(memory.id) for memory in reversed(self.memories)}


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def corpus_of(case_set: CaseSet, thresholds: Iterable[Threshold] = ()) -> SearchCorpus:
    """The corpus of a case file. ``thresholds`` are those of the run's gates; the file's own are added. Raises
    DocumentError for a file of distractors that cannot be read."""
    from pytest_memeval.cases.distractors import load_distractors

    distractors = load_distractors(case_set.meta.distractors) if case_set.meta.distractors is not None else ()
    return _corpus(case_set.path, case_set.cases, distractors, set_cutoffs(case_set, thresholds))


def corpus_of_case(case: EvalCase, thresholds: Iterable[Threshold] = ()) -> SearchCorpus:
    """The corpus of a case that belongs to no file: its own labelled memories."""
    return _corpus(case.path or Path(case.case_id), [case], (), cutoffs_of([*thresholds, *case.expect]))


def set_cutoffs(case_set: CaseSet, thresholds: Iterable[Threshold] = ()) -> tuple[int, ...]:
    """The cut-offs of a file's search figures: those of ``thresholds``, of its own gates and of its cases."""
    own = [gate.threshold for gate in case_set.meta.gates or ()]
    expected = [threshold for case in case_set.cases for threshold in case.expect]
    return cutoffs_of([*thresholds, *own, *expected])


def cutoffs_of(thresholds: Iterable[Threshold]) -> tuple[int, ...]:
    """The usual cut-offs and those that some threshold on a search figure names."""
    named = {one.path.k for one in thresholds if one.path.section == "search" and one.path.k is not None}
    return tuple(sorted({*CUTOFFS, *named}))


def _corpus(
    path: Path, cases: Sequence[EvalCase], distractors: Sequence[Memory], cutoffs: tuple[int, ...]
) -> SearchCorpus:
    memories = [memory for case in cases for memory in labelled_memories(case)]
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return SearchCorpus(
        name=f"corpus-{digest}",
        memories=(*memories, *distractors),
        clock=max(case_clock(case) for case in cases),
        cutoffs=cutoffs,
    )


class CorpusStore:
    """A corpus as one engine holds it: loaded once a process, read by all cases of the set, closed with the run.

    A load that failed leaves nothing behind: the next case begins anew, in databases and under a name of its own.
    """

    def __init__(self, corpus: SearchCorpus, get_folder: Callable[[], Path]) -> None:
        self.corpus = corpus
        self._get_folder = get_folder
        self._lock = threading.Lock()
        self._attempt = 0
        self._ready = False
        self._closed = False
        #: How the engine lets go of attempts that went down with their loop, and their databases.
        self._left: list[tuple[Callable[[], None] | None, OpenDatabases]] = []
        self._renew()

    def _renew(self) -> None:
        self._attempt += 1
        self.name = self.corpus.name if self._attempt == 1 else f"{self.corpus.name}-{self._attempt}"
        self.databases = OpenDatabases()
        #: Has the engine let go of the store; set as soon as something may have been put in.
        self.release: Callable[[], None] | None = None
        self._folder: Path | None = None
        self._task: asyncio.Task[None] | None = None

    def folder(self) -> Path:
        if self._folder is None:
            self._folder = self._get_folder()
        return self._folder

    async def ensure(self, load: Callable[[], Awaitable[object]], *, on_loop: bool) -> None:
        """Have ``load`` run unless it has been; whoever comes meanwhile waits for it. ``on_loop`` false: nothing here
        may wait on a loop, and the calling thread may block."""
        if self._ready:
            return
        if not on_loop:
            with self._lock:
                await self._load(load)
            return
        task = self._task
        if task is not None and not task.done() and is_left_behind(task.get_loop()):
            # It may never end, nor give the lock back.
            self._left.append((self.release, self.databases))
            self._lock = threading.Lock()
            self._renew()
            task = None
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._task = hidden(asyncio.create_task(self._load_locked(load)))
        # A case whose time is over leaves the load to the others.
        await asyncio.shield(task)

    async def _load_locked(self, load: Callable[[], Awaitable[object]]) -> None:
        lock = self._lock
        await asyncio.to_thread(lock.acquire)
        try:
            await self._load(load)
        finally:
            lock.release()

    async def _load(self, load: Callable[[], Awaitable[object]]) -> None:
        if self._ready or self._closed:
            return
        attempt = self._attempt
        try:
            await load()
        except BaseException:
            if attempt == self._attempt:
                self._let_go()
                task = self._task
                self._renew()
                self._task = task
            raise
        # One that was left behind and came back all the same is nobody's.
        self._ready = self._ready or attempt == self._attempt

    def close(self) -> None:
        self._closed = True
        self._let_go()
        while self._left:
            self.release, self.databases = self._left.pop()
            self._let_go()

    def _let_go(self) -> None:
        release, self.release = self.release, None
        if release is not None:
            release()
        self.databases.close()


def store_memories(corpus: SearchCorpus) -> list[Memory]:
    """The memories to load; those without a time get the corpus's clock, so that no engine takes today's."""
    return [
        memory if memory.created_at is not None else replace(memory, created_at=corpus.clock)
        for memory in corpus.memories
    ]
