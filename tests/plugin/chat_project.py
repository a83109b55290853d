"""A project whose cases are answered by a chat server on loopback, through the reference engine."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "servers"))

import chat_server as fake
from chat_server import ChatServer
from plugin_project import Project, case

MODEL = "gpt-4o-mini"
#: Found in a prompt, it says which case asks.
NAME = re.compile(r"number (\d+) is called")


def prompt_stage(request: fake.Request) -> str:
    """The prompt stage of a request, told by the blocks of its prompt."""
    for stage, block in (("l1_conflict", "<candidates>"), ("l2_scene", "<existing_scenes>")):
        if block in request.prompt:
            return stage
    return "l1_extraction"


def good_answer(request: fake.Request) -> str:
    """What a perfect model answers to the prompts of this project's cases."""
    return answer_to(request.prompt, prompt_stage(request))


def answer_to(prompt: str, stage: str) -> str:
    if stage == "l1_extraction":
        conversation = prompt.split("<conversation>")[-1].split("</conversation>")[0]
        found = re.findall(r"\[(\w+)\][^\n]*?user: (\w+): ([^\n]+)", conversation)
        memories = [
            {
                "content": content,
                "dimensions": [dimension],
                "memory_type": "persona",
                "priority": 80,
                "time_velocity": "static",
                "source_message_ids": [message_id],
            }
            for message_id, dimension, content in found
        ]
        return json.dumps(memories)
    count = len(re.findall(r'^\{"index": \d+', prompt, re.MULTILINE))
    if stage == "l1_conflict":
        decision = {"action": "store", "target_ids": [], "merged_content": None, "reason": "new"}
        return json.dumps([{"memory_index": index, **decision} for index in range(count)])
    return json.dumps([{"action": "create", "scene_ids": [], "title": "People", "memory_indexes": list(range(count))}])


def full_case(number: int, **keys: Any) -> dict[str, Any]:
    """A case with labels for L1, L1.5 and L2, in which each of the three stages asks the model once."""
    return case(
        f"eval-{number:03}",
        f"identity: number {number} is called {chr(97 + number % 26) * 5}",
        **{
            "existing_memories": [
                {"memory_id": "m1", "content": f"lives at place {number}", "dimensions": ["identity"]}
            ],
            "expected_l15": {"actions": [{"new_memory_index": 0, "candidate_ids": [], "action": "store"}]},
            "expected_l2": {"scenes": [{"label": "People", "memories": [0]}]},
            **keys,
        },
    )


def simple_case(number: int, **keys: Any) -> dict[str, Any]:
    """A case with labels for L1 alone: one call."""
    return case(f"eval-{number:03}", f"identity: number {number} is called {chr(97 + number % 26) * 5}", **keys)


class ChatProject(Project):
    """A :class:`Project` on the reference engine with the chat model ``openai`` on ``server``."""

    def __init__(self, pytester: pytest.Pytester, server: ChatServer) -> None:
        super().__init__(pytester)
        (self.path / "conftest.py").write_text("", encoding="utf-8")
        self.server = server
        server.script = good_answer

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    def chat(self, *args: str, fresh: bool = False) -> pytest.RunResult:
        """A run that asks the server."""
        own = (
            "--memeval-llm", "openai", "--memeval-model", MODEL, "--memeval-base-url", self.server.base_url,
            "--memeval-cache-dir", str(self.cache),
        )  # fmt: skip
        return self.run(*own, *args, fresh=fresh)

    def memeval(self, *args: str) -> pytest.RunResult:
        return self.pytester.run(sys.executable, "-m", "pytest_memeval", *args)

    def entries(self) -> dict[str, dict[str, Any]]:
        """The last report's cases by case id."""
        return {entry["case_id"]: entry for entry in self.report()["per_case"]}

    def calls(self) -> list[dict[str, Any]]:
        with gzip.open(self.path / "out" / "calls.jsonl.gz", "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def chat(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, chat_server: ChatServer) -> ChatProject:
    for name in ("MEMEVAL_API_KEY", "MEMEVAL_JUDGE_API_KEY", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "user-cache"))
    return ChatProject(pytester, chat_server)
