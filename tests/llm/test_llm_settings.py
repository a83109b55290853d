from __future__ import annotations

import pytest

from pytest_memeval.llm.settings import ModelSettings


def test_keys_come_from_the_environment_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    model, judge = ModelSettings(model="m"), ModelSettings(model="m", role="judge")
    assert model.api_key is None
    assert judge.api_key is None
    monkeypatch.setenv("OPENAI_API_KEY", "key-openai")
    assert (model.api_key, judge.api_key) == ("key-openai", "key-openai")
    monkeypatch.setenv("MEMEVAL_API_KEY", "key-model ")
    assert (model.api_key, judge.api_key) == ("key-model", "key-model")
    monkeypatch.setenv("MEMEVAL_JUDGE_API_KEY", "key-judge")
    assert (model.api_key, judge.api_key) == ("key-model", "key-judge")
    monkeypatch.setenv("MEMEVAL_API_KEY", "  ")
    assert model.api_key == "key-openai"


def test_only_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    message = ModelSettings(model="m").missing_key_message()
    assert message is not None
    assert "MEMEVAL_API_KEY or OPENAI_API_KEY" in message
    judge = ModelSettings(model="m", role="judge", base_url="https://eu.api.openai.com/v1").missing_key_message()
    assert judge is not None
    assert judge.startswith("the judge on https://eu.api.openai.com/v1 needs a key")
    assert "MEMEVAL_JUDGE_API_KEY" in judge
    for url in ("http://127.0.0.1:1/v1", "https://models.example.org/v1", "https://notopenai.com/v1"):
        assert ModelSettings(model="m", base_url=url).missing_key_message() is None
    monkeypatch.setenv("OPENAI_API_KEY", "key-openai")
    assert ModelSettings(model="m").missing_key_message() is None


def test_the_endpoint_is_the_address_without_secrets_or_a_name_of_its_own() -> None:
    url = "https://user:pass@h.example:8443/v1/?api-version=2&api_key=k"
    settings = ModelSettings(model="m", base_url=url)
    assert settings.endpoint == settings.address == "https://h.example:8443/v1"
    assert settings.query == {"api-version": "2", "api_key": "k"}
    assert settings.userinfo == ("user", "pass")
    assert settings.secrets == ("k", "pass")
    assert ModelSettings(model="m", base_url=url, endpoint_name="staging").endpoint == "staging"


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://h/v1", "http://", "/v1"])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(ValueError, match="no http:// or https:// address"):
        ModelSettings(model="m", base_url=url)


@pytest.mark.parametrize("name", ["max_tokens", "connect_timeout", "read_timeout", "call_timeout", "max_attempts"])
def test_numbers_out_of_range_are_said(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0, not 0"):
        ModelSettings(model="m", **{name: 0})


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost/v1", True),
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://localhost.example.org/v1", False),
    ],
)
def test_loopback(url: str, here: bool) -> None:
    assert ModelSettings(model="m", base_url=url).is_loopback is here
