"""Whether a text refuses to answer, by rule, in English and Chinese.

A text is read clause by clause. A clause refuses where *what was asked of* lacks the answer: the answerer ("I don't
know"), the source ("the notes do not say"), the user ("you never told me"), or nobody in particular ("not mentioned").
What other people do not know or did not say ("she doesn't know how to swim") is an answer. Quoted words do not count.
The last word counts: "not mentioned, but it is X" answers, "he ran it, but his time is not given" refuses.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from pytest_memeval.judge.refusal_words import (
    ANCHORED_EN,
    ANCHORED_ZH,
    ANYWHERE_EN,
    ANYWHERE_ZH,
    CAUSE_ZH,
    CONCESSION_EN,
    CONCESSION_ZH,
    CONTRAST_EN,
    CONTRAST_ZH,
    DENIAL,
    FILLER_EN,
    FILLER_ZH,
    GUESS_EN,
    GUESS_ZH,
    IDLE_EN,
    IDLE_ZH,
    MANNER_ZH,
    REPORTED_EN,
    REPORTED_ZH,
    SOURCE_ZH,
    WHOLE,
)

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|「[^」]*」|『[^』]*』|《[^》]*》|(?<!\w)'[^']*'(?!\w)")
_QUOTES = "\"“「『'‘"
_END_QUOTES = "\"”」』'"
_ENDS = " \t\r\n.!。"
_OPENING, _CLOSING, _WORD = re.compile(r"[\"“「『]"), re.compile(r"[\"”」』]"), re.compile(r"\w")
_WRAPPING = " \t\r\n\"'“”‘’「」『』`*_()[]<>"
_CLAUSE = re.compile(
    r"[.!?;:,\n。!?;:,、…—]+(?=\s|$|[\u3400-\u9fff])|(?<=[\u3400-\u9fff])[,;:!?.]+|\s+-+\s+|(?=\s(?:but|however"
    r"|yet)\s)"
    r"|(?=\bso (?:the|i|we|it)\b)|(?=\s(?:and|but) (?:later|eventually|finally|afterwards|in the end)\b)"
)


def _compiled(filler: str, anchored: tuple[str, ...], anywhere: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return (re.compile(rf"^{filler}(?:{'|'.join(anchored)})"), re.compile("|".join(anywhere)))


_EN_START, _EN_ANY = _compiled(FILLER_EN, ANCHORED_EN, ANYWHERE_EN)
_ZH_START, _ZH_ANY = _compiled(FILLER_ZH, ANCHORED_ZH, ANYWHERE_ZH)
_CJK = re.compile(r"[\u3400-\u9fff]")
#: A longer text than this is read in part: its head and tail, where a refusal stands.
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class _Clause:
    refuses: bool
    contrasts: bool
    concedes: bool


def is_unanswerable(text: str | None) -> bool:
    """Whether ``text`` says that the question cannot be answered.

    True also for ``None``, an empty text, ``n/a``, ``na``, ``none``, ``null`` and ``unanswerable``, in any case and
    inside quotes. A bare "no" (``没有``) is an answer.
    """
    folded = unicodedata.normalize("NFKC", text or "").casefold().replace("’", "'").replace("‘", "'")
    folded = " ".join(folded.split()) if "\n" not in folded else folded.strip()
    bare = _without_end_quotes(folded).strip(_WRAPPING).strip(_WRAPPING + ".!。")
    if not bare or bare in WHOLE:
        return True
    if len(bare) > _LONGEST:
        bare = f"{bare[: _LONGEST // 2]}\n{bare[-_LONGEST // 2 :]}"
    refused = False
    for clause in _clauses(bare):
        if clause.refuses:
            refused = refused or not clause.concedes
        elif clause.contrasts:
            refused = False
    return refused


def _without_end_quotes(text: str) -> str:
    """The text without a quotation at its beginning or its end that stands beside words of another: ``"I have no idea"
    was his answer``. One that is all of the text stays: its quotes are mere wrapping."""
    stripped = text.strip(_WRAPPING + ".!。")
    if not stripped or stripped.count('"') > 1:
        return text
    if text.strip()[0] in _QUOTES:
        closing = _CLOSING.search(stripped)
        rest = stripped[closing.end() :] if closing is not None else ""
        if closing is not None and not _OPENING.search(stripped[: closing.start()]) and _WORD.search(rest):
            stripped = rest
    if text.strip(_ENDS)[-1:] in _END_QUOTES:
        opening = max((found.start() for found in _OPENING.finditer(stripped)), default=-1)
        if opening >= 0 and not _CLOSING.search(stripped[opening + 1 :]) and _WORD.search(stripped[:opening]):
            stripped = stripped[:opening]
    return stripped


def _of_others(clause: str) -> bool:
    """Whether a Chinese clause says what other people lacked."""
    if MANNER_ZH.search(clause):
        return True
    return bool(CAUSE_ZH.search(clause)) and not SOURCE_ZH.search(clause)


def _clauses(text: str) -> list[_Clause]:
    # What is quoted was said by somebody; a text that is all quotation has lost its quotes before.
    unquoted = _QUOTED.sub(" ~ ", text)
    parts = [part.strip(_WRAPPING + "~.") for part in _CLAUSE.split(unquoted) if part]
    return [_english(part) if not _CJK.search(part) else _chinese(part) for part in parts if part]


def _english(part: str) -> _Clause:
    concedes = bool(CONCESSION_EN.search(part))
    refuses = bool(_EN_START.search(part)) or (not REPORTED_EN.search(part) and _anywhere_en(part))
    contrasts = bool(CONTRAST_EN.search(part)) and not IDLE_EN.search(part)
    return _Clause(refuses, contrasts or bool(GUESS_EN.search(part)), concedes)


def _anywhere_en(part: str) -> bool:
    found = _EN_ANY.search(part)
    # "is mentioned" fits the passive's form; only its denial refuses.
    return found is not None and bool(DENIAL.search(found[0]))


def _chinese(part: str) -> _Clause:
    compact = "".join(part.split())
    concedes = bool(CONCESSION_ZH.search(compact)) or "虽然" in compact
    refuses = not _of_others(compact) and (
        bool(_ZH_START.search(compact)) or (not REPORTED_ZH.search(compact) and bool(_ZH_ANY.search(compact)))
    )
    contrasts = bool(CONTRAST_ZH.search(compact)) and not IDLE_ZH.search(compact)
    return _Clause(refuses, contrasts or bool(GUESS_ZH.search(compact)), concedes)
