"""The pages in a real browser: by keyboard alone, at the width of a telephone and of a desk."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from strata_bench.browser import Browser, browser
from strata_bench.https_server import https_server
from strata_bench.login_issuer import LoginIssuer
from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .conftest import DOMAIN, WEB_URL, StartReconciler
from .forwarding import forwarding
from .kubelet import Kubelet
from .users import SECONDS, User

WIDTHS = {"narrow": 390, "wide": 1280}
UNLABELLED = """
return [...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
    .filter(field => field.labels.length === 0).map(field => field.outerHTML)
"""
FOCUSED = """
const found = document.activeElement;
return [found.id, found.tagName, found.getAttribute("aria-label") ?? found.textContent.trim()]
"""


@pytest.fixture
def window(api: Service, issuer: LoginIssuer, tmp_path: Path) -> Iterator[Browser]:
    """Chromium, with the ingress controller's part done by a proxy; alice is known at the issuer."""

    issuer.user = {"sub": "id-alice", "preferred_username": "alice", "groups": ["/tenants/research"]}
    with https_server(forwarding(lambda _: api.url, "connection"), tmp_path, [DOMAIN]) as server:
        certificate = x509.load_pem_x509_certificate((tmp_path / "tls.pem").read_bytes())
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        rules = f"MAP {DOMAIN} 127.0.0.1:{server.port}, EXCLUDE 127.0.0.1"
        with browser(hosts=rules, public_key=base64.b64encode(hashlib.sha256(key).digest()).decode()) as opened:
            yield opened
    issuer.user = {}


def check(window: Browser, name: str, width: int) -> None:
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
    for _ in range(60):
        ActionChains(window.driver).send_keys(Keys.TAB).perform()
        found = window.run(FOCUSED)
        seen.append(found)
        if what in (found[0], found[2]):
            return
    pytest.fail(f"no key reaches {what}: {seen}")


def press(window: Browser, what: str, title: str) -> None:
    """Follows a link or presses a button by keyboard; returns at the page with the title."""
    reach(window, what)
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    eventually(lambda: window.driver.title == f"{title} – Pods", SECONDS, f"the page {title}, after {what}")


def write(window: Browser, field: str, text: str) -> None:
    """Writes in a field that the keyboard reaches."""
    reach(window, field)
    ActionChains(window.driver).send_keys(text).perform()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_a_pod_from_its_template_to_its_deletion_by_keyboard(
    alice: User, window: Browser, start_reconciler: StartReconciler, kubelet: Kubelet, width: int
) -> None:
    assert kubelet
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    with start_reconciler():
        window.driver.get(WEB_URL)
        assert "You have no pods yet" in window.find("#pods", SECONDS).text
        check(window, "1-empty", width)
        press(window, "Create a pod", "New pod")
        check(window, "2-templates", width)
        press(window, "Use template web", "New pod from web")
        write(window, "name", "taken")
        alice.create("taken", status_requested="OFF", description="of a longer description " * 8)
        write(window, "variables", "GREETING=hello")
        check(window, "3-form", width)
        reach(window, "login")
        ActionChains(window.driver).send_keys(Keys.SPACE).perform()
        reach(window, "Create")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        assert "taken is in use" in window.find("[role=alert]", SECONDS).text
        # the browser itself says that the response has the status 409
        window.messages()
        check(window, "4-refused", width)
        assert window.run("return document.getElementById('login').checked")
        reach(window, "name")
        ActionChains(window.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys(
            "web1"
        ).perform()
        press(window, "Create", "web1")
        assert alice.pod("web1")["environment_variables"]["GREETING"] == "hello"
        eventually(lambda: "Running" in window.find("#state", SECONDS).text, SECONDS, "the page follows the pod")
        assert window.find("#open-default", SECONDS).get_attribute("href") == f"https://web1.{DOMAIN}/"
        check(window, "5-pod", width)
        press(window, "Sharing", "Sharing of web1")
        write(window, "user", "bob")
        reach(window, "level")
        ActionChains(window.driver).send_keys("USER").perform()
        reach(window, "Share")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        assert window.find("[aria-label='Remove bob']", SECONDS)
        assert alice("GET", "/web1/permissions").json()["result"]["permissions"] == ["alice:ADMIN", "bob:USER"]
        check(window, "6-sharing", width)
        press(window, "Log", "Log of web1")
        assert "hello from research/pods-web1/main" in window.find("#log", SECONDS).text
        check(window, "7-log", width)
        press(window, "Pods", "Pods")
        assert "Running" in window.find("#pods", SECONDS).text
        check(window, "8-list", width)
        press(window, "pod-web1", "web1")
        reach(window, "stop")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        eventually(lambda: "Stopped" in window.find("#state", SECONDS).text, SECONDS, "the pod stops")
        assert window.find("#start", SECONDS)
        check(window, "9-stopped", width)
        press(window, "delete", "Delete web1")
        check(window, "10-delete", width)
        press(window, "Delete web1", "Pods")
        eventually(lambda: alice("GET", "/web1").status_code == 404, SECONDS, "the pod is gone")
