"""The names of one site at its load balancer."""

from __future__ import annotations

from dataclasses import dataclass

from strata.catalogue.needs.api_path import ApiPath
from strata.catalogue.needs.hostname import API_HOSTNAME, Hostname
from strata.catalogue.needs.wildcard_hostname import WildcardHostname
from strata.catalogue.site_services import needed
from strata.models.key_path import KeyPath
from strata.models.site import Site


@dataclass(frozen=True)
class PublishedService:
    """A service at the load balancer.

    Args:
        key: in `platform.services`.
        hostname: below the site's domain; empty: the domain itself.
        host: the whole name.
        health_path: answers 2xx while the service is healthy; empty where there is none.
        path: of its own, where it shares the name with others.
    """

    key: str
    hostname: str
    host: str
    health_path: str
    path: str = "/"

    @property
    def url(self) -> str:
        """Where users reach it."""
        return f"https://{self.host}{self.path}"

    @property
    def hostname_key(self) -> KeyPath:
        """In the site file, of the setting that names it."""
        return API_HOSTNAME if self.path != "/" else ("platform", "services", self.key, "hostname")

    @property
    def health_url(self) -> str:
        """Responds while the service does."""
        return f"https://{self.host}{self.health_path or '/'}"


def published(site: Site) -> tuple[PublishedService, ...]:
    """The services of the site at its load balancer, in the order of their keys."""
    return tuple(
        PublishedService(service.key, need.label_at(site), need.host(site), need.health_path, need.path)
        for service, need in needed(site, Hostname)
    )


def front_page_url(site: Site) -> str:
    """Of the site's front page; empty at a site without one."""
    has_one = any(need.label_at(site) == "" for _, need in needed(site, Hostname))
    return f"https://{site.domain}/" if has_one else ""


def api_url(site: Site) -> str:
    """Of the site's API, without a slash at its end; empty where no service has a path there."""
    return next((f"https://{need.host(site)}" for _, need in needed(site, ApiPath)), "")


def wildcards(site: Site) -> tuple[str, ...]:
    """Names for the certificate, `*.pods.example.org`."""
    return tuple(sorted({f"*.{need.domain(site)}" for _, need in needed(site, WildcardHostname)}))
