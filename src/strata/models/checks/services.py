"""Services of the platform: what they need, and whose tokens they accept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.needs.base import role_findings
from strata.catalogue.site import installed, issuers
from strata.models.checks.finding import Finding
from strata.models.files import is_file
from strata.models.site import Site
from strata.models.yaml_events import KeyPath

MAXIMUM_PEM = 2**20
"""Characters of a PEM file that are read; a ConfigMap, where it goes, holds no more."""
PEM_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
PEM_PRIVATE_KEY = "PRIVATE KEY-----"
ROOT: KeyPath = ("platform", "services")


def check(site: Site, directory: Path) -> Iterator[Finding]:
    """A cluster, one issuer, and what each service needs and checks itself."""
    yield from _issuers(site, directory)
    present = bool(installed(site)) or site.platform.services.external_issuer is not None
    if site.cluster is None:
        for section, there in (("tenants", bool(site.platform.tenants)), ("services", present)):
            if there:
                why = "needs a cluster, and the site has none"
                yield Finding(("platform", section), why, "add cluster: {name: …}", (("cluster",),))
    for service in installed(site):
        key: KeyPath = (*ROOT, service.key)
        settings = service.of(site)
        if service.has_image:
            yield from role_findings(site, key, "registry", "its image comes from it")
        for need in service.needs(settings):
            yield from need.findings(site, key)
        yield from service.check(settings, site, directory)


def _issuers(site: Site, directory: Path) -> Iterator[Finding]:
    """One issuer at most; the CA of an external one can be read."""
    external = site.platform.services.external_issuer
    own = issuers(site)
    one = "services accept the tokens of one issuer"
    for other in own[1:]:
        yield Finding((*ROOT, other.key), f"duplicate of {own[0].key}: {one}", "remove one of them")
    if external is None:
        return
    if own:
        yield Finding((*ROOT, "external_issuer"), f"conflicts with {own[0].key}: {one}", "remove one of them")
    if external.ca_file is None:
        return
    key: KeyPath = (*ROOT, "external_issuer", "ca_file")
    file = directory / external.ca_file
    fix = "the path of a PEM file with certificates, relative to the site file"
    if not is_file(file):
        yield Finding(key, f"there is no file {file}", fix)
    elif (text := _text(file)) is None or PEM_CERTIFICATE not in text:
        yield Finding(key, f"{file} holds no certificate in PEM form", fix)
    elif PEM_PRIVATE_KEY in text:
        yield Finding(key, f"{file} holds a private key, which would be public", "only the certificates")


def _text(file: Path) -> str | None:
    """The beginning of a file, None where it is no text."""
    try:
        with file.open(encoding="ascii") as stream:
            return stream.read(MAXIMUM_PEM)
    except (OSError, ValueError):
        return None
