"""Services of the platform: what they need, and whose tokens they accept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.need import role_findings
from strata.catalogue.site_services import installed, issuers
from strata.models.files import certificates_file
from strata.models.finding import Finding
from strata.models.key_path import KeyPath
from strata.models.site import Site

ROOT: KeyPath = ("platform", "services")


def check(site: Site, directory: Path) -> Iterator[Finding]:
    """A cluster, one issuer, and what each service needs and checks itself."""
    yield from _issuers(site, directory)
    yield from _certificate(site, directory)
    present = bool(installed(site)) or site.platform.services.external_issuer is not None
    if site.cluster is None:
        for section, there in (("tenants", bool(site.platform.tenants)), ("services", present)):
            if there:
                why = "needs a cluster, and the site has none"
                yield Finding(("platform", section), why, "add cluster: {name: …}", (("cluster",),))
    for service in installed(site):
        key: KeyPath = (*ROOT, service.key)
        settings = service.of(site)
        if service.image_folders:
            yield from role_findings(site, key, "registry", "its images come from it")
        # two needs may miss the same: tokens and logins, an issuer
        yield from dict.fromkeys(finding for need in service.needs(settings) for finding in need.findings(site, key))
        yield from service.check(settings, site, directory)


def _issuers(site: Site, directory: Path) -> Iterator[Finding]:
    """One issuer at most; the CA of an external one can be read."""
    external = site.platform.services.external_issuer
    own = issuers(site)
    reason = "services accept the tokens of one issuer"
    for other in own[1:]:
        yield Finding((*ROOT, other.key), f"duplicate of {own[0].key}: {reason}", "remove one of them")
    if external is None:
        return
    if own:
        yield Finding((*ROOT, "external_issuer"), f"conflicts with {own[0].key}: {reason}", "remove one of them")
    if external.ca_file is not None:
        yield from certificates_file((*ROOT, "external_issuer", "ca_file"), directory / external.ca_file)


def _certificate(site: Site, directory: Path) -> Iterator[Finding]:
    """Files and secret of the services' certificate."""
    root: KeyPath = ("platform", "ingress", "certificate")
    given = site.platform.ingress.certificate
    for key in ("certificate", "ca_file"):
        if (name := getattr(given, key)) is not None:
            yield from certificates_file((*root, key), directory / name)
    if given.private_key is None:
        return
    if given.private_key not in {secret.name for secret in site.secrets if secret.source != "generated"}:
        yield Finding(
            (*root, "private_key"),
            f"{given.private_key} is not a secret that the operator provides",
            f"secrets: [{{name: {given.private_key}, source: file, path: …}}]",
            (("secrets",),),
        )
