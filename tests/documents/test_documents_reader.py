from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_memeval.documents import cache
from pytest_memeval.documents.canonical import content_hash
from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.documents.reader import parse_document, paused_gc, read_document, syntax_of


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.yaml"
    path.write_text(
        "items:\n" + "".join(f'  - {{id: {n}, text: "naïve 猫 {n}"}}\n' for n in range(9000)) + 'lone: "\\ud83d"\n',
        encoding="utf-8",
    )
    return path


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_the_suffix_decides_the_syntax() -> None:
    names = ["a.yaml", "a.yml", "a.memeval.jsonl", "a.JSON", "a.txt"]
    assert [syntax_of(Path(name)) for name in names] == ["yaml", "yaml", "jsonl", "json", "yaml"]
    assert parse_document('{"a": 1}', Path("a.txt"), syntax="json").root.value() == {"a": 1}


def test_strict_reading_raises_what_else_is_left_to_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\na: 2\n", encoding="utf-8")
    with pytest.raises(DocumentError, match="duplicate key 'a'"):
        read_document(path)
    assert len(read_document(path, strict=False).problems) == 1


def test_the_cache_gives_the_same_document(big: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "deep"
    plain = read_document(big)
    first = read_document(big, cache_dir=folder, prepare=lambda document: void(content_hash(document.root)))
    assert len(entries(folder)) == 1
    second = read_document(big, cache_dir=folder)
    for document in (first, second):
        assert document.root.value() == plain.root.value()
        assert document.tape.offsets == plain.tape.offsets
        assert document.lone_surrogates == plain.lone_surrogates != ()
    assert second.digests == {0: content_hash(plain.root)}
    assert second.place(second.tape.offsets[5]) == plain.place(plain.tape.offsets[5])


def void(_: object) -> None:
    return None


def test_a_changed_file_is_parsed_again(big: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    read_document(big, cache_dir=folder)
    with big.open("a", encoding="utf-8") as stream:
        stream.write("more: 1\n")
    more = read_document(big, cache_dir=folder).root.get("more")
    assert more is not None
    assert len(entries(folder)) == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "junk"])
def test_f12_a_damaged_cache_file_is_written_anew(big: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "cache"
    expected = read_document(big, cache_dir=folder).root.value()
    (entry,) = entries(folder)
    good = entry.read_bytes()
    middle = len(good) // 2
    damaged = {
        "truncate": good[:middle],
        "flip": good[:middle] + bytes([good[middle] ^ 0xFF]) + good[middle + 1 :],
        "empty": b"",
        "junk": b"\0" * 100,
    }[damage]
    entry.write_bytes(damaged)
    assert read_document(big, cache_dir=folder).root.value() == expected
    assert entry.read_bytes() == good
    assert entries(folder) == [entry]


def test_small_files_and_faulty_files_are_not_cached(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    small, faulty = tmp_path / "small.yaml", tmp_path / "faulty.yaml"
    small.write_text("a: 1\n", encoding="utf-8")
    faulty.write_text("a: 1\na: 2\n" + "# filler\n" * 40_000, encoding="utf-8")
    read_document(small, cache_dir=folder)
    read_document(faulty, cache_dir=folder, strict=False)
    assert entries(folder) == []


def test_an_unusable_cache_folder_is_no_error(big: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    assert read_document(big, cache_dir=blocked).root.get("items") is not None


def test_old_entries_are_removed(big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRIES", 2)
    folder = tmp_path / "cache"
    written: list[Path] = []
    for number in range(3):
        with big.open("a", encoding="utf-8") as stream:
            stream.write(f"more{number}: 1\n")
        read_document(big, cache_dir=folder)
        (new,) = set(entries(folder)) - set(written)
        os.utime(new, (number + 1, number + 1))
        written.append(new)
    assert entries(folder) == sorted(written[1:])


def _read(arguments: tuple[str, str]) -> int:
    path, folder = arguments
    items = read_document(Path(path), cache_dir=Path(folder)).root.get("items")
    assert items is not None
    return sum(1 for _ in items.elements())


def test_f12_processes_share_the_cache(big: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(_read, [(str(big), str(folder))] * 6) == [9000] * 6
    assert [entry.suffix for entry in entries(folder)] == [".parsed"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with contextlib.suppress(ZeroDivisionError), paused_gc():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_content_hashes_do_not_depend_on_format_or_order() -> None:
    def digest(text: str, name: str = "x.yaml") -> str:
        return content_hash(parse_document(text, Path(name)).root)

    first = digest("a: x\nb: [1, 'y', null, true]\nc: {d: }\n")
    assert digest("# c\nc:\n  d: ~\nb:\n  - 1\n  - y\n  - ~\n  - True\n'a': \"x\"\n") == first
    assert digest('{"b": [1, "y", null, true], "c": {"d": null}, "a": "x"}', "x.json") == first
    others = [
        "a: x\nb: ['1', y, null, true]\nc: {d: }\n",
        "a: x\nb: [y, 1, null, true]\nc: {d: }\n",
        "a: x \nb: [1.0, y, null, true]\nc: {d: }\n",
        "a: x\nb: [1, y, null, true]\nc: {}\n",
        "a: x\nb: [1, y, null, true, [c, {d: }]]\n",
    ]
    assert len({first, *map(digest, others)}) == 1 + len(others)


def test_f21_no_default_encoding_is_used(big: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pytest_memeval.documents.reader import read_document\n"
        "for _ in range(2): document = read_document(Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))\n"
        "assert '猫' in next(iter(document.root.get('items').elements())).get('text').text"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    subprocess.run([*command, str(big), str(tmp_path / "cache")], check=True, env={**os.environ, "PYTHONPATH": ROOT})


ROOT = str(Path(__file__).parents[2])
