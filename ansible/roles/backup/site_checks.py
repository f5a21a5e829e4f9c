"""Backups: everything that the site stores is backed up or excluded, and the operator has the secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY, backup_items
from strata.models.declared_hosts import DeclaredHost, declared_hosts
from strata.models.finding import Finding, duplicates
from strata.models.key_path import INSTANCES, MACHINES, KeyPath
from strata.models.site import Site
from strata.models.types import is_address

KEY: KeyPath = ("hosts", "backup")
ROLE, POSTGRESQL = "backup", "postgresql"
ARCHIVE_SETTINGS = ("archive_mode", "archive_command", "archive_library", "wal_level")
"""Settings of PostgreSQL on which the archive depends."""
DATA: tuple[KeyPath, ...] = (
    ("cloud",),
    ("hosts", "machines"),
    ("hosts", "nfs"),
    ("hosts", "postgresql"),
    ("platform",),
)
"""Where it determines what a host stores."""


def check(site: Site) -> Iterator[Finding]:
    """Hosts with data against hosts with the role; excluded items; secrets."""
    backup = site.hosts.backup
    if backup is None:
        return
    hosts = list(declared_hosts(site))
    archive = backup.postgresql is not None
    assigned = archive or any(ROLE in host.roles for host in hosts)  # else the section has a finding
    if archive:
        yield from _archive(site, hosts)
    yield from _dumps(site, hosts)
    for host in hosts:
        items = backup_items(site, host.roles)
        if ROLE in host.roles and not items:
            why = f"has the role {ROLE}, and {host.name} stores no export and no database that is to be backed up"
            yield Finding((*host.path, "roles"), why, f"remove {ROLE} here", DATA)
        elif assigned and items and ROLE not in host.roles:
            why = f"has no role {ROLE}, and {host.name} stores {next(iter(items))}"
            yield Finding((*host.path, "roles"), why, f"add {ROLE}, or name it in hosts.backup.exclude", (KEY,))
    everything = backup_items(_without_exclusions(site), {role for host in hosts for role in host.roles})
    yield from duplicates((item, (*KEY, "exclude", index)) for index, item in enumerate(backup.exclude))
    for index, item in enumerate(backup.exclude):
        if item not in everything:
            fix = f"one of {', '.join(everything)}" if everything else "remove the line"
            yield Finding((*KEY, "exclude", index), "is neither an export nor a database of the site", fix, DATA)
    if _in_lab(site):
        return
    provided = {secret.name for secret in site.secrets if secret.source != "generated"}
    for name in (ACCESS_KEY, SECRET_KEY, PASSWORD):
        if name not in provided:
            why = f"the secret {name} must be provided: a generated one would be lost with the deployment host"
            yield Finding(KEY, why, f"secrets: [{{name: {name}, source: file, path: …}}]", (("secrets",), ("cloud",)))


def _archive(site: Site, hosts: Sequence[DeclaredHost]) -> Iterator[Finding]:
    """pgBackRest needs a server, and the settings by which it gets the WAL."""
    if not any(POSTGRESQL in host.roles for host in hosts):
        why = "needs a host with the role postgresql, and there is none"
        yield Finding((*KEY, "postgresql"), why, "give a host the role postgresql, or remove the line", DATA)
    endpoint = site.hosts.backup and urlsplit(site.hosts.backup.url).hostname
    if endpoint and is_address(endpoint):
        why = f"pgBackRest verifies certificates by name only, and {endpoint} is an address"
        yield Finding((*KEY, "url"), why, "a URL with the endpoint's name", ((*KEY, "postgresql"),))
    settings = site.hosts.postgresql.settings if site.hosts.postgresql else {}
    for name in settings:
        if name in ARCHIVE_SETTINGS:
            why = f"{name} is set by pgBackRest, which hosts.backup.postgresql enables"
            yield Finding(("hosts", "postgresql", "settings", name), why, f"remove the line {name}", (KEY,))


def _dumps(site: Site, hosts: Sequence[DeclaredHost]) -> Iterator[Finding]:
    """The role dumps the databases of a single server."""
    servers = {host.name for host in hosts if POSTGRESQL in host.roles}
    if len(servers) > 1 and (stored := backup_items(site, (POSTGRESQL,))):
        why = "dumps the databases of one PostgreSQL server only, and there are several"
        fix = f"below hosts.backup: postgresql: {{}}, or exclude: [{', '.join(stored)}]"
        yield Finding(KEY, why, fix, (INSTANCES, MACHINES))


def _in_lab(site: Site) -> bool:
    """Whether the endpoint is the lab's own, which is lost with the deployment host like all of the lab."""
    control = site.cloud.control_network if site.cloud else None
    host = str(urlsplit(site.hosts.backup.url).hostname) if site.hosts.backup else ""
    return control is not None and is_address(host) and ip_address(host) in control


def _without_exclusions(site: Site) -> Site:
    backup = site.hosts.backup and site.hosts.backup.model_copy(update={"exclude": ()})
    return site.model_copy(update={"hosts": site.hosts.model_copy(update={"backup": backup})})
