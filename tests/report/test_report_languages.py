"""How a text is found in a table of both languages."""

from __future__ import annotations

import pytest

from pytest_memeval.report.languages import LANGUAGES, in_language, worded

TEXTS = {"files": ("{count} files", "{count} 个文件"), "none": ("nothing", "无")}


def test_each_language_has_its_place() -> None:
    pair = ("English", "中文")
    assert tuple(in_language(pair, lang) for lang in LANGUAGES) == pair
    assert in_language(pair, "fr") == "English"


def test_values_are_put_in_and_what_is_missing_is_told() -> None:
    assert [worded(TEXTS, "files", lang, {"count": 3}) for lang in LANGUAGES] == ["3 files", "3 个文件"]
    assert worded(TEXTS, "files", "en", {}) == "{count} files"
    assert worded(TEXTS, "none", "zh", {}) == "无"
    for key, values in (("folders", {}), ("files", {"number": 3})):
        with pytest.raises(KeyError):
            worded(TEXTS, key, "en", values)
