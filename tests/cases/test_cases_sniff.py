from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_memeval.cases.loader import load_case_set, looks_like_case_file, seems_forgotten


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"cases:\n  - 1\n", True),
        (b"meta: {}\r\n\r\ncases: []\r\n", True),
        (b"\xef\xbb\xbfcases:", True),
        (b"dataset: locomo\n", True),
        (b"kind: qa", True),
        (b'x: 1\nkind: "distill" # ours\n', True),
        (b"kind: Deployment\n", False),
        (b"kind: ragged\n", False),
        (b"  cases: indented\n", False),
        (b"# cases: comment\n", False),
        (b"testcases: 1\n", False),
        (b"services:\n  web: !custom {}\n", False),
        (b"", False),
        (b"\xff\xfe\x00cases", False),
        (b"# " + b"x" * 200_000 + b"\ncases:\n", True),
        (b"a: 1\n" * 40_000 + b"cases:\n", True),
        (b"-" + b" " * 65_535 + b"cases:\n", False),
        (b"kind: rag".rjust(65_536, b"\n") + b"ged\n", False),
        # old line ends, and encodings without a mark
        (b"meta: {}\rcases:\r  - 1\r", True),
        (b"kind: qa\rx: 1\r", True),
        ("meta: {}\ncases:\n".encode("utf-16-le"), True),
        ("meta: {}\ncases:\n".encode("utf-16-be"), True),
        ("meta: {}\ncase:\n".encode("utf-16-le"), False),
        (b"a\0", False),
        # cases under a key that is nearly theirs, under another, or under none
        (b"case:\n  - case_id: a\n", True),
        (b"meta: {}\nCases:\n  - conversation: hi\n", True),
        (b"CASES:\n  - {case_id: a}\n", True),
        (b"csaes:\n  - {'case_id': a}\n", True),
        (b"caeses:\n  - case_id: a\n", True),
        (b"'casse' :\n  - case_id: a\n", True),
        (b'{"Cases": [{"case_id": 1}]}', True),
        (b"evals:\n  - case_id: a\n    conversation: hi\n", True),
        (b"- case_id: a\n  conversation: hi\n", True),
        (b'[{"case_id": "a", "expected_l1": {}}]', True),
        (b"  meta: {}\n  cases:\n    - case_id: a\n      questions: []\n", True),
        (b"case: the first\nother: 1\n", False),
        (b"Cases: [1, 2]\n", False),
        (b"# case:\n#   - case_id: a\n#     conversation: hi\nx: 1\n", False),
        (b"rows:\n  - case_id: a\n    score: 1\n", False),
        (b"cache:\n  - case_id: a\n", False),
        (b"- conversation: hi\n", False),
        (b"x" * 70_000 + b"\n- case_id: a\n  conversation: hi\n", False),
        # quoted keys, and mappings in braces: JSON is YAML too
        (b'meta: {}\n"cases":\n  - 1\n', True),
        (b"'kind': 'qa'\n", True),
        (b'"testcases": 1\n', False),
        (b'{"kind": "qa", "cases": []}', True),
        (b'{"cases": []}', True),
        (b'\xef\xbb\xbf{\r\n  "meta": {"gates": []},\r\n  "cases": [\r\n', True),
        (b"# ours\n%YAML 1.2\n--- {kind: rag}\n", True),
        (b"{meta: {x: 'it''s', y: \"a\\\"}\"}, # a } comment\n 'dataset' : locomo}", True),
        (b'{"a": "' + b"x" * 200_000 + b'", "cases": []}', True),
        (b'{"kind": "Deployment", "metadata": {"cases": [], "kind": "qa"}}', False),
        (b'{"kind": {"qa": 1}, "other": "rag", "distill": 2}', False),
        (b'{"x": "\\"cases\\": []", "y": ["cases", {"cases": 1}]}', False),
        (b'{"services": {}}\n--- \n{"cases": []}', False),
        (b"{", False),
        (b"{{ template }}\n", False),
        (b'{"open: [', False),
        # nothing is looked through over and over
        (b"{" + b'"a\\' * 300_000, False),
        (b"{" + b"'\"" * 300_001, False),
        (b"#\n" * 300_000 + b"{", False),
    ],
)
def test_f14_only_case_files_are_taken(tmp_path: Path, content: bytes, expected: bool) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    assert looks_like_case_file(path) is expected


@pytest.mark.parametrize("distance", range(-8, 9))
def test_the_line_is_found_across_a_piece_boundary(tmp_path: Path, distance: int) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#".ljust(65_536 + distance, b"x") + b"\ncases:\n")
    assert looks_like_case_file(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
def test_a_case_file_in_another_encoding_is_taken_so_that_its_error_shows(
    tmp_path: Path, encoding: str, order: str
) -> None:
    path = tmp_path / "x.yaml"
    for text, expected in [("# 记忆\ncases:\n", True), ("a: 1\n" * 40_000 + "kind: qa", True), ("services:\n", False)]:
        path.write_bytes(("\ufeff" + text).encode(f"{encoding}-{order}"))
        assert looks_like_case_file(path) is expected
    path.write_bytes(("\ufeffcases:\n").encode(f"{encoding}-{order}"))
    (problem,) = load_case_set(path).problems
    assert f"it looks like {encoding}, so save the file as UTF-8" in problem.message


def test_jsonl_is_always_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.memeval.jsonl"
    path.write_text("not even JSON", encoding="utf-8")
    assert looks_like_case_file(path)


def test_it_never_raises(tmp_path: Path) -> None:
    assert not looks_like_case_file(tmp_path)
    assert not looks_like_case_file(tmp_path / "none.yaml")
    assert not looks_like_case_file(Path("a\0b.yaml"))
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)  # opening it would wait for ever
    assert not looks_like_case_file(pipe)


ROW = b'{"case_id": "a", "conversation": "hi", "expected_l1": {"memories": []}}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("plain.jsonl", ROW, True),
        ("UP.JSONL", b'{"meta": {}}\n' + ROW, True),
        ("plain.json", b'{"meta": {}, "cases": [' + ROW + b"]}", True),
        ("plain.json", b'{"Cases": [' + ROW + b"]}", True),
        ("plain.json", b"[" + ROW + b"]", True),
        ("x.memeval.json", b"{}", True),
        ("X.MEMEVAL.JSONL", b"", True),
        ("UP.YAML", b"cases: []\n", True),
        ("UP.YAML", b"case: 1\n", False),
        ("report.json", b'{"schema_version": "1.0", "per_case": [' + ROW + b"]}", False),
        ("rows.jsonl", b'{"case_id": "a", "l1": []}\n', False),
        ("rows.jsonl", b'{"case_id": "a", "l1": [], "extra": {"conversation": "hi"}}\n', False),
        ("kept.jsonl", b'{"node_id": "c.yaml::a", "case_id": "a", "input": ' + ROW.strip() + b"}\n", False),
        ("kept.jsonl", b'{"node_id": "c.yaml::a", "case_id": "a", "input": ' + ROW.strip(), False),
        ("kept.jsonl", b'{"case_id": "a", "input": ' + ROW.strip() + b', "node_id": "c.yaml::a"}\n', False),
        ("broken.jsonl", b"{\n" + ROW, True),
        ("broken.jsonl", b"{" + ROW, True),
        ("answers.jsonl", b'{"question": "who?", "answer": "me"}\n', False),
        ("distractors.jsonl", b'{"content": "x"}\n', False),
        ("package.json", b'{"name": "x"}', False),
        ("notes.md", b"cases:\n", False),
        ("none.json", None, False),
    ],
)
def test_what_nobody_collects_by_its_name(tmp_path: Path, name: str, content: bytes | None, expected: bool) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert seems_forgotten(path) is expected
