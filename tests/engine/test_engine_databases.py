from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pytest_memeval.engine.databases import OpenDatabases


def open_files(folder: Path) -> int:
    links = Path("/proc/self/fd")
    if not links.is_dir():
        pytest.skip("needs /proc")
    found = 0
    for link in links.iterdir():
        try:
            found += os.readlink(link).startswith(str(folder))
        except OSError:
            continue
    return found


def test_nothing_is_opened_before_it_is_asked_for(tmp_path: Path) -> None:
    databases = OpenDatabases(tmp_path / "case")
    assert databases.open_handles == 0
    assert not (tmp_path / "case").exists()
    assert databases.memory is databases.memory
    assert databases.open_handles == 1
    assert sorted(path.name for path in (tmp_path / "case").iterdir()) == ["memory.db"]
    databases.close()


def test_close_releases_the_files_and_may_be_repeated(tmp_path: Path) -> None:
    databases = OpenDatabases(tmp_path)
    databases.memory.execute("CREATE TABLE t (x)")
    databases.wiki.execute("CREATE TABLE t (x)")
    assert open_files(tmp_path) == 2
    databases.close()
    databases.close()
    assert databases.open_handles == 0
    assert open_files(tmp_path) == 0
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        _ = databases.memory


def test_leaving_the_block_closes_it() -> None:
    databases = OpenDatabases()
    connection = databases.wiki
    with databases, pytest.raises(sqlite3.OperationalError):
        connection.execute("SELECT * FROM nowhere")
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")


def test_files_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    with OpenDatabases(tmp_path) as databases:
        assert databases.memory.execute("PRAGMA synchronous").fetchone() == (0,)
        assert databases.memory.execute("PRAGMA journal_mode").fetchone() == ("memory",)


def test_a_file_that_is_no_database_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "memory.db").write_text("not a database, whatever its name may say" * 50, encoding="utf-8")
    databases = OpenDatabases(tmp_path)
    with pytest.raises(sqlite3.DatabaseError):
        _ = databases.memory
    assert databases.open_handles == 0
    assert open_files(tmp_path) == 0


def test_a_connection_can_be_used_from_another_thread() -> None:
    with OpenDatabases() as databases:
        connection = databases.memory
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(connection.execute("SELECT 1").fetchone()))
        thread.start()
        thread.join()
        assert seen == [(1,)]


def test_threads_that_ask_at_once_share_one_connection() -> None:
    with OpenDatabases() as databases:
        barrier = threading.Barrier(8)
        seen: list[int] = []

        def ask() -> None:
            barrier.wait()
            seen.append(id(databases.memory))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1


def read(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def test_keep_writes_both_databases_with_uncommitted_rows(tmp_path: Path) -> None:
    with OpenDatabases() as databases:
        databases.memory.execute("CREATE TABLE t (x)")
        databases.memory.execute("INSERT INTO t VALUES ('一只猫')")
        paths = databases.keep(tmp_path / "new" / "folder")
        databases.memory.execute("INSERT INTO t VALUES ('later')")
    assert [path.name for path in paths] == ["memory.db", "wiki.db"]
    assert read(paths[0], "SELECT x FROM t") == [("一只猫",)]
    assert read(paths[1], "SELECT COUNT(*) FROM sqlite_master") == [(0,)]


def test_f28_a_kept_wal_database_stands_alone(tmp_path: Path) -> None:
    """Its rows lie in the side file still, where a copy of the file alone would miss them."""
    with OpenDatabases(tmp_path / "case") as databases:
        databases.memory.execute("PRAGMA journal_mode=WAL")
        databases.memory.execute("CREATE TABLE t (x)")
        databases.memory.execute("INSERT INTO t VALUES (1)")
        databases.memory.commit()
        assert (tmp_path / "case" / "memory.db-wal").stat().st_size > 0
        kept, _ = databases.keep(tmp_path / "kept")
    assert read(kept, "SELECT x FROM t") == [(1,)]
    assert sorted(path.name for path in kept.parent.iterdir()) == ["memory.db", "wiki.db"]


def test_keep_replaces_older_files_and_copes_with_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "memory.db").write_text("rubbish", encoding="utf-8")
    (tmp_path / "memory.db-wal").write_text("rubbish", encoding="utf-8")
    with OpenDatabases() as databases:
        databases.memory.execute("CREATE TABLE t (x)")
        databases.keep(tmp_path)
    assert read(tmp_path / "memory.db", "SELECT COUNT(*) FROM t") == [(0,)]
    with OpenDatabases(tmp_path) as databases:
        databases.memory.execute("INSERT INTO t VALUES (2)")
        databases.keep(tmp_path)
    assert read(tmp_path / "memory.db", "SELECT x FROM t") == [(2,)]


def test_f28_two_cases_share_nothing() -> None:
    with OpenDatabases() as first, OpenDatabases() as second:
        first.memory.execute("CREATE TABLE t (x)")
        assert second.memory.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,)
