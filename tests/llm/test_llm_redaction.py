from __future__ import annotations

import asyncio
import base64
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import chat_server as fake
import pytest
from chat_server import Answer, ChatServer
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cached_model import CachedChatModel
from pytest_memeval.llm.export import export_jsonl
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import ChatModelError, ModelPending
from pytest_memeval.llm.redaction import REDACTED, redact, redact_known, without_keys
from pytest_memeval.llm.retry import RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

KEY = "opaque-Key/with.odd+chars=77"
ASK = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-proj-abcdef1234567890 rejected", "sk-proj-abcdef1234567890"),
        ("Authorization: Bearer abc.def.ghi", "abc.def.ghi"),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", "dXNlcjpwYXNz"),
        ("headers={'api-key': 'topsecret1'}", "topsecret1"),
        ("x-api-key: topsecret1", "topsecret1"),
        ("Bearer eyJhbGciOi.J9.sig_-", "eyJhbGciOi.J9.sig_-"),
        ("GET https://h/v1?api-version=1&api_key=topsecret1&x=1", "topsecret1"),
        ("https://h/v1?key=topsecret1", "topsecret1"),
        ("https://user:hunter22@h/v1", "hunter22"),
        ("https://tokenonly@h/v1", "tokenonly"),
        ("OpenAI(api_key='topsecret1', x=2)", "topsecret1"),
        ("gsk_abcdefgh12345678", "gsk_abcdefgh12345678"),
        ("b'Bearer abcdef123'", "abcdef123"),
    ],
)
def test_f33_whatever_looks_like_a_key_is_cut_out(text: str, secret: str) -> None:
    clean = redact(text)
    assert secret not in clean
    assert REDACTED in clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--memeval-base-url", "http://u:pass-word@h/v1"], ["--memeval-base-url", "http://<redacted>@h/v1"]),
        (["--memeval-base-url=http://u:pass-word@h/v1"], ["--memeval-base-url=http://<redacted>@h/v1"]),
        (["--api-key", "abc", "cases"], ["--api-key", "<redacted>", "cases"]),
        (["--other-token=abc", "-k", "key"], ["--other-token=<redacted>", "-k", "key"]),
        (["cases", "-k", "token", "--memeval-max-tokens", "5"], ["cases", "-k", "token", "--memeval-max-tokens", "5"]),
        (
            {"base_url": "https://h/v1?api_key=abcdef", "limit": 3},
            {"base_url": "https://h/v1?api_key=<redacted>", "limit": 3},
        ),
    ],
)
def test_f33_options_are_kept_without_their_keys(words: Any, expected: Any) -> None:
    assert without_keys(words) == expected


def test_f33_the_values_of_the_key_variables_are_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMEVAL_API_KEY", "MEMEVAL_JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, f" {KEY}-{name}\n")
    text = f"<{KEY}-MEMEVAL_API_KEY|{KEY}-MEMEVAL_JUDGE_API_KEY|{KEY}-OPENAI_API_KEY>"
    assert redact(text) == redact_known(text) == f"<{REDACTED}|{REDACTED}|{REDACTED}>"
    assert redact("a plainsecret b", ["plainsecret"]) == f"a {REDACTED} b"


def test_ordinary_text_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")  # a placeholder, and a word
    for text in (
        "none of the risk-assessment tasks failed",
        "the bearer of bad news; keyboard=1",
        "see https://example.org/a?page=2 and user@example.org",
        "tokens: 12, temperature=0.0",
        "http://127.0.0.1:8080/v1",
    ):
        assert redact(text) == text


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


def _echoing(request: fake.Request) -> Answer:
    return Answer(f"you sent {request.headers['authorization']}", model=f"m {request.headers['authorization']}")


def _rendered(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.__dict__)


@pytest.mark.parametrize(
    "fault",
    ["status", "unauthorized", "rejected", "refused", "truncated", "empty", "junk", "drop", "illegal"],
)
def test_f33_no_key_in_errors(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    key = "bad\nkey-with-line-end" if fault == "illegal" else KEY
    monkeypatch.setenv("MEMEVAL_API_KEY", key)

    def script(request: fake.Request) -> fake.Reply:
        said = f"Incorrect key {request.headers['authorization']} in {dict(request.headers)}"
        return {
            "status": fake.status(500, said), "unauthorized": fake.unauthorized(said),
            "rejected": fake.error(400, said), "refused": fake.refused(said), "truncated": fake.truncated(said),
            "empty": fake.empty(), "junk": fake.junk(said.encode()), "drop": fake.dropped(),
        }[fault]  # fmt: skip

    chat_server.script = script
    address = chat_server.base_url.replace("http://", "http://someone:passw0rd@") if fault == "drop" else None
    settings = ModelSettings(model="m", base_url=address or chat_server.base_url + "?api_key=urlsecret1")
    model = OpenAIChatModel(settings, policy=RetryPolicy(max_attempts=2, base_delay=0.01))
    with pytest.raises(ChatModelError) as caught:
        asyncio.run(model.complete(ASK, stage="s"))
    shown = _rendered(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    for secret in (key, "key-with-line-end", "passw0rd", "urlsecret1", KEY):
        assert secret not in shown


def test_f33_no_key_in_answers_cache_rows_exports_and_batch_files(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    chat_server.script = _echoing
    path = tmp_path / "answers.sqlite"
    messages = [{"role": "user", "content": f"my key is {KEY}"}]
    with AnswerCache(path) as cache:
        inner = OpenAIChatModel(ModelSettings(model="m", base_url=chat_server.base_url + "?token=urlsecret1"))
        model = CachedChatModel(inner, cache)
        first = asyncio.run(model.complete(messages, stage="s"))
        again = asyncio.run(model.complete(messages, stage="s"))
        assert again.cached
        assert first.text == again.text == f"you sent Bearer {REDACTED}"
        assert chat_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert chat_server.requests[0].query == "token=urlsecret1"
        export_jsonl(cache, tmp_path / "answers.jsonl")
        waiting = CachedChatModel(inner, cache, "batch", requests=BatchRequests(tmp_path / "requests.jsonl"))
        with pytest.raises(ModelPending):
            asyncio.run(waiting.complete(messages, stage="s", trial=1))
    written = [file for file in tmp_path.iterdir() if file.is_file()]
    assert {"answers.sqlite", "answers.jsonl", "requests.jsonl"} <= {file.name for file in written}
    for file in written:
        assert KEY.encode() not in file.read_bytes()
        assert b"urlsecret1" not in file.read_bytes()


def test_f33_no_key_in_logs(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    address = chat_server.base_url.replace("http://", "http://someone:passw0rd@") + "?api_key=urlsecret1"
    model = OpenAIChatModel(ModelSettings(model="m", base_url=address))
    asyncio.run(model.complete(ASK, stage="s"))
    (request,) = chat_server.requests
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"someone:passw0rd").decode()
    assert request.query == "api_key=urlsecret1"
    assert any("HTTP Request" in record.getMessage() for record in caplog.records)
    for secret in (KEY, "passw0rd", "urlsecret1", base64.b64encode(b"someone:passw0rd").decode()):
        assert secret not in caplog.text


def test_f33_settings_and_models_can_be_printed_and_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", KEY)
    settings = ModelSettings(model="m", base_url="https://u:passw0rd@h/v1?api_key=urlsecret1", role="judge")
    model = OpenAIChatModel(settings)
    shown = f"{settings!r} {settings} {model!r} {settings.endpoint} {model.endpoint}"
    assert settings.api_key == KEY
    assert KEY.encode() not in pickle.dumps(settings)
    for secret in (KEY, "passw0rd", "urlsecret1"):
        assert secret not in shown
