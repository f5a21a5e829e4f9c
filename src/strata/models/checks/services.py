"""Services of the platform and what they stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.models.checks.finding import INSTANCES, MACHINES, Finding, hosts
from strata.models.events import KeyPath
from strata.models.site import Site

ML_HUB_DATABASE = "ml_hub"
SERVICE_ROLES = (("load_balancer", "answers through it"), ("registry", "takes its image from it"))


def check(site: Site, directory: Path) -> Iterator[Finding]:
    """Databases, roles, other services and files that services need."""
    services = site.platform.services
    root: KeyPath = ("platform", "services")
    present = [name for name in type(services).model_fields if getattr(services, name) is not None]
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
        for name in present:
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
    if services.token_issuer is None:
        yield Finding(
            path, "needs a token_issuer", "below services: token_issuer: {hostname: login}", ((*root, "token_issuer"),)
        )
    file = services.ml_hub.catalogue.file
    if file is not None and not _is_file(directory / file):
        yield Finding(
            (*path, "catalogue", "file"),
            f"there is no file {directory / file}",
            "the path of a JSON file, relative to the site file",
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False
