"""Each fault, serial and concurrent, and a long run with faults at random: every call has an outcome, none hangs, and
the attempts that calls report are the requests that the server saw."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import chat_server as fake
import pytest
from chat_server import ChatServer

from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import ChatModelError, ChatReply
from pytest_memeval.llm.retry import RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

QUICK = RetryPolicy(max_attempts=4, base_delay=0.005, max_delay=0.01)


def run(server: ChatServer, calls: int, at_once: int, **settings: Any) -> list[ChatReply | ChatModelError]:
    """Ask ``q0``, ``q1`` … with so many in flight; each call's reply or error, in order."""
    model = OpenAIChatModel(ModelSettings(model="m", base_url=server.base_url, **settings), policy=QUICK)

    async def all_of_them() -> list[ChatReply | ChatModelError]:
        gate = asyncio.Semaphore(at_once)

        async def one(number: int) -> ChatReply | ChatModelError:
            async with gate:
                try:
                    return await model.complete([{"role": "user", "content": f"q{number}"}], stage="s")
                except ChatModelError as error:
                    return error

        outcomes = await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(calls))), 120)
        await model.aclose()
        return list(outcomes)

    return asyncio.run(all_of_them())


#: fault -> (attempts of a call that meets it on its first request only, outcome; attempts if it stays, outcome)
MATRIX: dict[str, tuple[Callable[[], fake.Reply], tuple[int, str], tuple[int, str]]] = {
    "500": (lambda: fake.status(500), (2, "ok"), (4, "model_unavailable")),
    "429": (fake.rate_limited, (2, "ok"), (4, "model_unavailable")),
    "429 retry-after": (lambda: fake.rate_limited("0"), (2, "ok"), (4, "model_unavailable")),
    "dropped": (fake.dropped, (2, "ok"), (4, "model_unavailable")),
    "cut": (fake.cut, (2, "ok"), (4, "model_unavailable")),
    "junk": (fake.junk, (2, "ok"), (4, "model_unavailable")),
    "hang": (fake.hang, (2, "ok"), (2, "model_unavailable")),
    "truncated": (fake.truncated, (1, "truncated"), (1, "truncated")),
    "refused": (fake.refused, (1, "refused"), (1, "refused")),
    "filtered": (fake.filtered, (1, "refused"), (1, "refused")),
    "empty": (fake.empty, (1, "empty_answer"), (1, "empty_answer")),
    "reasoning": (lambda: fake.thinking("ok"), (1, "ok"), (1, "ok")),
    "overflow": (fake.overflow, (1, "context_overflow"), (1, "context_overflow")),
    "400": (lambda: fake.error(400, "bad"), (1, "rejected"), (1, "rejected")),
}


def outcome(result: ChatReply | ChatModelError) -> tuple[int, str]:
    return result.attempts, "ok" if isinstance(result, ChatReply) else result.kind


@pytest.mark.parametrize("at_once", [1, 8], ids=["serial", "concurrent"])
@pytest.mark.parametrize("name", MATRIX)
def test_each_fault_has_its_outcome_and_its_attempts(chat_server: ChatServer, name: str, at_once: int) -> None:
    make, passing, lasting = MATRIX[name]
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def script(request: fake.Request) -> fake.Reply:
        number = int(request.prompt[1:])
        with lock:
            seen[request.prompt] += 1
            first = seen[request.prompt] == 1
        # q0, q3 … healthy; q1, q4 … the fault passes; q2, q5 … it stays
        return make() if number % 3 == 2 or (number % 3 == 1 and first) else "ok"

    chat_server.script = script
    calls = 3 if name == "hang" else 6
    results = run(chat_server, calls, at_once, read_timeout=1.0 if name == "hang" else 60.0)
    assert [outcome(result) for result in results] == [(1, "ok"), passing, lasting] * (calls // 3)
    assert chat_server.count == sum(result.attempts for result in results)


@pytest.mark.parametrize("fault", [fake.unauthorized, fake.insufficient_quota])
def test_quota_and_authentication_end_a_concurrent_run_with_one_message(
    chat_server: ChatServer, fault: Callable[[], fake.Reply]
) -> None:
    chat_server.script = lambda request: fault() if request.number > 20 else "ok"
    chat_server.latency = 0.01
    results = run(chat_server, 200, 8)
    kinds = Counter(outcome(result)[1] for result in results)
    assert kinds == {"ok": 20, "quota_or_auth": 180}
    assert len({str(result) for result in results if isinstance(result, ChatModelError)}) == 1
    assert chat_server.count <= 20 + 8 == 28  # those in flight, and no more


def test_1000_calls_with_a_fifth_of_the_requests_failing_are_all_accounted_for(chat_server: ChatServer) -> None:
    drawn = random.Random(7)
    faults = [make for name, (make, _, _) in MATRIX.items() if name not in ("hang", "reasoning")]
    given: Counter[str] = Counter()

    def script(request: fake.Request) -> fake.Reply:
        reply = drawn.choice(faults)() if drawn.random() < 0.2 else f"answer to {request.prompt}"
        given["good" if isinstance(reply, str) else "bad"] += 1
        return reply

    chat_server.script = script
    chat_server.latency = fake.log_normal(0.02, seed=7)
    results = run(chat_server, 1000, 64)
    assert len(results) == 1000
    good = [(number, result) for number, result in enumerate(results) if isinstance(result, ChatReply)]
    assert all(result.text == f"answer to q{number}" for number, result in good)
    assert len(good) == given["good"]  # no good answer was lost
    assert sum(result.attempts for result in results) == chat_server.count == given.total()
    assert chat_server.most_in_flight > 1
