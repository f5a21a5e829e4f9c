"""Parts that hang, each of them stopped and not ended: the first `strata status` names them, although Kubernetes and
systemd still take them for healthy. Pods that do not start are named with what keeps them from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.models.site import Site
from strata.observe.workloads import STABLE
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata_bench.waiting import eventually
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.keycloak.service import SERVICE as KEYCLOAK

from .healing import up_again
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
SETTLED_SECONDS = 1.5 * STABLE.total_seconds()
"""Status names what has restarted for less."""

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
    # what ran before may have restarted something several times, which status names for a while
    eventually(lambda: unhealthy(context) == {}, SETTLED_SECONDS, "nothing has restarted lately")


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
    """Its service does not respond."""
    node, container = container_of(part.pod(kubectl), part.container)

    def signal(word: str) -> None:
        # one that its liveness probe has ended meanwhile is gone
        site_host(node).run(f"ctr --namespace k8s.io tasks kill --all --signal SIG{word} {container}")

    # a service by its URL; a daemon by its own tool, which has to start
    why = f"no answer within {8 if 'https://' in name else 15} s"
    with stopped(context, signal) as failed:
        assert {part.startswith(name): seen for part, seen in failed.items()}.get(True) == why, failed


def test_negotiator(context: SiteContext, kubectl: Kubectl) -> None:
    """The collector in the same pod answers."""
    where = ("exec", f"--namespace={NEGOTIATOR.namespace}", NEGOTIATOR.workload, "--container=condor", "--")

    def signal(word: str) -> None:
        kubectl(*where, "sh", "-c", f"kill -{word} $(pidof condor_negotiator)")

    with stopped(context, signal) as failed:
        assert failed == {"htcondor: negotiator": "no answer within 15 s"}


def test_dns(context: SiteContext, kubectl: Kubectl, site_host: Hosts) -> None:
    """One of its pods; half of the questions are not answered."""
    listed = kubectl("get", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns", "--output=json")
    pod = json.loads(listed)["items"][0]
    node, container = container_of(pod, "coredns")

    def signal(word: str) -> None:
        site_host(node).run(f"ctr --namespace k8s.io tasks kill --all --signal SIG{word} {container}")

    with stopped(context, signal) as failed:
        silent = {part: why for part, why in failed.items() if part.endswith(": the cluster's DNS")}
        assert silent, failed
        assert set(silent.values()) == {"some queries are not answered within 5 s"}


@pytest.mark.parametrize(("role", "unit"), UNITS, ids=lambda value: value)
def test_unit(role: str, unit: str, context: SiteContext, site_host: Hosts) -> None:
    """systemd calls it active."""
    name = hosts_with(role, context.site, context.cloud_outputs)[0].name

    def signal(word: str) -> None:
        site_host(name).check_output(f"systemctl kill --signal={word} '{unit}.service'")

    with stopped(context, signal) as failed:
        assert failed[f"{name}: {unit}"].startswith("active, but no answer on port "), failed


def strategic(**container: object) -> str:
    """A patch of the portal's container."""
    pod = {"containers": [{"name": PORTAL.container, **container}]}
    return json.dumps({"spec": {"template": {"spec": pod}}})


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (strategic(image="registry.invalid/portal:none"), r"(ErrImagePull|ImagePullBackOff): .*registry\.invalid"),
        (strategic(command=["sh", "-c", "sleep 1; exit 3"]), r"CrashLoopBackOff: Error, exit code 3"),
        (strategic(envFrom=[{"secretRef": {"name": "none"}}]), r'CreateContainerConfigError: secret "none" not found'),
        (strategic(resources={"requests": {"cpu": "1k"}, "limits": {"cpu": "1k"}}), r"0/\d+ nodes are available"),
    ],
    ids=["image", "crash", "secret", "room"],
)
def test_pods_that_do_not_start(patch: str, reason: str, context: SiteContext, kubectl: Kubectl) -> None:
    """The reason is in the state of the Deployment, and `strata up` puts back what was there."""
    target = (PORTAL.workload, f"--namespace={PORTAL.namespace}")
    kubectl("scale", *target, "--replicas=0")
    kubectl("patch", *target, "--type=strategic", f"--patch={patch}")
    kubectl("scale", *target, "--replicas=1")

    def named() -> bool:
        return re.search(rf"portal-\S+( on \S+)?: {reason}", unhealthy(context).get(PORTAL.object, "")) is not None

    try:
        eventually(named, HEALED_SECONDS, f"status shows {reason}")
    finally:
        up_again(context)
    eventually(lambda: unhealthy(context) == {}, HEALED_SECONDS, "the site is healthy again")


def test_pods_over_a_quota(context: SiteContext, kubectl: Kubectl) -> None:
    """Refused by the API server; a StatefulSet reports it by an event only."""
    where = f"--namespace={NEGOTIATOR.namespace}"
    kubectl("create", "quota", "test-none", where, "--hard=pods=0")
    try:
        kubectl("delete", "pod", "htcondor-central-manager-0", where, "--wait=true", timeout=HEALED_SECONDS)
        reason = ""

        def named() -> bool:
            nonlocal reason
            reason = unhealthy(context).get(NEGOTIATOR.object, "")
            return "exceeded quota: test-none" in reason

        eventually(named, HEALED_SECONDS, "status shows the quota")
    finally:
        kubectl("delete", "quota", "test-none", where)
    eventually(lambda: unhealthy(context) == {}, HEALED_SECONDS, "the site is healthy again")
