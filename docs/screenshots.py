"""Takes the pictures of ``docs/images``: ``python docs/screenshots.py`` (needs selenium, Chromium, its driver, and
fonts that have Chinese and emoji).

The shipped case set is run as the README runs it, and its page is photographed: the summary, the pictures, a case; so
is a question of the shipped question set.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
IMAGES = Path(__file__).parent / "images"
CASE, QUESTION = "eval-026", "en-04"
WIDTH, HEIGHT = 1200, 1000


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page, questions = page_of("cases/v001.yaml", Path(folder) / "run"), page_of("cases/qa", Path(folder) / "qa")
        driver = browser()
        try:
            take(driver, page, "summary.png")
            take(driver, page, "funnel.png", to=".charts")
            driver.get("about:blank")
            take(driver, f"{page}#case={CASE}", "case.png", to=".detail h3:nth-of-type(2)")
            take(driver, f"{questions}#case={QUESTION}", "question.png", to=".detail", height=560)
        finally:
            driver.quit()
    return 0


def page_of(cases: str, folder: Path) -> str:
    """The address of the page of a run over some of the shipped cases."""
    command = ("-m", "pytest", "-q", cases, "--memeval-no-history", "--memeval-output", str(folder))
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    page = folder / "run.html"
    subprocess.run([sys.executable, "-m", "pytest_memeval", "show", str(folder), "--html", str(page)], check=True)
    return page.as_uri()


def browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={WIDTH},{HEIGHT}")
    options.binary_location = shutil.which("chromium") or ""
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def take(driver: Any, address: str, name: str, to: str | None = None, height: int = HEIGHT) -> None:
    """A picture of what the window shows, scrolled to the element ``to``."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    driver.get(address)
    driver.execute_script("document.body.dataset.theme = 'light'")
    if to is not None:
        driver.execute_script("document.querySelector(arguments[0]).scrollIntoView()", to)
    driver.save_screenshot(str(IMAGES / name))
    print(f"{name}: {(IMAGES / name).stat().st_size // 1024} KiB")


if __name__ == "__main__":
    sys.exit(main())
