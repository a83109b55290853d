"""What the pipeline asks of a chat model and of an embedder, and how they may fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Required, TypedDict, runtime_checkable


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or a sum over calls; ``None`` where the server does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's answer. ``latency`` is in seconds; ``finish_reason`` is the server's word (``stop``, ``length`` …).

    ``attempts`` counts the requests that were sent for it: 0 where it was recorded before, which ``cached`` tells too;
    its latency and usage are then those of the recording.
    """

    text: str
    finish_reason: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    latency: float = 0.0
    cached: bool = False
    attempts: int = 1


class CallOptions(TypedDict, total=False):
    """What a call says besides its messages, for wrappers that pass it on; see :class:`ChatModel`."""

    stage: Required[str]
    response_format: Mapping[str, Any] | None
    temperature: float
    max_tokens: int | None
    trial: int


@runtime_checkable
class ChatModel(Protocol):
    """Answers a list of ``{"role", "content"}`` messages.

    ``stage`` is the prompt stage (``l1_extraction``, ``l1_conflict``, ``l2_scene``, an answer or a judge prompt).
    ``response_format`` is a JSON Schema of the answer wanted, or ``None`` for free text. ``trial`` tells repeated
    questions apart. Failures raise :class:`ChatModelError`.
    """

    @property
    def name(self) -> str: ...

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        stage: str,
        response_format: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
        trial: int = 0,
    ) -> ChatReply: ...


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors of one common dimension."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class ChatModelError(Exception):
    """A call that gave no usable answer. ``kind`` is a short stable word for reports; the text is for people.

    ``attempts`` counts the requests that were sent for the call (0: none was), ``usage`` holds the tokens they cost
    where the server told, ``latency`` is the last request's time in seconds and ``model`` the server's model name.
    """

    kind = "model_error"

    def __init__(
        self,
        message: str = "",
        *,
        attempts: int = 0,
        usage: Usage | None = None,
        latency: float = 0.0,
        model: str | None = None,
    ) -> None:
        super().__init__(message)
        self.attempts = attempts
        self.usage = Usage() if usage is None else usage
        self.latency = latency
        self.model = model


class ModelUnavailable(ChatModelError):
    """Connection failure, time-out or server error that bounded retries did not survive."""

    kind = "model_unavailable"


class ModelTruncated(ChatModelError):
    """The answer was cut off at the token cap."""

    kind = "truncated"


class ModelRefused(ChatModelError):
    """The model or its server declined to answer."""

    kind = "refused"


class ModelEmpty(ChatModelError):
    """The answer has no text."""

    kind = "empty_answer"


class ModelQuota(ChatModelError):
    """Quota or authentication: no further call can succeed, so the run stops asking."""

    kind = "quota_or_auth"


class NotRecorded(ChatModelError):
    """A replay holds no answer for this request."""

    kind = "not_recorded"


class ModelPending(ChatModelError):
    """Batch mode: the request was written to the batch file and waits for its answer."""

    kind = "pending"


class ModelRejected(ChatModelError):
    """The server says that the request itself is wrong (an unknown model, a bad parameter, a wrong address)."""

    kind = "rejected"


class ModelOverflow(ModelRejected):
    """The request is longer than the model's context."""

    kind = "context_overflow"
