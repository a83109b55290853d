"""The page in a real browser, opened from disk; left out where Chromium, its driver or selenium is missing."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

from browser_bench import MARKS

from pytest_memeval.report.calls import read_calls
from pytest_memeval.report.html.page import html_page
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.numbers import value_text

pytestmark = MARKS
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"


def rows(browser: Any) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('tr.row')].filter((row) => !row.hidden).map((row) => row.dataset.case)"
    )
    return found


def choose(browser: Any, **wanted: str) -> list[str]:
    """Set filters as a user would, from a clean form, and give the rows that are left."""
    browser.execute_async_script(
        """const [wanted, done] = arguments; const form = document.getElementById("filters"); form.reset();
        for (const [name, value] of Object.entries(wanted)) form.elements[name].value = value;
        form.dispatchEvent(new Event("input")); setTimeout(done, 200);""",
        wanted,
    )
    return rows(browser)


def test_figures_are_those_of_the_report(opened: Any, page: str, report: dict[str, Any]) -> None:
    browser = opened(page)
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.figure')]"
        ".map((one) => [one.dataset.path, one.dataset.value, one.textContent])"
    )
    gates = 0
    for path, raw, text in shown:
        value: Any = report
        parts = path.split(".")
        for at, name in enumerate(parts):
            if isinstance(value, dict) and ".".join(parts[at:]) in value:
                value = value[".".join(parts[at:])]
                break
            value = value[int(name)] if isinstance(value, list) else value.get(name)
        assert json.loads(raw) == value, path
        if path.startswith("gates."):
            gates += 1
            assert text == value_text(value, against=report["gates"][int(path.split(".")[1])]["threshold"])
    assert gates == len(report["gates"])
    statuses = browser.execute_script(
        "return [...document.querySelectorAll('[data-gate]')].map((one) => one.className)"
    )
    assert statuses == [f"status {gate['status']}" for gate in report["gates"]]
    assert len(page.encode()) <= 2 * 1024 * 1024


def test_filters_filter_and_columns_sort(opened: Any, page: str, report: dict[str, Any]) -> None:
    browser = opened(page)
    entries = report["per_case"]
    assert rows(browser) == [entry["node_id"] for entry in entries]
    hard = [entry["node_id"] for entry in entries if entry["difficulty"] == "hard"]
    assert choose(browser, difficulty="hard") == hard
    edge = [
        entry["node_id"] for entry in entries if entry["source"] == "edge" and "goals" in entry["dimension_details"]
    ]
    assert choose(browser, source="edge", dimension="goals") == edge
    lost = [e["node_id"] for e in entries if any(row["lost_at"] == "placed" for row in e["funnel"] or ())]
    assert 0 < len(lost) < len(entries)
    assert choose(browser, lost="placed") == lost
    tag = entries[-1]["tags"][0]
    assert choose(browser, tag=tag) == [entry["node_id"] for entry in entries if tag in entry["tags"]]
    assert choose(browser, text="LYON")
    assert choose(browser, text="no such text anywhere") == []
    assert browser.find_element("css selector", "#list tbody tr:last-child").is_displayed()
    assert len(choose(browser)) == len(entries)
    browser.find_element("xpath", "//th/button[text()='score']").click()
    scores = {entry["node_id"]: (main_score(entry) or (None, None))[1] for entry in entries}
    shown = [scores[node_id] for node_id in rows(browser)]
    measured = [score for score in shown if score is not None]
    assert measured == sorted(measured)
    assert shown[len(measured) :] == [None] * (len(shown) - len(measured))


def test_a_case_opens_by_keyboard_and_by_link(opened: Any, page: str, report: dict[str, Any]) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = opened(page)
    assert browser.find_elements("css selector", ".memeval-view") == []
    button = browser.find_element("css selector", "tr.row button")
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-expanded") == "true"
    assert len(browser.find_elements("css selector", ".memeval-view")) == 1
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-expanded") == "false"
    wanted = next(entry for entry in report["per_case"] if entry["case_id"] == "eval-026")
    browser = opened(page, "#case=eval-026")
    view = browser.find_element("css selector", ".memeval-view")
    assert wanted["input"]["conversation"][0]["content"] in view.text
    cited = {name for memory in wanted["l1"]["details"]["truth"] for name in memory["source_message_ids"]}
    assert len(view.find_elements("css selector", ".message.cited")) == len(cited)
    expected = "".join(
        part.text for part in view.find_elements("css selector", ".memories tbody tr:first-child td:first-child .text")
    )
    assert expected.strip() == wanted["l1"]["details"]["truth"][wanted["matched_memories"][0]["truth"]]["content"]
    call = next(one for one in view.find_elements("css selector", "details") if "l1_extraction" in one.text)
    call.find_element("css selector", "summary").click()
    time.sleep(0.2)
    assert "<dimensions>" in call.text


def test_a_case_shows_what_each_stage_gave(opened: Any, page: str, report: dict[str, Any]) -> None:
    entry = next(one for one in report["per_case"] if one["case_id"] == "eval-026")
    browser = opened(page, "#case=eval-026")
    view = browser.find_element("css selector", ".memeval-view")
    browser.execute_script("arguments[0].querySelectorAll('details').forEach((one) => { one.open = true; })", view)
    time.sleep(0.3)

    def table(title: str) -> list[list[str]]:
        found: list[list[str]] = browser.execute_script(
            """const [view, title] = arguments;
            let place = [...view.querySelectorAll("h3")].find((one) => one.textContent === title).nextElementSibling;
            while (!place.matches("div.scroll")) place = place.nextElementSibling;
            return [...place.querySelector("tbody").rows]
              .map((row) => [...row.cells].map((cell) => cell.textContent));""",
            view,
            title,
        )
        return found

    pairs = table("Memories: expected and extracted")
    assert [row[2] for row in pairs[: len(entry["matched_memories"])]] == [
        f"{pair['similarity']:.3f}" for pair in entry["matched_memories"]
    ]
    assert len(pairs) == sum(len(entry[name]) for name in ("matched_memories", "unmatched_gt", "unmatched_pred"))
    chips = {chip.text for chip in view.find_elements("css selector", ".memories .chip")}
    assert {"✓ projects", "+ identity extra"} <= chips
    decisions = table("Conflict decisions")
    for row, action in zip(decisions, entry["l15"]["details"]["actions"], strict=True):
        assert row[1] == f"{action['expected']} {', '.join(action['expected_targets'])}"
        assert row[2] == f"{action['decided']} {', '.join(action['targets'])}"
        assert row[3] == ("✓" if action["decision_right"] else "✕")
    scenes, judged = table("Scenes"), entry["l2"]["details"]["scenes"]
    assert [row[0] for row in scenes if row[0] != "expected and not made"] == [
        one["title"] for one in entry["outputs"]["l2"]
    ]
    assert [row[1] for row in scenes if row[0] == "expected and not made"] == judged["labels_missed"]
    units = entry["l2"]["details"]["sections"]["units"]
    assert [row[2:] for row in table("Sections")] == [[unit["expected"], ", ".join(unit["placed"])] for unit in units]
    later, injected = view.find_elements("css selector", ".beside > div")
    assert entry["input"]["subsequent_conversation"][0]["content"] in later.text
    for block in entry["outputs"]["inject"]["pipeline"]:
        assert block["title"].split(" ", 1)[-1] in injected.text
    ways = table("The way of each labelled memory")
    assert [row[0] for row in ways] == [f"#{row['memory']}" for row in entry["funnel"]]
    assert [row.count("✓") for row in ways] == [len(row["kept"]) for row in entry["funnel"]]
    calls = browser.execute_script(
        """const title = [...arguments[0].querySelectorAll("h3")].find((one) => one.textContent === "Model calls");
        const found = []; let place = title.nextElementSibling;
        while (place && place.matches("details") && place.querySelector("pre")) {
          found.push([place.firstChild.textContent, place.textContent]); place = place.nextElementSibling; }
        return found;""",
        view,
    )
    assert len(calls) >= len(entry["calls"])
    for (said, whole), call in zip(calls, entry["calls"], strict=False):
        for part in (call["stage"], call["version"], "tokens in / out", "latency", "from the cache"):
            assert part in said
        assert "prompt (" in whole
        assert "answer" in whole


def test_an_error_is_shown_with_stage_and_cause(opened: Any, report: dict[str, Any]) -> None:
    broken = copy.deepcopy(report)
    entry = broken["per_case"][0]
    entry["errors"] = [{"stage": "l15", "kind": "unusable_answer", "message": "the answer is no JSON"}]
    entry["missed_expectations"] = ["l1.memory_recall is 0, expected >= 1"]
    browser = opened(html_page(broken))
    browser.find_element("css selector", "tr.row button").click()
    shown = [one.text for one in browser.find_elements("css selector", ".memeval-view .error")]
    assert shown[0] == "[l15] unusable_answer: the answer is no JSON"
    assert shown[1].endswith("l1.memory_recall is 0, expected >= 1")


def test_hostile_texts_are_texts(opened: Any, report: dict[str, Any]) -> None:
    hostile = copy.deepcopy(report)
    entry = next(one for one in hostile["per_case"] if one["input"] and one["outputs"]["l1"])
    hostile["per_case"] = [entry]
    entry.update(node_id=HOSTILE, case_id=HOSTILE, tags=[HOSTILE])
    entry["input"]["conversation"][0]["content"] = HOSTILE
    entry["l1"]["details"]["truth"][0]["content"] = HOSTILE
    entry["outputs"]["l1"][0]["content"] = HOSTILE
    entry["errors"] = [{"stage": "l1", "kind": HOSTILE, "message": HOSTILE}]
    hostile["run_notes"] = [HOSTILE]
    browser = opened(html_page(hostile))
    browser.find_element("css selector", "tr.row button").click()
    view = browser.find_element("css selector", ".memeval-view")
    assert HOSTILE in view.text
    assert browser.find_elements("css selector", "img") == []
    assert "hacked" not in browser.title


def test_the_page_of_pytest_html(browser: Any, run: Path, report: dict[str, Any]) -> None:
    browser.get((run / "pytest.html").as_uri())
    shown = browser.find_element("css selector", "[data-path='gates.0.value']").get_attribute("data-value")
    assert json.loads(shown) == report["gates"][0]["value"]
    places = browser.find_elements("css selector", "details.memeval-case")
    assert len(places) == len(report["per_case"])
    browser.execute_async_script(
        "const [place, done] = arguments; place.closest('.extras-row').classList.remove('hidden');"
        "place.open = true; setTimeout(done, 300)",
        places[0],
    )
    assert browser.find_elements("css selector", "details.memeval-case .memeval-view")


def test_two_thousand_cases_open_and_filter(opened: Any, run: Path, report: dict[str, Any]) -> None:
    """Prints what it took; the limits only tell a stall from a wait."""
    large = copy.deepcopy(report)
    entries = large["per_case"]
    large["per_case"] = [
        {**entries[n % len(entries)], "node_id": f"cases/v001.yaml::many-{n}", "case_id": f"many-{n}"}
        for n in range(2000)
    ]
    text = html_page(large, calls=read_calls(run / "calls.jsonl.gz").values())
    started = time.perf_counter()
    browser = opened(text)
    loaded = time.perf_counter() - started
    took = browser.execute_async_script(
        """const done = arguments[0], form = document.getElementById("filters"), started = performance.now();
        form.elements.difficulty.value = "hard"; form.elements.text.value = "a";
        form.dispatchEvent(new Event("input"));
        setTimeout(() => requestAnimationFrame(() => setTimeout(() => done(performance.now() - started - 60))), 60);"""
    )
    opening = browser.execute_script(
        """const started = performance.now(); document.querySelector("tr.row:not([hidden]) button").click();
        document.body.getBoundingClientRect(); return performance.now() - started"""
    )
    shown = len(rows(browser))
    print(
        f"2,000 cases: {len(text) / 2**20:.1f} MiB, open {loaded:.2f} s, filter {took:.0f} ms, a case {opening:.0f} ms"
    )
    hard = sum(entry["difficulty"] == "hard" for entry in large["per_case"])
    assert 0 < shown <= hard < 2000
    assert loaded < 30
    assert took < 5000
