"""The proxy, asked by the ``openai`` client and by hand."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chat_server as fake
import openai
import pytest
from chat_server import Answer, ChatServer

from pytest_memeval.llm.batch import BatchRequests, import_answers
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.export import export_jsonl, import_jsonl
from pytest_memeval.llm.http_server import LoopbackServer, NotLoopback, check_loopback
from pytest_memeval.llm.proxy import Proxy
from pytest_memeval.llm.proxy_server import RunningProxy
from pytest_memeval.llm.rate import RateLimiter
from pytest_memeval.llm.settings import ModelSettings

HELLO: Any = [{"role": "user", "content": "hello"}]
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    with AnswerCache(tmp_path / "answers.sqlite") as opened:
        yield opened


@pytest.fixture
def run_proxy(chat_server: ChatServer, cache: AnswerCache) -> Iterator[Callable[..., RunningProxy]]:
    running: list[RunningProxy] = []

    def start(mode: str = "auto", *, base_url: str | None = None, **options: Any) -> RunningProxy:
        settings = ModelSettings(
            base_url=base_url or chat_server.base_url,
            endpoint_name="server",
            read_timeout=options.pop("read_timeout", 30.0),
        )
        running.append(RunningProxy(Proxy(settings, cache=None if mode == "off" else cache, mode=mode, **options)))
        return running[-1]

    yield start
    for one in running:
        one.close()


def client(running: RunningProxy, *, key: str = "none", url: str | None = None) -> openai.OpenAI:
    http_client = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=url or running.base_url, api_key=key, max_retries=0, http_client=http_client)


def ask(running: RunningProxy, text: str = "hello", **options: Any) -> str | None:
    reply = client(running).chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **options)
    return reply.choices[0].message.content


def raw(running: RunningProxy, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", int(running.base_url.split(":")[2].split("/")[0]), timeout=10)
    try:
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {k.replace("_", "-"): v for k, v in headers.items()},
        )
        response = connection.getresponse()
        text = response.read().decode()
        return response.status, json.loads(text) if text.startswith("{") else text
    finally:
        connection.close()


def test_what_was_asked_once_is_replayed(run_proxy: Any, chat_server: ChatServer, cache: AnswerCache) -> None:
    chat_server.script = lambda request: Answer(f"to {request.prompt}", model="m-2026")
    first = run_proxy()
    assert ask(first) == ask(first) == "to hello"
    assert ask(first, "other") == "to other"
    assert chat_server.count == 2
    assert (first.proxy.upstream.sent, first.proxy.log.cached) == (2, 1)
    replay = run_proxy("replay")
    reply = client(replay).chat.completions.create(model="m", messages=HELLO)
    assert (reply.choices[0].message.content, reply.model) == ("to hello", "m-2026")
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 1
    assert chat_server.count == 2
    assert cache.stats().by_model == {("server", "m"): 2}


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"max_tokens": 5},
        {"seed": 1},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_the_answer_changes_the_key(
    run_proxy: Any, chat_server: ChatServer, change: dict[str, Any]
) -> None:
    running = run_proxy()
    ask(running)
    ask(running, **change)
    ask(running, **change)
    assert chat_server.count == 2
    assert {key: chat_server.requests[1].body[key] for key in change} == change
    ask(running, extra_headers={"x-memeval-trial": "1"})
    assert chat_server.count == 3


def test_replay_opens_no_connection_and_a_miss_says_what_to_do(run_proxy: Any, chat_server: ChatServer) -> None:
    running = run_proxy("replay")
    with pytest.raises(openai.NotFoundError, match=r"holds no answer of m on server.*mode auto or record"):
        ask(running)
    assert chat_server.connections == 0


def test_refresh_asks_anew_once_a_run_and_off_keeps_nothing(run_proxy: Any, chat_server: ChatServer) -> None:
    ask(run_proxy())
    chat_server.script = lambda request: "new"
    refresh = run_proxy("refresh")
    assert ask(refresh) == ask(refresh) == "new"
    assert chat_server.count == 2
    assert ask(run_proxy("replay")) == "new"
    off = run_proxy("off")
    ask(off)
    ask(off)
    assert chat_server.count == 4


def stream(running: RunningProxy, **options: Any) -> tuple[str, list[Any]]:
    chunks = list(client(running).chat.completions.create(model="m", messages=HELLO, stream=True, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return text, chunks


def test_streams_are_passed_on_and_recorded(run_proxy: Any, chat_server: ChatServer) -> None:
    chat_server.script = lambda request: "a stream of words, 流"
    running = run_proxy()
    text, chunks = stream(running)
    assert text == "a stream of words, 流"
    assert len([chunk for chunk in chunks if chunk.choices]) > 4
    assert not any(chunk.usage for chunk in chunks)  # nobody asked for it
    again, _ = stream(running)
    assert again == text
    assert chat_server.count == 1
    # Asked without a stream, the same question has the same answer, and its tokens are known.
    reply = client(running).chat.completions.create(model="m", messages=HELLO)
    assert reply.choices[0].message.content == text
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 5
    with_usage, chunks = stream(running, stream_options={"include_usage": True})
    assert with_usage == text
    assert chunks[-1].usage.completion_tokens == 5
    assert chat_server.count == 1


def test_a_stream_comes_as_it_is_sent(run_proxy: Any, chat_server: ChatServer) -> None:
    """The first word is there before the last one is sent."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in ("one", "two")]
    body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    chat_server.then(fake.Raw(200, body, {"Content-Type": "text/event-stream"}, action="cut"))
    running = run_proxy()
    got: list[str] = []
    # Older clients let the HTTP library's own error through, whose name changed between its versions.
    with pytest.raises(Exception, match=r"closed connection|onnection error"):  # noqa: PT012  # it fails in the loop
        for chunk in client(running).chat.completions.create(model="m", messages=HELLO, stream=True):
            got.append(chunk.choices[0].delta.content or "")
    assert got == ["one", "two"]
    # What did not come to its end is not recorded.
    assert stream(running)[0] == "[]"
    assert chat_server.count == 2


def test_a_server_that_does_not_know_stream_options_is_asked_without(run_proxy: Any, chat_server: ChatServer) -> None:
    def script(request: fake.Request) -> fake.Reply:
        if "stream_options" in request.body:
            return fake.error(400, "Unknown parameter: 'stream_options'", param="stream_options")
        return "fine"

    chat_server.script = script
    running = run_proxy("off")
    assert stream(running)[0] == stream(running)[0] == "fine"
    assert chat_server.count == 3  # learnt once


def test_answers_that_are_more_than_a_text_are_kept_whole(run_proxy: Any, chat_server: ChatServer) -> None:
    completion = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
        }],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }  # fmt: skip
    chat_server.then(fake.Raw(200, json.dumps(completion).encode()))
    running = run_proxy()
    for _ in range(2):
        reply = client(running).chat.completions.create(model="m", messages=HELLO)
        calls = reply.choices[0].message.tool_calls
        assert calls is not None
        assert calls[0].type == "function"
        assert calls[0].function.arguments == '{"a": 1}'
        assert reply.choices[0].finish_reason == "tool_calls"
    assert chat_server.count == 1
    _, chunks = stream(running)
    assert chunks[0].choices[0].delta.tool_calls[0].function.name == "add"
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "parts"}]}]
    for _ in range(2):
        client(running).chat.completions.create(model="m", messages=parts)
    assert chat_server.count == 2


def test_streamed_tool_calls_are_put_together(run_proxy: Any, chat_server: ChatServer) -> None:
    deltas = [
        {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                              "function": {"name": "add", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]  # fmt: skip
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    chat_server.then(fake.Raw(200, body.encode(), {"Content-Type": "text/event-stream"}))
    running = run_proxy()
    stream(running)
    reply = client(running).chat.completions.create(model="m", messages=HELLO)
    calls = reply.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].model_dump() == TOOL_CALL
    assert chat_server.count == 1


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        (lambda: fake.status(500), 500, "retry"),
        (lambda: fake.rate_limited("7"), 429, "retry"),
        (fake.insufficient_quota, 429, "quota"),
        (fake.unauthorized, 401, "auth"),
        (fake.overflow, 400, "overflow"),
        (fake.dropped, 502, "model_unavailable"),
        (fake.cut, 502, "model_unavailable"),
    ],
    ids=["500", "429", "quota", "401", "overflow", "dropped", "cut"],
)
def test_f11_errors_surface_with_the_upstream_status_and_are_not_kept(
    run_proxy: Any, chat_server: ChatServer, fault: Callable[[], fake.Reply], status: int, kind: str
) -> None:
    chat_server.then(fault())
    running = run_proxy()
    line = running.proxy.open_case("case-1")
    asking = client(running, url=running.case_url(line)).chat.completions
    with pytest.raises(openai.APIStatusError) as caught:
        asking.create(model="m", messages=HELLO)
    assert caught.value.status_code == status
    if status == 429 and kind == "retry":
        assert caught.value.response.headers["retry-after"] == "7"
    assert chat_server.count == 1  # the caller's client has retries of its own
    assert asking.create(model="m", messages=HELLO).choices[0].message.content == "[]"
    assert chat_server.count == 2
    failed, good = line.calls
    assert failed.error is not None
    assert failed.error.startswith(kind)
    assert (failed.attempts, good.attempts, good.error) == (1, 1, None)


@pytest.mark.parametrize("answer", [fake.truncated(), fake.empty(), fake.refused(), fake.filtered()])
def test_unusable_answers_reach_the_caller_and_are_not_kept(
    run_proxy: Any, chat_server: ChatServer, answer: Answer
) -> None:
    chat_server.then(answer)
    running = run_proxy()
    assert ask(running) == answer.text
    assert ask(running) == "[]"
    assert chat_server.count == 2


def test_a_server_that_does_not_answer_is_a_timeout(run_proxy: Any, chat_server: ChatServer) -> None:
    chat_server.then(fake.hang())
    running = run_proxy(read_timeout=0.3)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(running)
    assert caught.value.status_code == 504


@pytest.mark.parametrize(
    ("sent", "environment", "arrives"),
    [
        ("sk-caller-12345678", "sk-environment-1234", "Bearer sk-caller-12345678"),
        ("none", "sk-environment-1234", "Bearer sk-environment-1234"),
        ("placeholder", "sk-environment-1234", "Bearer sk-environment-1234"),
        ("none", None, "Bearer none"),
    ],
)
def test_the_callers_key_goes_before_the_environments(
    run_proxy: Any,
    chat_server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    sent: str,
    environment: str | None,
    arrives: str,
) -> None:
    if environment is not None:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    running = run_proxy()
    client(running, key=sent).chat.completions.create(model="m", messages=HELLO)
    assert chat_server.requests[0].headers["authorization"] == arrives


def test_f33_keys_are_kept_out_of_errors_answers_records_and_cache(
    run_proxy: Any, chat_server: ChatServer, cache: AnswerCache, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "xyzzy-caller-key-987654"
    running = run_proxy()
    line = running.proxy.open_case("case-1")
    asking = client(running, key=key, url=running.case_url(line)).chat.completions
    chat_server.then(fake.unauthorized(f"Incorrect API key provided: {key}"), f"your key is {key}")
    with pytest.raises(openai.AuthenticationError) as caught:
        asking.create(model="m", messages=HELLO)
    assert key not in str(caught.value)
    assert asking.create(model="m", messages=HELLO).choices[0].message.content == "your key is <redacted>"
    chat_server.then(f"streamed {key}")
    text = "".join(
        chunk.choices[0].delta.content or ""
        for chunk in asking.create(model="m", messages=[{"role": "user", "content": "2"}], stream=True)
        if chunk.choices
    )
    assert text == "streamed <redacted>"
    export_jsonl(cache, tmp_path / "export.jsonl")
    assert key not in (tmp_path / "export.jsonl").read_text(encoding="utf-8")
    assert key not in repr(line.calls)
    assert key not in "".join(capfd.readouterr())


def test_calls_belong_to_the_case_of_their_address(run_proxy: Any, chat_server: ChatServer) -> None:
    running = run_proxy()
    lines = [running.proxy.open_case(f"case-{number}") for number in range(2)]
    for number, line in enumerate(lines):
        asking = client(running, url=running.case_url(line)).chat.completions
        for _ in range(number + 1):
            asking.create(model="m", messages=HELLO, extra_headers={"x-memeval-stage": "l1_extraction"})
    assert [len(line.calls) for line in lines] == [1, 2]
    call = lines[1].calls[0]
    assert (call.id, call.stage, call.cached, call.attempts) == ("case-1/proxy/0", "l1_extraction", True, 0)
    assert call.request == ({"role": "user", "content": "hello"},)
    assert (lines[0].calls[0].input_tokens, lines[0].calls[0].output_tokens) == (1, 1)
    running.proxy.close_case(lines[0])
    with pytest.raises(openai.NotFoundError, match="no running case"):
        client(running, url=running.case_url(lines[0])).chat.completions.create(model="m", messages=HELLO)


def test_embeddings_are_kept_text_by_text(run_proxy: Any, chat_server: ChatServer) -> None:
    running = run_proxy()
    embeddings = client(running).embeddings  # the client asks for base64 by default
    first = embeddings.create(model="e", input=["one", "two"])
    second = embeddings.create(model="e", input=["two", "three"])
    assert first.data[1].embedding == second.data[0].embedding
    assert chat_server.requests[1].body["input"] == ["three"]
    plain = embeddings.create(model="e", input="two", encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(first.data[1].embedding, rel=1e-6)
    assert chat_server.count == 2
    replay = client(run_proxy("replay")).embeddings
    assert replay.create(model="e", input=["three"]).data[0].embedding == second.data[1].embedding
    with pytest.raises(openai.NotFoundError, match="1 of 2 texts"):
        replay.create(model="e", input=["one", "four"])
    chat_server.then(fake.status(500))
    with pytest.raises(openai.InternalServerError):
        embeddings.create(model="e", input="five")
    assert len(embeddings.create(model="e", input="five").data) == 1


@pytest.mark.parametrize("vector", [b"[1, NaN]", b"[1e999]", b"[false]", b'"x"'])
def test_an_upstreams_bad_vectors_are_told_and_not_kept(run_proxy: Any, chat_server: ChatServer, vector: bytes) -> None:
    embeddings = client(run_proxy()).embeddings
    chat_server.then(fake.junk(b'{"data": [{"index": 0, "embedding": %b}]}' % vector))
    with pytest.raises(openai.APIStatusError, match="no list of finite numbers") as caught:
        embeddings.create(model="e", input="one")
    assert caught.value.status_code == 502
    assert len(embeddings.create(model="e", input="one").data[0].embedding) == chat_server.dimension
    assert chat_server.count == 2


def test_an_upstream_that_changes_its_dimension_is_told(run_proxy: Any, chat_server: ChatServer) -> None:
    embeddings = client(run_proxy()).embeddings
    embeddings.create(model="e", input="one")
    chat_server.dimension += 1
    with pytest.raises(openai.APIStatusError, match="dimensions, where one model has one"):
        embeddings.create(model="e", input="two")
    chat_server.dimension -= 1
    assert len(embeddings.create(model="e", input="two").data[0].embedding) == chat_server.dimension


def test_models_are_the_upstreams_or_the_recorded_ones(run_proxy: Any, chat_server: ChatServer) -> None:
    ask(run_proxy())
    models = list(client(run_proxy("replay")).models.list())
    assert [model.id for model in models] == ["m"]
    with pytest.raises(openai.NotFoundError):  # the test server has no list of models: its answer surfaces
        client(run_proxy()).models.list()


def test_batch_collects_requests_as_they_were_written(
    run_proxy: Any, chat_server: ChatServer, cache: AnswerCache, tmp_path: Path
) -> None:
    requests = BatchRequests(tmp_path / "requests.jsonl")
    running = run_proxy("batch", requests=requests)
    with pytest.raises(openai.APIStatusError, match="waits for its answer") as caught:
        ask(running, top_p=0.5)
    assert caught.value.status_code == 424
    line = json.loads(requests.path.read_text(encoding="utf-8"))
    assert line["body"] == {"model": "m", "messages": HELLO, "top_p": 0.5}
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"custom_id": line["custom_id"], "text": "by hand"}) + "\n", encoding="utf-8")
    assert import_answers(answers, cache, requests=requests).added == 1
    assert ask(running, top_p=0.5) == "by hand"
    assert chat_server.count == 0


def test_recordings_can_be_exported_and_imported(
    run_proxy: Any, chat_server: ChatServer, cache: AnswerCache, tmp_path: Path
) -> None:
    chat_server.script = lambda request: "recorded"
    ask(run_proxy(), top_p=0.5)
    export_jsonl(cache, tmp_path / "export.jsonl")
    cache.prune(model="m")
    assert len(cache) == 0
    assert import_jsonl(cache, tmp_path / "export.jsonl").added == 1
    assert ask(run_proxy("replay"), top_p=0.5) == "recorded"


def test_requests_keep_to_the_rate(run_proxy: Any, chat_server: ChatServer) -> None:
    running = run_proxy("off", limiter=RateLimiter(rpm=2, period=0.5))

    async def all_at_once() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*(asyncio.to_thread(ask, running, f"q{number}") for number in range(5)))
        return loop.time() - began

    assert asyncio.run(all_at_once()) >= 1.0
    assert chat_server.count == 5


def test_other_requests_are_refused(run_proxy: Any, chat_server: ChatServer) -> None:
    running = run_proxy()
    body = {"model": "m", "messages": HELLO}
    path = "/v1/chat/completions"
    assert raw(running, "POST", path, body)[0] == 200
    assert raw(running, "POST", "/chat/completions", body)[0] == 200  # a base URL without /v1
    assert raw(running, "POST", "/v1/files", body)[0] == 404
    assert raw(running, "GET", path)[0] == 404
    assert raw(running, "POST", path, ["no", "object"])[0] == 400
    assert raw(running, "POST", path, {"model": "m"})[0] == 400
    assert raw(running, "POST", "/v1/embeddings", {"model": "m", "input": [1, 2]})[0] == 400
    # A page in a browser can reach this machine too, under a name of its own.
    assert raw(running, "POST", path, body, Host="evil.example")[0] == 403
    assert raw(running, "POST", path, body, Origin="https://evil.example")[0] == 403
    assert raw(running, "POST", path, body, Origin="http://localhost:3000")[0] == 200
    assert raw(running, "POST", path, body, Content_Length="-5")[0] == 400
    assert chat_server.count == 1


def test_chunked_requests_are_read(run_proxy: Any) -> None:
    running = run_proxy()
    connection = http.client.HTTPConnection("127.0.0.1", int(running.base_url.split(":")[2].split("/")[0]), timeout=10)
    parts = [b'{"model": "m", ', b'"messages": [{"role": "user", ', b'"content": "hello"}]}']
    for _ in range(2):  # on one connection
        connection.request("POST", "/v1/chat/completions", iter(parts), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        assert json.loads(response.read())["choices"][0]["message"]["content"] == "[]"
    connection.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "example.org", "::", ""])
def test_no_other_machine_can_reach_it(host: str) -> None:
    async def never(request: object) -> Any:
        raise AssertionError

    with pytest.raises(NotLoopback, match="not a loopback address"):
        LoopbackServer(never, host=host)


def test_loopback_has_several_names() -> None:
    assert [check_loopback(host) for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1")] == [
        "127.0.0.1",
        "127.0.0.1",
        "127.1.2.3",
        "::1",
    ]


def test_the_command_serves_until_it_is_stopped(chat_server: ChatServer, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_memeval", "proxy", "--port", "0", "--cache-dir", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--base-url", chat_server.base_url], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        url = first.split()[2]
        http_client = openai.DefaultHttpxClient(trust_env=False)
        asking = openai.OpenAI(base_url=url, api_key="sk-secret-abcdefgh", max_retries=0, http_client=http_client)
        for _ in range(2):
            asking.chat.completions.create(model="m", messages=HELLO)
        process.terminate()
        rest = process.stdout.read()
        assert process.wait(10) == 0
    assert first.startswith("listening on http://127.0.0.1:")
    assert "1 answered from the cache, 1 sent on, 0 failed" in rest
    assert "sk-secret" not in first + rest
    done = subprocess.run(
        [*command, "--host", "0.0.0.0"], capture_output=True, encoding="utf-8", check=False, timeout=30
    )
    assert done.returncode == 2
    assert "not a loopback address" in done.stderr
    done = subprocess.run([*command, "--cache", "rely"], capture_output=True, encoding="utf-8", check=False, timeout=30)
    assert (done.returncode, "replay" in done.stderr) == (2, True)
