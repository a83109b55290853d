"""A comparison on screen, on GitHub and in a browser: complete, escaped, in both languages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from compare_samples import cases, changed, counts_case, report_of

from pytest_memeval.compare.build import compare_reports
from pytest_memeval.compare.messages import _TEXTS, setting_title
from pytest_memeval.compare.model import Comparison
from pytest_memeval.compare.render_html import html_text
from pytest_memeval.compare.render_markdown import markdown_text
from pytest_memeval.compare.render_terminal import summary_lines, terminal_text
from pytest_memeval.metrics.sections import SectionRecord

EVIL = "<img src=x onerror=alert(1)></script>|`"


def with_memories(number: int, found: list[str], missed: list[str], *, text: str = "plays the cello") -> Any:
    record = counts_case(number, 2, len(missed), len(missed))
    details = {
        "pairs": [{"truth": 0, "pred": 0, "missed": missed, "extra": []}],
        "unmatched_pred": list(range(1, len(found))),
        "unmatched_truth": [],
        "truth": [{"content": text, "dimensions": ["habits"]}],
    }
    section = record.sections["l1"]
    own = SectionRecord(section.ratios, section.counts, section.tables, details)
    outputs = {"l1": [{"content": one, "dimensions": ["family"]} for one in found]}
    return replace(record, sections={"l1": own}, outputs=outputs)


@pytest.fixture
def comparison() -> Comparison:
    before = [with_memories(number, ["plays cello"], []) for number in range(1, 7)]
    after = [with_memories(number, ["plays cello", EVIL], ["habits"], text="plays the cello") for number in range(1, 7)]
    a = report_of(before, prompt_hashes={"l1_extraction": "a" * 64})
    b = changed(report_of(after, prompt_hashes={"l1_extraction": "b" * 64}), engine={"name": EVIL})
    texts = {"a" * 64: "one\nfamily: kin\n", "b" * 64: f"one\nsocial: {EVIL}\n"}
    return compare_reports(a, b, labels=("runs/a", EVIL), prompt_texts=texts)


class _Page(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_f19_html_is_escaped_and_needs_nothing_else(comparison: Comparison, lang: str) -> None:
    page = html_text(comparison, lang)
    parsed = _Page(page)
    assert not {"script", "img", "link", "iframe"} & parsed.tags
    assert not {name for name in parsed.attributes if name.startswith("on") or name in ("src", "href")}
    assert EVIL in parsed.text
    assert "//" not in page.replace("<!doctype html>", "")
    assert "-family: kin" in parsed.text
    assert "rgba(" in page


def test_markdown_shows_texts_as_text(comparison: Comparison) -> None:
    page = markdown_text(comparison)
    outside = re.sub(r"(`{3,})diff\n.*?\n\1", "", page, flags=re.DOTALL)
    assert "<img" not in re.sub(r"`[^`\n]*`", "", outside)
    assert "| `l1.dimension_micro_f1` |" in page or "`l1.dimension_micro_f1` |" in page
    assert "🟥" in page
    tables = [line for line in outside.splitlines() if line.startswith("|")]
    assert tables
    widths = []
    for line in tables:
        widths.append(len(re.findall(r"(?<!\\)\|", line)))
    assert len(set(widths)) > 1  # several tables, each with lines of one width
    assert all(line.endswith("|") for line in tables)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_terminal(comparison: Comparison, lang: str) -> None:
    plain = terminal_text(comparison, lang)
    assert "\033" not in plain
    assert plain.splitlines()[0].startswith({"en": "engine", "zh": "引擎"}[lang])
    coloured = terminal_text(comparison, lang, colour=True)
    assert "\033[48;5;" in coloured
    # Colours change nothing else.
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == plain
    assert "plays the cello [habits]" in plain


def test_the_summary_is_short_and_signed(comparison: Comparison) -> None:
    lines = [line for line, _ in summary_lines(comparison)]
    [main] = [line for line in lines if line.startswith("Δ l1.dimension_micro_f1")]
    assert re.search(r"= -0\.333 .*< runs/a\)", main)
    assert len(lines) < 20
    same = report_of(cases(4))
    last = summary_lines(compare_reports(same, same))[-1][0]
    assert last == "Nothing changed: 4 cases compared, all equal."


def test_json_is_plain_and_complete(comparison: Comparison) -> None:
    data = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert data["comparison_version"] == "1.1"
    assert {one["path"] for one in data["metrics"]} >= {"l1.dimension_micro_f1", "l1.total_tp"}
    assert data["confusions"][0]["change"] == "appeared"
    assert data["confusions"][0]["prompt_lines"] == ["-family: kin", f"+social: {EVIL}"]
    assert data["changes"][0]["memories"][0]["truth"]["content"] == "plays the cello"


def test_hidden_texts_leave_no_gap() -> None:
    before = report_of(
        [with_memories(1, ["x"], [])],
    )
    after = report_of([with_memories(1, ["x"], ["habits"])])
    for report in (before, after):
        for entry in report["per_case"]:
            entry["l1"]["details"].pop("truth")
            entry["outputs"]["l1"][0]["content"] = None
    shown = terminal_text(compare_reports(before, after))
    assert "memory 0" in shown
    assert "… [family]" in shown


def test_every_text_is_there_in_both_languages() -> None:
    for key, (english, chinese) in _TEXTS.items():
        fields = [set(re.findall(r"{(\w+)", text)) for text in (english, chinese)]
        assert fields[0] == fields[1], key
    assert setting_title("stage_input") == "stage input"
    assert setting_title("prompt l2_scene", "zh") == "提示词 l2_scene"


def test_equal_as_far_as_it_goes_is_not_called_all_equal() -> None:
    a = report_of(cases(3), matcher={"similarity": "indel", "threshold": 0.5})
    b = changed(a, matcher={"similarity": "hybrid", "threshold": 0.5})
    shown = terminal_text(compare_reports(a, b))
    assert "Matcher differs" in shown or "matcher differs" in shown
    assert "3 cases compared: all that can be compared is equal." in shown
    assert "Nothing changed" not in shown
    assert "Not compared" in shown
    assert "Nothing changed: 3 cases compared, all equal." in terminal_text(compare_reports(a, a))


def test_counts_are_shown_as_whole_numbers() -> None:
    a = report_of([counts_case(1, 1, 0, 1)], matcher={"similarity": "indel"})
    shown = terminal_text(compare_reports(a, changed(a, matcher={"similarity": "hybrid"})))
    row = next(line.split() for line in shown.splitlines() if "l1.total_fn" in line)
    assert row == ["l1.total_fn", "1", "1"]
    assert "1.000" not in next(line for line in shown.splitlines() if "l1.total_tp" in line)
    changes = terminal_text(compare_reports(a, report_of([counts_case(1, 2, 1, 0)], matcher={"similarity": "indel"})))
    assert not re.search(r"total_\w+ +[0-9]+\.[0-9]", changes)


def test_a_run_that_asked_no_model_names_no_prompts() -> None:
    a = report_of(cases(2), prompt_versions={"l1_extraction": "v002"})
    usage = {**a["usage"], "calls": 0}
    quiet = changed(a, usage=usage, config={"options": {}})
    assert compare_reports(quiet, quiet).a.prompts == "-"
    # Named by the user, for an engine that may well ask by itself, it is shown.
    named = changed(quiet, config={"options": {"prompt_version": "v002"}})
    assert compare_reports(named, named).a.prompts == "v002"
    asked = changed(quiet, usage={**usage, "calls": 3})
    assert compare_reports(asked, asked).a.prompts == "v002"
