"""``memeval tune``: what it prints, writes and returns; bad input in one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_memeval.cli.main import main
from pytest_memeval.tuning.conclusion import CONCLUSIONS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

CASES = """\
cases:
{cases}
"""
CASE = """\
  - case_id: case-{number}
    conversation: "[msg#1] user: hello"
    expected_l1:
      memories:
        - {{content: "{word} is the hobby of person {number}", dimensions: [identity]}}
        - {{content: "person {number} also tried {word} twice, {word} again", dimensions: [identity]}}
    expected_search_results: {{"{word}": [0]}}
"""
WORDS = ("archery", "baking", "climbing", "diving", "embroidery", "fencing", "gardening", "hockey")


def case_file(folder: Path, words: tuple[str, ...] = WORDS) -> Path:
    file = folder / "set.yaml"
    cases = "".join(CASE.format(number=number, word=word) for number, word in enumerate(words))
    file.write_text(CASES.format(cases=cases), encoding="utf-8")
    return file


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    case_file(tmp_path)
    return tmp_path


def status(*words: str) -> int:
    try:
        return main(["tune", *words])
    except SystemExit as end:
        return int(end.code or 0)


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "tuning.json").read_text(encoding="utf-8"))
    return found


def test_a_set_without_queries_measures_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = here / "set.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text("\n".join(line for line in text.splitlines() if "expected_search" not in line), encoding="utf-8")
    assert status("set.yaml", "--output", "out") == 1
    said = capsys.readouterr().out
    assert "recommended" not in said
    assert "current values stand" not in said
    assert "no_queries: No query has a relevant memory" in said
    assert stored(here / "out")["rrf"]["conclusion"] == "no_queries"
    assert "current values stand" not in (here / "out" / "tuning.md").read_text(encoding="utf-8")


def test_a_run_leaves_its_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("set.yaml", "--grid", "rrf_k=10,60", "bm25_weight=0:1:0.5", "--seed", "3") == 0
    said = capsys.readouterr()
    assert "set.yaml: 16 memories, 8 queries in 8 groups, 6 combinations, ndcg@10" in said.out
    assert said.err == ""
    [folder] = (here / ".memeval" / "tune").iterdir()
    assert f"report: .memeval/tune/{folder.name}" in said.out
    document = stored(folder)
    assert document["kind"] == "tuning"
    assert document["config"]["grid"] == {"rrf_k": [10, 60], "bm25_weight": [0, 0.5, 1]}
    assert document["search"]["embedder"] == "lexical-1024"
    rrf = document["rrf"]
    for key in ("best_ndcg10", "best_params", "recommended_params", "conclusion", "param_sensitivity", "all_results"):
        assert key in rrf
    assert len(rrf["all_results"]) == 6
    assert (rrf["recommended_params"] is None) == (rrf["conclusion"] != "conclusive")


def test_reports_fit_their_schema(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = json.loads(
        (ROOT / "pytest_memeval" / "data" / "schemas" / "tuning.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["$defs"]["rrf"]["properties"]["conclusion"]["enum"]) == {*CONCLUSIONS, None}
    (here / "odd_search_of_the_cli_test.py").write_text(
        "def search(query, params):\n    if params['x'] == 'bad':\n        raise OSError\n    return []\n",
        encoding="utf-8",
    )
    text = (here / "set.yaml").read_text(encoding="utf-8")
    (here / "no_truth.yaml").write_text(text.replace(": [0]}", ": []}"), encoding="utf-8")
    runs = (
        ["set.yaml", "--grid", "rrf_k=10,60", "top_k=3,20", "--current", "rrf_k=7"],
        ["set.yaml", "--embedder", "none"],
        ["no_truth.yaml"],
        ["set.yaml", "--search", "odd_search_of_the_cli_test:search", "--grid", "x=0,bad,1.5"],
    )
    for words in runs:
        assert status(*words, "--output", "out") in (0, 1)
        jsonschema.validate(stored(here / "out"), schema)
    sys.modules.pop("odd_search_of_the_cli_test")


def test_equal_runs_give_equal_sections(here: Path) -> None:
    for name in ("one", "two"):
        assert status("set.yaml", "--output", name, "--lang", "zh") == 0
    assert stored(here / "one")["rrf"] == stored(here / "two")["rrf"]
    assert (here / "one" / "tuning.html").read_bytes() == (here / "two" / "tuning.html").read_bytes()


def test_without_vectors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("set.yaml", "--embedder", "none", "--output", "out") == 0
    assert "inconclusive_bm25_only" in capsys.readouterr().out
    assert stored(here / "out")["search"]["embedder"] == "none"


def test_another_system(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("set.yaml", "--export-corpus", "corpus.jsonl") == 0
    rows = [json.loads(line) for line in (here / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[1] == {"id": "case-0#1", "content": "person 0 also tried archery twice, archery again"}
    (here / "own_search_of_the_cli_test.py").write_text(
        "import json\n"
        "memories = [json.loads(line) for line in open('corpus.jsonl')]\n"
        "def search(query, params):\n"
        "    found = [one['id'] for one in memories if query in one['content']]\n"
        "    return found if params['order'] == 'up' else found[::-1]\n",
        encoding="utf-8",
    )
    target = "own_search_of_the_cli_test:search"
    assert status("set.yaml", "--search", target, "--grid", "order=down,up", "--output", "out") == 0
    assert stored(here / "out")["rrf"]["recommended_params"] == {"order": "up"}
    assert "conclusive: order=up is better" in capsys.readouterr().out
    sys.modules.pop("own_search_of_the_cli_test")


def test_failed_combinations_give_status_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "failing_search_of_the_cli_test.py").write_text(
        "def search(query, params):\n    return [][0 if params['x'] else slice(None)]\n", encoding="utf-8"
    )
    target = "failing_search_of_the_cli_test:search"
    assert status("set.yaml", "--search", target, "--grid", "x=0,1,2", "--output", "out") == 1
    assert "16 calls: IndexError: list index out of range" in capsys.readouterr().out
    assert status("set.yaml", "--search", target, "--grid", "x=1,2", "--output", "none") == 1
    assert "the current values could not be measured: 8 of 8 queries failed" in capsys.readouterr().err
    assert not (here / "none").exists()
    sys.modules.pop("failing_search_of_the_cli_test")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none.yaml"], "none.yaml: no such case file"),
        (["set.yaml", "--grid", "rrf=1"], "unknown parameter 'rrf'; did you mean 'rrf_k'?"),
        (["set.yaml", "--grid", "bm25_b=2"], "bm25_b must be between 0 and 1, not 2; the nearest valid value is 1"),
        (["set.yaml", "--current", "rrf_k=1,2"], "rrf_k has one current value"),
        (["set.yaml", "--metric", "ndgc@5"], "did you mean 'ndcg'?"),
        (["set.yaml", "--folds", "1"], "at least 2 folds"),
        (["set.yaml", "--timeout", "0"], "--timeout: 0.0 is not a number of seconds above 0"),
        (["set.yaml", "--timeout", "1e10"], "--timeout: 1e+10 is more than 1000000 seconds"),
        (["set.yaml", "--rpm", "0"], "--rpm must be 1 or more, not 0"),
        (["set.yaml", "--search", "nowhere"], "is not of the form module:attribute"),
        (["set.yaml", "--embedder", "openai"], "--embedder openai needs the name of a model"),
        (["set.yaml", "--embedder", "openai", "--model", "m", "--base-url", "ftp://x"], "'ftp://x' is no http"),
        (["set.yaml", "--embedder", "none", "--model", "m"], "--model m needs --embedder openai"),
        (["set.yaml", "--base-url", "http://x"], "--base-url needs --embedder openai"),
        (["set.yaml", "--embedder", "lexcal"], "unknown embedder 'lexcal'; did you mean 'lexical'?"),
        (["set.yaml", "--embedder", "json:loadz"], "--embedder json:loadz: json has no loadz"),
        (["bad.yaml"], "bad.yaml:8"),
        (["unlabelled.yaml"], "the corpus is empty"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    words: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (here / "set.yaml").read_text(encoding="utf-8")
    (here / "bad.yaml").write_text(text.replace('"archery": [0]', '"archery": [7]'), encoding="utf-8")
    (here / "unlabelled.yaml").write_text(
        'cases:\n  - case_id: a\n    conversation: "[msg#1] user: hi"\n    expected_l1: {memories: []}\n',
        encoding="utf-8",
    )
    assert status(*words) == 2
    assert sentence in capsys.readouterr().err
    assert not (here / ".memeval").exists()


def test_a_server_that_changes_its_dimension(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chat_server import ChatServer

    monkeypatch.setenv("MEMEVAL_API_KEY", "test-key-1")
    with ChatServer(dimension=6) as server:
        words = ["set.yaml", "--embedder", "openai", "--model", "e", "--base-url", server.base_url]
        words += ["--cache-dir", "cache", "--output", "out"]
        assert status(*words, "--rpm", "600") == 0
        asked = server.count
        used = stored(here / "out")["search"]["embeddings"]
        assert (used["requests"], used["unknown_tokens"], used["spent_usd"]) == (asked, 0, None)
        assert used["input_tokens"] > 0
        assert (
            f"was sent {asked} requests of {used['input_tokens']} tokens, price not known." in capsys.readouterr().out
        )
        assert status(*words) == 0
        assert server.count == asked, "the vectors are cached"
        assert stored(here / "out")["search"]["dimension"] == 6
        assert "embeddings" not in stored(here / "out")["search"]
        server.dimension = 7
        case_file(here, (*WORDS, "judo"))
        capsys.readouterr()
        assert status(*words) == 2
        said = capsys.readouterr().err
        assert "dimension" in said or "numbers" in said
        assert "6" in said
        assert "7" in said


def test_an_embedder_that_raises_is_told_in_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "raising_embedder_of_the_cli_test.py").write_text(
        "class Raising:\n    name = 'raising'\n    async def embed(self, texts):\n"
        "        raise RuntimeError('key sk-abcdefghijklmnopqrstu is gone')\n",
        encoding="utf-8",
    )
    assert status("set.yaml", "--embedder", "raising_embedder_of_the_cli_test:Raising") == 1
    assert capsys.readouterr().err == "the embedder failed: RuntimeError: key <redacted> is gone\n"
    sys.modules.pop("raising_embedder_of_the_cli_test")


SLOW_SEARCHES = """
import pathlib, time
calls = []
def search(query, params):
    calls.append(query)
    if len(calls) == 60:
        pathlib.Path("begun").touch()
    time.sleep(0.02)
    return []
def stuck(query, params):
    if params["x"] != 1:
        pathlib.Path("begun").touch()
        time.sleep(3600)
    return []
def never(query, params):
    pathlib.Path("begun").touch()
    time.sleep(3600)
"""


def interrupted(here: Path, *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a run that gets Ctrl-C once it has begun."""
    (here / "slow_search.py").write_text(SLOW_SEARCHES, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pytest_memeval", "tune", "set.yaml", "--output", "out", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        until = time.monotonic() + 60
        while not (here / "begun").exists() and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            said, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, said, errors


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_ctrl_c_writes_what_was_found(here: Path) -> None:
    ended, said, errors = interrupted(here, "--search", "slow_search:search", "--grid", "x=1:400:1")
    assert ended == 130, errors
    assert "PARTIAL: stopped early" in said
    rrf = stored(here / "out")["rrf"]
    assert rrf["partial"] is True
    measured = sum(one["score"] is not None for one in rrf["all_results"])
    assert 0 < measured < 400
    assert rrf["unmeasured"] == {"failed": 0, "not_reached": 400 - measured}


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
@pytest.mark.parametrize("threads", ["1", "3"])
def test_ctrl_c_ends_a_run_whose_search_hangs(here: Path, threads: str) -> None:
    words = ("--search", "slow_search:stuck", "--grid", "x=1,2", "--threads", threads)
    ended, said, errors = interrupted(here, *words)
    assert ended == 130, errors
    assert "PARTIAL: stopped early" in said
    assert stored(here / "out")["rrf"]["unmeasured"] == {"failed": 0, "not_reached": 1}


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_ctrl_c_before_anything_was_measured(here: Path) -> None:
    ended, _, errors = interrupted(here, "--search", "slow_search:never", "--grid", "x=1,2")
    assert ended == 130
    assert errors == "stopped before the current values were measured: there is nothing to write\n"
    assert not (here / "out").exists()


def test_progress_of_a_long_run(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_memeval.cli.tune._QUIET", 0.0)
    assert status("set.yaml", "--output", "out") == 0
    assert "25 of 25 combinations, about 0 s left, best so far" in capsys.readouterr().err


def test_the_manual_shows_what_the_shipped_set_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "how-to" / "tune.md").read_text(encoding="utf-8")
    shown = page.partition("$ memeval tune cases/v001.yaml\n")[2].partition("```")[0]
    monkeypatch.chdir(ROOT)
    assert status("cases/v001.yaml", "--output", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert said.rpartition("report: ")[0] == shown


def test_distractors_and_an_embedder_of_the_project(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (here / "set.yaml").read_text(encoding="utf-8")
    (here / "set.yaml").write_text(f"meta: {{distractors: more.txt}}\n{text}", encoding="utf-8")
    (here / "more.txt").write_text("archery is dull\nnothing else\n", encoding="utf-8")
    (here / "own_embedder_of_the_cli_test.py").write_text(
        "class Counting:\n"
        "    name = 'counting'\n"
        "    async def embed(self, texts):\n"
        "        return [[1.0 + text.count(letter) for letter in 'abcdefgh'] for text in texts]\n",
        encoding="utf-8",
    )
    assert status("set.yaml", "--embedder", "own_embedder_of_the_cli_test:Counting", "--output", "out") == 0
    assert "18 memories, 8 queries" in capsys.readouterr().out
    assert stored(here / "out")["search"]["embedder"] == "counting"
    assert stored(here / "out")["search"]["dimension"] == 8
    sys.modules.pop("own_embedder_of_the_cli_test")
