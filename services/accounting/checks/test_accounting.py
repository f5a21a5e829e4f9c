"""Accounting, as the operator meets it: through `strata accounting`'s connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from strata.models import Site
from strata.models.accelerators import CATALOGUE
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify import pods
from strata.verify.pods import Kubectl, PodRequest
from strata_services.accounting.commands.connection import connect
from strata_services.accounting.service import SERVICE

RECORDED_SECONDS = 30.0
"""How long a record may take, in seconds."""
RUN_SECONDS = 2
NAME = "check-accounting"


@pytest.fixture(scope="module")
def connection(context: SiteContext) -> Iterator[psycopg.Connection[Any]]:
    """The records."""
    if SERVICE.of(context.site) is None:
        pytest.skip(f"site {context.site.name} has no platform.services.{SERVICE.key}")
    with connect(context) as found:
        yield found


def test_a_tenants_pod_is_recorded(
    site: Site, kubectl: Kubectl, images: ImageOutputs, connection: psycopg.Connection[Any]
) -> None:
    """A pod that a tenant ran appears in accounting with its tenant, its card and its duration."""
    if not site.platform.tenants:
        pytest.skip("the site has no tenants")
    tenant = next((t for t in site.platform.tenants if t.quota.accelerators), site.platform.tenants[0])
    kinds = list(tenant.quota.accelerators)
    resources = {CATALOGUE[kinds[0]].resource: "1"} if kinds else {}
    command = ["sleep", str(RUN_SECONDS)]
    anywhere = ({"operator": "Exists"},)
    request = PodRequest(NAME, images.images["pod-base"], command, resources=resources, tolerations=anywhere)
    query = (
        "SELECT tenant, cards, card, extract(epoch FROM ends - starts)::float, end_estimated FROM pod "
        "WHERE namespace = %s AND name = %s AND starts > now() - interval '5 minutes' AND ends IS NOT NULL "
        "ORDER BY starts DESC LIMIT 1"
    )
    _, node = pods.run(kubectl, tenant.name, request)
    end = time.monotonic() + RECORDED_SECONDS
    while (row := connection.execute(query, (tenant.name, NAME)).fetchone()) is None:
        assert time.monotonic() < end, f"no record of the pod, which ran on {node}, after {RECORDED_SECONDS:.0f} s"
        time.sleep(0.3)
    owner, cards, card, seconds, estimated = row
    assert owner == tenant.name
    assert (cards, card) == ((1, next(iter(resources))) if resources else (0, None))
    assert RUN_SECONDS - 1 <= seconds <= pods.POD_SECONDS
    assert not estimated


def test_the_nodes_are_recorded(kubectl: Kubectl, connection: psycopg.Connection[Any]) -> None:
    """Accounting knows every node of the cluster as the capacity that it compares with."""
    listed = kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.name}").split()
    rows = connection.execute("SELECT name FROM node WHERE ends IS NULL").fetchall()
    assert sorted(name for (name,) in rows) == sorted(listed)
