"""One question's work: find, answer, judge, score."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_memeval.datasets.models import Dataset, QAPair, Sample
from pytest_memeval.engine.protocol import StageError
from pytest_memeval.judge.chat_judge import ChatJudge
from pytest_memeval.judge.modes import RULE_MODE, mode_for
from pytest_memeval.judge.own import OwnJudge
from pytest_memeval.judge.refusal import is_unanswerable
from pytest_memeval.judge.verdict import JudgeError
from pytest_memeval.kinds import KindRun
from pytest_memeval.loops import in_daemon_thread
from pytest_memeval.outputs import OutputError
from pytest_memeval.qa.answering import ANSWER_STAGE, Answerer, ChatAnswerer, context_text, estimated_tokens
from pytest_memeval.qa.cases import QACase
from pytest_memeval.qa.kept import KEPT_SOURCES, evidence_found, kept_labels
from pytest_memeval.qa.memories import build_memory
from pytest_memeval.qa.memory import sources_of
from pytest_memeval.qa.planning import plan_question
from pytest_memeval.qa.scoring import Answered, score
from pytest_memeval.qa.stored import failed_by_verdict, restored_sections, statuses_of
from pytest_memeval.recording import StageChatModel
from pytest_memeval.results import CallRecord, CaseError, CaseResult, StageResult
from pytest_memeval.values import Hit

if TYPE_CHECKING:
    from pytest_memeval.judge.protocol import Judge
    from pytest_memeval.plan import Plan, PlanningChatModel
    from pytest_memeval.qa.conversations import Conversation, Conversations

#: What a question's time goes into.
STEPS: tuple[str, ...] = ("ingest", "search", "answer", "judge")
#: Other answers that can be asked for beside the memory's, and the memory that each is given.
ARMS: Mapping[str, str] = {"no-memory": "null", "full-context": "full-context"}


@dataclass
class QASetup:
    """How this process asks questions: made once, shared by all runs."""

    memory: str
    answerer: Answerer
    conversations: Conversations
    protocol: Mapping[str, Any]
    head: Mapping[str, Any]
    #: What answers and verdicts depend on besides the question, a short hash a part; ``None`` where nobody can tell.
    identity: tuple[str, ...] | None = None
    judge: Judge | None = None
    arms: tuple[str, ...] = ()
    ranked: bool = True
    adversarial_counts: bool = False
    #: In a run that only plans: what counts the calls of reading conversations, and the controls of the judge.
    planned_reading: PlanningChatModel | None = None
    planned_controls: int = 0


@dataclass(frozen=True)
class _Found:
    """What the memory found for a question, and what each arm is given."""

    sample: Sample
    hits: list[Hit]
    arms: Mapping[str, list[Hit]]


class QARun(KindRun):
    """A question in its conversation."""

    stage = "qa"
    case: QACase

    def __init__(
        self,
        case: QACase,
        make_setup: Callable[[], QASetup],
        dataset: Dataset,
        *,
        set_key: str,
        errata: bool,
        plan: Plan | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(case, kind="qa", **kw)
        self._make_setup, self._dataset, self._set_key, self._errata = make_setup, dataset, set_key, errata
        self._plan = plan
        self._made: QASetup | None = None

    def begin(self) -> None:
        super().begin()
        self._calls: list[CallRecord] = []
        self._seconds: dict[str, float] = {}
        #: What there is to answer from, once the memory was asked: every trial answers from the first one's.
        self._found: _Found | None = None
        #: Figures that the judge gave no verdict for, as ``section.metric``.
        self._failed: set[str] = set()

    @property
    def _setup(self) -> QASetup:
        if self._made is None:
            try:
                self._made = self._make_setup()
            except ValueError as error:
                raise StageError(str(error), kind="unsupported") from None
        return self._made

    async def measure(self) -> None:
        pair = self.case.pair
        key = f"{self._set_key}::{self.case.sample_id}"
        if self._plan is not None:
            await self._count(self._plan, key)
            return
        results, calls, seconds = self.results, self._calls, self._seconds
        try:
            if isinstance(self.first, QARun) and self.first._found is not None:
                found = await self._judged(pair, await self._answered(pair, self.first._found))
            else:
                async with self._setup.conversations.use(key, self._load) as conversation:
                    self._charge_reading(conversation)
                    self._found = await self._retrieved(pair, conversation)
                    found = await self._judged(pair, await self._answered(pair, self._found))
        finally:
            results["qa"] = StageResult(calls=tuple(calls), seconds=sum(seconds.values()))
        self.sections = score(
            pair,
            found,
            self._dataset.format,
            adversarial_counts=self._setup.adversarial_counts,
            errata=self._errata,
        )
        self.statuses.update(statuses_of(self.sections, self._failed))

    async def _count(self, plan: Plan, key: str) -> None:
        """Tell the plan what the question would ask of models."""
        try:
            setup = self._setup
        except StageError as error:
            plan.remark(str(error))
            return
        async with setup.conversations.use(key, self._load) as conversation:
            arms = {arm: _arm_hits(arm, conversation.sample) for arm in setup.arms}
            await plan_question(setup, plan, self.case.pair, conversation, arms, self.trial)

    async def _load(self) -> Sample:
        # A streamed file takes seconds to come to the sample.
        return await in_daemon_thread(self._dataset.read, self.case.sample)

    def _charge_reading(self, conversation: Conversation) -> None:
        """The first question of a conversation carries what reading it took."""
        if not conversation.charged:
            conversation.charged = True
            self._calls += conversation.reader.calls
            self._seconds["ingest"] = conversation.seconds
            self.facts += getattr(conversation.reader, "facts", ())

    # -- one answer --------------------------------------------------------------------------------------------

    async def _retrieved(self, pair: QAPair, conversation: Conversation) -> _Found:
        started = time.perf_counter()
        hits = await conversation.reader.retrieve(pair.question, conversation.sample, pair)
        self._seconds["search"] = time.perf_counter() - started
        return _Found(conversation.sample, hits, {arm: _arm_hits(arm, conversation.sample) for arm in self._setup.arms})

    async def _answered(self, pair: QAPair, given: _Found) -> Answered:
        setup, hits = self._setup, given.hits
        sources = sources_of(hits)
        started = time.perf_counter()
        answer = await self._ask(pair, hits)
        self._seconds["answer"] = time.perf_counter() - started
        arms = {arm: await self._ask(pair, own) for arm, own in given.arms.items()}
        tokens = estimated_tokens(context_text(hits))
        self.outputs["qa"] = {
            "question_id": pair.question_id,
            "question": pair.question,
            "question_date": pair.question_date,
            **kept_labels(pair, cut=len(sources) > KEPT_SOURCES),
            "answer": answer,
            "sources": sources[:KEPT_SOURCES],
            "sources_in_all": len(sources),
            "hits": len(hits),
            "context_tokens": tokens,
            **({"evidence_found": evidence_found(pair, given.sample, sources)} if sources or not hits else {}),
            **({"arms": arms} if arms else {}),
        }
        return Answered(
            answer=answer,
            sources=None if hits and not sources else sources,
            ranked=setup.ranked,
            context_tokens=tokens,
            arms=arms,
        )

    async def _ask(self, pair: QAPair, hits: list[Hit]) -> str:
        answerer = self._setup.answerer
        if isinstance(answerer, ChatAnswerer):
            prefix = f"{self.label}/answer/"
            versions = {ANSWER_STAGE: answerer.protocol["prompt_version"]}
            chat = StageChatModel(answerer.llm, versions, prefix, self._calls, self.trial)
            answerer = ChatAnswerer(chat, answerer.prompts, answerer.max_tokens)
        return await answerer.answer(pair.question, hits, pair.question_date)

    # -- the verdict -------------------------------------------------------------------------------------------

    async def _judged(self, pair: QAPair, found: Answered) -> Answered:
        judge = self._setup.judge
        mode = mode_for(pair.question_type, pair.question_id)
        if judge is None:
            return found
        if mode == RULE_MODE:
            return replace(found, judged=float(is_unanswerable(found.answer)))
        started = time.perf_counter()
        own = judge.recording(self._calls, f"{self.label}/judge/") if isinstance(judge, ChatJudge) else judge
        judged = await self._verdict(own, pair, pair.answer, found.answer, mode)
        corrected = judged
        if pair.corrected_answer is not None:
            corrected = await self._verdict(own, pair, pair.corrected_answer, found.answer, mode, corrected=True)
        self._seconds["judge"] = time.perf_counter() - started
        return replace(found, judged=judged, judged_corrected=corrected)

    async def _verdict(
        self, judge: Judge, pair: QAPair, truth: str, answer: str, mode: Any, *, corrected: bool = False
    ) -> float | None:
        """The judge's score; a judge that cannot tell is an error of the score alone, and the other figures stay."""
        try:
            # A fixture's judge has the protocol's four places; others know of dates and trials, too.
            more: dict[str, Any] = {}
            if isinstance(judge, ChatJudge | OwnJudge):
                more = {"question_date": pair.question_date or None, "trial": self.trial}
            verdict = await judge.judge(pair.question, truth, answer, mode, **more)
        except JudgeError as error:
            if not any(known.kind == error.kind for known in self.errors):
                self.errors.append(CaseError("qa", error.kind, f"the judge gave no verdict: {error}"))
            self._failed.update(
                failed_by_verdict(longmemeval=self._dataset.format == "longmemeval", corrected=corrected)
            )
            return None
        known = self.outputs["qa"].setdefault("verdicts", [])
        of = {"of": "corrected"} if corrected else {}
        known.append({"score": verdict.score, "mode": verdict.mode, "reason": verdict.reason, **of})
        return float(verdict.score)

    def resume_key(self) -> str:
        try:
            parts = self._setup.identity
        except StageError:
            return ""
        read = json.dumps(dict(self._dataset.extra), sort_keys=True, default=str)
        return "" if parts is None else ".".join((_short(f"{self.case.content_hash} {read}"), *parts))

    def restore(self, record: CaseResult) -> bool:
        try:
            sections = restored_sections(
                record,
                self.case,
                self._dataset.format,
                memory=self._setup.memory,
                adversarial_counts=self._setup.adversarial_counts,
                errata=self._errata,
            )
        except OutputError:
            return False
        super().restore(record)
        self.sections = sections
        self._seconds = {name: record.timings[name] for name in STEPS if name in record.timings}
        return True

    @property
    def step_seconds(self) -> Mapping[str, float]:
        return self._seconds

    def meta(self, set_path: str) -> Mapping[str, Any]:
        return {} if self._made is None else {**self._made.head, "protocol": dict(self._made.protocol)}


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _arm_hits(arm: str, sample: Sample) -> list[Hit]:
    memory = build_memory(ARMS[arm])
    for session in sample.sessions:
        memory.ingest_session(session)
    return list(memory.retrieve(""))
