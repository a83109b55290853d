"""A judge on the loopback chat server, and answers for it to judge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chat_server import ChatServer, Reply, Request

from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cached_model import CachedChatModel
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.retry import RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

QUICK = RetryPolicy(max_attempts=2, base_delay=0.01)


@dataclass(frozen=True)
class Answer:
    """One answered question, as an evaluation leaves it."""

    question_id: str
    question: str
    ground_truth: Any
    prediction: Any
    question_type: str = "single_hop"
    sample_id: str = "conv-1"
    question_date: str | None = None


def asked(request: Request) -> dict[str, str]:
    """What stands between the tags of a judge prompt."""
    return dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", request.prompt, re.DOTALL))


def fair_judge(request: Request) -> Reply:
    """Right where the prediction holds the truth; in the form that the prompt asks for."""
    parts = asked(request)
    right = parts["reference_answer"].casefold() in parts["given_answer"].casefold()
    if '"score"' in request.prompt:
        return json.dumps({"reason": "r", "score": 1 if right else 0})
    return json.dumps({"reason": "r", "verdict": "correct" if right else "wrong"})


def chat_model(server: ChatServer, **settings: Any) -> OpenAIChatModel:
    return OpenAIChatModel(
        ModelSettings(model="judge-1", base_url=server.base_url, role="judge", **settings), policy=QUICK
    )


def cached(server: ChatServer, folder: Path, mode: str = "auto") -> CachedChatModel:
    return CachedChatModel(chat_model(server), AnswerCache(folder / "answers.sqlite", readonly=mode == "replay"), mode)
