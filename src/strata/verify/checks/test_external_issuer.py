"""An issuer of tokens outside of the site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jwt
import pytest
import requests

from strata.models.platform import ExternalIssuer
from strata.models.site import Site
from strata.verify.needs import EXTERNAL_ISSUER, needs

if TYPE_CHECKING:
    from strata.site.context import SiteContext


@pytest.fixture(scope="module")
def external_issuer(site: Site) -> ExternalIssuer:
    """The entry in site.yaml of an issuer outside of the site."""
    issuer = site.platform.services.external_issuer
    assert issuer is not None
    return issuer


@needs(EXTERNAL_ISSUER)
def test_external_issuer_publishes_keys(external_issuer: ExternalIssuer, context: SiteContext) -> None:
    """The external issuer has the identity set in site.yaml and publishes its signing keys."""
    session = requests.Session()
    if external_issuer.ca_file is not None:
        session.verify = str(Path(context.site_file).parent / external_issuer.ca_file)
    location = external_issuer.jwks_url
    if location is None:
        url = external_issuer.url.rstrip("/") + "/.well-known/openid-configuration"
        document = session.get(url, timeout=30).json()
        assert document["issuer"] == external_issuer.url
        location = document["jwks_uri"]
    answer = session.get(location, timeout=30)
    assert answer.status_code == 200, answer.text
    assert jwt.PyJWKSet.from_dict(answer.json()).keys
