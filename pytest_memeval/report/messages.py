"""Every text of reports and of the terminal summary, in English or Chinese; the texts are in ``texts``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_memeval.metrics.catalog import spec_of
from pytest_memeval.report.languages import in_language, worded
from pytest_memeval.report.texts.notes import NOTE_TEXTS, VECTOR_TEXTS
from pytest_memeval.report.texts.page import PAGE_TEXTS
from pytest_memeval.report.texts.plan import PLAN_TEXTS
from pytest_memeval.report.texts.questions import QUESTION_TEXTS
from pytest_memeval.report.texts.reasons import REASON_TEXTS
from pytest_memeval.report.texts.run_notes import RUN_NOTES
from pytest_memeval.report.texts.stopping import STOP_NOTES, STOP_SENTENCES, STOP_TEXTS
from pytest_memeval.report.texts.terminal import TERMINAL_TEXTS, TRIAL_TEXTS
from pytest_memeval.report.texts.views import VIEW_TEXTS
from pytest_memeval.report.texts.words import STATUS_TEXTS, WORD_TEXTS

#: Prefix of a text's key → the table that holds it; words have none.
_TABLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "vectors": VECTOR_TEXTS,
    "status": STATUS_TEXTS,
    "reason": {**REASON_TEXTS, **STOP_SENTENCES},
    "note": {**NOTE_TEXTS, **STOP_NOTES},
    "run_note": RUN_NOTES,
    "stopping": STOP_TEXTS,
    "terminal": TERMINAL_TEXTS,
    "trials": TRIAL_TEXTS,
    "plan": PLAN_TEXTS,
    "html": PAGE_TEXTS,
    "question": QUESTION_TEXTS,
    "view": VIEW_TEXTS,
}
_TEXTS: Mapping[str, tuple[str, str]] = {
    **{f"{prefix}.{key}": pair for prefix, table in _TABLES.items() for key, pair in table.items()},
    **WORD_TEXTS,
    "stopping": STOP_TEXTS["title"],
}


def text(key: str, lang: str = "en", **values: Any) -> str:
    """The text named ``key`` with its values put in. An unknown key raises KeyError."""
    return worded(_TEXTS, key, lang, values)


def run_note(note: str, lang: str = "en") -> str:
    """A note that a run stored in English, in another language where it is one of :data:`RUN_NOTES`; what a set says of
    itself stays as it is."""
    if lang == "en":
        return note
    for key, pattern in _note_patterns().items():
        found = pattern.fullmatch(note)
        if found is not None:
            return text(f"run_note.{key}", lang, **found.groupdict())
    return note


@cache
def _note_patterns() -> Mapping[str, re.Pattern[str]]:
    def group(found: re.Match[str]) -> str:
        return r"(?P<count>\d+)" if found[1] == "count" else f"(?P<{found[1]}>.+?)"

    return {
        key: re.compile(re.sub(r"\\\{(\w+)\\\}", group, re.escape(english)), re.DOTALL)
        for key, (english, _) in RUN_NOTES.items()
    }


def cases_text(count: int, lang: str = "en") -> str:
    """``1 case``, ``2 cases``."""
    return text("one_case" if count == 1 else "many_cases", lang, count=count)


def sentence(reason_id: str, lang: str = "en", values: Mapping[str, Any] | None = None) -> str:
    """A gate's reason as a sentence."""
    values = dict(values or {})
    if "why_id" in values:  # a reason that names another one
        values["why"] = sentence(values["why_id"], lang, values["why_values"])
    return text(f"reason.{reason_id}", lang, **values)


def metric_title(path: str, lang: str = "en") -> str:
    """A metric's name for people: ``dimension micro F1``; the path itself for one that the catalogue lacks."""
    base, _, key = path.partition("{")[0].partition(".")
    name, _, inner = key.partition(".")
    plain, _, cut = name.partition("@")
    spec = spec_of(f"{base}.{plain}")
    if spec is None:
        return path
    title = in_language((spec.en, spec.zh), lang)
    return title + (f"@{cut}" if cut else "") + (f" {inner}" if inner else "")
