"""One run shared out over several machines: which part of it is this one's.

Every machine collects everything and keeps the items whose node id falls to it, by a hash that is the same everywhere.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``index`` (from 1) of ``count``."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def holds(self, unit: str) -> bool:
        """Whether the unit (an item's node id, or what several items have in common) falls to this part."""
        return shard_of(unit, self.count) == self.index


def shard_of(unit: str, count: int) -> int:
    """The part, from 1, that a unit falls to: the same on every machine and in every version of Python."""
    digest = hashlib.sha256(unit.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % count + 1


def text_digest(path: Path) -> str | None:
    """A short hash of a text file, whatever its line ends; ``None`` where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:12]
    except OSError:
        return None


def parse_shard(text: str, where: str = "--memeval-shard") -> Shard:
    """Read ``2/5``. Raises SettingsError."""
    from pytest_memeval.options import SettingsError

    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"{where}: {text!r} is not of the form 2/5 (the second of five parts)")
    index, count = int(match[1]), int(match[2])
    if count < 1:
        raise SettingsError(f"{where}: {text!r}: there is no division into {count} parts; 2/5 is the second of five")
    if not 1 <= index <= count:
        raise SettingsError(f"{where}: there is no part {index} of {count}; the parts are 1/{count} to {count}/{count}")
    return Shard(index, count)
