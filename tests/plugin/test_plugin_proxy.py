"""An engine with a client of its own, recorded and counted by way of ``memeval_proxy_url``."""

from __future__ import annotations

import pytest
from chat_project import ChatProject, simple_case
from plugin_project import MODES, stable

from pytest_memeval.report.json_report import dumps

ENGINE = '''
import json

import openai


class OwnClient:
    """A memory system that asks its model by itself, once for every message."""

    name = "own-client"

    def __init__(self, url):
        http_client = openai.DefaultHttpxClient(trust_env=False)
        self.client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=http_client)

    def extract(self, conversation, ctx):
        memories = []
        for message in conversation:
            chunks = self.client.chat.completions.create(
                model="gpt-4o-mini",
                messages=[{"role": "user", "content": f"<conversation>[{message.id}] user: {message.content}\\n"}],
                stream=True,
                extra_headers={"x-memeval-stage": "l1_extraction"},
            )
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            memories += json.loads(text)
        return memories
'''

CONFTEST = """
import pytest
from own_client import OwnClient


@pytest.fixture
def memeval_engine(memeval_proxy_url):
    return OwnClient(memeval_proxy_url)
"""


@pytest.fixture
def own(chat: ChatProject) -> ChatProject:
    chat.pytester.makepyfile(own_client=ENGINE)
    chat.pytester.makeconftest(CONFTEST)
    chat.cases([simple_case(number) for number in range(1, 7)], gates=["P0 l1.dimension_micro_f1 >= 0.9"])
    return chat


@MODES
def test_calls_of_an_own_client_are_counted_for_their_case(own: ChatProject, mode: tuple[str, ...]) -> None:
    result = own.chat(*mode, "--junitxml", "junit.xml", fresh=True)
    result.assert_outcomes(passed=6)
    report = own.report()
    assert own.server.count == 6
    assert [entry["usage"]["calls"] for entry in report["per_case"]] == [1] * 6
    assert all(entry["usage"]["cost_usd"] > 0 for entry in report["per_case"])
    assert list(report["usage"]["by_stage"]) == ["l1_extraction"]
    assert report["timings"]["calls"]["attempts"] == 6
    for call in own.calls():
        number = int(call["node_id"][-3:])
        assert call["id"] == f"cases/v001.yaml::eval-{number:03}/proxy/0"
        assert f"number {number} is called" in call["request"][0]["content"]
        assert f"number {number} is called" in call["answer"]
    assert (own.path / "junit.xml").read_text(encoding="utf-8").count('name="memeval.usage.cost_usd"') == 7

    again = own.chat(*mode, fresh=True)
    again.assert_outcomes(passed=6)
    assert own.server.count == 6
    assert dumps(stable(own.report())) == dumps(stable(report))

    own.chat("--memeval-cache", "replay", *mode, fresh=True).assert_outcomes(passed=6)
    assert own.server.count == 6


@MODES
def test_a_miss_in_replay_is_an_error_of_the_case(own: ChatProject, mode: tuple[str, ...]) -> None:
    own.chat("-k", "eval-001").assert_outcomes(passed=1)
    result = own.chat("--memeval-cache", "replay", *mode, fresh=True)
    result.assert_outcomes(passed=1, errors=5)
    result.stdout.fnmatch_lines(["*eval-002*", "*[[]l1[]] not_recorded: stage l1_extraction: the cache holds*"])
    entry = own.entries()["eval-002"]
    assert entry["errors"][0]["kind"] == "not_recorded"
    assert entry["calls"][0]["error"].startswith("not_recorded: ")
    assert own.server.count == 1


def test_budget_and_rate_count_an_own_clients_calls(own: ChatProject) -> None:
    own.write("prices.yaml", "models:\n  gpt-4o-mini: {input: 1000, output: 1000}\n")
    own.chat("--memeval-prices", "prices.yaml", "--memeval-max-cost", "0.02", fresh=True)
    report = own.report()
    assert report["partial"] == "aborted"
    assert 0 < own.server.count < 6


def test_hand_written_tests_can_use_the_address_alone(own: ChatProject) -> None:
    own.write(
        "test_own.py",
        """
        from own_client import OwnClient


        def test_url(memeval_proxy_url):
            assert memeval_proxy_url.startswith("http://127.0.0.1:")
            client = OwnClient(memeval_proxy_url).client
            reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            assert reply.choices[0].message.content == "[]"
        """,
    )
    own.chat("test_own.py", fresh=True).assert_outcomes(passed=1)
    assert own.server.count == 1
