"""The front page of a site, at its domain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from strata.catalogue.needs import FrontPageEntry, Hostname, Metrics, Need, Priority
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site_services import issuer, needed
from strata.models.site import Site
from strata.roles import port
from strata.site.paths import REPOSITORY
from strata_services.portal.settings import Portal

HOSTNAME = Hostname("", "/healthz")
PRIORITY = Priority("platform")
METRICS = Metrics(9102)
HTTPS = port("load_balancer", "https")


def needs(_: Portal) -> tuple[Need[Any], ...]:
    """The domain itself, priority, metrics."""
    return (HOSTNAME, PRIORITY, METRICS)


KUBERNETES = FrontPageEntry(
    "Kubernetes",
    "Pods and jobs of your project, from your own computer. The operators have the file for ~/.kube/config.",
    "kubectl get pods",
)


def entries(site: Site, documentation: str | None) -> list[dict[str, str]]:
    """What the page shows: services whose Hostname has a title, others with an entry, Kubernetes where users log in.

    An entry without `host` has no state, one without `url` has no web page.
    """
    listed: list[tuple[dict[str, str], Path]] = []
    for service, need in needed(site, Hostname):
        if need.title:
            host = need.host(site)
            entry = {"title": need.title, "summary": need.summary, "host": host, "health": need.health_path or "/"}
            if need.command:
                entry["command"] = need.command.replace("{url}", f"https://{host}")
            else:
                entry["url"] = f"https://{host}{need.start_path}"
            listed.append((entry, service.folder / "README.md"))
    listed += [(asdict(need), service.folder / "README.md") for service, need in needed(site, FrontPageEntry)]
    if site.cluster is not None and issuer(site) is not None:
        listed.append((asdict(KUBERNETES), REPOSITORY / "docs" / "kubectl.md"))
    for entry, guide in listed:
        if documentation and guide.is_file():
            entry["guide"] = f"{documentation.rstrip('/')}/{guide.relative_to(REPOSITORY)}"
    return sorted((entry for entry, _ in listed), key=lambda entry: entry["title"])


def values(context: ServiceContext[Portal]) -> Values:
    """Values of helm/portal.

    Raises:
        UserError: no load balancer is deployed, or the CA of the services' certificate cannot be read.
    """
    settings, site, certificate = context.settings, context.site, context.site.platform.ingress.certificate
    page = {
        "title": settings.title or site.name,
        "introduction": settings.introduction,
        "contact": settings.contact or "",
        "guide": f"{settings.documentation.rstrip('/')}/docs/getting-started.md" if settings.documentation else "",
        "invited": issuer(site) is not None,
        "services": entries(site, settings.documentation),
    }
    # the public CAs of the image where there is none
    ca = context.secrets.ca if certificate.source == "site" else ""
    if certificate.ca_file is not None:
        ca = context.read("platform.ingress.certificate.ca_file", Path(certificate.ca_file))
    metrics = context.provide(METRICS)
    return {
        "image": context.image,
        "page": page,
        "probe": {"address": context.address("load_balancer"), "port": HTTPS, "ca": ca},
        "ingress": context.provide(HOSTNAME),
        "networkPolicy": {
            "enabled": True,
            "clients": [INGRESS_CONTROLLER],
            "metricsClients": list(metrics.clients),
        },
        "podAnnotations": dict(metrics.annotations),
        "priorityClassName": context.provide(PRIORITY),
    }


SERVICE = Service(folder=Path(__file__).parent, needs=needs, values=values)
