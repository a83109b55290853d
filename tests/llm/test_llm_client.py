from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import chat_server as fake
import pytest
from chat_server import Answer, ChatServer

from pytest_memeval.llm.learnt import ServerManners
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import (
    ChatModel,
    ChatModelError,
    ChatReply,
    ModelEmpty,
    ModelOverflow,
    ModelQuota,
    ModelRefused,
    ModelRejected,
    ModelTruncated,
    ModelUnavailable,
    Usage,
)
from pytest_memeval.llm.rate import RateLimiter
from pytest_memeval.llm.retry import CircuitBreaker, RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

QUICK = RetryPolicy(max_attempts=4, base_delay=0.01, max_delay=0.02, max_retry_after=0.3)
ASK = [{"role": "user", "content": "hello there"}]
LIST_SCHEMA = {"type": "array", "items": {"type": "string"}}
OBJECT_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def model_on(
    server: ChatServer,
    *,
    policy: RetryPolicy = QUICK,
    breaker: CircuitBreaker | None = None,
    limiter: RateLimiter | None = None,
    **settings: Any,
) -> OpenAIChatModel:
    settings = {"model": "tiny", "base_url": server.base_url, **settings}
    # However busy the machine is, a refusal is waited for.
    manners = ServerManners(patience=30.0)
    return OpenAIChatModel(ModelSettings(**settings), policy=policy, breaker=breaker, limiter=limiter, manners=manners)


def ask(model: Any, **options: Any) -> ChatReply:
    async def once() -> ChatReply:
        try:
            return await model.complete(ASK, stage="l1_extraction", **options)
        finally:
            await model.aclose()

    return asyncio.run(once())


def failure(model: ChatModel, kind: type[ChatModelError], **options: Any) -> ChatModelError:
    with pytest.raises(kind) as caught:
        ask(model, **options)
    assert type(caught.value) is kind
    return caught.value


# -- what is sent and what comes back ---------------------------------------------------------------------------------


def test_a_healthy_call(chat_server: ChatServer) -> None:
    chat_server.script = lambda request: Answer("[1]", usage=(7, 3), model="tiny-2026")
    model = model_on(chat_server, max_tokens=50)
    assert isinstance(model, ChatModel)
    reply = ask(model, temperature=0.5)
    assert (reply.text, reply.finish_reason, reply.usage, reply.model) == ("[1]", "stop", Usage(7, 3), "tiny-2026")
    assert (reply.attempts, reply.cached) == (1, False)
    assert reply.latency > 0
    (request,) = chat_server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {"model": "tiny", "messages": ASK, "temperature": 0.5, "max_tokens": 50}
    assert request.headers["authorization"] == "Bearer none"


def test_a_call_names_its_own_cap_or_none_at_all(chat_server: ChatServer) -> None:
    ask(model_on(chat_server, max_tokens=50), max_tokens=9)
    ask(model_on(chat_server, max_tokens=None))
    assert [request.body.get("max_tokens") for request in chat_server.requests] == [9, None]


@pytest.mark.parametrize("usage", [None, "none"])
def test_usage_that_the_server_does_not_tell_is_none(chat_server: ChatServer, usage: str | None) -> None:
    chat_server.then(Answer("x", usage=usage))
    assert ask(model_on(chat_server)).usage == Usage(None, None)


def test_content_in_parts_and_broken_surrogates(chat_server: ChatServer) -> None:
    message = {"content": [{"type": "text", "text": "a\ud83d\ude00"}, {"type": "text", "text": "\ud83d!"}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    chat_server.then(fake.junk(body))
    assert ask(model_on(chat_server)).text == "a😀�!"


def test_a_reasoning_block_is_left_to_the_reader_of_the_answer(chat_server: ChatServer) -> None:
    chat_server.then(fake.thinking("[1]"))
    assert ask(model_on(chat_server)).text == "<think>let me see</think>[1]"


def test_a_list_is_asked_for_inside_an_object_and_taken_out_again(chat_server: ChatServer) -> None:
    chat_server.then('{"items": ["a", 1.50]}')
    assert ask(model_on(chat_server), response_format=LIST_SCHEMA).text == '["a", 1.50]'
    sent = chat_server.requests[0].body["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"]["properties"]["items"] == LIST_SCHEMA
    assert sent["json_schema"]["strict"] is True


def test_complete_sync_with_and_without_a_running_loop(chat_server: ChatServer) -> None:
    chat_server.script = lambda request: f"answer {request.number}"
    model = model_on(chat_server)
    assert model.complete_sync(ASK, stage="s").text == "answer 1"

    async def inside() -> str:
        return model.complete_sync(ASK, stage="s").text

    assert asyncio.run(inside()) == "answer 2"
    chat_server.then(fake.unauthorized())
    with pytest.raises(ModelQuota):
        model.complete_sync(ASK, stage="s")


def test_a_model_outlives_its_event_loop(chat_server: ChatServer) -> None:
    model = model_on(chat_server)
    for _ in range(3):  # without closing in between: the old loop is gone, with its connections
        assert asyncio.run(model.complete(ASK, stage="s")).text == "[]"


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert ask(model_on(chat_server)).attempts == 1


def test_connections_are_kept_and_shared(chat_server: ChatServer) -> None:
    model = model_on(chat_server)

    async def many() -> None:
        for _ in range(3):
            await asyncio.gather(*(model.complete(ASK, stage="s") for _ in range(4)))
        await model.aclose()

    asyncio.run(many())
    assert chat_server.count == 12
    assert chat_server.connections <= 4


def test_64_calls_at_once(chat_server: ChatServer) -> None:
    chat_server.latency = 0.6
    chat_server.script = lambda request: request.prompt
    model = model_on(chat_server)

    async def many() -> list[ChatReply]:
        asks = [[{"role": "user", "content": f"q{number}"}] for number in range(64)]
        replies = await asyncio.gather(*(model.complete(messages, stage="s") for messages in asks))
        await model.aclose()
        return list(replies)

    assert [reply.text for reply in asyncio.run(many())] == [f"q{number}" for number in range(64)]
    assert chat_server.most_in_flight > 32


def test_importing_the_client_imports_no_openai() -> None:
    code = "import sys, pytest_memeval.llm.openai_client, pytest_memeval.llm.factory; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- faults that pass -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        fake.status(500),
        fake.status(503),
        fake.error(408, "timeout"),
        fake.rate_limited(),
        fake.rate_limited("0"),
        fake.rate_limited("nonsense"),
        fake.dropped(),
        fake.cut(),
        fake.junk(),
        fake.junk(b"[1, 2"),
        fake.junk(b'{"choices": []}'),
        fake.junk(b'{"choices": [{"text": "old style"}]}'),
        fake.junk(b"plain", "text/plain"),
        fake.junk(b'{"error": {"message": "overloaded", "code": 503}}'),
        fake.junk(b"\xff\xfe\x00"),
    ],
    ids=lambda fault: f"{fault.status}-{fault.action}-{fault.body[:12]!r}",
)
def test_a_passing_fault_is_survived_and_one_that_stays_is_an_error(chat_server: ChatServer, fault: fake.Raw) -> None:
    chat_server.then(fault, fault, "fine")
    reply = ask(model_on(chat_server))
    assert (reply.text, reply.attempts) == ("fine", 3)
    chat_server.then(*[fault] * 10)
    error = failure(model_on(chat_server), ModelUnavailable)
    assert error.attempts == 4
    assert "4 requests sent" in str(error)
    assert chat_server.count == 3 + 4  # nothing else retries beneath


def test_no_server_at_all() -> None:
    with ChatServer() as server:
        gone = server.base_url
    model = OpenAIChatModel(ModelSettings(model="tiny", base_url=gone), policy=QUICK)
    error = failure(model, ModelUnavailable)
    assert error.attempts == 4
    assert gone in str(error)


def test_retry_after_in_milliseconds(chat_server: ChatServer) -> None:
    chat_server.then(fake.error(429, "wait", headers={"retry-after-ms": "200", "retry-after": "30"}), "fine")
    began = time.monotonic()
    assert ask(model_on(chat_server)).attempts == 2
    assert 0.2 <= time.monotonic() - began < 20


def test_retry_after_in_seconds_and_as_a_date_is_honoured_and_capped(chat_server: ChatServer) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=3600), usegmt=True)
    for value, least in (("0.2", 0.2), ("3600", 0.3), (soon, 0.3)):
        chat_server.then(fake.rate_limited(value), "fine")
        began = time.monotonic()
        assert ask(model_on(chat_server)).attempts == 2
        waited = time.monotonic() - began
        assert least <= waited < 20


# -- faults that stay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (fake.truncated(), ModelTruncated, "max_tokens 50"),
        (fake.refused(), ModelRefused, "I can't help"),
        (fake.filtered(), ModelRefused, "content filter"),
        (fake.error(400, "blocked", code="content_filter"), ModelRefused, "blocked"),
        (fake.empty(), ModelEmpty, "no text"),
        (fake.empty(" \n"), ModelEmpty, "no text"),
        (Answer(None, reasoning="hm"), ModelEmpty, "only reasoning"),
        (fake.overflow(), ModelOverflow, "exceeds the available context size"),
        (fake.error(400, "This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
         ModelOverflow, "longer than the model's context"),
        (fake.error(404, "The model `tiny` does not exist", code="model_not_found"), ModelRejected, "does not exist"),
        (fake.error(400, "bad messages"), ModelRejected, "bad messages"),
    ],
)  # fmt: skip
def test_a_lasting_fault_is_not_retried(
    chat_server: ChatServer, fault: fake.Reply, kind: type[ChatModelError], words: str
) -> None:
    chat_server.then(fault)
    error = failure(model_on(chat_server, max_tokens=50), kind)
    assert words in str(error)
    assert error.attempts == chat_server.count == 1
    assert ask(model_on(chat_server)).text == "[]"  # and the run goes on


@pytest.mark.parametrize(
    ("fault", "hinted"),
    [
        (fake.Raw(404, b"404 page not found"), True),
        (fake.Raw(404, b'{"detail": "Not Found"}'), True),
        (fake.error(404, "File Not Found", code=404, type="not_found_error"), True),
        (fake.Raw(405, b'{"detail": "Method Not Allowed"}'), True),
        (fake.junk(b"<!doctype html><title>Welcome</title>"), True),
        (fake.error(404, "The model `tiny` does not exist", type="NotFoundError", code=404), False),
        (fake.error(404, 'model "tiny" not found, try pulling it first', type="api_error"), False),
        (fake.error(400, "bad messages"), False),
        (fake.status(500), False),
        (fake.junk(b'{"object": "list"}'), False),
    ],
)
def test_where_another_address_answered_the_base_url_is_asked_about(
    chat_server: ChatServer, fault: fake.Raw, hinted: bool
) -> None:
    chat_server.script = lambda request: fault
    with pytest.raises(ChatModelError) as caught:
        ask(model_on(chat_server))
    assert ("is the base URL right? It ends before /chat/completions" in str(caught.value)) is hinted


@pytest.mark.parametrize("text", [None, "", '[{"content": "half'])
def test_f20_truncated_names_the_cap(chat_server: ChatServer, text: str | None) -> None:
    chat_server.then(Answer(text, finish_reason="length", usage=(5, 50)))
    error = failure(model_on(chat_server), ModelTruncated, max_tokens=50)
    assert "token cap (max_tokens 50)" in str(error)
    assert error.usage == Usage(5, 50)  # it was paid for
    chat_server.then(fake.truncated(text))
    assert "server's own token cap" in str(failure(model_on(chat_server, max_tokens=None), ModelTruncated))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (fake.insufficient_quota(), "quota is used up"),
        (fake.unauthorized(), "key is not accepted"),
        (fake.error(403, "no access to this model"), "key is not accepted"),
        (fake.error(402, "payment required"), "quota is used up"),
    ],
)
def test_quota_and_authentication_stop_the_run(chat_server: ChatServer, fault: fake.Raw, words: str) -> None:
    breaker = CircuitBreaker()
    first, second = (model_on(chat_server, breaker=breaker) for _ in range(2))
    chat_server.then(fault)
    error = failure(first, ModelQuota)
    assert words in str(error)
    assert error.attempts == 1
    later = failure(second, ModelQuota)  # another model of the run
    assert str(later) == str(error) == breaker.message
    assert later.attempts == 0
    assert chat_server.count == 1


def test_the_breaker_stops_calls_that_wait_for_a_retry(chat_server: ChatServer) -> None:
    breaker = CircuitBreaker()
    patient = RetryPolicy(base_delay=2.0, max_delay=2.0)

    async def both() -> list[BaseException | ChatReply]:
        waiting = model_on(chat_server, breaker=breaker, policy=patient)
        failing = model_on(chat_server, breaker=breaker)
        chat_server.then(fake.status(500), fake.insufficient_quota())
        task = asyncio.create_task(waiting.complete(ASK, stage="s"))
        while chat_server.count < 1:
            await asyncio.sleep(0.01)
        results = await asyncio.gather(failing.complete(ASK, stage="s"), task, return_exceptions=True)
        await waiting.aclose()
        await failing.aclose()
        return list(results)

    results = asyncio.run(both())
    assert [type(result) for result in results] == [ModelQuota, ModelQuota]
    assert str(results[0]) == str(results[1])
    assert chat_server.count == 2


def test_a_missing_key_or_model_is_said_before_anything_is_sent() -> None:
    error = failure(OpenAIChatModel(ModelSettings(model="gpt-4o")), ModelQuota)
    assert "MEMEVAL_API_KEY" in str(error)
    assert error.attempts == 0
    assert "--memeval-model" in str(failure(OpenAIChatModel(ModelSettings()), ModelRejected))


# -- F26 --------------------------------------------------------------------------------------------------------------


def test_f26_a_rejected_parameter_is_dropped_or_renamed_once(chat_server: ChatServer) -> None:
    chat_server.rejects = {"max_tokens", "temperature", "json_schema"}
    model = model_on(chat_server, max_tokens=50)
    reply = ask(model, response_format=OBJECT_SCHEMA)
    assert reply.attempts == 4
    last = chat_server.requests[-1].body
    assert last == {
        "model": "tiny", "messages": ASK, "max_completion_tokens": 50, "response_format": {"type": "json_object"},
    }  # fmt: skip
    assert ask(model, response_format=OBJECT_SCHEMA).attempts == 1  # learnt
    assert chat_server.requests[-1].body == last


@pytest.mark.parametrize(
    ("rejected", "gone", "kept"),
    [
        ("max_tokens", {"max_tokens"}, {"temperature", "max_completion_tokens", "response_format"}),
        ("temperature", {"temperature"}, {"max_tokens", "response_format"}),
    ],
)
def test_f26_only_that_parameter_changes(
    chat_server: ChatServer, rejected: str, gone: set[str], kept: set[str]
) -> None:
    chat_server.rejects = {rejected}
    assert ask(model_on(chat_server), response_format=OBJECT_SCHEMA).attempts == 2
    first, second = (set(request.body) for request in chat_server.requests)
    assert first - second == gone
    assert kept <= second


def test_f26_json_mode_goes_down_step_by_step(chat_server: ChatServer) -> None:
    chat_server.rejects = {"json_schema", "json_object"}
    model = model_on(chat_server)
    assert ask(model, response_format=OBJECT_SCHEMA).attempts == 3
    formats = [(request.body.get("response_format") or {}).get("type") for request in chat_server.requests]
    assert formats == ["json_schema", "json_object", None]
    assert all({"max_tokens", "temperature"} <= set(request.body) for request in chat_server.requests)
    assert ask(model, response_format=LIST_SCHEMA).attempts == 1


def test_f26_a_server_that_takes_neither_cap_name_is_an_error(chat_server: ChatServer) -> None:
    chat_server.rejects = {"max_tokens", "max_completion_tokens"}
    error = failure(model_on(chat_server), ModelRejected)
    assert "max_completion_tokens" in str(error)
    assert error.attempts == 2


def test_f26_many_first_calls_at_once_learn_it_together(chat_server: ChatServer) -> None:
    chat_server.rejects = {"max_tokens", "json_schema"}
    chat_server.latency = 0.05
    model = model_on(chat_server)

    async def many() -> list[ChatReply]:
        replies = await asyncio.gather(
            *(model.complete(ASK, stage="s", response_format=OBJECT_SCHEMA) for _ in range(8))
        )
        await model.aclose()
        return list(replies)

    # One call learns it; those that wait for it know it already.
    assert sorted(reply.attempts for reply in asyncio.run(many())) == [1] * 7 + [3]


@pytest.mark.parametrize(
    "fault",
    [
        fake.error(400, "The document in messages[0] cannot be read (temperature 0.0, max_tokens 64)."),
        fake.error(400, "max_tokens is too large: 99999. This model supports at most 16384.", param="max_tokens"),
        fake.error(400, "Images are not supported by this model (max_tokens=64)", param="messages"),
        fake.error(400, "Unsupported content type. response_format and temperature were understood."),
        fake.error(400, "'messages' must not be empty; temperature, max_tokens and response_format are optional"),
        fake.error(404, "model not supported: temperature"),
    ],
    ids=lambda fault: fault.body[20:60].decode(),
)
def test_f26_an_unrelated_400_that_mentions_a_parameter_surfaces(chat_server: ChatServer, fault: fake.Raw) -> None:
    chat_server.then(fault)
    model = model_on(chat_server)
    before = model.accepted
    assert failure(model, ModelRejected, response_format=OBJECT_SCHEMA).attempts == 1
    assert model.accepted == before


# -- F27 --------------------------------------------------------------------------------------------------------------


def test_f27_a_hanging_server_ends_near_the_time_out(chat_server: ChatServer) -> None:
    chat_server.script = lambda request: fake.hang()
    model = model_on(chat_server, call_timeout=2)
    began = time.monotonic()
    error = failure(model, ModelUnavailable)
    assert 2 <= time.monotonic() - began < 12
    assert error.attempts == chat_server.count == 1
    assert "within 2 s" in str(error)


def test_f27_a_cancelled_call_ends_at_once(chat_server: ChatServer) -> None:
    chat_server.script = lambda request: fake.hang()

    async def limited() -> None:
        model = model_on(chat_server)
        task = asyncio.create_task(model.complete(ASK, stage="s"))
        while not chat_server.count:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.2)
        assert time.monotonic() - began < 10
        await model.aclose()

    asyncio.run(limited())
    assert chat_server.count == 1


@pytest.mark.parametrize("fault", [fake.hang(), fake.trickle()], ids=["hang", "trickle"])
def test_f27_a_time_out_is_tried_once_more_and_no_further(chat_server: ChatServer, fault: fake.Raw) -> None:
    chat_server.script = lambda request: fault
    error = failure(model_on(chat_server, read_timeout=0.3, connect_timeout=0.3), ModelUnavailable)
    assert error.attempts == chat_server.count == 2
    assert "within 0." in str(error)


def test_f27_insufficient_quota_is_one_attempt(chat_server: ChatServer) -> None:
    chat_server.then(*[fake.insufficient_quota()] * 3)
    assert failure(model_on(chat_server), ModelQuota).attempts == 1
    assert chat_server.count == 1


def test_f27_429_then_success_recovers(chat_server: ChatServer) -> None:
    chat_server.then(fake.rate_limited("0"), "fine")
    assert ask(model_on(chat_server)).attempts == 2


# -- rate limits ------------------------------------------------------------------------------------------------------


def test_retries_count_against_the_rate_limit(chat_server: ChatServer) -> None:
    chat_server.then(fake.status(500), fake.status(500), "fine")
    limiter = RateLimiter(rpm=2, period=0.5)
    began = time.monotonic()
    assert ask(model_on(chat_server, limiter=limiter)).attempts == 3
    assert time.monotonic() - began >= 0.5


def test_calls_that_start_together_learn_from_one_rejection(chat_server: ChatServer) -> None:
    chat_server.rejects = {"max_tokens", "temperature", "json_schema"}
    chat_server.latency = 0.3
    settings = ModelSettings(model="m", base_url=chat_server.base_url)
    model = OpenAIChatModel(settings, manners=ServerManners(patience=30.0))

    async def ask_all() -> list[ChatReply]:
        asked = (
            model.complete([{"role": "user", "content": f"q{n} json"}], stage="s", response_format={"type": "object"})
            for n in range(8)
        )
        replies = await asyncio.gather(*asked)
        await model.aclose()
        return list(replies)

    replies = asyncio.run(ask_all())
    assert chat_server.count == 8 + 3
    assert sorted(reply.attempts for reply in replies) == [1] * 7 + [4]
    # The others did not wait for one another.
    assert chat_server.most_in_flight == 7


def test_a_first_call_that_hangs_holds_the_others_up_for_a_while_only(chat_server: ChatServer) -> None:
    chat_server.then(fake.hang())
    model = OpenAIChatModel(ModelSettings(model="m", base_url=chat_server.base_url))

    async def ask_all() -> None:
        first = asyncio.create_task(model.complete([{"role": "user", "content": "q0"}], stage="s"))
        await asyncio.sleep(0.05)
        others = [model.complete([{"role": "user", "content": f"q{n}"}], stage="s") for n in range(1, 4)]
        assert [reply.text for reply in await asyncio.wait_for(asyncio.gather(*others), 5)] == ["[]"] * 3
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await model.aclose()

    asyncio.run(ask_all())
