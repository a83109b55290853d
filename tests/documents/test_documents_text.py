from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.documents.reader import MAX_BYTES, read_document, read_text
from pytest_memeval.documents.text import decode, read_bytes, read_lines


def fault(content: bytes) -> Problem:
    with pytest.raises(DocumentError) as caught:
        decode(content, Path("x.yaml"))
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        ("cases:\n  - 用户在深圳做后端开发\n", "gb18030", "gb18030"),
        ("notes: café, über, señor\n", "latin-1", "latin-1"),
        ("notes: 你好\n", "utf-16", "utf-16"),
        ("notes: hello there\n", "utf-16-le", "utf-16"),
        ("notes: hello\n", "utf-32", "utf-32"),
    ],
)
def test_other_encodings_are_named(text: str, encoding: str, guess: str) -> None:
    # without a mark, UTF-16 of ASCII is valid UTF-8 (with NULs), so give it one character that is not
    content = text.encode(encoding) + (b"\xe9\x00" if encoding == "utf-16-le" else b"")
    assert f"it looks like {guess}," in fault(content).message


def test_byte_offset_and_place_of_the_first_bad_byte() -> None:
    content = "a: é\nb: ok ".encode() + b"\xff tail"
    problem = fault(content)
    assert (problem.line, problem.column) == (2, 7)
    assert f"byte 0xff at offset {content.index(0xFF)}" in problem.message
    marked = fault(codecs.BOM_UTF8 + content)
    assert f"offset {content.index(0xFF) + 3}" in marked.message


def test_f34_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    for name, text in (
        ("a.yaml", "a: 1\r\nb: |\r\n  x\r\n  y\r\n"),
        ("a.json", '{\r\n "a": 1,\r\n "b": "x\\ny\\n"}\r\n'),
    ):
        path = tmp_path / name
        path.write_bytes(codecs.BOM_UTF8 + text.encode())
        document = read_document(path)
        assert document.root.value() == {"a": 1, "b": "x\ny\n"}
        assert [key.place for key, _ in document.root.items()] == (
            [(1, 1), (2, 1)] if name == "a.yaml" else [(2, 2), (3, 2)]
        )
    assert read_text(tmp_path / "a.yaml").startswith("a: 1")


def test_f35_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(2**40)  # more than there is memory to read it into
    with pytest.raises(DocumentError, match=r"too large: 1048576\.0 MB, the limit is 50 MB"):
        read_document(path)


def test_the_limit_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"x" * 11)
    assert read_bytes(path, max_bytes=11) == b"x" * 11
    with pytest.raises(DocumentError, match="too large"):
        read_bytes(path, max_bytes=10)
    assert MAX_BYTES == 50 * 2**20


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no such file"):
        read_bytes(tmp_path / "none.yaml")
    with pytest.raises(DocumentError, match="not a file"):
        read_bytes(tmp_path)


def test_lines_of_a_file_of_records(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for content, lines in ((b"", [""]), (b"\xef\xbb\xbfa\r\n\nb", ["a", "", "b"]), (b"a\n", ["a", ""])):
        path.write_bytes(content)
        assert read_lines(path) == lines
    path.write_bytes(b"a\n\xff")
    with pytest.raises(DocumentError, match=r"x\.jsonl.*not UTF-8 \(byte 2\)"):
        read_lines(path)
    with pytest.raises(DocumentError, match=r"none\.jsonl.*cannot be read: No such file"):
        read_lines(tmp_path / "none.jsonl")
