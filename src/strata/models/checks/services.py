"""Services of the platform and what they stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.models.catalogue import read_catalogue
from strata.models.checks.finding import INSTANCES, MACHINES, Finding, hosts
from strata.models.platform import Services
from strata.models.site import Site
from strata.models.yaml_events import KeyPath

ML_HUB_DATABASE = "ml_hub"
MAXIMUM_PEM = 2**20
"""Characters of a PEM file that are read; a ConfigMap, where it goes, holds no more."""
PEM_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
PEM_PRIVATE_KEY = "PRIVATE KEY-----"
SERVICE_ROLES = (("load_balancer", "answers through it"), ("registry", "takes its image from it"))


def check(site: Site, directory: Path) -> Iterator[Finding]:
    """Databases, roles, other services and files that services need."""
    services = site.platform.services
    root: KeyPath = ("platform", "services")
    present = [name for name in type(services).model_fields if getattr(services, name) is not None]
    yield from _issuers(services, directory)
    yield from _certificate(site, directory)
    if site.cluster is None:
        for key in ("tenants", "services"):
            if (key == "tenants" and site.platform.tenants) or (key == "services" and present):
                yield Finding(
                    ("platform", key),
                    "needs a cluster, and the site has none",
                    "add cluster: {name: …}",
                    (("cluster",),),
                )
    roles = {role for host in hosts(site) for role in host.roles}
    for role, reason in SERVICE_ROLES:
        for name in services.installed:
            if role not in roles:
                why = f"needs a host with the role {role} ({reason}), and there is none"
                yield Finding((*root, name), why, f"give a host the role {role}", (INSTANCES, MACHINES))
    if services.ml_hub is None:
        return
    path: KeyPath = (*root, "ml_hub")
    databases = site.hosts.postgresql.databases if site.hosts.postgresql else ()
    if ML_HUB_DATABASE not in databases:
        fix = f"below hosts: postgresql: {{databases: [{ML_HUB_DATABASE}]}}, and a host with the role postgresql"
        yield Finding(path, f"needs the database {ML_HUB_DATABASE}", fix, (("hosts", "postgresql"),))
    if services.issuer is None:
        fix = "below services: token_issuer: {hostname: login}, or external_issuer: {url: https://…}"
        reads = ((*root, "token_issuer"), (*root, "external_issuer"))
        yield Finding(path, "needs a token_issuer or an external_issuer", fix, reads)
    file = services.ml_hub.catalogue.file
    if file is None:
        return
    file_key: KeyPath = (*path, "catalogue", "file")
    if not _is_file(directory / file):
        fix = "the path of a JSON file, relative to the site file"
        yield Finding(file_key, f"there is no file {directory / file}", fix)
        return
    try:
        read_catalogue(directory / file)
    except OSError as error:
        yield Finding(file_key, f"{directory / file} cannot be read: {error.strerror}", "a readable JSON file")
    except ValueError as error:
        fix = 'a JSON list of models: [{"id": "google/flan-t5-large", …}]'
        yield Finding(file_key, f"{directory / file}: {error}", fix)


def _issuers(services: Services, directory: Path) -> Iterator[Finding]:
    """One issuer at most; the authority of an external one is there."""
    root: KeyPath = ("platform", "services", "external_issuer")
    external = services.external_issuer
    if external is None:
        return
    if services.token_issuer is not None:
        yield Finding(
            root, "stands beside token_issuer; services accept the tokens of one issuer", "remove one of them"
        )
    if external.ca_file is not None:
        yield from _certificates_file((*root, "ca_file"), directory / external.ca_file)


def _certificate(site: Site, directory: Path) -> Iterator[Finding]:
    """Files and secret of the services' certificate."""
    root: KeyPath = ("platform", "ingress", "certificate")
    given = site.platform.ingress.certificate
    for key in ("certificate", "ca_file"):
        if (name := getattr(given, key)) is not None:
            yield from _certificates_file((*root, key), directory / name)
    if given.private_key is None:
        return
    if given.private_key not in {secret.name for secret in site.secrets if secret.source != "generated"}:
        yield Finding(
            (*root, "private_key"),
            f"{given.private_key} is not a secret that the operator provides",
            f"secrets: [{{name: {given.private_key}, source: file, path: …}}]",
            (("secrets",),),
        )


def _certificates_file(path: KeyPath, file: Path) -> Iterator[Finding]:
    """The file is there, and holds certificates and no key."""
    fix = "the path of a PEM file with certificates, relative to the site file"
    if not _is_file(file):
        yield Finding(path, f"there is no file {file}", fix)
    elif (text := _text(file)) is None or PEM_CERTIFICATE not in text:
        yield Finding(path, f"{file} holds no certificate in PEM form", fix)
    elif PEM_PRIVATE_KEY in text:
        yield Finding(path, f"{file} holds a private key, which would be public", "only the certificates")


def _text(file: Path) -> str | None:
    """The beginning of a file, None where it is no text."""
    try:
        with file.open(encoding="ascii") as stream:
            return stream.read(MAXIMUM_PEM)
    except (OSError, ValueError):
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False
