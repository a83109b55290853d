"""Text into the tokens that word search compares; the same function reads documents and queries.

Scripts written without spaces (Chinese, Japanese, Korean, Thai and others) give every character and every pair of
neighbours, so that a query of one or two characters finds what contains it. Everything else gives words. A compound
(``pre-edit``, ``10:30``, ``get_user_id``, ``getUserId``, ``a/b.py``) gives itself and its parts; ``C++`` and ``C#`` are
words of their own, not a ``c`` with punctuation behind it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

#: Characters of scripts without spaces between words, as ranges of a regular expression's character class.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c"  # 々 〆 〇 and numerals
    "\u3040-\u3098\u309d-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7a3"  # Hangul
    "\U0001b000-\U0001b16f"  # rare Kana
    "\U00020000-\U0003ffff"  # rare Han
)
#: Arrows, pictures, emoji: each is a token.
_PICTURES = "\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
#: What may stand inside a compound between two word characters.
_JOINERS = "'’_\\-‐‑.,:/@+#&"
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\Z")


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(pieces of a text, parts of a compound); made when first used."""
    # Vowel signs and accents continue a word, though Python's \w leaves them out.
    marks = "".join(chr(code) for code in range(0x300, 0xFE30) if unicodedata.category(chr(code))[0] == "M")
    marks = re.sub(f"[{_UNSPACED}\ufe0e\ufe0f\u20d0-\u20ff]", "", marks)
    letter = f"[^\\W_{_UNSPACED}{_PICTURES}]"
    word = f"{letter}(?:{letter}|[{marks}])*"
    # A sign of the name only where no further word follows: C++, C#, but not the joiner of a+b.
    signed = f"{word}(?:(?:\\+\\+|#)(?!{letter}))?"
    compound = f"_*{word}(?:(?:\\+\\+|[{_JOINERS}]|__+){letter}(?:{letter}|[{marks}])*)*(?:(?:\\+\\+|#)(?!{letter}))?"
    pieces = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|(?P<picture>[{_PICTURES}])|(?P<word>{compound})")
    parts = re.compile(f"{word}\\+\\+|{signed}")
    return pieces, parts


def search_tokens(text: str) -> list[str]:
    """The tokens of ``text`` in its order, NFKC and case folded; repeated as often as they occur, ``[]`` for none.

    No token holds white space or control characters. Punctuation alone gives nothing.
    """
    return list(_tokens(unicodedata.normalize("NFKC", text)))


def _tokens(text: str) -> Iterator[str]:
    for piece in _patterns()[0].finditer(text):
        found = piece.group()
        if piece.lastgroup == "unspaced":
            found = found.casefold()
            yield from found
            yield from (found[at : at + 2] for at in range(len(found) - 1))
        elif piece.lastgroup == "picture":
            yield found
        else:
            yield from _word_tokens(found)


def _word_tokens(compound: str) -> Iterator[str]:
    """The whole, then the parts at joiners, then the parts of each identifier."""
    whole = _folded(compound.strip("_"))
    yield whole
    seen = {whole}
    if _THOUSANDS.match(compound):
        plain = compound.replace(",", "")
        seen.add(plain)
        yield plain
    for index, part in enumerate(_patterns()[1].findall(compound)):
        for token in (part, *_identifier_parts(part)):
            folded = _folded(token)
            # The s of user's and the t of don't say nothing.
            if folded in seen or (index and len(folded) == 1 and folded in "stdm" and "'" in whole):
                continue
            seen.add(folded)
            yield folded


def _identifier_parts(word: str) -> list[str]:
    """The parts of ``getUserId`` and ``HTTPServer2``; nothing for a word of one part."""
    if word.isalpha() and (word.islower() or word.isupper()):
        return []
    starts = [0, *(at for at in range(1, len(word)) if _starts_part(word, at)), len(word)]
    return [word[start:end] for start, end in pairwise(starts)] if len(starts) > 2 else []


def _starts_part(word: str, at: int) -> bool:
    before, here = word[at - 1], word[at]
    if not here.isalnum():
        return False
    if here.isdigit() != before.isdigit():
        return True
    # fooBar | HTTPServer: the last capital of a run belongs to the word that follows.
    return here.isupper() and (before.islower() or (before.isupper() and word[at + 1 : at + 2].islower()))


def _folded(text: str) -> str:
    # Folding can undo a composition (İ), and the apostrophe and the hyphen have several forms.
    folded = unicodedata.normalize("NFKC", text.casefold())
    return folded.replace("’", "'").replace("‐", "-").replace("‑", "-")


@lru_cache(maxsize=4096)
def is_unspaced(character: str) -> bool:
    """Whether the character belongs to a script without spaces between words."""
    return re.match(f"[{_UNSPACED}]", character) is not None
