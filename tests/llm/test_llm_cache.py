from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.llm.cache import AnswerCache, DimensionMismatch
from pytest_memeval.llm.cache_entry import CacheEntry, ChatRequest
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.export import export_jsonl, import_jsonl, read_jsonl, write_jsonl
from pytest_memeval.llm.protocol import ChatReply, Usage

THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def request(text: str = "hello", **changes: Any) -> ChatRequest:
    fields: dict[str, Any] = {"endpoint": "http://h/v1", "model": "m", "stage": "l1_extraction", **changes}
    return ChatRequest(messages=({"role": "user", "content": text},), **fields)


def entry(text: str = "hello", answer: str = "[]", created: datetime = THEN, **changes: Any) -> CacheEntry:
    reply = ChatReply(answer, "stop", Usage(3, 1), "m-2026", 0.25)
    return CacheEntry.of(request(text, **changes), reply, created=created)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_the_key_covers_all_that_changes_the_answer_and_nothing_else() -> None:
    base = request(response_format={"type": "object"}, max_tokens=5)
    others = [
        replace(base, endpoint="http://other/v1"),
        replace(base, model="other"),
        replace(base, messages=({"role": "system", "content": "hello"},)),
        replace(base, messages=({"role": "user", "content": "hello "},)),
        replace(base, temperature=0.1),
        replace(base, max_tokens=6),
        replace(base, max_tokens=None),
        replace(base, response_format=None),
        replace(base, response_format={"type": "array"}),
        replace(base, trial=1),
    ]
    assert len({base.key, *(other.key for other in others)}) == len(others) + 1
    assert replace(base, stage="l2_scene").key == base.key
    assert replace(base, temperature=0).key == base.key
    assert replace(base, response_format=MappingProxyType({"type": "object"})).key == base.key
    assert len(base.key) == 64


def test_the_request_hash_covers_messages_and_trial_only() -> None:
    base = request()
    assert replace(base, endpoint="x", model="y", temperature=1, max_tokens=1).request_hash == base.request_hash
    assert replace(base, trial=1).request_hash != base.request_hash
    assert request("other").request_hash != base.request_hash


def test_the_key_stays_what_it_is() -> None:
    # Committed recordings hang on it: a change must be meant, and be a new version of the format.
    assert request().key == "c99bcd1de466abcd49fdaf5652b13bfae714fe932f6c57726d0b95eac2d97b79"


# -- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_with_its_provenance(tmp_path: Path) -> None:
    stored = entry("你好 \ud83d", "答え 🎉\u2028x", response_format={"type": "object"}, trial=2)
    with AnswerCache(tmp_path / "sub" / "c.sqlite") as cache:
        assert cache.get(stored.key) is None
        assert cache.put(stored)
        assert not cache.put(replace(stored, text="other"))  # the first one stays
    with AnswerCache(tmp_path / "sub" / "c.sqlite") as cache:
        found = cache.get(stored.key)
        assert found == stored
        assert found is not None
        assert (found.created, found.latency, found.server_model) == ("2026-01-02T03:04:05+00:00", 0.25, "m-2026")
        reply = found.reply()
        assert (reply.text, reply.cached, reply.attempts, reply.usage) == (stored.text, True, 0, Usage(3, 1))
        assert cache.put(replace(stored, text="other"), replace=True)
        assert len(cache) == 1


def test_the_file_is_in_wal_mode(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "c.sqlite") as cache:
        cache.put(entry())
        connection = sqlite3.connect(tmp_path / "c.sqlite")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


def test_many_threads_share_one_cache(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "c.sqlite") as cache:

        def work(part: int) -> None:
            for number in range(50):
                cache.put(entry(f"{part}-{number}"))

        threads = [threading.Thread(target=work, args=(part,)) for part in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(cache) == 300


def test_stats_and_prune(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "c.sqlite") as cache:
        empty = cache.stats()
        assert (empty.answers, empty.embeddings, empty.oldest, empty.usage) == (0, 0, None, Usage(None, None))
        cache.put_many([
            entry("a"), entry("b", model="n"), entry("c", stage="l2_scene"),
            entry("d", created=datetime(2025, 1, 1, tzinfo=UTC)),
        ])  # fmt: skip
        cache.put_vectors("http://h/v1", "e", {"x": [1.0, 2.0]})
        cache.add_pending(request("waits"))
        stats = cache.stats()
        assert (stats.answers, stats.embeddings, stats.pending, stats.usage) == (4, 1, 1, Usage(12, 4))
        assert stats.by_model == {("http://h/v1", "m"): 3, ("http://h/v1", "n"): 1}
        assert stats.by_stage == {"l1_extraction": 3, "l2_scene": 1}
        assert (stats.oldest, stats.newest) == ("2025-01-01T00:00:00+00:00", "2026-01-02T03:04:05+00:00")
        assert stats.size > 0
        assert cache.prune() == 0
        assert cache.prune(before=datetime(2026, 1, 1, tzinfo=UTC)) == 1
        assert cache.prune(model="n", stage="l2_scene") == 0
        assert cache.prune(stage="l2_scene") == 1
        assert cache.prune(endpoint="http://h/v1", model="n") == 1
        assert cache.prune(endpoint="http://h/v1") == 2  # the last answer and the embedding
        assert cache.prune(pending=True) == 1
        assert (len(cache), cache.stats().embeddings, cache.pending_keys()) == (0, 0, ())


# -- F12: files that are no cache -------------------------------------------------------------------------------------


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def truncated_cache(path: Path) -> None:
    with AnswerCache(path) as cache:
        cache.put_many([entry(f"{number}", "x" * 2000) for number in range(200)])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for file in path.parent.glob("c.sqlite-*"):
        file.unlink()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scrambled_cache(path: Path) -> None:
    truncated_cache(path)
    content = bytearray(path.read_bytes())
    content[200:] = b"\x5a" * (len(content) - 200)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"half"),
        lambda path: path.write_bytes(b"SQLite format 3\0"),
        lambda path: path.write_text("key,answer\n" * 100, encoding="utf-8"),
        foreign_database,
        truncated_cache,
        scrambled_cache,
    ],
    ids=["short", "header only", "text", "foreign", "truncated", "scrambled"],
)
def test_f12_a_damaged_or_foreign_file_is_set_aside(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "c.sqlite"
    spoil(path)
    content = path.read_bytes()
    (tmp_path / "c.sqlite.damaged-1").write_bytes(b"an older one")
    with AnswerCache(path, readonly=True) as cache, pytest.raises(CacheError):
        [cache.get(entry(f"{number}").key) for number in range(200)]
    assert path.read_bytes() == content  # a reader leaves it alone
    with AnswerCache(path) as cache:
        with pytest.warns(CacheWarning, match=r"set aside as c\.sqlite\.damaged-2"):
            [cache.put(entry(f"{number}", "y" * 2000), replace=True) for number in range(200)]
        kept = sum(cache.get(entry(f"{number}").key) is not None for number in range(200))
        assert kept > 0  # the run goes on; answers stored after the damage was met are there
        assert cache.get(entry("199").key) is not None
    assert (tmp_path / "c.sqlite.damaged-2").read_bytes()[:100] == content[:100]
    assert (tmp_path / "c.sqlite.damaged-1").read_bytes() == b"an older one"


def test_f12_an_empty_file_and_one_left_by_a_killed_start_are_laid_out(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for name in ("empty", "blank"):
        path = tmp_path / name
        path.touch()
        if name == "blank":
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.close()
        with AnswerCache(path) as cache:
            assert cache.put(entry())
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore::pytest_memeval.llm.cache_file.CacheWarning")
@pytest.mark.parametrize("damaged", [False, True])
def test_f12_many_openers_at_once_lay_the_file_out_or_set_it_aside_once(tmp_path: Path, damaged: bool) -> None:
    for attempt in range(15):
        path = tmp_path / f"{attempt}.sqlite"
        if damaged:
            path.write_bytes(b"not a database" * 1000)
        barrier = threading.Barrier(6)
        failures: list[BaseException] = []

        def work(number: int, path: Path = path, barrier: threading.Barrier = barrier) -> None:
            try:
                with AnswerCache(path) as cache:
                    barrier.wait()
                    cache.put(entry(f"{number}"))
            except BaseException as error:
                failures.append(error)  # noqa: B023  # joined within the iteration

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(list(tmp_path.glob(f"{attempt}.sqlite.damaged-*"))) == damaged
        with AnswerCache(path) as cache:
            assert len(cache) == 6


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with AnswerCache(path) as cache:
        cache.put(entry())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with AnswerCache(path) as cache, pytest.raises(CacheError, match="newer version"):
        cache.get("x")
    assert list(tmp_path.glob("*.damaged*")) == []


def test_a_folder_that_cannot_be_written_is_an_error_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with AnswerCache(tmp_path / "file" / "c.sqlite") as cache, pytest.raises(CacheError):
        cache.put(entry())


def test_readonly_neither_creates_nor_writes(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "c.sqlite", readonly=True) as cache:
        assert cache.get("x") is None
        assert len(cache) == 0
        assert list(cache.entries()) == []
        with pytest.raises(CacheError, match="reading only"):
            cache.put(entry())
    assert list(tmp_path.iterdir()) == []
    with AnswerCache(tmp_path / "c.sqlite") as writer:
        writer.put(entry())
        with AnswerCache(tmp_path / "c.sqlite", readonly=True) as cache:
            assert cache.get(entry().key) == entry()


# -- embeddings -------------------------------------------------------------------------------------------------------


def test_vectors_come_back_bit_by_bit_and_have_one_dimension(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "c.sqlite") as cache:
        vectors = {"a": [0.1, -1e-300, 3.0], "ü": [1 / 3, 2.0, 1.7e308]}
        cache.put_vectors("h", "e", vectors)
        assert cache.get_vectors("h", "e", ["ü", "a", "b", "a"]) == vectors
        assert cache.get_vectors("h", "f", ["a"]) == {}
        assert cache.dimension("h", "e") == 3
        assert cache.dimension("h", "f") is None
        with pytest.raises(DimensionMismatch, match=r"\[3, 4\]"):
            cache.put_vectors("h", "e", {"c": [1.0] * 4})
        with pytest.raises(DimensionMismatch):
            cache.put_vectors("h", "new", {"c": [1.0], "d": [1.0, 2.0]})
        cache.put_vectors("h", "f", {"c": [1.0] * 4})
        for value in (float("nan"), float("inf")):
            with pytest.raises(CacheError, match="no list of finite numbers"):
                cache.put_vectors("h", "e", {"d": [1.0, 2.0, value]})
        assert cache.get_vectors("h", "e", ["c", "d"]) == {}


# -- export -----------------------------------------------------------------------------------------------------------


def test_export_is_sorted_repeatable_and_comes_back_whole(tmp_path: Path) -> None:
    entries = [entry(f"q{number}\ud83d", f"答\u2028{number}\r\n", trial=number % 2) for number in range(700)]
    with AnswerCache(tmp_path / "a.sqlite") as first, AnswerCache(tmp_path / "b.sqlite") as second:
        first.put_many(entries)
        assert export_jsonl(first, tmp_path / "a.jsonl") == (700, 0)
        write_jsonl(tmp_path / "c.jsonl", entries)
        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "c.jsonl").read_bytes()
        done = import_jsonl(second, tmp_path / "a.jsonl")
        assert (done.added, done.present, done.skipped) == (700, 0, ())
        second.put_many(entries[::-1])
        export_jsonl(second, tmp_path / "b.jsonl")
        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
        assert import_jsonl(second, tmp_path / "a.jsonl").present == 700
        assert export_jsonl(first, tmp_path / "n.jsonl", model="n") == (0, 0)
    lines = (tmp_path / "a.jsonl").read_bytes().split(b"\n")
    assert len(lines) == 702
    read = [found for _, found in read_jsonl(tmp_path / "a.jsonl")]
    assert read == sorted(entries, key=lambda one: one.key)
    assert b"\\u7b54" not in lines[1]  # readable, not escaped
    without_header = tmp_path / "bare.jsonl"
    without_header.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines[1:]))
    assert [found for _, found in read_jsonl(without_header)] == read


def test_embeddings_are_exported_behind_the_answers_and_come_back_bit_by_bit(tmp_path: Path) -> None:
    vectors = {f"text {number}": [number / 3, -1e-300, 3.0] for number in range(450)}
    with AnswerCache(tmp_path / "a.sqlite") as first, AnswerCache(tmp_path / "b.sqlite") as second:
        first.put(entry())
        first.put_vectors("h", "e", vectors)
        first.put_vectors("h", "f", {"one": [1.0]})
        assert export_jsonl(first, tmp_path / "a.jsonl") == (1, 451)
        assert len(read_jsonl(tmp_path / "a.jsonl")) == 1  # a file of recorded answers may hold them too
        assert b"text 7" not in (tmp_path / "a.jsonl").read_bytes()
        done = import_jsonl(second, tmp_path / "a.jsonl")
        assert (done.added, done.embeddings) == (1, 451)
        assert second.get_vectors("h", "e", list(vectors)) == vectors
        export_jsonl(second, tmp_path / "b.jsonl")
        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
        assert import_jsonl(second, tmp_path / "a.jsonl").embeddings == 0
        assert export_jsonl(first, tmp_path / "f.jsonl", model="f") == (0, 1)
        assert export_jsonl(first, tmp_path / "s.jsonl", stage="l1_extraction") == (1, 0)


def test_embeddings_of_another_dimension_are_not_imported(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as first, AnswerCache(tmp_path / "b.sqlite") as second:
        first.put(entry())
        first.put_vectors("h", "e", {"a": [1.0, 2.0]})
        export_jsonl(first, tmp_path / "a.jsonl")
        second.put_vectors("h", "e", {"b": [1.0, 2.0, 3.0]})
        with pytest.raises(DimensionMismatch, match=r"\[2, 3\]"):
            import_jsonl(second, tmp_path / "a.jsonl")
        assert len(second) == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key": "0"}, "has the key '0', which is none of an embedding"),
        ({"model": None}, "is an embedding without `endpoint` or `model`"),
        ({"vector": []}, "has a `vector` that is no list of finite numbers"),
        ({"vector": [1, "2"]}, "has a `vector` that is no list of finite numbers"),
        ({"vector": [float("inf")]}, "has a `vector` that is no list of finite numbers"),
        ({"vector": [float("nan")]}, "is no JSON"),
    ],
)
def test_a_bad_line_of_an_embedding_is_named(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    line = {"key": "a" * 64, "endpoint": "h", "model": "e", "created": "", "vector": [1.0], **change}
    path = tmp_path / "a.jsonl"
    # JSON has no word for what is infinite, but a number may be too large for a float.
    path.write_text(json.dumps(line).replace("Infinity", "1e999") + "\n", encoding="utf-8")
    with AnswerCache(tmp_path / "a.sqlite") as cache, pytest.raises(DocumentError) as caught:
        import_jsonl(cache, path)
    assert str(caught.value) == f"{path}:1: this line {text}"


def test_an_import_replaces_only_when_asked(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as first, AnswerCache(tmp_path / "b.sqlite") as second:
        first.put(entry(answer="new"))
        second.put(entry(answer="old"))
        export_jsonl(first, tmp_path / "a.jsonl")
        assert import_jsonl(second, tmp_path / "a.jsonl").added == 0
        assert import_jsonl(second, tmp_path / "a.jsonl", replace=True).added == 1
        found = second.get(entry().key)
        assert found is not None
        assert found.text == "new"


def test_bad_lines_are_all_named_and_nothing_is_imported(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "a.sqlite") as cache:
        cache.put(entry())
        export_jsonl(cache, tmp_path / "a.jsonl")
        good = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()[1]
        bad = [
            '{"format": "other"}', "not json",
            good.replace('"request_hash": "', '"request_hash": "0'), "[]", "{}", good.replace("hello", "changed"),
            good.replace('"trial": 0', '"trial": "0"'), good.replace('"text": "[]"', '"text": 7'),
        ]  # fmt: skip
        path = tmp_path / "bad.jsonl"
        path.write_text("\n".join([good.replace("m-2026", "m-2027"), *bad]) + "\n", encoding="utf-8")
        with pytest.raises(DocumentError) as caught:
            import_jsonl(cache, path, replace=True)
        assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5, 6, 7, 8, 9]
        assert "request was changed" in str(caught.value)
        assert cache.get(entry().key) == entry()
        path.write_bytes(b'{"a": "\xff"}')
        with pytest.raises(DocumentError, match="not UTF-8"):
            read_jsonl(path)
        with pytest.raises(DocumentError, match="cannot be read"):
            read_jsonl(tmp_path / "missing.jsonl")
