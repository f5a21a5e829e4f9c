"""What site.yaml allows of datasets: S3 endpoints with keys, folders on NFS, limits of downloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from strata.catalogue.needs.bucket import ACCESS_KEY, SECRET_KEY
from strata.catalogue.service import ServiceContext, Values
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.jupyterhub.needs import BUCKETS, dataset_folder
from strata_services.jupyterhub.network import tcp
from strata_services.jupyterhub.settings import DatasetFolder, JupyterHub

HTTPS, NFS_PORT = 443, 2049
KEY: KeyPath = ("platform", "services", "jupyterhub", "datasets")


def check(settings: JupyterHub, site: Site) -> Iterator[Finding]:
    """Names are unique, tenants and exports are the site's, keys are provided, downloads end before the start does."""
    if (settings.datasets.download_seconds or 0) >= settings.start_seconds:
        why = f"servers have {settings.start_seconds} s to start (start_seconds)"
        fix = f"less than {settings.start_seconds}"
        yield Finding((*KEY, "download_seconds"), why, fix, ((*KEY[:-1], "start_seconds"),))
    names = [tenant.name for tenant in site.platform.tenants]
    for kind in ("s3", "nfs"):
        entries = getattr(settings.datasets, kind)
        yield from duplicates((entry.name, (*KEY, kind, i, "name")) for i, entry in enumerate(entries))
        for index, entry in enumerate(entries):
            key: KeyPath = (*KEY, kind, index, "tenants")
            yield from duplicates((tenant, (*key, i)) for i, tenant in enumerate(entry.tenants))
            for tenant in entry.tenants:
                if tenant not in names:
                    fix = f"one of {', '.join(names)}" if names else "add it to platform.tenants"
                    yield Finding(key, f"the site has no tenant {tenant}", fix, (("platform", "tenants"),))
    provided = {secret.name for secret in site.secrets if secret.source != "generated"}
    for index, endpoint in enumerate(settings.datasets.s3):
        yield from duplicates((bucket, (*KEY, "s3", index, "buckets", i)) for i, bucket in enumerate(endpoint.buckets))
        for name in secret_names(endpoint.name):
            if name not in provided:
                fix = f"secrets: [{{name: {name}, source: file, path: …}}]"
                yield Finding((*KEY, "s3", index), "its key must be provided", fix, (("secrets",),))
    networks = settings.datasets.networks
    yield from duplicates((str(network), (*KEY, "networks", i)) for i, network in enumerate(networks))
    for index, folder in enumerate(settings.datasets.nfs):
        yield from _path((*KEY, "nfs", index, "path"), folder, site)


def _path(key: KeyPath, folder: DatasetFolder, site: Site) -> Iterator[Finding]:
    """Of the site's server only exports that no tenant and no service has for itself."""
    if folder.server is None and site.hosts.nfs is not None:
        exports = {export.name: export for export in site.hosts.nfs.exports}
        export = exports.get(folder.path.parts[1]) if len(folder.path.parts) > 1 else None
        reads: tuple[KeyPath, ...] = (("hosts", "nfs", "exports"), (*key[:-1], "server"))
        if export is None:
            known = " or ".join(f"/{entry.name}" for entry in exports.values() if not entry.tenants)
            yield Finding(key, "is in no export of the site", known or "an export in hosts.nfs.exports", reads)
        elif export.tenants:
            why = f"the export {export.name} holds the folders of tenants"
            yield Finding(key, why, f"shared_export: {export.name}", reads)


def secret_names(endpoint: str) -> tuple[str, str]:
    """Names of the site's secrets with the id of an endpoint's key and its secret."""
    prefix = f"dataset_{endpoint.replace('-', '_')}"
    return f"{prefix}_access_key", f"{prefix}_secret_key"


def _entries(endpoint: str) -> tuple[str, str]:
    """In the service's Secret."""
    return f"dataset.{endpoint}.{ACCESS_KEY}", f"dataset.{endpoint}.{SECRET_KEY}"


def secret_data(context: ServiceContext[JupyterHub]) -> Mapping[str, str]:
    """The keys of S3 endpoints, which only init containers get."""
    return {
        entry: context.secrets.get(name)
        for endpoint in context.settings.datasets.s3
        for entry, name in zip(_entries(endpoint.name), secret_names(endpoint.name), strict=True)
    }


def downloads(context: ServiceContext[JupyterHub]) -> Values:
    """What init containers may download, and the CAs of the site's own services."""
    hub = context.settings
    authorities = {access.ca for access in context.provide(BUCKETS).values() if access.ca is not None}
    return {
        "bytes": hub.datasets.maximum_size.bytes,
        "seconds": hub.datasets.download_seconds or max(1, hub.start_seconds // 2),
        "authorities": "".join((context.secrets.ca, *sorted(authorities))),
    }


def sources(context: ServiceContext[JupyterHub]) -> Values:
    """What each tenant's datasets may name: the tenant's bucket, S3 endpoints and folders by name."""
    hub, buckets = context.settings, context.provide(BUCKETS)
    return {
        tenant.name: {
            "bucket": {
                "endpoint": bucket.endpoint,
                "region": bucket.region,
                "buckets": [bucket.name],
                "keys": [bucket.access_key.value, bucket.secret_key.value],
            }
            if (bucket := buckets.get(tenant.name)) is not None
            else None,
            "s3": {
                endpoint.name: {
                    "endpoint": endpoint.url.rstrip("/"),
                    "region": endpoint.region,
                    "buckets": list(endpoint.buckets),
                    "keys": [context.secret_reference(entry).value for entry in _entries(endpoint.name)],
                }
                for endpoint in hub.datasets.s3
                if not endpoint.tenants or tenant.name in endpoint.tenants
            },
            "nfs": {
                export.name: {
                    "claim": context.provide(dataset_folder(export)),
                    # closed to pods, and without the site's own server, which has the homes, nothing starts
                    "server": export.server or "",
                }
                for export in hub.datasets.nfs
                if not export.tenants or tenant.name in export.tenants
            },
        }
        for tenant in context.site.platform.tenants
    }


def server_egress(context: ServiceContext[JupyterHub]) -> list[dict[str, Any]]:
    """Rules of the servers' NetworkPolicy: the buckets in the cluster, each of which admits its tenant's servers, and
    the private networks of the site."""
    accesses = [access for access in context.provide(BUCKETS).values() if access.pods is not None]
    rules = [{"to": [dict(access.pods or {})], "ports": [tcp(access.port)]} for access in accesses]
    allowed = context.settings.datasets
    if allowed.networks:
        ports = sorted({HTTPS, *(urlsplit(endpoint.url).port or HTTPS for endpoint in allowed.s3)})
        blocks = [{"ipBlock": {"cidr": str(network)}} for network in allowed.networks]
        rules.append({"to": blocks, "ports": [tcp(port) for port in ports]})
    return rules


def hub_egress(settings: JupyterHub) -> list[dict[str, Any]]:
    """Rules of the hub's NetworkPolicy: it probes NFS servers of others, which may be set by name."""
    probes = any(export.server for export in settings.datasets.nfs)
    return [{"ports": [{"port": NFS_PORT, "protocol": "TCP"}]}] if probes else []
