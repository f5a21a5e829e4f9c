"""The ingress controller behind the load balancer."""

from __future__ import annotations

import json
import socket
import ssl
import uuid
from collections.abc import Iterator

import pytest
import requests

from strata.access.https import load_balancer_address, trusted_authorities
from strata.catalogue.needs.hostname import INGRESS_CLASS, INGRESS_NAMESPACE
from strata.catalogue.published import PublishedService, published
from strata.site.context import SiteContext
from strata.site.host_list import ingress_nodes
from strata.verify.needs import CLUSTER, ROUTES, SEVERAL_CONTROLLERS, needs, role
from strata.verify.pods import Kubectl
from strata.verify.waiting import settled

pytestmark = needs(CLUSTER, role("load_balancer"))


@pytest.fixture(scope="module")
def address(context: SiteContext) -> str:
    """Address of the load balancer."""
    return load_balancer_address(context)


@pytest.fixture(scope="module")
def service(context: SiteContext) -> PublishedService:
    """A service that routes can lead to."""
    return next(s for s in published(context.site) if s.health_path)


@pytest.fixture
def route(context: SiteContext, kubectl: Kubectl, service: PublishedService) -> Iterator[str]:
    """The host name of a new Ingress, which is removed after the check."""
    own = service.host
    ingresses = json.loads(kubectl("get", "ingresses", "--all-namespaces", "--output=json"))["items"]
    rules = [(ingress["metadata"]["namespace"], rule) for ingress in ingresses for rule in ingress["spec"]["rules"]]
    namespace, backend = next(
        (where, rule["http"]["paths"][0]["backend"]) for where, rule in rules if rule["host"] == own
    )

    label = f"verify-{uuid.uuid4().hex[:8]}"
    host = f"{label}.{context.site.domain}"
    rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": label, "namespace": namespace},
        "spec": {"ingressClassName": INGRESS_CLASS, "rules": [rule]},
    }
    kubectl("create", "--filename", "-", input=json.dumps(manifest))
    yield host
    kubectl("delete", "ingress", label, "--namespace", namespace, "--ignore-not-found")


@needs(ROUTES)
def test_a_new_route_leads_to_its_service(route: str, service: PublishedService, http: requests.Session) -> None:
    """A new Ingress is reachable over HTTPS at its host name, without `up`."""

    def status() -> int:
        return http.get(f"https://{route}{service.health_path}", timeout=30).status_code

    assert settled(status, lambda code: code == requests.codes.ok) == requests.codes.ok


def test_unknown_name_is_not_found(context: SiteContext, address: str, http: requests.Session) -> None:
    """An unknown host name below the domain returns 404, with the site's certificate."""
    assert address
    response = http.get(f"https://no-such-service.{context.site.domain}/", timeout=30)
    assert response.status_code == 404


def test_plain_http_is_redirected(context: SiteContext, address: str) -> None:
    """HTTP redirects to HTTPS and keeps path and query."""
    headers = {"Host": f"any.{context.site.domain}"}
    response = requests.get(f"http://{address}/a?b=c", headers=headers, allow_redirects=False, timeout=30)
    assert response.status_code == 308
    assert response.headers["Location"] == f"https://any.{context.site.domain}/a?b=c"


@needs(ROUTES)
def test_http2_is_offered(context: SiteContext, address: str, service: PublishedService) -> None:
    """Clients can negotiate HTTP/2."""
    authorities = trusted_authorities(context)
    trusting = ssl.create_default_context(cafile=authorities if isinstance(authorities, str) else None)
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    name = service.host
    with (
        socket.create_connection((address, 443), timeout=30) as plain,
        trusting.wrap_socket(plain, server_hostname=name) as session,
    ):
        assert session.selected_alpn_protocol() == "h2"


@needs(SEVERAL_CONTROLLERS)
def test_controller_runs_on_every_node_of_the_load_balancer(
    context: SiteContext, address: str, kubectl: Kubectl
) -> None:
    """An ingress controller pod is ready on each node that the load balancer forwards to."""
    assert address

    def ready() -> set[str]:
        pods = json.loads(kubectl("get", "pods", "--namespace", INGRESS_NAMESPACE, "--output", "json"))["items"]
        return {
            pod["spec"]["nodeName"]
            for pod in pods
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
        }

    nodes = {node.name for node in ingress_nodes(context.site, context.cloud_outputs)}
    assert nodes <= settled(ready, nodes.issubset)
