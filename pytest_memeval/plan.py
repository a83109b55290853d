"""What a run would ask of a model: ``--memeval-plan`` runs the stages with a chat model that asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.llm.protocol import CallOptions, ChatModel, ChatReply, NotRecorded, Usage
from pytest_memeval.llm.rate import estimate_tokens
from pytest_memeval.llm.sync import SyncCompletion
from pytest_memeval.stages import CHAIN

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.llm.cost import PriceTable
    from pytest_memeval.results import CaseError
    from pytest_memeval.runner import CaseRun

#: Stage → the prompt stage that it asks a model with; the other stages ask none.
ASKING_STAGES: Mapping[str, str] = {"l1": "l1_extraction", "l15": "l1_conflict", "l2": "l2_scene"}
#: Tokens of the shortest answer worth reckoning with, a list with one short item.
SHORTEST_ANSWER = 20
#: Stands for an answer that nobody gave: "nothing found" in every prompt's format.
STAND_IN = "[]"


@dataclass(frozen=True, slots=True)
class Range:
    """From ``low`` to ``high``, both inclusive."""

    low: float = 0
    high: float = 0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)


@dataclass(slots=True)
class StageForecast:
    """One prompt stage's calls: those that are ``cached``, those ``asked`` for certain, and up to ``maybe`` more."""

    cached: int = 0
    asked: int = 0
    maybe: int = 0
    input_tokens: Range = Range()
    output_tokens: Range = Range()

    def add(self, other: StageForecast) -> None:
        self.cached += other.cached
        self.asked += other.asked
        self.maybe += other.maybe
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


def answer_range(input_tokens: float, max_tokens: int | None) -> Range:
    """The tokens of an answer that nobody has seen: from :data:`SHORTEST_ANSWER` to as many as were asked with, never
    more than the cap. (What is extracted from a text is seldom longer than text and instructions together.)"""
    high = max(SHORTEST_ANSWER, input_tokens)
    if max_tokens is not None:
        high = min(high, max_tokens)
    return Range(min(SHORTEST_ANSWER, high), high)


class PlanningChatModel(SyncCompletion):
    """Answers from what is recorded, else with :data:`STAND_IN`, and counts both. Sends nothing.

    ``inner`` is asked only if it cannot reach a server: the offline model, recorded answers, a cache in replay.
    Any other model counts as one whose every answer is missing. ``known`` are the requests of the whole plan that a
    run would have asked by then; the same one again is answered from the cache. ``reuse`` false: the cache is not read.
    """

    def __init__(self, inner: ChatModel, known: set[str], *, reuse: bool = True, trial: int = 0) -> None:
        self._inner = inner
        #: The trial that is asked for where the caller names none.
        self._trial = trial
        self._known = known
        self._reuse = reuse
        self.stages: dict[str, StageForecast] = {}

    @property
    def name(self) -> str:
        return str(getattr(self._inner, "name", type(self._inner).__name__))

    @property
    def free(self) -> bool:
        """Whether the model asks no server."""
        return self.name in ("embedded", "recorded")

    @property
    def model(self) -> str | None:
        return getattr(self._inner, "model", None)

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply:
        from pytest_memeval.llm.cached_model import CachedChatModel
        from pytest_memeval.llm.embedded import EmbeddedChatModel
        from pytest_memeval.llm.recorded import RecordedChatModel

        inner = self._inner
        forecast = self.stages.setdefault(stage, StageForecast())
        asked: CallOptions = {
            "stage": stage,
            "response_format": response_format,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "trial": trial or self._trial,
        }
        answerable = isinstance(inner, EmbeddedChatModel | RecordedChatModel)
        key = None
        cap = max_tokens
        if isinstance(inner, CachedChatModel):
            request = inner.request(messages, **asked)
            key, cap = request.key, request.max_tokens
            answerable = inner.mode == "replay" and self._reuse
        if answerable:
            try:
                reply = await inner.complete(messages, **asked)
            except NotRecorded:
                pass
            else:
                forecast.cached += 1
                return reply
        if key is not None and key in self._known:
            forecast.cached += 1
            return ChatReply(STAND_IN, "stop", cached=True, attempts=0)
        if key is not None:
            self._known.add(key)
        tokens = estimate_tokens(messages)
        forecast.asked += 1
        forecast.input_tokens += Range(tokens, tokens)
        forecast.output_tokens += answer_range(tokens, cap)
        return ChatReply(STAND_IN, "stop", Usage(tokens, None), attempts=0)


def _can_conflict(run: CaseRun) -> bool:
    """Whether conflict resolution may have something to ask: the reference engine only asks about what is stored."""
    from pytest_memeval.engine.reference.engine import ReferenceEngine

    return bool(run.case.existing_memories) or not isinstance(run.engine, ReferenceEngine)


class EngineNotPlanned(Exception):
    """The engine may ask models by itself, so running it could cost what the plan is to tell."""


def check_engine(engine: object) -> None:
    """Raise :class:`EngineNotPlanned` for an engine that is neither the package's own nor says ``plannable = True``:
    that it reaches models through the context's ``llm`` alone."""
    from pytest_memeval.engine.predictions import PredictionsEngine
    from pytest_memeval.engine.reference.engine import ReferenceEngine

    if type(engine) in (ReferenceEngine, PredictionsEngine) or getattr(engine, "plannable", False) is True:
        return
    raise EngineNotPlanned(
        f"engine {getattr(engine, 'name', type(engine).__name__)!r} may ask models by itself, so it is not run for a"
        " plan; one that only uses the context's llm says so with plannable = True"
    )


@dataclass
class Plan:
    """Collects the forecast of every case. ``reuse`` false where the run would not read the cache."""

    prices: PriceTable
    model: str | None = None
    max_tokens: int | None = None
    reuse: bool = True
    cases: int = 0
    unplanned: dict[str, int] = field(default_factory=dict)
    stages: dict[str, StageForecast] = field(default_factory=dict)
    free: bool = False
    #: Stage → the model that it asks, where that is another than ``model``.
    others: dict[str, str | None] = field(default_factory=dict)
    #: Names of chat models that do not say which model they ask.
    unnamed: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _open: dict[str, PlanningChatModel] = field(default_factory=dict)

    def chat_model(self, node_id: str, inner: ChatModel, engine: object) -> ChatModel:
        """The planning model for one item. Raises :class:`EngineNotPlanned`, which leaves the case out."""
        try:
            check_engine(engine)
        except EngineNotPlanned as error:
            self.left_out(str(error))
            raise
        self._open[node_id] = model = PlanningChatModel(inner, self._known, reuse=self.reuse)
        self.free = self.free or model.free
        return model

    def planning_model(self, inner: ChatModel, trial: int = 0) -> PlanningChatModel:
        """A model that answers in the place of ``inner``, in a trial; hand it to :meth:`take_calls` when it has been
        asked."""
        return PlanningChatModel(inner, self._known, reuse=self.reuse, trial=trial)

    def take_calls(self, model: PlanningChatModel) -> None:
        """Count what a model of another than the run's was asked, a judge say, at that model's price."""
        for stage, forecast in model.stages.items():
            self._stage(stage).add(forecast)
            self._told(stage, model)

    def may_ask(self, stage: str, model: PlanningChatModel, tokens: Range) -> None:
        """Count a call of which only a run can tell whether it is made, with a prompt of so many tokens."""
        high = answer_range(tokens.high, self.max_tokens).high
        self._stage(stage).add(StageForecast(0, 0, 1, Range(0, tokens.high), Range(0, high)))
        self._told(stage, model)

    def _told(self, stage: str, model: PlanningChatModel) -> None:
        if model.free:
            self.others[stage] = None
        elif model.model not in (None, self.model):
            self.others[stage] = model.model
        elif self.model is None:
            self.unnamed.add(model.name)

    def take_case(self, errors: Sequence[CaseError] = ()) -> None:
        """Count a case whose calls have been taken in one by one."""
        self.cases += 1
        self._cannot_tell(errors)

    def remark(self, why: str) -> None:
        """Count a case of which something could not be planned."""
        self.unplanned[why] = self.unplanned.get(why, 0) + 1

    def _cannot_tell(self, errors: Sequence[CaseError]) -> None:
        for error in errors:
            # The run would meet it too: an answer on record that cannot be used, say.
            self.remark(f"[{error.stage}] {error.kind}")

    def case_done(self, node_id: str, run: CaseRun) -> None:
        """Take in what a case's stages asked, and what the stages behind a missing answer may ask."""
        model = self._open.pop(node_id, None)
        if model is None:
            return
        self.cases += 1
        for stage, forecast in model.stages.items():
            self._stage(stage).add(forecast)
            self._told(stage, model)
        for stage, forecast in self._behind(run, model.stages):
            for _ in getattr(run, "trials", (run,)):
                self._stage(stage).add(forecast)
            self._told(stage, model)
        self._cannot_tell(run.errors)

    def _behind(self, run: CaseRun, seen: dict[str, StageForecast]) -> Iterator[tuple[str, StageForecast]]:
        """What follows a missing answer cannot be known: each stage behind it makes no call or one."""
        if not run.settings.chained:
            return
        missing: set[str] = set()
        for stage in run.plan.run:
            if stage not in ASKING_STAGES:
                continue
            prompt_stage = ASKING_STAGES[stage]
            own = seen.get(prompt_stage)
            if missing.intersection(CHAIN[stage]):
                missing.add(stage)
                if own is None and (stage != "l15" or _can_conflict(run)):
                    tokens = self._prompt_tokens(run.prompts, prompt_stage)
                    high = answer_range(tokens, self.max_tokens).high
                    yield prompt_stage, StageForecast(0, 0, 1, Range(0, tokens), Range(0, high))
            elif own is not None and own.asked:
                missing.add(stage)

    @staticmethod
    def _prompt_tokens(prompts: PromptSet, stage: str) -> float:
        """The prompt's own text, and as much again for what is put into it."""
        text = prompts.texts[stage].text if stage in prompts.texts else ""
        return 2.0 * estimate_tokens([{"content": text}])

    def _stage(self, stage: str) -> StageForecast:
        return self.stages.setdefault(stage, StageForecast())

    def left_out(self, why: str) -> None:
        """Count a case that was not planned."""
        self.cases += 1
        self.remark(why)

    @property
    def total(self) -> StageForecast:
        total = StageForecast()
        for forecast in self.stages.values():
            total.add(forecast)
        return total

    def cost(self) -> Range | None:
        """US dollars for what is not cached; ``None`` where a model's price is not known."""
        cost = Range()
        for model, forecast in self._paid():
            price = self.prices.find(model)
            if price is None:
                return None
            given, taken = forecast.input_tokens, forecast.output_tokens
            cost += Range(
                (given.low * price.input + taken.low * price.output) / 1e6,
                (given.high * price.input + taken.high * price.output) / 1e6,
            )
        return cost

    def _paid(self) -> Iterator[tuple[str | None, StageForecast]]:
        """What asks a server, by the model's name."""
        for stage, forecast in sorted(self.stages.items()):
            if forecast.asked or forecast.maybe:
                own = self.others.get(stage)
                if own is not None or (stage not in self.others and not self.free):
                    yield own or self.model, forecast

    def lines(self, lang: str = "en") -> list[str]:
        """The plan as text."""
        from pytest_memeval.report.console import columns
        from pytest_memeval.report.messages import cases_text, text

        total = self.total
        lines = [
            text(
                "plan.total",
                lang,
                cases=cases_text(self.cases, lang),
                calls=_shown(Range(total.cached + total.asked, total.cached + total.asked + total.maybe)),
                cached=total.cached,
                asked=_shown(Range(total.asked, total.asked + total.maybe)),
            )
        ]
        if self.stages:
            head = [text(f"plan.{key}", lang) for key in ("stage", "cached", "asked", "input", "output")]
            rows = [
                [
                    stage,
                    str(forecast.cached),
                    _shown(Range(forecast.asked, forecast.asked + forecast.maybe)),
                    _shown(forecast.input_tokens),
                    _shown(forecast.output_tokens),
                ]
                for stage, forecast in sorted(self.stages.items())
            ]
            lines += [f"  {line}" for line in columns([head, *rows], right=frozenset({1, 2, 3, 4}))]
        lines.append(self._cost_line(lang))
        lines += [text("plan.left_out", lang, count=count, why=why) for why, count in sorted(self.unplanned.items())]
        lines.append(text("plan.nothing_asked", lang))
        return lines

    def _cost_line(self, lang: str) -> str:
        from pytest_memeval.report.messages import text

        cost = self.cost()
        asked = list(dict.fromkeys(model for model, _ in self._paid()))
        if not asked and (self.free or None in self.others.values()):
            return text("plan.free", lang)
        if cost is None:
            unknown = [model for model in asked if model is not None and self.prices.find(model) is None]
            if unknown:
                return text("plan.unknown_price", lang, model=", ".join(unknown))
            return text("plan.unknown_model", lang, name=", ".join(sorted(self.unnamed)))
        named = ", ".join(str(model) for model in asked if model) or self.model or "-"
        return text("plan.cost", lang, cost=_dollars(cost), model=named)


def _shown(numbers: Range) -> str:
    low, high = round(numbers.low), round(numbers.high)
    return f"{low}" if low == high else f"{low}–{high}"


def _dollars(cost: Range) -> str:
    low, high = f"{cost.low:.4f}", f"{cost.high:.4f}"
    return f"${low}" if low == high else f"${low}–${high}"
