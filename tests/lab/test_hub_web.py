"""The pages of models and datasets, by a real browser at the site: a search, a model's lines, an answer to a prompt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.catalogue.needs import Hostname
from strata.catalogue.site_services import hub_server, needed
from strata.site.context import SiteContext
from strata_bench.tapis_client import tapipy_python
from strata_services.inference.service import SERVICE as INFERENCE
from strata_services.ml_hub.service import SERVICE

from .site_browser import site_browser
from .test_inference import MODEL, model_folder, room
from .test_pods import CLIENT_LINES, Member, ada, member
from .test_pods_login import SECONDS, log_in

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member", "model_folder", "room"]
"""Fixtures."""
CATALOGUED = "google/flan-t5-large"
HUB = """
os.environ |= {"HF_ENDPOINT": os.environ["HUB"], "HF_HUB_DISABLE_XET": "1"}
os.environ["SSL_CERT_FILE"] = os.environ["STRATA_CA_FILE"]
from huggingface_hub import HfApi
api = HfApi(token=t.access_token.access_token)
"""
PUBLISH = """
api.create_repo(os.environ["MODEL"], exist_ok=True)
api.upload_folder(repo_id=os.environ["MODEL"], folder_path=os.environ["FOLDER"])
"""
DELETE = 'api.delete_repo(os.environ["MODEL"])\n'


@contextmanager
def published(context: SiteContext, owner: Member, folder: Path) -> Iterator[None]:
    """The model that the site serves, at the site's hub."""
    hub = hub_server(context.site)
    assert hub is not None, "the inference service needs it"
    tapipy_python("models")
    names = [need.host(context.site) for _, need in needed(context.site, Hostname)]
    variables = {"HUB": hub.public_url, "MODEL": MODEL, "FOLDER": str(folder), "PATH": os.environ["PATH"]}
    owner.program(CLIENT_LINES + HUB + PUBLISH, names, **variables)
    try:
        yield
    finally:
        owner.program(CLIENT_LINES + HUB + DELETE, names, **variables)


@pytest.mark.usefixtures("room")
def test_a_user_finds_a_model_and_asks_one(context: SiteContext, ada: Member, model_folder: Path) -> None:
    site = context.site
    settings, inference = SERVICE.of(site), INFERENCE.of(site)
    if settings is None or inference is None or MODEL not in [model.id for model in inference.models]:
        pytest.skip(f"site {site.name} has no ml_hub, or no model {MODEL} in platform.services.inference")
    host = f"{settings.hostname}.{site.domain}"
    with published(context, ada, model_folder), site_browser(context, host) as window:
        log_in(window, f"https://{host}/", ada)
        field = window.find("#search", SECONDS)
        field.send_keys(CATALOGUED)
        window.find("#go", SECONDS).click()
        window.wait_until_left(field, SECONDS, "the form leads nowhere")
        link = window.find(f"td[data-title=Name] a[href='/models/{CATALOGUED}']", SECONDS)
        link.click()
        window.wait_until_left(link, SECONDS, f"{CATALOGUED} has no page")
        assert window.find("h1", SECONDS).text == CATALOGUED
        assert f'"{CATALOGUED}"' in window.find("#use-hub", SECONDS).text

        window.driver.get(f"https://{host}/models/{MODEL}")
        # the inference server takes the token of the login
        assert window.find("#state", SECONDS).text.split()[0] in ("Stopped", "Starting", "Ready")
        window.find("#prompt", SECONDS).send_keys("the fox")
        window.find("#send", SECONDS).click()
        assert window.find("#answer", SECONDS).text
        assert window.find("#state", SECONDS).text.startswith("Ready")
