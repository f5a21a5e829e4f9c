"""Accounting, as the operator meets it, through `strata accounting`'s connection; and users' measurements."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any

import psycopg
import pytest
import requests

from strata.access.https import site_session
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.models.site import Site
from strata.observe.metrics import metrics_of
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest
from strata.verify.tokens import Login, NewUser
from strata.verify.waiting import settled
from strata.verify.workers import ACCELERATORS
from strata_services.accounting.commands.connection import connect
from strata_services.accounting.service import AUDIENCE, SERVICE

RECORDED_SECONDS = 180.0
"""How long a record may take, in seconds."""
RUN_SECONDS = 2
PASSWORD = secrets.token_hex(16)
"""Of a user that exists for a check."""


@pytest.fixture(scope="module")
def connection(context: SiteContext) -> Iterator[psycopg.Connection[Any]]:
    """The records."""
    if SERVICE.of(context.site) is None:
        pytest.skip(f"site {context.site.name} has no platform.services.{SERVICE.key}")
    with connect(context) as opened:
        yield opened


@pytest.mark.xdist_group(ACCELERATORS)
def test_a_tenants_pod_is_recorded(
    site: Site, kubectl: Kubectl, images: ImageOutputs, connection: psycopg.Connection[Any]
) -> None:
    """A pod that a tenant ran appears in accounting with its tenant, its card and its duration."""
    if not site.platform.tenants:
        pytest.skip("the site has no tenants")
    tenant = next((t for t in site.platform.tenants if t.quota.accelerators), site.platform.tenants[0])
    kinds = list(tenant.quota.accelerators)
    resources = {site.accelerators[kinds[0]].resource: "1"} if kinds else {}
    command = ["sleep", str(RUN_SECONDS)]
    anywhere = ({"operator": "Exists"},)
    name = f"check-accounting-{uuid.uuid4().hex[:8]}"
    request = PodRequest(name, images.images["pod-base"], command, resources=resources, tolerations=anywhere)
    query = (
        "SELECT tenant, cards, card, extract(epoch FROM ends - starts)::float, end_estimated FROM pod "
        "WHERE namespace = %s AND name = %s AND ends IS NOT NULL"
    )
    _, node = pods.run(kubectl, tenant.name, request)
    row = settled(lambda: connection.execute(query, (tenant.name, name)).fetchone(), seconds=RECORDED_SECONDS)
    assert row is not None, f"no record of the pod, which ran on {node}, after {RECORDED_SECONDS:.0f} s"
    owner, cards, card, seconds, estimated = row
    assert owner == tenant.name
    assert (cards, card) == ((1, next(iter(resources))) if resources else (0, None))
    assert RUN_SECONDS - 1 <= seconds <= pods.POD_SECONDS
    assert not estimated


def test_the_nodes_are_recorded(kubectl: Kubectl, connection: psycopg.Connection[Any]) -> None:
    """Accounting knows every node of the cluster as the capacity that it compares with."""
    listed = kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.name}").split()

    def recorded() -> list[str]:
        rows = connection.execute("SELECT name FROM node WHERE ends IS NULL").fetchall()
        return sorted(name for (name,) in rows)

    assert settled(recorded, lambda nodes: nodes == sorted(listed), RECORDED_SECONDS) == sorted(listed)


def test_the_energy_of_cards_is_recorded(site: Site, context: SiteContext, connection: psycopg.Connection[Any]) -> None:
    """Accounting has the energy of each GPU that Prometheus measured in the last hour that is recorded."""
    settings, source = SERVICE.of(site), metrics_of(context)
    if source is None or settings is None or settings.prometheus:
        pytest.skip(f"accounting of site {site.name} does not read a Prometheus of the site")
    row = connection.execute("SELECT at FROM collection WHERE source = 'prometheus'").fetchone()
    if row is None:
        pytest.skip("no hour is recorded yet")
    (end,) = row
    counters = "max by (UUID, Hostname) (DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION)"
    samples = source.query(f"increase(({counters})[1h:1m] @ {end.timestamp():.0f}) > 0")
    if not samples:
        pytest.skip(f"Prometheus measured no energy of GPUs in the hour before {end.astimezone(UTC):%H:%M} UTC")
    query = "SELECT card FROM card_energy WHERE hour = %s AND joules > 0"
    recorded = {card for (card,) in connection.execute(query, (end - timedelta(hours=1),)).fetchall()}
    assert {sample.labels["UUID"] for sample in samples} <= recorded


@dataclass(frozen=True)
class Member:
    """A user of the site's first tenant, at the API for measurements.

    Args:
        name: of the user.
        tenant: of the user.
        token: of the user, for the API.
        url: of the measurements.
        http: finds the site's names.
    """

    name: str
    tenant: str
    token: str = field(repr=False)
    url: str
    http: requests.Session

    def request(self, method: str, token: str = "", **options: Any) -> requests.Response:
        """A request with a token, where one is given."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.http.request(method, self.url, headers=headers, timeout=30, **options)


@pytest.fixture(scope="module")
def member(
    context: SiteContext, site: Site, own_issuer: Issuer, request: pytest.FixtureRequest, http: requests.Session
) -> Member:
    """Logs in as users do, with the client that kubectl has."""
    settings = SERVICE.of(site)
    if settings is None or settings.measurements is None:
        pytest.skip(f"site {site.name} has no platform.services.{SERVICE.key}.measurements")
    if not site.platform.tenants or site.cluster is None or not own_issuer.scope:
        pytest.skip(f"site {site.name} has no tenants whose users log in at an issuer of its own")
    new_user: NewUser = request.getfixturevalue("new_user")
    tenant = site.platform.tenants[0].name
    name, first = new_user(tenant)
    login = Login(CLIENT, REDIRECT_URLS[0], scope=f"openid {own_issuer.scope.format(audience=AUDIENCE.name)}")
    with site_session(context) as browser:
        token = login.tokens(browser, own_issuer, name, first, PASSWORD)["access_token"]
    url = f"https://{settings.measurements.hostname}.{site.domain}{AUDIENCE.path}"
    return Member(name, tenant, token, url, http)


def test_a_user_sends_and_reads_measurements(member: Member) -> None:
    """A user's measurements are stored under the user's name and tenant and read back; without a token, and for a
    tenant that is not the user's, nothing is."""
    row = {"name": "check.loss", "value": 0.25, "unit": "nat", "labels": {"run": member.name}}
    sent = member.request("POST", member.token, json=row)
    assert sent.status_code == 201, sent.text
    read = member.request("GET", member.token, params={"username": f"eq.{member.name}", "order": "at.desc"})
    assert read.status_code == 200, read.text
    (returned,) = read.json()
    assert returned.items() >= {**row, "username": member.name, "tenant": member.tenant}.items()
    assert member.request("GET").status_code == member.request("POST", json=row).status_code == 401
    assert member.request("POST", member.token, json={**row, "tenant": "another"}).status_code == 403
