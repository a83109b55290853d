"""Chat models by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from pytest_memeval.documents.problems import did_you_mean
from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cached_model import CachedChatModel, check_mode
from pytest_memeval.llm.learnt import ServerManners
from pytest_memeval.llm.protocol import ChatModel
from pytest_memeval.llm.rate import RateLimiter
from pytest_memeval.llm.retry import CircuitBreaker, RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

ChatModelName = Literal["recorded", "embedded", "openai"]
CHAT_MODEL_NAMES: tuple[ChatModelName, ...] = get_args(ChatModelName)


class ModelSetupError(ValueError):
    """A chat model cannot be made of what was given; one sentence for the user, before any case runs."""


def build_chat_model(
    name: str,
    *,
    settings: ModelSettings | None = None,
    recorded: Path | None = None,
    cache: AnswerCache | None = None,
    mode: str = "auto",
    requests: BatchRequests | None = None,
    limiter: RateLimiter | None = None,
    breaker: CircuitBreaker | None = None,
    policy: RetryPolicy | None = None,
    manners: ServerManners | None = None,
) -> ChatModel:
    """The chat model ``name``: ``recorded`` (needs ``recorded``), ``embedded``, or ``openai`` (needs ``settings``).

    Only ``openai`` is cached (with ``cache``, by ``mode``); it needs a key only where it may ask, so not in ``replay``
    and ``batch``. Raises :class:`ModelSetupError` for an unknown name and for what is missing. Sends nothing.
    """
    if name == "embedded":
        from pytest_memeval.llm.embedded import EmbeddedChatModel

        return EmbeddedChatModel()
    if name == "recorded":
        from pytest_memeval.llm.recorded import RecordedChatModel

        if recorded is None:
            raise ModelSetupError("chat model 'recorded' needs a file of recorded answers: set ini memeval_recorded")
        if not recorded.is_file():
            raise ModelSetupError(f"chat model 'recorded': there is no file {recorded}")
        return RecordedChatModel(recorded, model=settings.model if settings is not None else None)
    if name != "openai":
        raise ModelSetupError(f"unknown chat model {name!r}{did_you_mean(name, CHAT_MODEL_NAMES)}")
    try:
        cache_mode = check_mode(mode)
    except ValueError as error:
        raise ModelSetupError(str(error)) from None
    settings = settings or ModelSettings()
    problem = settings.missing_model_message()
    if problem is None and cache_mode not in ("replay", "batch"):
        problem = settings.missing_key_message()
    if problem is not None:
        raise ModelSetupError(problem)
    from pytest_memeval.llm.openai_client import OpenAIChatModel

    model = OpenAIChatModel(settings, policy=policy, limiter=limiter, breaker=breaker, manners=manners)
    if cache is None or cache_mode == "off":
        if cache_mode in ("replay", "batch"):
            raise ModelSetupError(f"cache mode {cache_mode!r} needs a cache")
        return model
    return CachedChatModel(model, cache, cache_mode, requests=requests)
