"""A memory as question answering sees it: it reads messages and finds what bears on a question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pytest_memeval.datasets.models import Session
from pytest_memeval.output_shapes import OutputError, hits_of
from pytest_memeval.values import Hit, Message


class BaseMemory(ABC):
    """One conversation's memory. ``name`` is its word in reports.

    The harness calls :meth:`reset`, then :meth:`ingest_session` for every session in order of time, then
    :meth:`flush`, then :meth:`retrieve` for every question; :meth:`retrieve` must not change what later questions find.
    Methods may be plain or ``async`` (:func:`~pytest_memeval.qa.agent.run_eval` wants plain ones).
    """

    name: str = ""

    @abstractmethod
    def ingest(self, message: Message) -> None:
        """Read one message."""

    def ingest_session(self, session: Session) -> None:
        """Read one session; by default its messages one by one."""
        for message in session.messages:
            self.ingest(message)

    def flush(self) -> None:  # noqa: B027  # most memories have nothing to do here
        """Called after the last session: finish what is still under way."""

    @abstractmethod
    def retrieve(self, query: str) -> Sequence[Hit]:
        """What bears on the query, best first. ``Hit.source_ids`` (else ``Hit.id``) are ids of messages."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""


def turn_text(message: Message) -> str:
    """A message as a line of context: time and speaker, then the text."""
    time = f"[{message.time:%Y-%m-%d %H:%M}] " if message.time is not None else ""
    return f"{time}{message.name or message.role}: {message.content}"


def as_hits(found: object) -> list[Hit]:
    """What a memory returned as hits: hits, mappings with their fields (``id`` may be left out), a text or texts as
    hits without a source.

    TypeError for anything else, ``None`` included: a memory that forgot to return is not one that found nothing, and
    one that misspelt ``source_ids`` not one that found something else.
    """
    if found is None:
        raise TypeError("retrieve returned None: a list of hits or a text is expected; an empty one says nothing found")
    if isinstance(found, str):
        return [Hit("", None, found)] if found.strip() else []
    if not isinstance(found, Sequence) or isinstance(found, bytes):
        raise TypeError(f"retrieve returned {type(found).__name__}: a list of hits or a text is expected")
    hits: list[Hit] = []
    for place, one in enumerate(found):
        if isinstance(one, str):
            hits.append(Hit("", None, one))
            continue
        if not isinstance(one, Hit | Mapping):
            raise TypeError(f"retrieve returned {type(one).__name__} at place {place}: a hit or a text is expected")
        if isinstance(one, Mapping):
            if "content" not in one:
                raise TypeError(f"retrieve returned a hit at place {place} whose 'content' is missing")
            one = {"id": "", **{key: value for key, value in one.items() if key != "id" or value is not None}}
        try:
            hits += hits_of([one])
        except OutputError as error:
            what = str(error).removeprefix("hit 0: ")
            raise TypeError(f"retrieve returned a hit at place {place} that is none: {what}") from None
    return hits


def sources_of(hits: Sequence[Hit]) -> list[str]:
    """The ids of the messages behind the hits, best first, each once."""
    return list(dict.fromkeys(source for hit in hits for source in (hit.source_ids or (hit.id,)) if source))
