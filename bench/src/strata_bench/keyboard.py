"""Pages of the kit in a browser, by keyboard alone, at several widths."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from strata_bench.browser import Browser, browser
from strata_bench.forwarding import forwarding
from strata_bench.https_server import https_server
from strata_bench.waiting import eventually

SECONDS = 60.0
"""Longest wait for a page."""
MOST_KEYS = 400
"""That lead to an element."""
UNLABELLED = """
return [...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
    .filter(field => field.labels.length === 0).map(field => field.outerHTML)
"""
FOCUSED = """
const found = document.activeElement;
return [found.id, found.tagName, found.getAttribute("aria-label") ?? found.textContent.trim()]
"""


@contextmanager
def browser_at(name: str, url: str, directory: Path) -> Iterator[Browser]:
    """Chromium, which finds a service at its name over HTTPS; a proxy does the ingress controller's part.

    Args:
        name: of the service.
        url: where it responds.
        directory: for the certificate.
    """
    with https_server(forwarding(lambda _: url, "connection"), directory, [name]) as server:
        certificate = x509.load_pem_x509_certificate((directory / "tls.pem").read_bytes())
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        rules = f"MAP {name} 127.0.0.1:{server.port}, EXCLUDE 127.0.0.1"
        with browser(hosts=rules, public_key=base64.b64encode(hashlib.sha256(key).digest()).decode()) as opened:
            yield opened


def set_width(window: Browser, width: int) -> None:
    """The width of the window's inside, in CSS pixels."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def check_page(window: Browser, name: str, width: int) -> None:
    """What every page keeps: no messages, one heading, labels, nothing wider than the window."""
    assert window.messages() == []
    assert window.run("return document.querySelectorAll('h1').length") == 1
    assert window.run(UNLABELLED) == []
    wider = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
    assert window.run(wider) <= 0
    if folder := os.environ.get("STRATA_SCREENSHOTS"):
        window.screenshot(Path(folder) / f"{name}-{width}.png")


def reach(window: Browser, what: str) -> None:
    """Presses the tabulator key until an element has the focus that has this id or label."""
    seen = []
    for _ in range(MOST_KEYS):
        ActionChains(window.driver).send_keys(Keys.TAB).perform()
        focused = window.run(FOCUSED)
        seen.append(focused)
        if what in (focused[0], focused[2]):
            return
    pytest.fail(f"no key reaches {what}: {seen}")


def press(window: Browser, what: str, title: str) -> None:
    """Follows a link or presses a button by keyboard; returns at the page with the title."""
    reach(window, what)
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    eventually(lambda: window.driver.title == title, SECONDS, f"the page {title}, after {what}")


def write(window: Browser, field: str, text: str) -> None:
    """Writes in a field that the keyboard reaches."""
    reach(window, field)
    ActionChains(window.driver).send_keys(text).perform()
