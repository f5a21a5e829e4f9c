"""The pages in a real browser: by keyboard alone, at the width of a telephone and of a desk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from strata_bench.browser import Browser
from strata_bench.keyboard import browser_at, check_page, press, reach, set_width, write
from strata_bench.login_issuer import LoginIssuer
from strata_bench.service_processes import Service
from strata_bench.waiting import eventually

from .conftest import DOMAIN, WEB_URL, StartReconciler
from .kubelet import Kubelet
from .users import SECONDS, User

WIDTHS = {"narrow": 390, "wide": 1280}


@pytest.fixture
def window(api: Service, issuer: LoginIssuer, tmp_path: Path) -> Iterator[Browser]:
    """Chromium, with the ingress controller's part done by a proxy; alice is known at the issuer."""

    issuer.user = {"sub": "id-alice", "preferred_username": "alice", "groups": ["/tenants/research"]}
    with browser_at(DOMAIN, api.url, tmp_path) as opened:
        yield opened
    issuer.user = {}


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_a_pod_from_its_template_to_its_deletion_by_keyboard(
    alice: User, window: Browser, start_reconciler: StartReconciler, kubelet: Kubelet, width: int
) -> None:
    assert kubelet
    set_width(window, width)
    with start_reconciler():
        window.driver.get(WEB_URL)
        assert "You have no pods yet" in window.find("#pods", SECONDS).text
        check_page(window, "1-empty", width)
        press(window, "Create a pod", "New pod – Pods")
        check_page(window, "2-templates", width)
        press(window, "Use template web", "New pod from web – Pods")
        write(window, "name", "taken")
        alice.create("taken", status_requested="OFF", description="of a longer description " * 8)
        write(window, "variables", "GREETING=hello")
        check_page(window, "3-form", width)
        reach(window, "login")
        ActionChains(window.driver).send_keys(Keys.SPACE).perform()
        reach(window, "Create")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        assert "taken is in use" in window.find("[role=alert]", SECONDS).text
        # the browser itself states that the response has the status 409
        window.messages()
        check_page(window, "4-refused", width)
        assert window.run("return document.getElementById('login').checked")
        reach(window, "name")
        ActionChains(window.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys(
            "web1"
        ).perform()
        press(window, "Create", "web1 – Pods")
        assert alice.pod("web1")["environment_variables"]["GREETING"] == "hello"
        eventually(lambda: "Running" in window.find("#state", SECONDS).text, SECONDS, "the page follows the pod")
        assert window.find("#open-default", SECONDS).get_attribute("href") == f"https://web1.{DOMAIN}/"
        check_page(window, "5-pod", width)
        press(window, "Sharing", "Sharing of web1 – Pods")
        write(window, "user", "bob")
        reach(window, "level")
        ActionChains(window.driver).send_keys("USER").perform()
        reach(window, "Share")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        assert window.find("[aria-label='Remove bob']", SECONDS)
        assert alice("GET", "/web1/permissions").json()["result"]["permissions"] == ["alice:ADMIN", "bob:USER"]
        check_page(window, "6-sharing", width)
        press(window, "Log", "Log of web1 – Pods")
        assert "hello from research/pods-web1/main" in window.find("#log", SECONDS).text
        check_page(window, "7-log", width)
        press(window, "Pods", "Pods – Pods")
        assert "Running" in window.find("#pods", SECONDS).text
        check_page(window, "8-list", width)
        press(window, "pod-web1", "web1 – Pods")
        reach(window, "stop")
        ActionChains(window.driver).send_keys(Keys.ENTER).perform()
        eventually(lambda: "Stopped" in window.find("#state", SECONDS).text, SECONDS, "the pod stops")
        assert window.find("#start", SECONDS)
        check_page(window, "9-stopped", width)
        press(window, "delete", "Delete web1 – Pods")
        check_page(window, "10-delete", width)
        press(window, "Delete web1", "Pods – Pods")
        eventually(lambda: alice("GET", "/web1").status_code == 404, SECONDS, "the pod is gone")
