"""``memeval cache``: the recorded answers, from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_memeval.cli.ini import ini_value
from pytest_memeval.cli.main import main
from pytest_memeval.llm.cache import CACHE_FILE_NAME, AnswerCache
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.protocol import ChatReply, Usage

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def entry(text: str, *, model: str = "m", stage: str = "l1_extraction", age: int = 0) -> CacheEntry:
    request = ChatRequest("server", model, ({"role": "user", "content": text},), stage=stage)
    reply = ChatReply(f"to {text}", "stop", Usage(10, 2), f"{model}-2026", 0.5)
    return CacheEntry.of(request, reply, created=datetime.now(UTC) - timedelta(days=age))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AnswerCache(tmp_path / CACHE_FILE_NAME) as cache:
        cache.put_many([entry("a"), entry("b", age=40), entry("c", model="other", stage="l2_scene")])
        cache.add_pending(ChatRequest("server", "m", ({"role": "user", "content": "open"},)))
        cache.put_vectors("server", "e", {"x": [1.0, 2.0]})
    return tmp_path


def run(*args: object) -> int:
    return main(["cache", *map(str, args)])


def test_stats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("stats", "--cache-dir", folder) == 0
    out = capsys.readouterr().out
    for part in (
        f"{folder / CACHE_FILE_NAME}: 3 answers, 1 embedding, ",
        "2  m on server",
        "1  other on server",
        "1  l2_scene",
        "tokens: 30 in, 6 out",
        "1 request waiting for an answer",
    ):
        assert part in out


def test_prune_takes_what_fits_all_conditions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prune", "--cache-dir", folder, "--older-than", "30", "--model", "other") == 0
    assert "removed 0 rows; 3 answers left" in capsys.readouterr().out
    assert run("prune", "--cache-dir", folder, "--older-than", "30") == 0
    assert "removed 1 row; 2 answers left" in capsys.readouterr().out
    assert run("prune", "--cache-dir", folder, "--stage", "l2_scene") == 0
    assert "removed 1 row; 1 answer left" in capsys.readouterr().out
    assert run("prune", "--cache-dir", folder, "--pending") == 0
    assert "removed 1 row; 1 answer left" in capsys.readouterr().out


def test_prune_without_a_condition_removes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prune", "--cache-dir", folder) == 2
    assert "name a condition" in capsys.readouterr().err
    with AnswerCache(folder / CACHE_FILE_NAME) as cache:
        assert len(cache) == 3
    with pytest.raises(SystemExit, match="2"):
        run("prune", "--cache-dir", folder, "--older-than", "soon")
    assert "'soon' is not a number of days" in capsys.readouterr().err


def test_export_and_import_go_round(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", tmp_path / "all.jsonl", "--cache-dir", folder) == 0
    assert "3 answers and 1 embedding written" in capsys.readouterr().out
    assert run("export", tmp_path / "other.jsonl", "--cache-dir", folder, "--model", "other") == 0
    assert len((tmp_path / "other.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    target = tmp_path / "new"
    assert run("import", tmp_path / "other.jsonl", tmp_path / "all.jsonl", "--cache-dir", target) == 0
    out = capsys.readouterr().out
    assert "other.jsonl: 1 answer added" in out
    assert "all.jsonl: 2 answers added, 1 known already" in out
    assert run("export", tmp_path / "again.jsonl", "--cache-dir", target) == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


def test_import_lists_what_it_skips(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"custom_id": "f" * 64, "text": "x"}) + "\n", encoding="utf-8")
    assert run("import", path, "--cache-dir", folder) == 1
    streams = capsys.readouterr()
    assert f"{path}:1: ffffffffffff…: answers a request that this cache does not wait for (skipped)" in streams.err
    assert "0 answers added, 1 skipped" in streams.out
    assert "1 request still waiting" in streams.out


@pytest.mark.parametrize(
    ("content", "message"),
    [("no json\n", "answers.jsonl:1: this line is no JSON"), (None, "answers.jsonl: cannot be read: No such file")],
)
def test_files_that_cannot_be_read_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    path = tmp_path / "answers.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert run("import", path, "--cache-dir", folder) == 2
    assert message in capsys.readouterr().err


def test_a_missing_cache_and_one_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (("stats",), ("prune", "--model", "m"), ("export", tmp_path / "x.jsonl")):
        assert run(*command, "--cache-dir", tmp_path / "none") == 2
        assert "there is no cache" in capsys.readouterr().err
        assert not (tmp_path / "none").exists()
    (tmp_path / CACHE_FILE_NAME).write_text(
        "this is no database, but a text of more than a hundred letters" * 3, encoding="utf-8"
    )
    assert run("stats", "--cache-dir", tmp_path) == 0
    assert "is no SQLite file; it was set aside as answers.sqlite.damaged-1" in capsys.readouterr().err


def test_the_folder_is_the_one_that_runs_use(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "pytest.ini").write_text("[pytest]\nmemeval_cache_dir = answers\n", encoding="utf-8")
    monkeypatch.chdir(project / "sub")
    assert run("import", _export(folder, tmp_path)) == 0
    assert (project / "answers" / CACHE_FILE_NAME).is_file()
    assert run("stats") == 0
    (project / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert run("stats") == 2
    assert str(tmp_path / "user" / "pytest-memeval" / CACHE_FILE_NAME) in capsys.readouterr().err


def _export(folder: Path, tmp_path: Path) -> Path:
    run("export", tmp_path / "all.jsonl", "--cache-dir", folder)
    return tmp_path / "all.jsonl"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\nmemeval_model = m1\n"),
        ("tox.ini", "[tox]\n[pytest]\nmemeval_model = m1\n"),
        ("setup.cfg", "[tool:pytest]\nmemeval_model = m1\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\nmemeval_model = "m1"\n'),
        ("pyproject.toml", '[tool.pytest]\nmemeval_model = "m1"\n'),
        ("pytest.toml", '[pytest]\nmemeval_model = "m1"\n'),
    ],
)
def test_every_kind_of_pytest_configuration_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "sub").mkdir()
    assert ini_value("memeval_model", tmp_path / "sub") == ("m1", tmp_path)
    assert ini_value("memeval_cache_dir", tmp_path / "sub") is None


@pytest.mark.parametrize("text", ["[pytest", "no section\n", "\udcff"])
def test_a_broken_configuration_configures_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "pytest.ini").write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options\n", encoding="utf-8")
    assert ini_value("memeval_model", tmp_path) is None
