"""Services in namespaces of their own and of tenants: one table of releases, Secrets and data follow it."""

from __future__ import annotations

from typing import Any

import pytest

from strata.catalogue.needs import Namespace, TenantNamespaces
from strata.catalogue.service import Service
from strata.catalogue.site_services import installed
from strata.observe.facts import CloudFacts, ClusterFacts, Observation, PlatformFacts, ServiceFacts
from strata.observe.status import site_status
from strata.plan.build import plan
from strata.platform.release_secrets import secret_manifests
from strata.platform.releases import FINGERPRINT_ANNOTATION, releases
from strata.site.context import SiteContext
from strata.site.data_protection import data_of
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site

from ..platform.test_values import SITES, check, state_of
from .conftest import WithNeeds

OWN = Namespace("notebooks", "baseline")
PER_TENANT = TenantNamespaces(
    "pool",
    lambda context, tenant: {"domain": context.site.domain, "group": tenant.group_id},
    lambda _, tenant: {"token": f"token-of-{tenant.name}"},
)


@pytest.fixture
def service(with_needs: WithNeeds) -> Service[Any]:
    """A service of the lab with both."""
    first, *_ = installed(load_site(find_site("lab")))
    return with_needs(first, OWN, PER_TENANT)


def test_releases_come_after_the_namespaces_that_they_need(service: Service[Any]) -> None:
    table = {release.name: release for release in releases(load_site(find_site("lab")))}
    assert table[service.name].namespace == "notebooks"
    assert table[service.name].after == ("namespace-notebooks",)
    assert table["pool-research"].after == ("tenant-research",)
    # Helm trusts what is stored beside a release, and members of a tenant can edit it
    assert {table[name].namespace for name in ("namespace-notebooks", "tenant-research", "pool-research")} == {
        "strata-system"
    }
    names = list(table)
    for name, release in table.items():
        assert all(names.index(before) < names.index(name) for before in release.after)


def test_values_of_the_releases(service: Service[Any]) -> None:
    state = state_of(SITES["lab"])
    table = {release.name: release for release in releases(state.site)}
    made = table["namespace-notebooks"].values(state)
    check("namespace", made)
    assert made == {"namespace": "notebooks", "podSecurity": "baseline"}
    pool = table["pool-research"].values(state)
    assert pool.pop("podAnnotations").keys() == {FINGERPRINT_ANNOTATION}
    assert pool == {"domain": "lab.strata.test", "group": 20001, "namespace": "research"}


def test_secrets_are_in_the_namespace_of_the_pods(service: Service[Any]) -> None:
    state = state_of(SITES["lab"])
    manifests = secret_manifests(state)
    assert ("notebooks", service.secret_name) in manifests
    assert ("strata-system", service.secret_name) not in manifests
    assert manifests["research", "pool-secrets"]["metadata"]["labels"]["app.kubernetes.io/instance"] == "pool-research"
    assert set(secret_manifests(state, ["pool-research"])) == {("research", "pool-secrets")}


def test_plan_and_status_show_the_namespace(service: Service[Any]) -> None:
    context = SiteContext.load(find_site("lab"))
    platform = plan(context.site).platform
    assert platform is not None
    assert {r.name: r.namespace for r in platform.releases}[service.name] == "notebooks"
    elsewhere = {release.key: "deployed" for release in releases(context.site)}
    elsewhere[f"strata-system/{service.name}"] = elsewhere.pop(f"notebooks/{service.name}")
    seen = Observation(
        cloud=CloudFacts(),
        hosts={},
        cluster=ClusterFacts(),
        platform=PlatformFacts(releases=elsewhere),
        services=ServiceFacts(),
        seconds=0,
    )
    status = {row.object: row.found for row in site_status(context, seen) if row.layer == "platform"}
    assert status.pop(f"release {service.name}") == "missing", "it is in another namespace"
    assert set(status.values()) == {"deployed", "answers"}


def test_a_namespace_is_protected_as_data(service: Service[Any]) -> None:
    assert service
    kept = {item.key for item in data_of(load_site(find_site("lab")))}
    assert {"namespace/notebooks", "tenant/research"} <= kept


def test_findings(with_needs: WithNeeds) -> None:
    site = load_site(find_site("lab"))
    first, second, *_ = installed(site)
    with_needs(first, OWN)
    with_needs(second, Namespace("notebooks", "restricted"))
    (finding,) = OWN.findings(site, ("platform",))
    assert "another pod security level" in finding.why
    (finding,) = Namespace("research").findings(site, ("platform",))
    assert "is the tenant's" in finding.why
    long = TenantNamespaces("a-chart-with-a-name-that-leaves-tenants-no-room", lambda *_: {})
    assert {finding.fix for finding in long.findings(site, ("platform",))} == {
        "a tenant's name of at most 5 characters"
    }
