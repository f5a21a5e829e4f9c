"""The pages of models and datasets, by a real browser at the site: a search, and the lines that load a model."""

from __future__ import annotations

import pytest

from strata.catalogue.site import hub_server
from strata.site.context import SiteContext
from strata_services.ml_hub.service import SERVICE

from .site_browser import site_browser
from .test_pods import Member, ada, member
from .test_pods_login import SECONDS, log_in

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""


def test_a_user_finds_a_model_and_the_lines_that_load_it(context: SiteContext, ada: Member) -> None:
    settings = SERVICE.of(context.site)
    assert settings is not None
    host = f"{settings.hostname}.{context.site.domain}"
    with site_browser(context, host) as window:
        log_in(window, f"https://{host}/", ada)
        found = window.find("td[data-title=Name] a", SECONDS)
        name = found.text
        field = window.find("#search", SECONDS)
        field.send_keys(name)
        window.find("#go", SECONDS).click()
        window.wait_until_left(field, SECONDS, "the form leads nowhere")
        link = window.find(f"td[data-title=Name] a[href='/models/{name}']", SECONDS)
        link.click()
        window.wait_until_left(link, SECONDS, f"{name} has no page")
        assert window.find("h1", SECONDS).text == name
        server = hub_server(context.site)
        if server is not None:
            assert server.public_url in window.find("#use-hub", SECONDS).text
            assert f'"{name}"' in window.find("#use-hub", SECONDS).text
