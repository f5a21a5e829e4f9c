"""The front page of a site, at its domain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from strata.catalogue.needs import Hostname, Metrics, Need, Priority
from strata.catalogue.needs.hostname import INGRESS_CONTROLLER
from strata.catalogue.service import Service, ServiceContext, Values
from strata.catalogue.site import issuer, needed
from strata.models.base import Model
from strata.models.types import EmailAddress, HttpsUrl
from strata.roles import port

if TYPE_CHECKING:
    from strata.models import Site

HOSTNAME = Hostname("", "/healthz")
PRIORITY = Priority("platform")
METRICS = Metrics(9102)
HTTPS = port("load_balancer", "https")


class Portal(Model):
    """The site's front page at https://<domain>/: services and their state, first steps, contact."""

    layer: ClassVar[str] = "platform"
    title: Annotated[
        str | None, Field(min_length=1, max_length=80, description="Heading of the page. Default: the site's name.")
    ] = None
    introduction: Annotated[str, Field(max_length=500, description="One or two sentences below the heading.")] = (
        "Notebooks, accelerators and storage for research."
    )
    contact: Annotated[
        EmailAddress | HttpsUrl | None,
        Field(description="E-mail address, or URL of a help desk, for questions of users. Default: none."),
    ] = None
    documentation: Annotated[
        HttpsUrl | None,
        Field(
            description="URL at which this repository's files are published, for instance "
            "https://git.example.org/strata/blob/main; the page then links to the guides. Default: no links."
        ),
    ] = None


def needs(_: Portal) -> tuple[Need[Any], ...]:
    """The domain itself, priority, metrics."""
    return (HOSTNAME, PRIORITY, METRICS)


def entries(site: Site, documentation: str | None) -> list[dict[str, str]]:
    """What the page shows of each service: those whose Hostname has a title."""
    found = []
    for service, need in needed(site, Hostname):
        if need.title:
            host = need.host(site.domain)
            entry = {"title": need.title, "summary": need.summary, "url": f"https://{host}{need.start_path}"}
            entry |= {"host": host, "health": need.health_path or "/"}
            if documentation and (service.folder / "README.md").is_file():
                entry["guide"] = f"{documentation.rstrip('/')}/services/{service.name}/README.md"
            found.append(entry)
    return sorted(found, key=lambda entry: entry["title"])


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


SERVICE = Service(folder=Path(__file__).parent, settings=Portal, needs=needs, values=values)
