"""Questions, samples, searches, trials, languages, narrow windows and paper: the page in a real browser."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from browser_bench import MARKS
from kind_samples import injection, qa_info, question, rag_info, sample, search, trial
from report_samples import full_case, run_info, set_info

from pytest_memeval.report.build import build_report
from pytest_memeval.report.html.page import html_page

pytestmark = MARKS
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"


def kinds(word: str = "") -> dict[str, Any]:
    """A report with a case of every kind; every text holds the word."""
    several = (trial(0, None), trial(1, f"a lamp {word}"), trial(2, word, "errored"))
    records = [
        *(question(n, word=word, right=n % 2 == 0) for n in range(1, 5)),
        question(5, word=word, trials=several),
        *(sample(n, word=word) for n in (1, 2)),
        search(word=word),
        injection(word=word),
        full_case(1),
    ]
    return build_report(run_info(), [set_info(), qa_info(), rag_info()], records)


def case(browser: Any, name: str) -> Any:
    """The view of a case, opened."""
    row = browser.find_element("css selector", f"tr.row[data-case$='{name}']")
    row.find_element("css selector", "button").click()
    return row.find_element("xpath", "following-sibling::tr[1]")


def rows(browser: Any) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('tr.row')].filter((row) => !row.hidden).map((row) => row.dataset.case)"
    )
    return found


def choose(browser: Any, **wanted: str) -> list[str]:
    browser.execute_async_script(
        """const [wanted, done] = arguments; const form = document.getElementById("filters");
        for (const [name, value] of Object.entries(wanted)) form.elements[name].value = value;
        form.dispatchEvent(new Event("input", { bubbles: true })); setTimeout(done, 200);""",
        wanted,
    )
    return rows(browser)


def test_a_question_shows_truth_answer_verdicts_and_ranked_evidence(opened: Any) -> None:
    view = case(opened(html_page(kinds())), "conv-1::q1")
    for text in ("What does Ann keep in box 1?", "a lamp", "the answer is a lamp", "a candle", "no idea", "a trap"):
        assert text in view.text
    verdicts = [
        row.text for row in view.find_elements("xpath", ".//h3[.='Verdicts']/following-sibling::div[1]//tbody/tr")
    ]
    assert verdicts == [
        "✕ wrong (0.000) graded says it is a lamp",
        "✕ wrong (0.000) on the corrected answer graded not a candle",
    ]
    evidence = [
        row.text for row in view.find_elements("xpath", ".//h3[.='Evidence']/following-sibling::div[1]//tbody/tr")
    ]
    assert evidence == ["✓ 2 D1:1 I keep a lamp there", "✕ not retrieved D1:9 and matches"]
    view.find_element("xpath", ".//summary[starts-with(., 'Retrieved')]").click()
    ranking = view.find_elements("css selector", ".ranking li")
    assert [(one.text, "hit" in (one.get_attribute("class") or "")) for one in ranking] == [
        ("D1:4", False),
        ("D1:1 ✓", True),
        ("D1:5", False),
    ]
    assert "57 more" in view.text


def test_a_sample_shows_passages_scores_reasons_and_failures(opened: Any) -> None:
    view = case(opened(html_page(kinds())), "place-1")
    scores = [row.text for row in view.find_elements("xpath", ".//h3[.='Scores']/following-sibling::div[1]//tbody/tr")]
    assert scores == [
        "Faithful faithfulness 0.250 two statements",
        "mood calm",
        "polite ✕ no",
        "Words words 3",
        "citations not measured",
        "Broken - ✕ failed RuntimeError: no luck",
    ]
    passages = view.find_elements("xpath", ".//h3[.='Retrieved passages']/following-sibling::div[1]//tbody/tr")
    assert [row.text for row in passages] == [
        "1 ✓ holds a reference passage The tower is in Paris.",
        "2 ✕ holds none The bridge is in London.",
    ]


def test_searches_trials_and_what_was_injected(opened: Any) -> None:
    shown = opened(html_page(kinds()))
    view = case(shown, "search-1")
    view.find_element("xpath", ".//summary[starts-with(., 'what is in box 1')]").click()
    assert [one.text for one in view.find_elements("css selector", ".ranking li")] == ["c#1 a chair", "a#0 ✓"]
    assert "b#3" in view.text
    view = case(shown, "conv-1::q5")
    trials = [row.text for row in view.find_elements("xpath", ".//h3[.='Trials']/following-sibling::div[1]//tbody/tr")]
    assert len(trials) == 3
    assert trials[1].startswith("2 scored ✕ missed 1.000 a lamp")
    assert "no verdict" in trials[2]
    view = case(shown, "::later")
    halves = view.find_elements("css selector", ".beside > div")
    assert "What shall I drink?" in halves[0].text
    assert "drinks tea" in halves[1].text
    # Beside each other: neither below the other.
    assert halves[0].rect["y"] == halves[1].rect["y"]


def test_questions_are_filtered_by_type_and_by_evidence(opened: Any) -> None:
    report = kinds()
    entries = [one for one in report["per_case"] if one["kind"] == "qa"]
    entries[0]["outputs"]["qa"]["evidence_found"] = [{"id": "D1:9", "rank": None, "content": "x"}]
    shown = opened(html_page(report))
    multi = [one["node_id"] for one in entries if one["tags"] == ["multi_hop"]]
    assert choose(shown, type="multi_hop") == multi
    assert choose(shown, type="", evidence="none") == [entries[0]["node_id"]]
    assert choose(shown, evidence="part") == [one["node_id"] for one in entries[1:]]
    assert choose(shown, evidence="", text="box 3") == [
        one["node_id"] for one in entries if one["case_id"].endswith("q3")
    ]
    hidden = [
        name for name in ("type", "evidence", "tag", "set") if not shown.find_element("name", name).is_displayed()
    ]
    assert hidden == []
    plain = opened(html_page(build_report(run_info(), [set_info()], [full_case(1), full_case(2)])))
    assert not plain.find_element("name", "type").is_displayed()
    assert not plain.find_element("name", "evidence").is_displayed()


def test_hostile_texts_of_every_kind_are_texts(opened: Any) -> None:
    report = kinds(HOSTILE)
    shown = opened(html_page(report, tuning=None))
    for button in shown.find_elements("css selector", "tr.row button"):
        shown.execute_script("arguments[0].click()", button)
    shown.execute_script("document.querySelectorAll('#list details').forEach((one) => { one.open = true; })")
    assert shown.find_element("css selector", "#list").text.count("<img src=x") > 60
    shown.find_element("id", "memeval-language").click()
    assert shown.find_elements("css selector", "img") == []
    assert "hacked" not in shown.title


def test_the_reader_changes_the_language(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    report = kinds()
    shown = opened(html_page(report))
    choose(shown, type="temporal")
    kept = rows(shown)
    case(shown, "conv-1::q1")
    shown.execute_script("document.querySelector('main > details').open = true")
    shown.find_element("xpath", "//th/button[text()='score']").click()
    ordered = rows(shown)
    figures = shown.execute_script("return [...document.querySelectorAll('.figure')].map((one) => one.dataset.value)")
    button = shown.find_element("id", "memeval-language")
    assert button.text == "中文"
    button.send_keys(Keys.ENTER)
    assert shown.find_element("tag name", "html").get_attribute("lang") == "zh"
    assert shown.title.startswith("记忆评测: ")
    assert shown.find_element("tag name", "h1").text == "记忆评测"
    # What was chosen, sorted and opened stays so, and the keyboard's place is the button's.
    assert rows(shown) == ordered
    assert sorted(ordered) == sorted(kept)
    assert shown.find_element("name", "type").get_attribute("value") == "temporal"
    view = shown.find_element("css selector", ".memeval-view")
    assert "正确答案" in view.text
    assert shown.execute_script("return document.querySelector('main > details').open") is True
    assert shown.execute_script("return document.activeElement.id") == "memeval-language"
    assert shown.find_element("css selector", "th[aria-sort='ascending']").text == "得分"
    assert figures == shown.execute_script(
        "return [...document.querySelectorAll('.figure')].map((one) => one.dataset.value)"
    )
    options = len(shown.find_elements("css selector", "#filters option"))
    shown.switch_to.active_element.send_keys(Keys.SPACE)
    shown.switch_to.active_element.send_keys(Keys.SPACE)
    # There and back: nothing is there twice.
    assert len(shown.find_elements("css selector", "#filters option")) == options
    assert len(shown.find_elements("css selector", "#list table:not(.detail table)")) == 1
    assert rows(shown) == ordered
    shown.switch_to.active_element.send_keys(Keys.SPACE)
    assert shown.find_element("tag name", "h1").text == "Memory evaluation"
    assert len(choose(shown, type="")) == len(report["per_case"])


def test_the_language_changes_in_the_page_of_pytest_html(browser: Any, run: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((run / "pytest.html").as_uri())
    # pytest-html makes its rows by script.
    [place, *_] = WebDriverWait(browser, 30).until(
        lambda driver: driver.find_elements("css selector", "details.memeval-case")
    )
    browser.execute_script("arguments[0].closest('.extras-row').classList.remove('hidden')", place)
    # Its line is seen and can be pressed: pytest-html moves what is in its log up behind a button of its own.
    summary = place.find_element("tag name", "summary")
    assert summary.text == "Case: what was expected and what came"
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", summary)
    summary.click()
    WebDriverWait(browser, 30).until(lambda driver: "right answer" in place.text)
    button = browser.find_element("id", "memeval-language")
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", button)
    button.click()
    assert "正确答案" in place.text
    assert len(place.find_elements("css selector", ".memeval-view")) == 1
    assert summary.text == "用例：期望与实际"
    assert browser.find_element("css selector", ".memeval-embedded h2").text == "记忆评测"
    browser.find_element("id", "memeval-language").click()
    assert "right answer" in place.text


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_runs_over_the_window(opened: Any, report: dict[str, Any], width: int, theme: str) -> None:
    """What is wider scrolls in its own frame; an opened case's texts are within the window at any width."""
    for given in (report, kinds("word" * 150)):
        shown = opened(html_page(given))
        shown.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        shown.execute_script("document.body.dataset.theme = arguments[0]", theme)
        for button in shown.find_elements("css selector", "tr.row button")[:12]:
            shown.execute_script("arguments[0].click()", button)
        shown.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert shown.execute_script("return document.documentElement.scrollWidth") <= width
        views = shown.execute_script(
            "return [...document.querySelectorAll('.memeval-view')].map((one) => one.getBoundingClientRect().right)"
        )
        assert views
        assert max(views) <= width
        # Every text can be read on its ground.
        assert shown.execute_script(CONTRASTS) == []
    shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


#: The texts whose contrast with what lies behind them is below 4.5: the ratio, the text, its colours.
CONTRASTS = """
const parse = (text) => {
  const canvas = parse.canvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => colour.slice(0, 3).map((one) => one / 255)
  .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
  .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (node) => {
  for (let one = node; one; one = one.parentElement) {
    const colour = parse(getComputedStyle(one).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const wrong = new Set();
for (const node of document.querySelectorAll("body *")) {
  if (![...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim())) continue;
  if (!node.getClientRects().length || node.closest("svg, script, style, option, .bar")) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(parse(style.color)), light(ground(node))].sort((x, y) => x - y);
  const ratio = (b + 0.05) / (a + 0.05);
  if (ratio < 4.5) wrong.add(`${ratio.toFixed(2)} ${node.textContent.slice(0, 40)} ${style.color}`);
}
return [...wrong];
"""


def test_on_paper_there_is_no_control_and_everything_is_light(opened: Any) -> None:
    shown = opened(html_page(kinds()))
    shown.execute_script("document.body.dataset.theme = 'dark'")
    case(shown, "conv-1::q1")
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for name in ("#filters", "#memeval-language", "#theme"):
        assert not shown.find_element("css selector", name).is_displayed()
    assert shown.find_element("css selector", ".memeval-view").is_displayed()
    ink, paper = shown.execute_script(
        "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    )
    assert (ink, paper) == ("rgb(27, 31, 36)", "rgb(255, 255, 255)")
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = base64.b64decode(shown.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF-")


def test_a_page_without_script_shows_its_figures_and_says_what_is_missing(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(html_page(kinds()), encoding="utf-8")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(path.as_uri())
        assert "The list of cases needs JavaScript" in browser.find_element("tag name", "main").text
        assert browser.find_element("css selector", ".card b").text == "10"
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
