"""Parts that hang, each of them stopped and not ended: the first `strata status` names them, although Kubernetes and
systemd still take them for healthy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.models import Site
from strata.site.context import SiteContext
from strata.site.hosts import hosts_with
from strata_bench.waiting import eventually
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.keycloak.service import SERVICE as KEYCLOAK

from .lab_site import require_lab
from .load import HEALED_SECONDS
from .service_parts import (
    HUB,
    ISSUER,
    METRICS,
    NEGOTIATOR,
    PROXY,
    SCHEDD,
    Hosts,
    Kubectl,
    Pods,
    container_of,
    unhealthy,
)

pytestmark = pytest.mark.nightly

PORTAL = Pods(SYSTEM_NAMESPACE, "deployment/portal", "server", "portal")
PODS = [
    (ISSUER, "keycloak: https://login."),
    (HUB, "jupyterhub: https://jupyter."),
    (PROXY, "jupyterhub: https://jupyter."),
    (PORTAL, "portal: https://"),
    (SCHEDD, "htcondor: schedd"),
    (NEGOTIATOR, "htcondor: collector"),
    (METRICS, "prometheus-server: Prometheus"),
]
UNITS = [
    ("registry", "docker-registry"),
    ("registry", "docker-registry-push"),
    ("nfs_server", "nfs-ganesha"),
    ("load_balancer", "haproxy"),
    ("kine", "kine"),
    ("postgresql", "postgresql@*-main"),
    ("kube_node", "kubelet"),
    ("kube_control_plane", "prometheus-node-exporter"),
]


@pytest.fixture(scope="module", autouse=True)
def lab_only(context: SiteContext, site: Site) -> None:
    """Other sites are not ours to break."""
    require_lab(context)
    for service in (HTCONDOR, JUPYTERHUB, KEYCLOAK):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")


@contextmanager
def stopped(context: SiteContext, signal: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """What `strata status` finds at its first look while something is stopped; then the site heals."""
    assert unhealthy(context) == {}
    signal("STOP")
    try:
        yield unhealthy(context)
    finally:
        signal("CONT")
    eventually(lambda: unhealthy(context) == {}, HEALED_SECONDS, "the site is healthy again")


@pytest.mark.parametrize(("part", "name"), PODS, ids=lambda value: value if isinstance(value, str) else value.object)
def test_pod(part: Pods, name: str, context: SiteContext, kubectl: Kubectl, site_host: Hosts) -> None:
    """Its service does not answer."""
    node, container = container_of(part.pod(kubectl), part.container)

    def signal(word: str) -> None:
        # one that its liveness probe has ended meanwhile is gone
        site_host(node).run(f"ctr --namespace k8s.io tasks kill --all --signal SIG{word} {container}")

    with stopped(context, signal) as found:
        assert {one.startswith(name): why for one, why in found.items()}.get(True) == "no answer within 4 s", found


def test_negotiator(context: SiteContext, kubectl: Kubectl) -> None:
    """The collector in the same pod answers."""
    where = ("exec", f"--namespace={NEGOTIATOR.namespace}", NEGOTIATOR.workload, "--container=condor", "--")

    def signal(word: str) -> None:
        kubectl(*where, "sh", "-c", f"kill -{word} $(pidof condor_negotiator)")

    with stopped(context, signal) as found:
        assert found == {"htcondor: negotiator": "no answer within 4 s"}


def test_dns(context: SiteContext, kubectl: Kubectl, site_host: Hosts) -> None:
    """One of its pods; half of the questions are not answered."""
    listed = kubectl("get", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns", "--output=json")
    pod = json.loads(listed)["items"][0]
    node, container = container_of(pod, "coredns")

    def signal(word: str) -> None:
        site_host(node).run(f"ctr --namespace k8s.io tasks kill --all --signal SIG{word} {container}")

    with stopped(context, signal) as found:
        silent = {one: why for one, why in found.items() if one.endswith(": the cluster's DNS")}
        assert silent, found
        assert set(silent.values()) == {"some queries are not answered within 3 s"}


@pytest.mark.parametrize(("role", "unit"), UNITS, ids=lambda value: value)
def test_unit(role: str, unit: str, context: SiteContext, site_host: Hosts) -> None:
    """systemd calls it active."""
    name = hosts_with(role, context.site, context.cloud_outputs)[0].name

    def signal(word: str) -> None:
        site_host(name).check_output(f"systemctl kill --signal={word} '{unit}.service'")

    with stopped(context, signal) as found:
        assert found[f"{name}: {unit}"].startswith("active, but no answer on port "), found
