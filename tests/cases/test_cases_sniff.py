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
        # the head of a case set whose cases are lost, and what other tools call meta
        (b'meta: {gates: ["P0 l1.memory_recall >= 0.9"]}\n', True),
        (b"meta:\n  version: v1\n  gates: []\n", True),
        (b"# ours\n---\n'meta':\n    description: |\n      text: of theirs\n    \"gates\": []\n", True),
        (b"meta:\n  timezone: UTC\n  total_cases: 3\nrows: []\n", True),
        (b'{"meta": {"version": "v1", "gates": []}}', True),
        (b"meta:\n  registry: own.yaml\n", True),
        (b"meta: {templates: own, prompts: p}\nkind: distil\n", True),
        ("\ufeffmeta:\n  gates: []\n".encode("utf-16-le"), True),
        (b"meta:\r\n  gates: []\r\n", True),
        (b"meta:\n  registry: ghcr.io\nimage: web\n", False),
        (b"meta: {prompts: 3}\nservices: {}\n", False),
        (b"meta:\n  version: 1\n  description: x\n  timezone: UTC\n", False),
        (b"meta:\n  theirs:\n    gates: []\n", False),
        (b"meta: gates\n", False),
        (b"meta:\n# gates: []\n  #gates: []\n", False),
        (b"other:\n  meta:\n    gates: []\n", False),
        (b"meta: {x: {gates: []}}\n", False),
        (b"meta: {}\ngates: []\nother:\n  gates: []\n", False),
        (b'{"other": {"meta": {"gates": []}}}', False),
        (b'{"meta": {"x": {"gates": []}}}', False),
        (b"metadata:\n  gates: []\n", False),
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
        (b"meta: {" * 20_000, False),
        (b"meta: {\n" * 20_000, False),
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


#: The beginnings of other tools' files.
FOREIGN = {
    "compose": "services:\n  web:\n    image: web\n    labels: {meta: x}\n",
    "workflow": "name: CI\non: {push: {}}\njobs:\n  gates:\n    runs-on: ubuntu-latest\n    steps: []\n",
    "mkdocs": "site_name: x\nextra:\n  meta:\n    gates: []\nnav: []\n",
    "k8s": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata: {meta: y}\n",
    "helm": "meta:\n  registry: ghcr.io\n  version: 1.0\nreplicas: 2\n",
    "openapi": "openapi: 3.1.0\ninfo: {title: x}\ntags: []\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_tools_are_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(FOREIGN[name], encoding="utf-8")
    assert not looks_like_case_file(path)
    assert not seems_forgotten(path)


@pytest.mark.parametrize("name", ["x.memeval.yaml", "x.memeval.yml", "UP.MEMEVAL.YAML"])
@pytest.mark.parametrize("content", [b"", b"# a\n# b\n", b"---\n", b"services: {}\n", b"\xff\xfe\x00"])
def test_a_name_that_says_it_is_enough(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert looks_like_case_file(path)
    assert seems_forgotten(path)
    assert load_case_set(path).problems
    assert not looks_like_case_file(tmp_path / "other.memeval.yaml")  # which is not there


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
