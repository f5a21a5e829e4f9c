"""The pages of pods, by a real browser at the site: from a template to the deletion."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from strata.access.https import site_session
from strata.site.context import SiteContext
from strata_bench.browser import Browser
from strata_bench.waiting import eventually
from strata_services.tapis_pods.service import SERVICE

from .site_browser import site_browser
from .test_pods import START_SECONDS, Member, ada, member
from .test_pods_login import SECONDS, log_in

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""


def click(window: Browser, selector: str) -> None:
    """Follows a link or sends a form; returns when its page is left."""
    element = window.find(selector, SECONDS)
    element.click()
    window.wait_until_left(element, SECONDS, f"{selector} leads nowhere")


def test_a_user_without_programs_creates_opens_shares_and_deletes_a_pod(
    context: SiteContext, ada: Member, member: Callable[[str], Member]
) -> None:
    settings = SERVICE.of(context.site)
    assert settings is not None
    template = next(
        (template for template in settings.templates if all(port.protocol == "http" for port in template.ports)), None
    )
    if template is None:
        pytest.skip(f"site {context.site.name} has no template with a web page")
    colleague = member(context.site.platform.tenants[0].name)
    host = f"{settings.hostname}.{context.site.domain}"
    pod = f"web{secrets.token_hex(4)}"
    with site_browser(context, host) as window:
        log_in(window, f"https://{host}/new/{template.name}", ada)
        window.find("#name", SECONDS).send_keys(pod)
        click(window, "main form button")
        try:
            eventually(
                lambda: "Running" in window.find("#state", SECONDS).text, START_SECONDS, f"{pod} runs on its page"
            )
            address = window.find("#open-default", SECONDS).get_attribute("href")
            assert address == f"https://{pod}.{host}/"
            with site_session(context) as http:
                eventually(
                    lambda: http.get(address, timeout=30).status_code < 500, START_SECONDS, f"{address} responds"
                )
            click(window, f"a[href='/pods/{pod}/log']")
            eventually(
                lambda: "nothing yet" not in window.find("#log", SECONDS).text, START_SECONDS, "the page shows the log"
            )
            click(window, f"a[href='/pods/{pod}/sharing']")
            window.find("#user", SECONDS).send_keys(colleague.name)
            Select(window.find("#level", SECONDS)).select_by_value("READ")
            click(window, "main form .main")
            assert window.find(f"[aria-label='Remove {colleague.name}']", SECONDS)
            with site_browser(context, host) as other:
                log_in(other, f"https://{host}/pods/{pod}", colleague)
                assert "Running" in other.find("#state", SECONDS).text
                assert not other.driver.find_elements("id", "stop")
            click(window, f"a[href='/pods/{pod}']")
            window.find("#stop", SECONDS).send_keys(Keys.ENTER)
            eventually(lambda: "Stopped" in window.find("#state", SECONDS).text, START_SECONDS, f"{pod} stops")
        finally:
            window.visit(f"https://{host}/pods/{pod}/delete")
            click(window, "button.danger")
        assert not window.driver.find_elements("id", f"pod-{pod}")
