"""A real browser for tests of pages, and the shipped set run once for them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_memeval.report.calls import read_calls
from pytest_memeval.report.html.page import html_page
from pytest_memeval.report.reader import load_report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
THERE = bool(CHROMIUM and DRIVER and importlib.util.find_spec("selenium"))
MARKS = [pytest.mark.slow, pytest.mark.skipif(not THERE, reason="needs chromium, chromedriver and selenium")]
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    from selenium.webdriver.chrome.service import Service

    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped set, run with pytest-html."""
    folder = tmp_path_factory.mktemp("run")
    command = ("-m", "pytest", "-q", "-p", "no:randomly", "cases", "--memeval-no-history")
    page = ("--html", str(folder / "pytest.html"), "--self-contained-html")
    subprocess.run(
        [sys.executable, *command, "--memeval-output", str(folder), *page], cwd=ROOT, check=True, timeout=300
    )
    return folder


@pytest.fixture(scope="module")
def report(run: Path) -> dict[str, Any]:
    return load_report(run)


@pytest.fixture(scope="module")
def page(run: Path, report: dict[str, Any]) -> str:
    return html_page(report, calls=read_calls(run / "calls.jsonl.gz").values())


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens a page from disk; the console has to stay empty, and nothing may be asked of any network."""

    def open_page(text: str, part: str = "") -> Any:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        browser.get("about:blank")
        browser.get(path.as_uri() + part)
        return browser

    yield open_page
    assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            assert message["params"]["request"]["url"].startswith(("file:", "about:", "data:", "chrome:"))
