from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.llm.batch import BatchRequests, import_answers, import_batch_results
from pytest_memeval.llm.cache import AnswerCache
from pytest_memeval.llm.cached_model import CachedChatModel
from pytest_memeval.llm.export import export_jsonl
from pytest_memeval.llm.openai_client import OpenAIChatModel
from pytest_memeval.llm.protocol import ModelPending, Usage
from pytest_memeval.llm.settings import ModelSettings
from pytest_memeval.llm.wire import Accepted

LIST_SCHEMA = {"type": "array", "items": {"type": "string"}}


def ask_for(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


class Rig:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "requests.jsonl"
        self.answers = folder / "answers.jsonl"
        self.cache = AnswerCache(folder / "c.sqlite")
        # Nobody answers under this address: batch mode sends nothing.
        self.inner = OpenAIChatModel(ModelSettings(model="m", base_url="http://192.0.2.1:9/v1", max_tokens=77))

    def model(self) -> CachedChatModel:
        return CachedChatModel(self.inner, self.cache, "batch", requests=BatchRequests(self.path))

    def ask(self, *texts: str, **options: Any) -> list[str | None]:
        """The answers, one question after another; ``None`` for a pending one."""
        model, answers = self.model(), []
        for text in texts:
            try:
                answers.append(model.complete_sync(ask_for(text), stage="s", **options).text)
            except ModelPending:
                answers.append(None)
        return answers

    def open_requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def write_answers(self, *rows: Any) -> None:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        self.answers.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def import_(self) -> Any:
        return import_batch_results(self.answers, self.cache, requests=BatchRequests(self.path))


@pytest.fixture
def rig(tmp_path: Path) -> Any:
    rig = Rig(tmp_path)
    yield rig
    rig.cache.close()


def result(key: str, text: str | None, *, status: int = 200, finish: str = "stop", error: Any = None) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    body = {"choices": [choice], "model": "m-2026", "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    if status != 200:
        body = {"error": {"message": "went wrong"}}
    response = {"status_code": status, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": key, "response": None if error else response, "error": error}


def test_misses_are_written_in_the_batch_format_once(rig: Rig) -> None:
    assert rig.ask("a", "b", "a") == [None] * 3
    assert rig.ask("b", "ü") == [None] * 2  # another run
    rows = rig.open_requests()
    assert [row["body"]["messages"][0]["content"] for row in rows] == ["a", "b", "ü"]
    assert rows[0] == {
        "custom_id": rig.model().request(ask_for("a"), stage="s").key,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": ask_for("a"), "temperature": 0.0, "max_tokens": 77},
    }
    assert len(rows[0]["custom_id"]) <= 64


def test_the_message_says_where_the_request_is(rig: Rig) -> None:
    with pytest.raises(ModelPending, match=r"stage l1_conflict: .*requests\.jsonl") as caught:
        rig.model().complete_sync(ask_for("a"), stage="l1_conflict")
    assert caught.value.kind == "pending"
    assert caught.value.attempts == 0


def test_what_is_known_of_the_server_shapes_the_request(rig: Rig) -> None:
    rig.inner.manners.accepted = Accepted(token_cap="max_completion_tokens", temperature=False)
    rig.ask("a", response_format=LIST_SCHEMA)
    body = rig.open_requests()[0]["body"]
    assert body["max_completion_tokens"] == 77
    assert "temperature" not in body
    assert body["response_format"]["type"] == "json_schema"


def test_results_come_in_any_order_and_failures_are_skipped_and_listed(rig: Rig) -> None:
    rig.ask(*"abcdefghij")
    keys = {row["body"]["messages"][0]["content"]: row["custom_id"] for row in rig.open_requests()}
    rows: list[Any] = [
        result(keys["a"], "A"),
        {"custom_id": keys["b"], "text": "B", "model": "by hand"},
        result(keys["c"], None, status=500),
        result(keys["d"], "half", finish="length"),
        result(keys["e"], ""),
        result(keys["f"], None, error={"code": "batch_expired", "message": "expired"}),
        {"custom_id": keys["g"], "text": " "},
        {"custom_id": keys["h"], "response": {"status_code": 200, "body": {"junk": 1}}},
        {"custom_id": "0" * 64, "text": "whose?"},
        {"custom_id": keys["i"]},
        {"text": "no id"},
        "no json",
    ]
    random.Random(1).shuffle(rows)
    rig.write_answers(*rows)
    done = rig.import_()
    assert (done.added, done.present, len(done.skipped)) == (2, 0, 10)
    listed = "\n".join(str(problem) for problem in done.skipped)
    for words in ("500: went wrong", "cut off", "no text", "expired", "no chat completion", "does not wait for",
                  "neither `response` nor `text`", "no `custom_id`", "no JSON"):  # fmt: skip
        assert words in listed
    assert sorted(problem.line for problem in done.skipped) == [
        number for number, row in enumerate(rows, 1) if row not in (rows_of(rows, keys["a"]), rows_of(rows, keys["b"]))
    ]
    assert rig.ask("a", "b", "c") == ["A", "B", None]
    assert [row["body"]["messages"][0]["content"] for row in rig.open_requests()] == list("cdefghij")
    found = rig.cache.get(keys["a"])
    assert found is not None
    assert (found.server_model, found.usage, found.endpoint) == ("m-2026", Usage(4, 2), "http://192.0.2.1:9/v1")
    again = rig.import_()
    assert (again.added, again.present, len(again.skipped)) == (0, 2, 10)


def rows_of(rows: list[Any], key: str) -> Any:
    return next(row for row in rows if isinstance(row, dict) and row.get("custom_id") == key)


def test_a_wrapped_list_is_taken_out(rig: Rig) -> None:
    rig.ask("a", response_format=LIST_SCHEMA)
    rig.write_answers(result(rig.open_requests()[0]["custom_id"], '{"items": ["x"]}'))
    assert rig.import_().added == 1
    assert rig.ask("a", response_format=LIST_SCHEMA) == ['["x"]']


def test_a_file_that_cannot_be_read_is_said(rig: Rig) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        rig.import_()


def test_a_line_cut_off_by_a_killed_process_is_removed(rig: Rig) -> None:
    rig.ask("a")
    with rig.path.open("ab") as file:
        file.write(b'{"custom_id": "half')
    rig.ask("b")
    assert [row["body"]["messages"][0]["content"] for row in rig.open_requests()] == ["a", "b"]


def test_a_file_that_was_taken_away_is_begun_anew(rig: Rig) -> None:
    requests = BatchRequests(rig.path)
    model = CachedChatModel(rig.inner, rig.cache, "batch", requests=requests)
    for text in "ab":
        with pytest.raises(ModelPending):
            model.complete_sync(ask_for(text), stage="s")
    rig.path.unlink()
    with pytest.raises(ModelPending):
        model.complete_sync(ask_for("a"), stage="s")
    assert [row["body"]["messages"][0]["content"] for row in rig.open_requests()] == ["a"]


def three_stages(model: CachedChatModel, case: str) -> str:
    """Each stage asks with the answer of the one before."""
    text = case
    for stage in ("l1_extraction", "l1_conflict", "l2_scene"):
        text = model.complete_sync(ask_for(f"{stage} {text}"), stage=stage).text
    return text


def test_three_stages_in_three_rounds_by_files(rig: Rig) -> None:
    cases = [f"case-{number}" for number in range(4)]
    for _ in range(3):
        model = rig.model()
        for case in cases:
            with pytest.raises(ModelPending):
                three_stages(model, case)
        rows = rig.open_requests()
        assert len(rows) == len(cases)  # only this round's stage is open
        answers = [{"custom_id": r["custom_id"], "text": f"<{r['body']['messages'][0]['content']}>"} for r in rows]
        rig.write_answers(*reversed(answers))
        assert rig.import_().added == len(cases)
    model = rig.model()
    assert [three_stages(model, case) for case in cases] == [
        f"<l2_scene <l1_conflict <l1_extraction {case}>>>" for case in cases
    ]
    assert rig.open_requests() == []


def test_three_stages_in_three_rounds_against_a_server(rig: Rig, chat_server: ChatServer) -> None:
    """The batch file's bodies are what a server takes: each round is sent to one as it stands."""
    import urllib.request

    chat_server.script = lambda request: f"<{request.prompt}>"
    for _ in range(3):
        with pytest.raises(ModelPending):
            three_stages(rig.model(), "case")
        (row,) = rig.open_requests()
        sent = urllib.request.Request(
            chat_server.base_url.removesuffix("/v1") + row["url"],
            json.dumps(row["body"]).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sent) as answer:
            body = json.loads(answer.read())
        rig.write_answers(
            {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
        )
        assert rig.import_().added == 1
    assert three_stages(rig.model(), "case") == "<l2_scene <l1_conflict <l1_extraction case>>>"
    assert chat_server.count == 3


def test_the_kind_of_a_file_is_seen_by_its_first_line(rig: Rig, tmp_path: Path) -> None:
    rig.ask("a", "b")
    requests = BatchRequests(rig.path)
    key_of_a = rig.open_requests()[0]["custom_id"]
    rig.write_answers({"custom_id": key_of_a, "text": "A"})
    assert import_answers(rig.answers, rig.cache, requests=requests).added == 1
    export = tmp_path / "export.jsonl"
    export_jsonl(rig.cache, export)
    with AnswerCache(tmp_path / "other.sqlite") as other:
        assert import_answers(export, other, requests=requests).added == 1
        assert other.get(key_of_a) == rig.cache.get(key_of_a)
