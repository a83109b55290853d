"""What is taken from an earlier run's journal, whatever became of the file; and by what an engine is known."""

from __future__ import annotations

import json
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.identity import identity_of, source_digest
from pytest_memeval.options import SettingsError
from pytest_memeval.results import CaseResult, Outcome
from pytest_memeval.resume.key import PARTS, changed_parts
from pytest_memeval.resume.run import (
    ABSENT,
    CHANGED,
    ERRORED,
    TAKEN,
    StoredRun,
    carry_over,
    compact,
    find_journal,
    journal_of_text,
    remove_superseded,
)

KEY = ".".join("abcdefg")


def line(node_id: str, outcome: Outcome = "scored", **fields: Any) -> str:
    result = CaseResult(node_id, "s.yaml", node_id.rpartition(":")[2], outcome, resume_key=KEY)
    return json.dumps({**result.to_json(), **fields}) + "\n"


def write(path: Path, *lines: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(part if isinstance(part, bytes) else part.encode() for part in lines))
    return path


def test_lines_that_are_no_records_cost_only_themselves(tmp_path: Path) -> None:
    journal = write(
        tmp_path / "journal.jsonl",
        line("s::记"),
        b"\xff\xfe broken\n",
        "[1, 2]\n",
        "\n",
        line("s::b", "errored"),
        line("s::c", resume_key=""),
        line("s::d"),
        line("s::e")[:40],
    )
    stored = StoredRun(journal)
    assert (len(stored), stored.unreadable) == (4, 3)
    found = {name: stored.state(f"s::{name}", KEY) for name in "记bcde"}
    assert found == {"记": TAKEN, "b": ERRORED, "c": CHANGED, "d": TAKEN, "e": ABSENT}
    taken = stored.take("s::d", KEY)
    assert taken is not None
    assert taken.node_id == "s::d"
    assert stored.take("s::d", KEY) is None
    assert stored.take("s::记", "other") is None


def test_the_last_line_of_a_case_counts(tmp_path: Path) -> None:
    journal = write(
        tmp_path / "journal.jsonl", line("s::a"), line("s::a", "errored"), line("s::b", "errored"), line("s::b")
    )
    stored = StoredRun(journal)
    assert (stored.state("s::a", KEY), stored.state("s::b", KEY)) == (ERRORED, TAKEN)


def test_what_changed_is_named() -> None:
    other = ".".join("abXdeYg")
    assert changed_parts(KEY, other) == ("prompts", "options")
    assert changed_parts("a.b", KEY) == PARTS


@pytest.mark.parametrize(("old", "new"), [("", KEY), (KEY, ""), ("", "")])
def test_without_a_key_nobody_can_tell_what_changed(tmp_path: Path, old: str, new: str) -> None:
    stored = StoredRun(write(tmp_path / "journal.jsonl", line("s::a", resume_key=old)))
    assert stored.state("s::a", new) == CHANGED
    assert stored.changes("s::a", new) == ("parts that cannot be recognised",)


def test_which_journal_is_meant(tmp_path: Path) -> None:
    runs = tmp_path / ".memeval" / "runs"
    write(runs / "20260101T000000.000000Z-aaaaaa" / "journal.jsonl", line("s::a"))
    killed = write(runs / "20260102T000000.000000Z-aaaaaa" / "journal.jsonl", line("s::a"))
    (runs / "20260103T000000.000000Z-aaaaaa").mkdir()  # died before its first case
    assert find_journal("latest", tmp_path) == killed
    assert find_journal("20260102T000000.000000Z-aaaaaa", tmp_path) == killed
    assert find_journal(str(killed), tmp_path) == killed
    shared = tmp_path / "out"
    complete = write(shared / "journal.jsonl", line("s::a"))
    (shared / "report.json").write_text('{\n  "run_id": "20260105T000000.000000Z-b"', encoding="utf-8")
    older = write(shared / "journal-20260104T000000.000000Z-b.jsonl", line("s::a"))
    assert find_journal("out", tmp_path) == complete
    assert find_journal("out/report.json", tmp_path) == complete
    newer = write(shared / "journal-20260106T000000.000000Z-b.jsonl", line("s::a"))
    assert find_journal("out", tmp_path) == newer
    assert StoredRun(newer).databases_folder() == shared / "databases-20260106T000000.000000Z-b"
    remove_superseded(newer, shared)
    remove_superseded(older, tmp_path)
    remove_superseded(complete, shared)
    assert sorted(path.name for path in shared.glob("*.jsonl")) == [older.name, "journal.jsonl"]
    with pytest.raises(SettingsError, match="no run at"):
        find_journal("away", tmp_path)


def test_a_new_journal_begins_with_what_was_finished_and_ends_with_one_line_a_case(tmp_path: Path) -> None:
    stored = write(
        tmp_path / "old.jsonl", line("s::a"), line("s::b", "errored"), line("s::c"), line("s::d").rstrip("\n")
    )
    journal = tmp_path / "new" / "journal.jsonl"
    carry_over(stored, journal)
    with journal.open("a", encoding="utf-8") as file:
        file.write(line("s::b") + line("s::a", line=7))
    compact(journal, {"s::a", "s::b", "s::d"})
    found = [json.loads(text) for text in journal.read_text(encoding="utf-8").splitlines()]
    assert [(record["node_id"], record["line"]) for record in found] == [("s::d", 0), ("s::b", 0), ("s::a", 7)]
    carry_over(stored, tmp_path / "none.jsonl", "hash")
    assert not (tmp_path / "none.jsonl").exists()


def test_a_journal_from_another_machine() -> None:
    path = journal_of_text(line("s::a").encode())
    try:
        assert StoredRun(path).state("s::a", KEY) == TAKEN
    finally:
        path.unlink()


def test_a_journal_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="kept no texts"):
        StoredRun(write(tmp_path / "journal.jsonl", line("s::a", report_text="hash")))


@pytest.mark.parametrize(
    ("name", "parts", "why"),
    [
        ("journal.jsonl", [], None),
        ("journal-20260106T000000.000000Z-b.jsonl", ["\n"], None),
        ("kept.jsonl", [line("s::a")], None),
        ("kept.jsonl", ["garbage\n", line("s::a")], None),
        *(("kept.jsonl", [line("s::a")[:length]], None) for length in (1, 8, 60)),
        ("kept.jsonl", [], "it is empty"),
        ("cases.memeval.jsonl", ['{"case_id": "a", "conversation": "hi"}\n'], "no line of it is the record of a case"),
        ("cases.memeval.jsonl", ['{"case_id": "a"}'], "no line of it is the record of a case"),
        ("journal.jsonl", ["garbage"], "no line of it is the record of a case"),
        ("journal.jsonl", ["garbage\n", line("s::a")[:40]], "no line of it is the record of a case"),
        ("journal.jsonl", [line("s::a")[:40] + "\n"], "no line of it is the record of a case"),
        ("calls.jsonl", ['{"node_id": "s::a", "stage": "l1"}\n'], "no line of it is the record of a case"),
        ("bytes.jsonl", [b"\xff\x00\n"], "no line of it is the record of a case"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, name: str, parts: list[str | bytes], why: str | None) -> None:
    stored = StoredRun(write(tmp_path / name, *parts))
    if why is None:
        stored.refuse_foreign()
        return
    with pytest.raises(SettingsError, match=f"{name} is not the journal of a run, {why}; name a run's folder, its id"):
        stored.refuse_foreign()


def test_an_engine_is_known_by_its_version_else_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "memory_system_x"
    write(package / "__init__.py", "")
    write(package / "parts" / "__init__.py", "")
    write(package / "parts" / "engine.py", "class Engine:\n    name = 'x'\n")
    write(package / "prompts.txt", "no source")
    other = write(package / "other.py", "A = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from memory_system_x.parts.engine import Engine  # type: ignore[import-not-found]  # written above

    first = identity_of(Engine())
    assert first is not None
    assert "sha256:" in first
    (package / "prompts.txt").write_text("changed", encoding="utf-8")
    assert identity_of(Engine()) == first
    other.write_text("A = 2\n", encoding="utf-8")
    assert identity_of(Engine()) != first
    engine = Engine()
    engine.version = 3
    assert identity_of(engine) == "memory_system_x.parts.engine:Engine x 3"
    assert identity_of(sys.modules["memory_system_x.parts"]) is not None


def test_what_has_no_source_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {"__name__": "nowhere_at_all"}
    exec("class Engine: name = 'made'", made)
    assert identity_of(made["Engine"]()) is None
    assert source_digest("builtins") is None
    bare = types.ModuleType("bare_module_of_a_test")
    monkeypatch.setitem(sys.modules, bare.__name__, bare)
    assert source_digest(bare.__name__) is None


def configured(*given: Any, **named: Any) -> None:
    """A function that a test gives arguments to beforehand."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (partial(configured, 1), partial(configured, 2)),
        (partial(configured, k=1), partial(configured, k="1")),
        (partial(configured, [1, (2, None)]), partial(configured, [1, [2, None]])),
        (partial(configured, options={"k": 1.0}), partial(configured, options={"k": True})),
        (partial(configured, partial(configured, 1)), partial(configured, partial(configured, 2))),
        (partial(configured, Path("a")), partial(configured, Path("b"))),
        (partial(configured), partial(write)),
    ],
)
def test_a_function_with_arguments_is_known_by_both(one: Any, other: Any) -> None:
    assert None not in (identity_of(one), identity_of(other))
    assert identity_of(one) != identity_of(other)
    assert identity_of(one) == identity_of(partial(one.func, *one.args, **one.keywords))


def test_what_it_is_given_may_be_unknown_and_a_version_says_it_all() -> None:
    unknown = partial(configured, iter(()))
    assert identity_of(unknown) is None
    unknown.version = "2"  # type: ignore[attr-defined]  # any attribute can be set
    assert str(identity_of(unknown)).endswith(" 2")
