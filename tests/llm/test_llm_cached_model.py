from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from pathlib import Path
from typing import Any

import chat_server as fake
import pytest
from chat_server import Answer, ChatServer

from pytest_memeval.llm.batch import BatchRequests
from pytest_memeval.llm.cache import AnswerCache, DimensionMismatch
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.cached_embedder import CachedEmbedder
from pytest_memeval.llm.cached_model import CACHE_MODES, CachedChatModel
from pytest_memeval.llm.openai_client import OpenAIChatModel, OpenAIEmbedder
from pytest_memeval.llm.protocol import ChatModel, ChatModelError, ChatReply, ModelUnavailable, NotRecorded
from pytest_memeval.llm.retry import RetryPolicy
from pytest_memeval.llm.settings import ModelSettings

QUICK = RetryPolicy(max_attempts=2, base_delay=0.01)


def ask_for(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


class Rig:
    """A server, a cache and models on them."""

    def __init__(self, server: ChatServer, path: Path) -> None:
        self.server, self.path = server, path
        self.settings = ModelSettings(model="m", base_url=server.base_url, endpoint_name="lab")
        server.script = lambda request: f"{request.prompt} #{request.number}"

    def model(self, mode: str = "auto", **options: Any) -> CachedChatModel:
        cache = AnswerCache(self.path, readonly=mode == "replay")
        return CachedChatModel(OpenAIChatModel(self.settings, policy=QUICK), cache, mode, **options)

    def ask(self, mode: str, *texts: str, **options: Any) -> list[ChatReply]:
        async def run() -> list[ChatReply]:
            model = self.model(mode)
            assert isinstance(model.inner, OpenAIChatModel)
            try:
                return [await model.complete(ask_for(text), stage="l1_extraction", **options) for text in texts]
            finally:
                await model.inner.aclose()
                model.cache.close()

        return asyncio.run(run())


@pytest.fixture
def rig(chat_server: ChatServer, tmp_path: Path) -> Rig:
    return Rig(chat_server, tmp_path / "cache" / "c.sqlite")


# -- modes ------------------------------------------------------------------------------------------------------------


def test_auto_answers_from_the_cache_and_stores_what_is_new(rig: Rig) -> None:
    (first,) = rig.ask("auto", "a")
    again, new = rig.ask("auto", "a", "b")
    assert (first.text, first.cached, first.attempts) == ("a #1", False, 1)
    assert (again.text, again.cached, again.attempts) == ("a #1", True, 0)
    assert (again.usage, again.model, again.finish_reason) == (first.usage, first.model, first.finish_reason)
    assert again.latency == pytest.approx(first.latency, abs=1e-6)
    assert new.text == "b #2"
    assert rig.server.count == 2


def test_another_trial_is_another_question(rig: Rig) -> None:
    assert [rig.ask("auto", "a", trial=trial)[0].text for trial in (0, 1, 0)] == ["a #1", "a #2", "a #1"]


def test_the_second_run_of_200_makes_no_request(rig: Rig) -> None:
    texts = [f"q{number}" for number in range(200)]
    first = rig.ask("record", *texts)
    assert rig.server.count == 200
    second = rig.ask("replay", *texts)
    assert rig.server.count == 200
    assert [reply.text for reply in first] == [reply.text for reply in second]


def test_refresh_asks_each_question_once_a_run_and_replaces(rig: Rig) -> None:
    rig.ask("auto", "a")
    replies = rig.ask("refresh", "a", "a")
    assert [(reply.text, reply.cached) for reply in replies] == [("a #2", False), ("a #2", True)]
    assert rig.ask("replay", "a")[0].text == "a #2"


def test_off_neither_reads_nor_writes(rig: Rig) -> None:
    rig.ask("auto", "a")
    assert [reply.text for reply in rig.ask("off", "a", "a")] == ["a #2", "a #3"]
    assert rig.ask("replay", "a")[0].text == "a #1"


def test_replay_opens_no_socket_and_a_miss_says_what_to_do(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.ask("auto", "a")
    # The settings of another machine: no server behind the address, the endpoint's name the same.
    rig.settings = ModelSettings(model="m", base_url="http://192.0.2.1:9/v1", endpoint_name="lab")

    def no_client(self: object) -> None:
        raise AssertionError("a client was made")

    monkeypatch.setattr("pytest_memeval.llm.connection.ServerConnection._new_client", no_client)
    assert rig.ask("replay", "a")[0].text == "a #1"
    with pytest.raises(NotRecorded) as caught:
        rig.ask("replay", "b")
    for words in ("l1_extraction", "m on lab", "--memeval-cache auto", "--memeval-cache batch"):
        assert words in str(caught.value)
    with pytest.raises(NotRecorded, match=r"trial 2"):
        rig.ask("replay", "a", trial=2)
    rig.path = rig.path.with_name("none.sqlite")
    with pytest.raises(NotRecorded, match="there is no file"):
        rig.ask("replay", "a")
    assert not rig.path.exists()


def test_unknown_modes_are_said_with_the_nearest(rig: Rig) -> None:
    with pytest.raises(ValueError, match="unknown cache mode 'reply'; did you mean 'replay'"):
        rig.model("reply")
    with pytest.raises(ValueError, match="needs a file for the requests"):
        rig.model("batch")
    assert set(CACHE_MODES) == {"auto", "record", "replay", "refresh", "batch", "off"}


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [fake.status(500), fake.junk(), fake.empty(), fake.truncated(), fake.truncated(None), fake.refused(),
     fake.filtered(), fake.overflow(), fake.unauthorized(), fake.insufficient_quota(), fake.dropped()],
    ids=["500", "junk", "empty", "half", "cut to nothing", "refused", "filtered", "overflow", "401", "quota", "drop"],
)  # fmt: skip
def test_f11_f20_failures_are_never_stored(rig: Rig, fault: fake.Reply) -> None:
    rig.server.then(fault, fault)
    with pytest.raises(ChatModelError):
        rig.ask("auto", "a")
    rig.server.forget()  # a fault that is not retried leaves its second copy
    rig.server.then("healthy")
    (reply,) = rig.ask("auto", "a")
    assert (reply.text, reply.cached) == ("healthy", False)
    assert rig.ask("auto", "a")[0].text == "healthy"


def test_a_cache_that_cannot_be_written_is_a_warning_in_auto_and_an_error_in_record(rig: Rig) -> None:
    rig.path.parent.parent.mkdir(exist_ok=True)
    rig.path.parent.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.warns(CacheWarning, match="without storing") as caught:
        replies = rig.ask("auto", "a", "b")
    assert [reply.text for reply in replies] == ["a #1", "b #2"]
    assert len([one for one in caught if one.category is CacheWarning]) == 1
    with pytest.raises(CacheError):
        rig.ask("record", "c")


# -- one question in flight -------------------------------------------------------------------------------------------


def test_the_same_question_at_once_is_asked_once(rig: Rig) -> None:
    rig.server.latency = 0.1

    async def run() -> list[ChatReply]:
        model = rig.model()
        replies = await asyncio.gather(*(model.complete(ask_for("a"), stage="s") for _ in range(10)))
        model.cache.close()
        return list(replies)

    replies = asyncio.run(run())
    assert rig.server.count == 1
    assert {reply.text for reply in replies} == {"a #1"}
    assert sorted((reply.cached, reply.attempts) for reply in replies) == [(False, 1)] + [(True, 0)] * 9


def test_a_failure_reaches_all_who_wait_and_is_counted_once(rig: Rig) -> None:
    rig.server.latency = 0.1
    rig.server.then(fake.status(500), fake.status(500))

    async def run() -> list[Any]:
        model = rig.model()
        return await asyncio.gather(
            *(model.complete(ask_for("a"), stage="s") for _ in range(3)), return_exceptions=True
        )

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [ModelUnavailable] * 3
    assert sorted(error.attempts for error in errors) == [0, 0, 2]
    assert rig.server.count == 2


def test_one_caller_that_gives_up_does_not_take_the_others_answer(rig: Rig) -> None:
    rig.server.latency = 0.4

    async def run() -> ChatReply:
        model = rig.model()
        first = asyncio.create_task(model.complete(ask_for("a"), stage="s"))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(model.complete(ask_for("a"), stage="s"))
        await asyncio.sleep(0.1)
        first.cancel()
        reply = await second
        assert first.cancelled()
        return reply

    assert asyncio.run(run()).text == "a #1"
    assert rig.server.count == 1


def test_when_all_give_up_the_asking_ends_and_the_next_one_asks_anew(rig: Rig) -> None:
    rig.server.then(fake.hang())

    async def run() -> ChatReply:
        model = rig.model()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model.complete(ask_for("a"), stage="s"), 0.3)
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if "_fly" in repr(task) and not task.cancelling()]
        return await model.complete(ask_for("a"), stage="s")

    assert asyncio.run(run()).text == "a #2"


def test_the_same_question_from_two_event_loops_is_asked_once(rig: Rig) -> None:
    rig.server.latency = 0.3
    model = rig.model()
    texts: list[str] = []

    def work() -> None:
        texts.append(asyncio.run(model.complete(ask_for("a"), stage="s")).text)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == ["a #1"] * 3
    assert rig.server.count == 1


def test_a_loop_that_closes_while_asking_leaves_the_others_to_ask_again(rig: Rig) -> None:
    rig.server.then(fake.hang())
    model = rig.model()
    texts: list[str] = []

    async def give_up() -> None:
        task = asyncio.create_task(model.complete(ask_for("a"), stage="s"))
        while rig.server.count < 1:
            await asyncio.sleep(0.01)
        follower.start()
        while not any(flight.waiting == 2 for flight in model._flights.values()):
            await asyncio.sleep(0.01)
        assert not task.done()  # the loop ends around it

    follower = threading.Thread(target=lambda: texts.append(model.complete_sync(ask_for("a"), stage="s").text))
    asyncio.run(give_up())
    follower.join(30)
    assert texts == ["a #2"]


# -- any chat model ---------------------------------------------------------------------------------------------------


class Echo:
    """A chat model of a user's own, without any of the optional attributes."""

    name = "echo"
    calls = 0

    async def complete(self, messages: Any, *, stage: str, response_format: Any = None, temperature: float = 0.0,
                       max_tokens: int | None = None, trial: int = 0) -> ChatReply:  # fmt: skip
        self.calls += 1
        return ChatReply(f"{messages[-1]['content']} {max_tokens}")


def test_any_chat_model_can_be_cached(tmp_path: Path) -> None:
    inner = Echo()
    with AnswerCache(tmp_path / "c.sqlite") as cache:
        model = CachedChatModel(inner, cache)
        assert isinstance(model, ChatModel)
        assert model.complete_sync(ask_for("a"), stage="s", max_tokens=4).text == "a 4"
        assert model.complete_sync(ask_for("a"), stage="s", max_tokens=4).cached
        assert (inner.calls, model.hits, model.misses) == (1, 1, 1)
        (found,) = cache.entries()
        assert (found.endpoint, found.model, found.stage) == ("echo", None, "s")


def test_what_is_held_can_be_asked_beforehand(rig: Rig) -> None:
    rig.ask("auto", "a")
    model = rig.model()
    held = [model.cache.get(model.request(ask_for(text), stage="s").key) is not None for text in ("a", "b")]
    model.cache.close()
    assert held == [True, False]


# -- embeddings -------------------------------------------------------------------------------------------------------


def test_embeddings_are_cached_text_by_text(rig: Rig, tmp_path: Path) -> None:
    def embed(mode: str, *texts: str) -> list[list[float]]:
        async def run() -> list[list[float]]:
            inner = OpenAIEmbedder(rig.settings, policy=QUICK, batch_size=2)
            try:
                with AnswerCache(rig.path, readonly=mode == "replay") as cache:
                    return await CachedEmbedder(inner, cache, mode).embed(texts)
            finally:
                await inner.aclose()

        return asyncio.run(run())

    first = embed("auto", "a", "b", "a", "c")
    assert [request.body["input"] for request in rig.server.requests] == [["a", "b"], ["c"]]
    assert first[0] == first[2] != first[1]
    assert len(first[0]) == rig.server.dimension
    assert embed("replay", "c", "a") == [first[3], first[0]]
    assert embed("auto") == []
    assert rig.server.count == 2
    embed("auto", "a", "d")
    assert rig.server.requests[-1].body["input"] == ["d"]
    with pytest.raises(NotRecorded, match="for 1 of 2 texts"):
        embed("replay", "a", "e")
    rig.server.dimension = 9
    with pytest.raises(DimensionMismatch, match=r"\[8, 9\]"):
        embed("auto", "e")
    assert len(embed("off", "e")[0]) == 9
    assert embed("refresh", "a", "b", "c", "d")[0] != first[0]


def test_a_bad_embeddings_answer_is_an_error(rig: Rig) -> None:
    embedder = OpenAIEmbedder(rig.settings, policy=QUICK)
    vectors = (b'"x"', b"[]", b"[1, NaN]", b"[Infinity]", b"[true]", b'["1"]', b"[1" + b"0" * 400 + b"]")
    for body in (b'{"data": []}', b"[]", b"{}", *(b'{"data": [{"embedding": %b}]}' % vector for vector in vectors)):
        rig.server.then(*[fake.junk(body)] * 2)
        with pytest.raises(ModelUnavailable):
            asyncio.run(embedder.embed(["a"]))


def test_no_warning_of_the_event_loop_is_left(rig: Rig) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert rig.ask("auto", "a")[0].text == "a #1"
        rig.server.then(Answer("x"))
        assert rig.ask("auto", "b")[0].text == "x"


@pytest.mark.parametrize("late", ["hang", "error"])
def test_a_call_that_is_given_up_leaves_no_complaint(rig: Rig, caplog: pytest.LogCaptureFixture, late: str) -> None:
    """Cases that run out of time give their calls up; the terminal is no place to tell of it."""
    rig.server.script = lambda request: fake.hang() if late == "hang" else fake.error(400, "bad")
    rig.server.latency = 0.0 if late == "hang" else 0.3

    async def give_up() -> None:
        model = rig.model("auto")
        calls = [asyncio.create_task(model.complete(ask_for("a"), stage="s")) for _ in range(2)]
        while not rig.server.count:
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*calls, return_exceptions=True)
        )
        await asyncio.sleep(0.5)

    asyncio.run(give_up())
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_batch_answers_from_the_cache_first(rig: Rig, tmp_path: Path) -> None:
    rig.ask("auto", "a")
    model = rig.model("batch", requests=BatchRequests(tmp_path / "requests.jsonl"))
    assert model.complete_sync(ask_for("a"), stage="s").text == "a #1"
    assert not (tmp_path / "requests.jsonl").exists()
    model.cache.close()
