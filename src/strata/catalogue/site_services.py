"""The services of one site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from strata.catalogue.discovery import services
from strata.catalogue.need import Need
from strata.catalogue.service import Service
from strata.models.site import Site

if TYPE_CHECKING:
    from strata.catalogue.issuer import Issuer
    from strata.catalogue.needs.batch_queue import BatchServer
    from strata.catalogue.needs.bucket import S3Endpoint
    from strata.catalogue.needs.dask_clusters import DaskServer
    from strata.catalogue.needs.hugging_face import HubServer
    from strata.catalogue.needs.metrics_query import MetricsServer
    from strata.catalogue.needs.model_endpoint import ModelEndpoint

NeedT = TypeVar("NeedT", bound=Need[Any])
ServerT = TypeVar("ServerT")


def installed(site: Site) -> tuple[Service[Any], ...]:
    """Services that the site file names, by name."""
    return tuple(service for service in services() if service.of(site) is not None)


def needed(site: Site, word: type[NeedT]) -> Iterator[tuple[Service[Any], NeedT]]:
    """Each need of a kind that a service of the site has, with that service."""
    for service in installed(site):
        for need in service.needs(service.of(site)):
            if isinstance(need, word):
                yield service, need


def issuers(site: Site) -> tuple[Service[Any], ...]:
    """Services of the site that issue tokens; a valid site has one at most."""
    return tuple(service for service in installed(site) if service.issuer is not None)


def issuer(site: Site) -> Issuer | None:
    """The site's own issuer of tokens; None where it is external, or there is none."""
    for service in issuers(site):
        if service.issuer is not None:
            return service.issuer(service.of(site), site)
    return None


def metrics_server(site: Site) -> MetricsServer | None:
    """What serves queries of the site's metrics; None where no service does."""
    servers = (service.metrics_server for service in installed(site))
    return next((server for server in servers if server is not None), None)


def s3_endpoint(site: Site) -> S3Endpoint | None:
    """The site's S3 endpoint; None where no service of the site has one."""
    for service in installed(site):
        if service.s3_endpoint is not None:
            return service.s3_endpoint(service.of(site), site)
    return None


def required_endpoint(site: Site) -> S3Endpoint:
    """The site's S3 endpoint.

    Raises:
        LookupError: the site has none; validation refuses that.
    """
    storage = s3_endpoint(site)
    if storage is None:
        raise LookupError(f"site {site.name} has no S3 endpoint; validation refuses that")
    return storage


def batch_server(site: Site) -> BatchServer | None:
    """What takes batch jobs; None where no service does."""
    return _described(site, lambda service: service.batch_server)


def dask_server(site: Site) -> DaskServer | None:
    """What starts Dask clusters for users; None where no service does."""
    return _described(site, lambda service: service.dask_server)


def hub_server(site: Site) -> HubServer | None:
    """What mirrors the Hugging Face Hub for pods; None where no service does."""
    return _described(site, lambda service: service.hub_server)


def model_endpoint(site: Site) -> ModelEndpoint | None:
    """What users ask models by; None where no service has any."""
    return _described(site, lambda service: service.model_endpoint)


def _described(site: Site, part: Callable[[Service[Any]], Callable[[Site], ServerT] | None]) -> ServerT | None:
    """What the first service with that part declares."""
    descriptions = (describe(site) for service in installed(site) if (describe := part(service)) is not None)
    return next(descriptions, None)
