from __future__ import annotations

import re
from string import Formatter

import pytest

from pytest_memeval.report import messages
from pytest_memeval.report.messages import run_note, sentence, text
from pytest_memeval.report.texts.run_notes import RUN_NOTES


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@pytest.mark.parametrize("key", sorted(messages._TEXTS))
def test_both_languages_say_the_same_values(key):
    english, chinese = messages._TEXTS[key]
    assert fields(english) == fields(chinese)
    assert english
    assert chinese


@pytest.mark.parametrize("key", sorted(key for key in messages._TEXTS if key.startswith(("reason.", "note."))))
def test_reasons_and_notes_are_sentences_in_both_languages(key):
    english, chinese = messages._TEXTS[key]
    assert english.endswith(".")
    assert chinese.endswith("。")
    assert re.search("[一-鿿]", chinese)
    assert not re.search("[一-鿿]", english)


def test_an_unknown_text_is_an_error():
    with pytest.raises(KeyError):
        text("no.such.text")
    with pytest.raises(KeyError):
        sentence("no_such_reason")


@pytest.mark.parametrize("key", RUN_NOTES)
def test_what_a_run_stores_in_english_is_read_in_chinese(key: str) -> None:
    names = [name for _, name, _, _ in Formatter().parse(RUN_NOTES[key][0]) if name]
    values = {name: "17" if name == "count" else f"«{place}.5: (x)»" for place, name in enumerate(names)}
    stored = text(f"run_note.{key}", **values)
    assert run_note(stored) == stored
    shown = run_note(stored, "zh")
    assert shown == text(f"run_note.{key}", "zh", **values)
    assert all(value in shown for value in values.values())
    assert "{" not in shown
    # One of them is not taken for another, and what a set says of itself stays as it is.
    assert run_note(f"x.yaml: {stored}!", "zh") == f"x.yaml: {stored}!"
