"""Object storage as users meet it: from outside, over TLS, at its name; and the same bytes as files."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import pytest
import requests

from strata.catalogue.needs.bucket import S3Endpoint, bucket_key
from strata.catalogue.site_services import s3_endpoint
from strata.models.platform import Tenant
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest
from strata_services.object_storage.client import request
from strata_services.object_storage.service import SERVICE

Ask = Callable[..., requests.Response]
PIECE = b"strata" * 10_000
BIG = 24 << 20
"""Bytes of the big object."""
USER = 65534
READ = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"


@pytest.fixture(scope="module")
def storage(site: Site) -> S3Endpoint:
    """The site's endpoint, with a tenant's bucket."""
    endpoint = s3_endpoint(site)
    if endpoint is None or not site.platform.tenants:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}, or no tenants")
    return endpoint


@pytest.fixture(scope="module")
def tenant(storage: S3Endpoint, site: Site) -> Tenant:
    """Whose bucket is tried."""
    assert storage
    return site.platform.tenants[0]


@pytest.fixture(scope="module")
def ask(storage: S3Endpoint, http: requests.Session, context: SiteContext) -> Ask:
    """`ask("GET", "research", "key", data=b"")` → the response to a request with the bucket's key, or that of another
    bucket (`signed_by`), or none ("")."""

    def call(
        method: str, bucket: str, key: str = "", data: bytes = b"", signed_by: str | None = None
    ) -> requests.Response:
        owner = bucket if signed_by is None else signed_by
        own = bucket_key(context.secrets, storage, owner) if owner else None
        return request(http, storage, own, method, f"{bucket}/{key}", data)

    return call


def test_object_is_stored_and_deleted(ask: Ask, tenant: Tenant) -> None:
    """The key of a tenant's bucket writes, reads and deletes an object."""
    key = f"strata-verify-{secrets.token_hex(4)}"
    try:
        assert ask("PUT", tenant.name, key, PIECE).status_code == 200
        assert ask("GET", tenant.name, key).content == PIECE
    finally:
        assert ask("DELETE", tenant.name, key).status_code == 204
    assert ask("GET", tenant.name, key).status_code == 404


def test_without_the_bucket_s_key_nothing_opens(ask: Ask, site: Site, tenant: Tenant) -> None:
    """Without a key, and with the key of another tenant, requests are refused with 403."""
    keys = ["", *(other.name for other in site.platform.tenants if other != tenant)]
    for signed_by in keys:
        for method, key in (("GET", ""), ("GET", "any"), ("PUT", "any"), ("DELETE", "any")):
            assert ask(method, tenant.name, key, signed_by=signed_by).status_code == 403, (method, key, signed_by)


def test_a_key_creates_no_buckets(ask: Ask, storage: S3Endpoint, tenant: Tenant) -> None:
    """A tenant's key cannot create a bucket."""
    if storage.external:
        pytest.skip("the endpoint's own policies decide")
    assert ask("PUT", f"{tenant.name}-other", signed_by=tenant.name).status_code in (403, 404, 405)


def test_object_is_a_file_of_the_tenant(
    ask: Ask, storage: S3Endpoint, tenant: Tenant, site: Site, kubectl: Kubectl, images: ImageOutputs
) -> None:
    """A big object that S3 wrote through the ingress controller has the same bytes as a file in the tenant's pods."""
    settings = SERVICE.of(site)
    if storage.external or settings is None or tenant.group_id is None:
        pytest.skip("the endpoint is outside of the site")
    key, content = f"strata-verify-{secrets.token_hex(4)}", secrets.token_bytes(BIG)
    name, command = f"verify-{key[-8:]}", ["python3", "-c", READ, f"/volume/{key}"]
    identity = (USER, tenant.group_id)
    reader = PodRequest(name, images.images["pod-base"], command, claim=settings.export, identity=identity)
    try:
        assert ask("PUT", tenant.name, key, content).status_code == 200
        assert pods.run(kubectl, tenant.name, reader)[0].strip() == hashlib.sha256(content).hexdigest()
    finally:
        ask("DELETE", tenant.name, key)
