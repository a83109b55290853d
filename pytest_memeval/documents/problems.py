"""What is wrong with an input file, said so that its author can mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from json import JSONDecodeError


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where it is (1-based line and column, 0 where unknown), what it is, what was perhaps meant."""

    path: Path
    line: int
    column: int
    message: str
    case_id: str | None = None

    def __str__(self) -> str:
        place = str(self.path)
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        # An id with a control character is one of the problems, and is not to steer the terminal that shows it.
        case = f" [{self.case_id if self.case_id.isprintable() else ascii(self.case_id)[1:-1]}]" if self.case_id else ""
        return f"{place}:{case} {self.message}"


class DocumentError(Exception):
    """A file that cannot be used, with all its problems at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def json_fault(error: JSONDecodeError) -> str:
    """What is wrong with a text that is no JSON, in words that need no position behind them."""
    if error.msg.startswith("Unterminated string"):
        return "a string is not closed"
    if error.msg.startswith("Invalid control character"):
        # Mostly a line that was cut off: its string goes on into the next.
        rest = error.doc[error.pos : error.pos + 1]
        return "a string is not closed on its line" if rest in ("\n", "\r") else "a control character in a string"
    if error.msg.startswith("Invalid \\escape"):
        return "a backslash that begins no escape"
    return error.msg.removesuffix(" at")


def shown(text: str, limit: int = 60) -> str:
    """Text in quotes for a message: the beginning of one that is long."""
    return repr(text if len(text) <= limit else f"{text[:limit]}…")


def nearest(value: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The choice most like ``value`` (normalised indel similarity, case folded), or ``None`` below ``cutoff``."""
    # Imported where used: a start of pytest that meets no problem pays nothing for it.
    from rapidfuzz import process
    from rapidfuzz.distance import Indel

    best = process.extractOne(
        value.casefold(),
        {choice: choice.casefold() for choice in choices},
        scorer=Indel.normalized_similarity,
        score_cutoff=cutoff,
    )
    return None if best is None else str(best[2])


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """A suffix for a message: the nearest choice, else the list of the known ones (the first twelve)."""
    known = list(dict.fromkeys(choices))
    guess = nearest(value, known)
    if guess is not None:
        return f"; did you mean {guess!r}?"
    if not known:
        return ""
    listed = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
    return f"; known: {listed}"
