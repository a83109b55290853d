"""Protects characters that a YAML 1.1 parser would refuse or change, and gives them back afterwards.

Two things differ from what authors (and YAML 1.2) expect: an escaped surrogate pair such as ``"\\ud83d\\ude00"``, which
JSON writers emit, is refused; and U+0085, U+2028 and U+2029 inside a text count as line ends. Each is replaced by an
unused private-use character (or its escape) of the same length, so that every position stays what it was.
"""

from __future__ import annotations

import re
from bisect import bisect_left

#: An escape of half a surrogate pair, behind an even number of backslashes.
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(u[dD][89a-fA-F][0-9a-fA-F]{2})")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LINE_CHARACTERS = "\x85\u2028\u2029"
_LONE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def has_surrogate_escape(text: str) -> bool:
    """Whether ``text`` may hold an escaped surrogate half."""
    return "\\u" in text and _SURROGATE_ESCAPE.search(text) is not None


def mend_surrogates(value: str) -> tuple[str, bool]:
    """Join surrogate pairs; a lone half becomes U+FFFD. Returns the text and whether there was a lone half."""
    if _LONE.search(value) is None:
        return value, False
    value = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), value)
    mended = _LONE.sub("\ufffd", value)
    return mended, mended != value


class Shield:
    """``text`` is what to parse; :meth:`restore` turns a parsed scalar back. Inactive where nothing needs shielding."""

    def __init__(self, source: str) -> None:
        self.text = source
        self._escapes: list[str] = []
        self._offsets: list[int] = []
        self._escape_mark = ""
        self._line_marks: dict[int, str] = {}
        self._taken: set[str] = set()
        present = [character for character in _LINE_CHARACTERS if character in source]
        if present:
            table = {ord(character): self._unused(source) for character in present}
            self._line_marks = {ord(mark): chr(code) for code, mark in table.items()}
            self.text = self.text.translate(table)
        if has_surrogate_escape(source):
            self._escape_mark = self._unused(source)
            self.text = _ESCAPE.sub(self._shield_escape, self.text)

    @property
    def active(self) -> bool:
        return bool(self._line_marks or self._escapes)

    def restore(self, value: str, offset: int, style: str | None) -> tuple[str, bool]:
        """The scalar that starts at ``offset`` as its author wrote it, and whether it had a lone surrogate half."""
        lone = False
        double_quoted = style == '"'
        if self._escapes:
            mark = self._escape_mark if double_quoted else f"\\u{ord(self._escape_mark):04x}"
            if mark in value:
                first, *rest = value.split(mark)
                at = bisect_left(self._offsets, offset)
                parts = [first]
                for following in rest:
                    escape = self._escapes[at]
                    parts += [chr(int(escape[1:], 16)) if double_quoted else f"\\{escape}", following]
                    at += 1
                value = "".join(parts)
                if double_quoted:
                    value, lone = mend_surrogates(value)
        if self._line_marks:
            if style == "'":
                # YAML 1.1 dumpers indent after such a character, and use double quotes where a space belongs there
                for code in self._line_marks:
                    value = re.sub(f"{chr(code)} +", chr(code), value)
            value = value.translate(self._line_marks)
        return value, lone

    def _shield_escape(self, match: re.Match[str]) -> str:
        self._escapes.append(match[2])
        self._offsets.append(match.start(2))
        return f"{match[1]}\\u{ord(self._escape_mark):04x}"

    def _unused(self, source: str) -> str:
        lowered = source.lower() if "\\u" in source.lower() else ""
        for code in range(0xE000, 0xF900):
            mark = chr(code)
            if mark not in source and mark not in self._taken and f"{code:04x}" not in lowered:
                self._taken.add(mark)
                return mark
        raise ValueError("every private-use character is taken")
