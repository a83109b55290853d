"""F33: whatever the server echoes, no command's output, report, history row, cache or log holds a key."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "servers"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "judge"))

import chat_server as fake
from chat_server import ChatServer
from judge_rig import fair_judge

from pytest_memeval import run as run_cases
from pytest_memeval.cli.main import main

#: Of no known form, so that only its value gives it away.
KEY = "plover-grotto-lamp-24680"
PASSWORD = "hunter2-in-the-address"
SAMPLE = Path(__file__).resolve().parents[1] / "cases" / "v001_sample.yaml"


def echo(request: fake.Request) -> str:
    return f"you sent {request.headers.get('authorization')}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    for name in ("MEMEVAL_JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMEVAL_API_KEY", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    with ChatServer() as running:
        yield running


def with_password(url: str) -> str:
    return url.replace("http://", f"http://user:{PASSWORD}@")


def nothing_holds(folder: Path, *texts: str, secrets: tuple[str, ...] = (KEY, PASSWORD)) -> set[str]:
    """Look through every file below ``folder``, and ``texts``; the names of the files."""
    names = set()
    for path in folder.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for secret in secrets:
                assert secret.encode() not in data, path
            names.add(path.name)
    for text in texts:
        for secret in secrets:
            assert secret not in text
    return names


def test_a_run_leaves_no_key_in_reports_history_and_cache(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(request: fake.Request) -> fake.Reply:
        return {
            0: fake.Answer(f"[] {echo(request)}", model=f"model-{KEY}"),
            1: fake.error(400, echo(request)),
            2: fake.refused(echo(request)),
        }[request.number % 3]

    server.script = script
    for url in (server.base_url, with_password(server.base_url)):
        run_cases(
            SAMPLE, llm="openai", model=f"m-{PASSWORD[:4]}", base_url=url, cache_dir=tmp_path / "cache",
            judge="judge-1", output=tmp_path / f"out{len(url)}", max_attempts=1,
        )  # fmt: skip
    assert server.count >= 5
    captured = capsys.readouterr()
    names = nothing_holds(tmp_path, captured.out, captured.err)
    assert {"report.json", "report.md", "journal.jsonl", "calls.jsonl.gz", "answers.sqlite", "history.sqlite3"} <= names
    history = next(tmp_path.rglob("history.sqlite3"))
    with sqlite3.connect(history) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [str(row) for name in tables for row in connection.execute(f"SELECT * FROM {name}")]
    assert rows
    nothing_holds(tmp_path / "nowhere", *rows)


@pytest.mark.parametrize("what", ["reason", "junk", "error"])
def test_a_judge_check_leaves_no_key(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    def script(request: fake.Request) -> fake.Reply:
        if what == "reason":
            verdict = json.loads(str(fair_judge(request)))
            return json.dumps({**verdict, "reason": echo(request)})
        return fake.error(400, echo(request)) if what == "error" else echo(request)

    server.script = script
    rows = [{"question_id": f"q{n}", "question": f"What of {n}?", "ground_truth": f"word{n}"} for n in range(8)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    main(
        [
            *("judge-check", "q.jsonl", "--model", "j", "--base-url", server.base_url, "--cache-dir", "cache"),
            *("--controls", "4", "--json", "out/figures.json"),
        ]
    )
    assert server.count >= 8
    captured = capsys.readouterr()
    nothing_holds(tmp_path, captured.out, captured.err)


@pytest.mark.parametrize("what", ["good", "error"])
def test_tuning_leaves_no_key(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    if what == "error":
        server.then(*(fake.error(400, f"Authorization: Bearer {KEY} of {PASSWORD}") for _ in range(4)))
    case_set = SAMPLE.with_name("v001.yaml")
    options = ["--embedder", "openai", "--model", "e", "--base-url", with_password(server.base_url)]
    status = main(
        ["tune", str(case_set), *options, "--cache-dir", "cache", "--output", "out", "--grid", "bm25_weight=0.3,0.7"]
    )
    assert (status == 0) is (what == "good")
    assert server.count
    captured = capsys.readouterr()
    names = nothing_holds(tmp_path, captured.out, captured.err)
    assert "answers.sqlite" in names or what == "error"


def test_the_proxy_says_no_key(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import openai

    from pytest_memeval.llm.cache import AnswerCache
    from pytest_memeval.llm.proxy import Proxy
    from pytest_memeval.llm.proxy_server import RunningProxy
    from pytest_memeval.llm.settings import ModelSettings

    own = "key-of-the-pipeline-97531"
    server.script = lambda request: (
        fake.error(400, echo(request)) if "bad" in request.prompt else fake.Answer(echo(request), model=f"m-{own}")
    )
    proxy = Proxy(ModelSettings(base_url=server.base_url), cache=AnswerCache(tmp_path / "cache" / "answers.sqlite"))
    running = RunningProxy(proxy)
    try:
        with openai.OpenAI(base_url=running.base_url, api_key=own, max_retries=0) as client:
            ask = client.chat.completions.create
            answer = ask(model="m", messages=[{"role": "user", "content": f"say {own}"}])
            with pytest.raises(openai.BadRequestError) as caught:
                ask(model="m", messages=[{"role": "user", "content": "bad"}])
    finally:
        running.close()
        assert proxy.cache is not None
        proxy.cache.close()
    assert server.requests[0].headers["authorization"] == f"Bearer {own}"
    captured = capsys.readouterr()
    nothing_holds(tmp_path, captured.out, captured.err, str(answer), str(caught.value), secrets=(KEY, own))
