"""The judge that asks a chat model, one prompt a mode."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_memeval.assets.prompts import JUDGE_STAGES, PromptSet, load_prompts
from pytest_memeval.judge.modes import GRADED_MODES, RULE_MODE, check_mode, prompt_stage
from pytest_memeval.judge.protocol import text_of
from pytest_memeval.judge.refusal import is_unanswerable
from pytest_memeval.judge.verdict import JudgeError, UnusableVerdict, Verdict, read_verdict
from pytest_memeval.llm.protocol import ChatModelError, ChatReply, ModelEmpty, ModelTruncated
from pytest_memeval.llm.redaction import redact
from pytest_memeval.llm.sync import run_sync
from pytest_memeval.own_code import without_addresses
from pytest_memeval.recording import StageChatModel, model_name

if TYPE_CHECKING:
    from pytest_memeval.llm.protocol import ChatModel
    from pytest_memeval.results import CallRecord

#: How often one question is asked where the reply cannot be used.
ATTEMPTS = 2
#: What stands in a prompt for a date, a context or a truth that is not there.
ABSENT = "(not given)"

_REASON = {"type": "string"}
_BINARY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": _REASON, "verdict": {"type": "string", "enum": ["correct", "wrong"]}},
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}
_GRADED_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": _REASON, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}


def shipped_judge_prompts() -> PromptSet:
    """This package's own judge prompts, the active version of each."""
    return load_prompts().resolve(None, JUDGE_STAGES)


class ChatJudge:
    """A :class:`Judge` over a chat model.

    ``prompts`` (default: the shipped ones) holds the ``judge_*`` stages. A prompt that speaks of JSON is asked with a
    JSON Schema of the reply, where the server takes one; any other is asked as it is, for publications' own prompts.
    A reply that cannot be used is forgotten by the cache and asked for once more. Raises ValueError for the offline
    model, which is a lexical reader and never a judge, and for an object that is no chat model.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompts: PromptSet | None = None,
        calls: list[CallRecord] | None = None,
        prefix: str = "judge/",
    ) -> None:
        if not callable(getattr(model, "complete", None)):
            raise ValueError(f"a judge needs a chat model with a method 'complete', not {type(model).__name__}")
        if str(getattr(model, "name", "")).partition("/")[0] == "embedded":
            raise ValueError("the chat model 'embedded' is an offline lexical reader and never a judge")
        self.model = model
        self.prompts = prompts or shipped_judge_prompts()
        #: Every call that was made, failures included, where a list was given for them.
        self.calls = calls
        client = _Client(model)
        self._asks = client if calls is None else StageChatModel(client, self.prompts.versions, prefix, calls)

    @property
    def name(self) -> str:
        return model_name(self.model)

    def recording(self, calls: list[CallRecord], prefix: str = "judge/") -> ChatJudge:
        """The same judge, its calls recorded in ``calls`` under ids that begin with ``prefix``: for one case, say."""
        return ChatJudge(self.model, prompts=self.prompts, calls=calls, prefix=prefix)

    def identity(self) -> dict[str, Any]:
        """``{model, endpoint, prompt_versions, prompt_hashes}``: what a score depends on besides what is judged. Holds
        no secret."""
        return {
            "model": getattr(self.model, "model", None) or self.name,
            "endpoint": getattr(self.model, "endpoint", None),
            "prompt_versions": self.prompts.versions,
            "prompt_hashes": self.prompts.hashes,
        }

    async def judge(
        self,
        question: str,
        truth: Any,
        prediction: Any,
        mode: str = "default_binary",
        *,
        question_date: Any = None,
        context: str | None = None,
        trial: int = 0,
    ) -> Verdict:
        """The verdict on one answer. ``adversarial`` asks nobody.

        Raises JudgeError where none can be had (also for a missing truth, ``abstention`` aside), ValueError for an
        unknown mode.
        """
        checked = check_mode(mode)
        if checked == RULE_MODE:
            return judge_refusal(prediction)
        if not text_of(truth).strip() and checked != "abstention":
            raise JudgeError("there is no truth to judge by", kind="no_truth")
        stage = prompt_stage(checked)
        text = self.prompts.texts[stage]
        request = {
            "messages": [
                {
                    "role": "user",
                    "content": self.prompts.render(
                        stage,
                        question=question,
                        truth=text_of(truth) or ABSENT,
                        prediction=text_of(prediction),
                        context=context or ABSENT,
                        question_date=text_of(question_date) or ABSENT,
                    ),
                }
            ],
            "stage": stage,
            "response_format": self._schema(checked, text.text),
            "temperature": 0.0,
            "max_tokens": None,
            "trial": trial,
        }
        reply, score, reason = await self._ask(request, graded=checked in GRADED_MODES)
        return Verdict(
            score=score,
            mode=checked,
            reason=redact(reason),
            model=reply.model,
            cached=reply.cached,
            prompt_version=text.version,
            prompt_sha256=text.sha256,
        )

    def judge_sync(
        self, question: str, truth: Any, prediction: Any, mode: str = "default_binary", **rest: Any
    ) -> Verdict:
        """:meth:`judge` for synchronous code; blocks the calling thread."""
        return run_sync(self.judge(question, truth, prediction, mode, **rest))

    def _schema(self, mode: str, prompt: str) -> Mapping[str, Any] | None:
        if "json" not in prompt.casefold():
            return None
        return _GRADED_SCHEMA if mode in GRADED_MODES else _BINARY_SCHEMA

    async def _ask(self, request: Mapping[str, Any], *, graded: bool) -> tuple[ChatReply, float, str]:
        problem = ""
        for _ in range(ATTEMPTS):
            try:
                reply = await self._asks.complete(**request)
                if reply.finish_reason in ("length", "max_tokens"):
                    raise UnusableVerdict("the reply was cut off at the token cap")
                return (reply, *read_verdict(reply.text, graded=graded))
            except (ModelEmpty, ModelTruncated) as error:
                problem = f"{error.kind}: {error}"
            except UnusableVerdict as error:
                problem = str(error)
                await self._forget(request)
            except ChatModelError as error:
                raise JudgeError(redact(str(error)), kind=error.kind) from error
            except Exception as error:
                # A user's own client may raise anything; one question must not cost the others theirs.
                raise JudgeError(redact(without_addresses(f"{type(error).__name__}: {error}"))) from error
        raise JudgeError(redact(f"judge error: {problem} (asked {ATTEMPTS} times)"))

    async def _forget(self, request: Mapping[str, Any]) -> None:
        """Take an unusable reply out of whatever recorded it."""
        if (forget := getattr(self.model, "forget", None)) is not None:
            await forget(**request)


class _Client:
    """Any chat model, also one with a synchronous ``complete`` or one that answers with texts."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name = model_name(model)
        self.model = getattr(model, "model", None)

    async def complete(self, messages: Any, **options: Any) -> ChatReply:
        complete = self._model.complete
        if inspect.iscoroutinefunction(complete):
            answer = await complete(messages, **options)
        else:
            answer = await asyncio.to_thread(complete, messages, **options)
            answer = await answer if inspect.isawaitable(answer) else answer
        return ChatReply(answer) if isinstance(answer, str) else answer


def judge_refusal(prediction: Any) -> Verdict:
    """By rule: 1 for a refusal, 0 for an answer."""
    refused = is_unanswerable(text_of(prediction))
    return Verdict(float(refused), RULE_MODE, "refuses to answer" if refused else "gives an answer", by="rule")
