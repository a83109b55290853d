"""The check of an engine that can be asked questions: reading, finding, forgetting."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.conformance.cases import messages
from pytest_memeval.conformance.finding import Finding
from pytest_memeval.conformance.patience import NoAnswer, within
from pytest_memeval.datasets.models import QAPair, QuestionType, Sample, Session
from pytest_memeval.failures import case_error
from pytest_memeval.own_code import own_errors
from pytest_memeval.qa.readers import EngineReader

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.llm.protocol import ChatModel

_QUESTION = QAPair("doctor-q", "Where does the family live, and what do they play?", "", QuestionType.SINGLE_HOP)


def _sample(sample_id: str, *texts: str) -> Sample:
    return Sample(sample_id, (Session("s1", messages(texts)),), ())


ALMA = _sample("doctor-alma", "The family of Alma lives in Lisbon.", "They all play the violin.")
BRUNO = _sample("doctor-bruno", "The family of Bruno lives in Oslo.", "They all play chess.")
_STRANGE = {"doctor-alma": ("bruno", "oslo", "chess"), "doctor-bruno": ("alma", "lisbon", "violin")}


def question_findings(
    make: Callable[[], object], harness: Harness, llm: ChatModel, patience: float
) -> Iterator[Finding]:
    """Verdicts on the stage ``qa``."""

    folder = Path(tempfile.mkdtemp(prefix="memeval-doctor-"))

    def new_folder(sample_id: str) -> Path:
        place = folder / f"{sample_id}-{len(list(folder.iterdir()))}"
        place.mkdir()
        return place

    async def asked(engine: object, sample: Sample) -> list[Any]:
        reader = EngineReader(
            engine,
            llm,
            harness.prompt_set(),
            harness.registry,
            harness.templates,
            get_folder=new_folder,
            embedder=harness.search.embedder(),
        )
        try:
            await reader.ingest(sample)
            return await reader.retrieve(_QUESTION.question, sample, _QUESTION)
        finally:
            await reader.close()

    def run(engine: object, sample: Sample) -> list[Any]:
        return within(harness.loop, asked(engine, sample), patience)

    try:
        engine = make()
        try:
            first, other, again = run(engine, ALMA), run(engine, BRUNO), run(engine, ALMA)
        except NoAnswer as error:
            yield Finding("qa", "failed", str(error))
            return
        except own_errors() as error:  # whatever an engine does
            told = case_error("qa", error)
            yield Finding("qa", "failed", f"{told.kind}: {told.message}")
            return
        if not first:
            yield Finding("qa", "warning", "nothing was found for a question about what was said a moment ago")
        else:
            sources = {source for hit in first for source in (*hit.source_ids, hit.id)}
            known = {message.id for session in ALMA.sessions for message in session.messages}
            if sources & known:
                yield Finding("qa", "ok", f"{len(first)} hits, of the right types")
            else:
                text = "hits name no message ids (source_ids): where an answer comes from cannot be measured"
                yield Finding("qa", "warning", text)
        yield _forgetting(first, other, again)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _forgetting(first: list[Any], other: list[Any], again: list[Any]) -> Finding:

    for sample_id, hits in (("doctor-bruno", other), ("doctor-alma", again)):
        text = repr([hit.content for hit in hits]).casefold()
        strange = [word for word in _STRANGE[sample_id] if word in text]
        if strange:
            what = f"conversation {sample_id} finds {', '.join(strange)}, which only the other one says"
            return Finding("qa isolation", "failed", what)
    if [hit.content for hit in first] != [hit.content for hit in again]:
        return Finding("qa isolation", "failed", "a conversation that is read again finds something else")
    return Finding("qa isolation", "ok", "a conversation that was read before leaves nothing behind")
