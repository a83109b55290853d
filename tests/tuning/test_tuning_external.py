"""Another system's search: a Python object, or a real HTTP endpoint on loopback."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tuning_planted import query

from pytest_memeval.tuning.external import HttpSearch, load_search
from pytest_memeval.tuning.grid import GridSearch, MeasurementError
from pytest_memeval.tuning.queries import Document, TuningError
from pytest_memeval.tuning.rankers import CallableRanker

QUERIES = [query(f"q{number} 猫", f"q{number}#0", group=f"g{number}") for number in range(8)]


class Endpoint(ThreadingHTTPServer):
    """Answers as ``reply`` says: (status, body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.connections: set[Any] = set()
        self.reply: Any = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/search?token=t0ken"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({**asked, "path": self.path})
        self.server.connections.add(self.client_address)
        status, body = self.server.reply(asked)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ranked(asked: dict[str, Any]) -> tuple[int, bytes]:
    name = asked["query"].split()[0]
    hits = [f"{name}#{place}" for place in (2, 1, 0)][: asked["params"]["depth"]]
    return 200, json.dumps({"ids": hits}).encode()


def test_an_endpoint_is_tuned_over_few_connections(endpoint: Endpoint) -> None:
    endpoint.reply = ranked
    search = load_search(endpoint.address, [])
    result = GridSearch({"depth": [1, 2, 3]}).search(CallableRanker(search, threads=2), QUERIES)
    assert (result.conclusion, result.recommended_params) == ("conclusive", {"depth": 3})
    assert len(endpoint.asked) == 24
    assert endpoint.asked[0]["query"].endswith("猫")
    assert endpoint.asked[0]["path"] == "/search?token=t0ken"
    # One a thread, for the current values and for the others.
    assert len(endpoint.connections) <= 4


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((500, b"{}"), "HttpError: status 500"),
        ((302, b""), "HttpError: status 302"),
        ((200, b"<html>"), "HttpError: the answer is no JSON"),
        ((200, b'{"error": "x"}'), "neither 'ids' nor 'hits'"),
        ((200, b"[1, 2]"), "no id that is text"),
        ((None, b""), "RemoteDisconnected"),
    ],
)
def test_faults_of_an_endpoint_are_named(endpoint: Endpoint, reply: tuple[Any, bytes], message: str) -> None:
    endpoint.reply = lambda asked: reply
    with pytest.raises(MeasurementError) as caught:
        GridSearch({"depth": [1, 2]}).search(load_search(endpoint.address, []), QUERIES)
    assert "8 of 8 queries failed" in str(caught.value)
    assert message in str(caught.value)


def test_an_endpoint_that_hangs_or_is_gone(endpoint: Endpoint) -> None:
    released = threading.Event()
    endpoint.reply = lambda asked: (200, b"[]" if released.wait(5) else b"")
    with pytest.raises(TimeoutError):
        HttpSearch(endpoint.address, timeout=0.2)("q", {})
    released.set()
    free = Endpoint()
    free.server_close()
    with pytest.raises(MeasurementError, match="ConnectionRefusedError"):
        GridSearch({"depth": [1, 2]}).search(HttpSearch(free.address), QUERIES[:2])


def test_a_connection_that_the_server_closed_is_opened_again(endpoint: Endpoint) -> None:
    endpoint.reply = ranked
    search = HttpSearch(endpoint.address)
    assert search("q1", {"depth": 1}) == {"ids": ["q1#2"]}
    search._local.open.sock.close()
    search._local.open.sock = None  # as after an idle close: http.client connects anew
    assert search("q2", {"depth": 1}) == {"ids": ["q2#2"]}


MODULE = """
loaded = []

def search(query, params):
    return ["a#0"]

class Engine:
    def __init__(self):
        self.memories = []

    def load(self, memories):
        self.memories = memories

    def search(self, query, params):
        return [one["id"] for one in self.memories if query in one["content"]]

class Broken:
    def load(self, memories):
        raise OSError("disk full")

number = 3
"""


def test_python_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_search_for_tuning.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    corpus = [Document("a#0", "tea"), Document("a#1", "coffee")]
    module = "own_search_for_tuning"
    assert load_search(f"{module}:search", corpus)("x", {}) == ["a#0"]
    assert load_search(f"{module}:Engine", corpus)("coff", {}) == ["a#1"]
    for target, message in (
        (f"{module}:serch", "has no serch"),
        (f"{module}:number", "an int is no function"),
        (f"{module}:Broken", "load() failed with OSError: disk full"),
        ("no_such_module_here:x", "cannot import no_such_module_here: ModuleNotFoundError"),
        ("plainword", "is not of the form module:attribute or http://"),
        ("http://user:secret@127.0.0.1/", "is no plain http"),
        ("http://127.0.0.1:99999/", "port is no number below 65536"),
    ):
        with pytest.raises(TuningError) as caught:
            load_search(target, corpus)
        assert message in str(caught.value)
        assert "secret" not in str(caught.value)
    sys.modules.pop(module, None)
