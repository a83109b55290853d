"""Engines over HTTP: real servers on loopback, the contract's schema, what a server may do wrong."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from api_samples import write
from dataset_samples import locomo_record
from engine_checks import check, failed
from plugin_project import case, good_cases, stable

from pytest_memeval import SettingsError, run
from pytest_memeval.cli.main import main
from pytest_memeval.engine.adapters.http import OPTIONAL, STAGES, HttpEngine
from pytest_memeval.engine.protocol import EngineSetupError
from pytest_memeval.harness import Harness

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "pytest_memeval/data/schemas/engine-http.schema.json").read_text("utf-8"))


@cache
def validator(name: str) -> Any:
    """Made once a message: checking the schema itself takes longer than all messages of a test."""
    whole = {**SCHEMA, "$ref": f"#/$defs/{name}"}
    made = jsonschema.validators.validator_for(whole)
    made.check_schema(whole)
    return made(whole)


def check_message(name: str, message: object) -> None:
    validator(name).validate(message)


class Served:
    """A server around an engine of Python, which checks every message against the schema."""

    def __init__(self, engine: Any, description: dict[str, Any]) -> None:
        self.engine, self.description = engine, description
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.tokens: list[str | None] = []
        self.faults: list[BaseException] = []
        self.answer: Any = None
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                self.send(200, served.description)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                served.tokens.append(self.headers["Authorization"])
                self.send(*served.respond(self.path.rpartition("/")[2], body))

            def send(self, status: int, data: Any) -> None:
                text = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def respond(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.seen.append((method, body))
        if self.answer is not None:
            answered: tuple[int, Any] = self.answer(method)
            return answered
        try:
            name = f"{method}_request" if f"{method}_request" in SCHEMA["$defs"] else "plain_request"
            check_message(name, body)
            answer = {"result": self.engine(method, body)}
            if f"{method}_response" in SCHEMA["$defs"]:
                check_message(f"{method}_response", answer)
            return 200, answer
        except BaseException as error:
            self.faults.append(error)
            return 500, {"error": {"message": str(error)}}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class EveryMethod:
    """Answers every method in the smallest way that is right."""

    def __init__(self) -> None:
        self.stores: dict[str, dict[str, str]] = {}

    def __call__(self, method: str, body: dict[str, Any]) -> Any:
        store = self.stores.setdefault(body["store"], {})
        if method in ("load", "normalize", "resolve", "aggregate"):
            memories = body["memories"]
            if method != "normalize":
                store.update({one["id"]: one["content"] for one in memories})
            if method == "normalize":
                return [{**one, "dimensions": ["identity"]} for one in memories]
            if method == "resolve":
                return [{"memory_index": n, "action": "store", "result_id": m["id"]} for n, m in enumerate(memories)]
            if method == "aggregate":
                return [{"id": "s", "title": "All", "memory_ids": [one["id"] for one in memories]}]
            return None
        if method == "extract":
            said = [one for one in body["conversation"] if one["content"].strip()]
            return [{"id": one["id"], "content": one["content"], "dimensions": ["selfhood"]} for one in said]
        if method == "query_template":
            return [{"title": "One", "memory_ids": list(store)}]
        if method == "inject":
            return [{"title": "One", "memory_ids": list(store), "present": True, "text": "\n".join(store.values())}]
        if method == "ingest_session":
            store.update({one["id"]: one["content"] for one in body["messages"]})
            return None
        if method in ("reset", "release"):
            self.stores.pop(body["store"])
            return None
        if method in ("search", "retrieve"):
            return [{"id": key, "score": 1, "content": text, "source_ids": [key]} for key, text in store.items()]
        return None


ALL = {"protocol": "1.0", "name": "everything", "version": "3", "concurrent": True}


@pytest.fixture
def server() -> Iterator[Served]:
    served = Served(EveryMethod(), {**ALL, "stages": list(STAGES), "methods": list(OPTIONAL)})
    yield served
    served.close()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.delenv("MEMEVAL_ENGINE_TOKEN", raising=False)
    return tmp_path


def test_it_keeps_to_the_protocol_and_to_the_schema(server: Served, harness: Harness) -> None:
    check_message("description", server.description)
    findings = check(lambda: HttpEngine(server.url), harness)
    assert failed(findings) == []
    assert server.faults == []
    assert {method for method, _ in server.seen} >= {
        *("load", "extract", "normalize", "resolve", "aggregate", "query_template", "inject", "search"),
        *("ingest_session", "flush", "await_indexed", "retrieve", "reset", "release"),
    }
    # Every store of a case is let go of when the case is over.
    kept = {body["store"] for method, body in server.seen if method == "load" and "#" in str(body["memories"])}
    assert len(server.engine.stores) <= len(kept) + 3


def test_a_run_over_http_is_the_run_in_the_same_process(server: Served) -> None:
    class Here:
        name, version, concurrent = "everything", "3", True

        def extract(self, conversation: Any, ctx: Any) -> Any:
            return [{"id": m.id, "content": m.content, "dimensions": ["identity"]} for m in conversation]

    file = write(good_cases(12))
    there = run(file, engine=server.url, stages="l1", concurrency=6)
    here = run(file, engine=Here(), stages="l1")
    assert there["engine"] == {"name": "everything", "version": "3"}
    assert stable(there)["l1"] == stable(here)["l1"]
    assert {store for _, body in server.seen if (store := body["store"])} == {body["store"] for _, body in server.seen}
    assert len({body["store"] for _, body in server.seen}) == 12


@pytest.mark.parametrize("priority", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_go_there_and_back_as_texts(priority: str) -> None:
    class Odd(EveryMethod):
        def __call__(self, method: str, body: dict[str, Any]) -> Any:
            found = super().__call__(method, body)
            return [{**one, "priority": priority} for one in found] if method == "extract" else found

    served = Served(Odd(), {**ALL, "stages": ["l1", "l15"], "methods": ["load", "normalize"]})
    try:
        actions = {"expected_l15": {"actions": [{"new_memory_index": 0, "action": "store"}]}}
        report = run(write([{**good_cases(1)[0], **actions}]), engine=served.url)
    finally:
        served.close()
    assert served.faults == []
    sent = {method: body["memories"] for method, body in served.seen if method in ("normalize", "resolve")}
    assert [one["priority"] for found in sent.values() for one in found] == [priority, priority]
    assert report["l1"]["unmeasured"] == {"priority_mae": 1}


def test_questions(server: Served) -> None:
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1")]), "utf-8")
    report = run("locomo.json", engine=server.url, memory="engine")
    assert report["counts"]["scored"] == 6
    assert [method for method, _ in server.seen[:1]] == ["reset"]
    assert server.faults == []
    # What was read is in the store that is asked, which is let go of in the end.
    assert len({body["store"] for _, body in server.seen}) == 1
    assert server.seen[-1][0] == "release"


def test_the_example_server_passes_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "docs" / "examples" / "http_engine_server.py"
    spec = importlib.util.spec_from_file_location("http_engine_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_message("description", module.DESCRIPTION)
    server = ThreadingHTTPServer(("127.0.0.1", 0), module.Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        assert main(["doctor", "--engine", f"http://127.0.0.1:{server.server_port}"]) == 0
        shown = capsys.readouterr().out
        assert "word-memory 1" in shown
        assert "qa isolation" in shown
        report = run(write([case("a", "identity: is tall", truth=[("identity", "identity: is tall")])]),
                     engine=f"http://127.0.0.1:{server.server_port}", stages="l1")  # fmt: skip
        assert report.value("l1.dimension_micro_f1") == 1
    finally:
        server.shutdown()
        server.server_close()
    assert len([line for line in path.read_text("utf-8").splitlines() if line.strip()]) <= 50


def test_the_token_is_sent_and_never_shown(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMEVAL_ENGINE_TOKEN", "sesame-1234567890")
    report = run(write(good_cases(1)), engine=server.url, stages="l1", output="out")
    assert set(server.tokens) == {"Bearer sesame-1234567890"}
    assert report["counts"]["scored"] == 1, report["per_case"][0]["errors"]
    assert "sesame" not in "".join(p.read_text("utf-8", "replace") for p in Path("out").rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ((500, {"error": {"kind": "db_down", "message": "no database"}}), "db_down", "no database"),
        ((500, {"error": {"message": "oops"}}), "engine_error", "oops"),
        ((404, b"<html>"), "http_status", "status 404"),
        ((200, b"<html>"), "bad_answer", "no JSON"),
        ((200, [1]), "bad_answer", "a JSON object"),
        ((200, {"result": "x"}), "bad_output", "a list of memory"),
        ((200, {}), "bad_output", "None"),
        ((200, {"result": [{"content": "a", "colour": "red"}]}), "bad_output", "'colour'"),
    ],
)
def test_wrong_answers_are_errors_of_the_stage(server: Served, answer: Any, kind: str, words: str) -> None:
    server.answer = lambda method: answer
    entry = run(write(good_cases(1)), engine=server.url, stages="l1")["per_case"][0]
    assert entry["errors"][0]["kind"] == kind
    assert words in entry["errors"][0]["message"]


def test_a_server_that_is_not_ready_is_asked_again(server: Served) -> None:
    answers = iter([(503, {}), (200, {"result": []})])
    server.answer = lambda method: next(answers)
    server.description["methods"] = []
    assert run(write(good_cases(1)), engine=server.url, stages="l1")["counts"]["scored"] == 1


def test_a_server_that_says_nothing_ends_with_the_time_given(server: Served) -> None:
    waiting = threading.Event()
    server.answer = lambda method: (waiting.wait(5), (200, {}))[1]
    entry = run(write(good_cases(1)), engine=server.url, stages="l1", request_timeout=0.3)["per_case"][0]
    waiting.set()
    assert entry["errors"][0]["kind"] == "timeout"


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ([], "a JSON object is expected"),
        ({"protocol": "1.0", "stages": ["l1"]}, "no name"),
        ({"name": "x", "stages": ["l1"]}, "no protocol"),
        ({"name": "x", "protocol": "1.0"}, "no stages"),
        ({"name": "x", "protocol": "1.0", "stages": ["l7"]}, "'l7' among its stages"),
        ({"name": "x", "protocol": "1.0", "stages": ["l1"], "methods": ["fly"]}, "'fly' among its methods"),
        ({"name": "x", "protocol": "9.0", "stages": ["l1"]}, "engine protocol 9.0"),
    ],
)
def test_a_description_that_cannot_be_used_ends_the_run_before_it_starts(
    server: Served, description: Any, words: str
) -> None:
    server.description = description
    with pytest.raises(SettingsError, match=words):
        run(write(good_cases(1)), engine=server.url)
    assert server.seen == []


def test_addresses_that_lead_nowhere() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EngineSetupError, match="cannot be reached"):
        HttpEngine(f"http://127.0.0.1:{port}")
    with pytest.raises(EngineSetupError, match="no plain http"):
        HttpEngine("http://user:secret@127.0.0.1")
    with pytest.raises(EngineSetupError, match="65536"):
        HttpEngine("http://127.0.0.1:99999")
    with pytest.raises(SettingsError, match="by its address"):
        run(write(good_cases(1)), engine="http")


def test_the_schema_is_printed_and_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "engine-http"]) == 0
    shown = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(shown)
    assert shown == SCHEMA
    assert shown["$defs"]["description"]["properties"]["stages"]["items"]["enum"] == list(STAGES)
    assert sorted(shown["$defs"]["description"]["properties"]["methods"]["items"]["enum"]) == sorted(OPTIONAL)
