"""Pages in a real browser: Debian's chromium driven with selenium, which only the tests' environment has."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from strata.errors import UserError

CHROMIUM, DRIVER = "chromium", "chromedriver"
LEAVING = "does not belong to the document"
"""What chromedriver reports, instead of a stale element, while another page replaces the element's."""


class Browser:
    """One window without a screen; `open` before anything else."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, file: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Shows a file.

        Args:
            file: of HTML.
            width: of the window's inside, in CSS pixels; a telephone has 390.
            height: likewise.
            dark: as a user who prefers a dark page.
        """
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(file.absolute().as_uri())

    def visit(self, url: str) -> None:
        """Opens a URL in a window of a desktop; returns when the page is loaded."""
        self.driver.set_window_size(1400, 1000)
        self.driver.get(url)

    def find(self, selector: str, seconds: float) -> WebElement:
        """The first visible element of a CSS selector, as soon as there is one.

        Raises:
            selenium.common.TimeoutException: there is none in time.
        """

        def visible(driver: webdriver.Chrome) -> WebElement | Literal[False]:
            try:
                elements = driver.find_elements(By.CSS_SELECTOR, selector)
                return next((element for element in elements if element.is_displayed()), False)
            except WebDriverException as error:
                if not _leaving(error):
                    raise
                return False

        return WebDriverWait(self.driver, seconds, poll_frequency=0.3).until(
            visible, f"no {selector} in {seconds:.0f} s"
        )

    def wait_until_left(self, element: WebElement, seconds: float, text: str) -> None:
        """Returns when another page has replaced the element's: to open a page at once would cancel the request.

        Raises:
            selenium.common.TimeoutException: with the text; the page stays.
        """

        def left(_: webdriver.Chrome) -> bool:
            try:
                element.is_enabled()
            except WebDriverException as error:
                if not _leaving(error):
                    raise
                return True
            return False

        WebDriverWait(self.driver, seconds, poll_frequency=0.3).until(left, text)

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a function body in JavaScript returns; runs even though the page itself may not."""
        return self.driver.execute_script(script, *arguments)

    def messages(self) -> list[str]:
        """Messages of the browser's console since the last call: errors, warnings, violations of the page's policy."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """What was asked for since the last call; not the pages themselves, and not data in them."""
        urls = []
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(str(message["params"]["request"]["url"]))
        return [url for url in urls if not url.startswith("data:") and not url.endswith(".html")]

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Writes a PNG of the whole page, or of what the window shows."""
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        file.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])


def _leaving(error: WebDriverException) -> bool:
    """Whether an element's page is no longer shown."""
    return isinstance(error, StaleElementReferenceException) or LEAVING in str(error)


@contextmanager
def browser(*, hosts: str = "", public_key: str = "") -> Iterator[Browser]:
    """Starts chromium, and ends it.

    Args:
        hosts: rules that map names to addresses, `MAP *.example.org 192.0.2.1`; no other name is found.
        public_key: of a certificate that is trusted: SHA-256 of the key, base64.

    Raises:
        UserError: it is not installed.
    """
    binary, driver = shutil.which(CHROMIUM), shutil.which(DRIVER)
    if binary is None or driver is None:
        raise UserError(
            "there is no chromium with its driver",
            fix="apt-get install --no-install-recommends chromium chromium-driver",
        )
    options = Options()
    options.binary_location = binary
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")
    options.add_argument("--disable-background-networking")
    options.add_argument(f"--host-resolver-rules={hosts + ', ' if hosts else ''}MAP * ~NOTFOUND")
    if public_key:
        options.add_argument(f"--ignore-certificate-errors-spki-list={public_key}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # chromium refuses to start as root otherwise; the page is our own file
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    try:
        yield Browser(window)
    finally:
        window.quit()
