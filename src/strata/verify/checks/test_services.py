"""Checks of every service of the platform; those of one service are in services/<name>/checks."""

from __future__ import annotations

import json
import socket
import ssl
import time
from typing import Any

import certifi
import pytest

from strata.catalogue.discovery import services
from strata.catalogue.published import published, wildcards
from strata.catalogue.service import Service
from strata.catalogue.site_needs import namespaces
from strata.models.site import Site
from strata.site.host_list import outside_of
from strata.site.outputs import CloudOutputs, ImageOutputs
from strata.site.paths import SitePaths
from strata.verify.needs import CLUSTER, NAMESPACES, SITE_CERTIFICATES, Need, needs, role
from strata.verify.pods import Kubectl, running_pods

pytestmark = needs(CLUSTER)


def of_service(service: Service[Any]) -> Need:
    """The service, with a host name."""
    return Need(
        f"platform.services.{service.key} with a host name",
        lambda site: any(entry.key == service.key for entry in published(site)),
    )


def with_image(service: Service[Any]) -> Need:
    """The service, with an image of its own."""
    return Need(
        f"pods of {service.name} with an image of their own",
        lambda site: service.of(site) is not None and bool(service.image_folders),
    )


@needs(role("load_balancer"), SITE_CERTIFICATES)
@pytest.mark.parametrize("key", [pytest.param(service.key, marks=needs(of_service(service))) for service in services()])
def test_names_have_certificates_of_the_site(
    key: str, site: Site, paths: SitePaths, cloud_outputs: CloudOutputs | None
) -> None:
    """Each service is reachable on port 443 with the wildcard certificate of the site's CA."""
    entry = next(entry for entry in published(site) if entry.key == key)
    address = outside_of("load_balancer", site, cloud_outputs)
    assert address is not None, "no host has the role load_balancer"
    name = entry.host
    trusting = ssl.create_default_context(cafile=str(paths.ca_file))
    with (
        socket.create_connection((address, 443), timeout=30) as plain,
        trusting.wrap_socket(plain, server_hostname=name) as session,
    ):
        assert session.version() in ("TLSv1.2", "TLSv1.3")
        certificate = session.getpeercert()
    assert certificate is not None
    assert set(certificate["subjectAltName"]) == {
        ("DNS", covered) for covered in (site.domain, f"*.{site.domain}", *wildcards(site))
    }
    assert ssl.cert_time_to_seconds(str(certificate["notAfter"])) > time.time() + 7 * 86400
    # public CAs only: the deployment host itself may trust the site's
    with (
        socket.create_connection((address, 443), timeout=30) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
        ssl.create_default_context(cafile=certifi.where()).wrap_socket(plain, server_hostname=name),
    ):
        pytest.fail("the certificate is trusted without the site's authority")


@pytest.mark.parametrize(
    "service",
    [pytest.param(service, marks=needs(with_image(service)), id=service.name) for service in services()],
)
def test_pods_run_the_pushed_image(kubectl: Kubectl, images: ImageOutputs, site: Site, service: Service[Any]) -> None:
    """Each service's pods run the images that were pushed, by digest."""
    # pods that a chart adds may run other images of the registry, for instance pause
    pushed = {str(image): image.digest for image in images.images.values()}
    for pod in running_pods(kubectl, service.name, service.namespace_of(site)):
        assert {c["image"] for c in pod["spec"]["containers"]} <= pushed.keys()
        for status in pod["status"]["containerStatuses"]:
            assert status["imageID"].endswith(tuple(pushed.values())), status["imageID"]


@needs(NAMESPACES)
def test_namespaces_of_services_are_closed(kubectl: Kubectl, site: Site) -> None:
    """Namespaces of services reject pods above their security level, and deny all connections by default."""
    listed = namespaces(site)
    container = {"name": "main", "image": "none", "securityContext": {"privileged": True}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "check"}, "spec": {"containers": [container]}}
    for namespace in listed:
        where = ("--namespace", namespace.name)
        said = kubectl("create", *where, "--dry-run=server", "--filename=-", input=json.dumps(pod), check=False)
        assert namespace.pod_security == "privileged" or "violates PodSecurity" in said, said
        policies = json.loads(kubectl("get", "networkpolicies", *where, "--output=json"))["items"]
        closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        assert closed in [policy["spec"] for policy in policies], namespace.name
