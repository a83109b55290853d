"""Whoever silences a checker says why."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SILENCED = re.compile(r"type:\s*ignore|noqa", re.IGNORECASE)
#: The rules by name, then the reason.
EXPLAINED = re.compile(r"# (type: ignore\[[a-z, -]+\]|noqa: [A-Z]+\d+(, [A-Z]+\d+)*)  # \w.*")


def silencers(path: Path) -> Iterator[tuple[int, str]]:
    """(line, comment) of every comment of the file that silences a checker."""
    if SILENCED.search(path.read_text(encoding="utf-8")) is None:  # tokens take their time
        return
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type == tokenize.COMMENT and SILENCED.search(token.string):
                yield token.start[0], token.string


def test_every_silenced_rule_is_named_and_has_its_reason() -> None:
    files = [
        *ROOT.glob("*.py"),
        *(file for part in ("pytest_memeval", "tests", "docs") for file in ROOT.joinpath(part).rglob("*.py")),
    ]
    assert len(files) > 300
    found = [(path.relative_to(ROOT).as_posix(), line, text) for path in files for line, text in silencers(path)]
    assert [one for one in found if EXPLAINED.fullmatch(one[2]) is None] == []


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("x = 1  # type: ignore[misc]  # xdist has no types", True),
        ("x = 1  # noqa: B018, F401  # read for its check", True),
        ("x = 1  # type: ignore[misc]", False),
        ("x = 1  # type: ignore  # why not", False),
        ("x = 1  # noqa", False),
        ("x = 1  # noqa: B018 - a reason behind a dash", False),
    ],
)
def test_a_reason_is_told_from_none(tmp_path: Path, line: str, good: bool) -> None:
    file = tmp_path / "x.py"
    file.write_text(f'text = "# noqa"\n{line}\n', encoding="utf-8")
    [(number, comment)] = silencers(file)
    assert number == 2
    assert (EXPLAINED.fullmatch(comment) is not None) is good
