from __future__ import annotations

import re
from string import Formatter

import pytest

from pytest_memeval.report import messages
from pytest_memeval.report.messages import sentence, text


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
