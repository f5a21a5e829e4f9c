"""What JupyterHub needs from the platform."""

from __future__ import annotations

import secrets
from typing import Any

from strata.catalogue.needs import (
    Accelerators,
    BatchQueue,
    Client,
    DaskClusters,
    Database,
    Hostname,
    HuggingFace,
    Metrics,
    Namespace,
    Need,
    NfsFolder,
    Priority,
    Secret,
    SharedVolume,
    TenantBuckets,
    TenantFolders,
    TenantQuota,
)
from strata_services.jupyterhub.settings import DatasetFolder, JupyterHub, Profile

NAMESPACE = Namespace("jupyterhub", pod_security="restricted", reader="hub")
DATABASE = Database("jupyterhub")
USER_ID = 1000
"""Of all users' processes, in containers and on the volume with the homes."""
HUB_PRIORITY = Priority("platform")
USER_PRIORITY = Priority("interactive")
QUOTA = TenantQuota("server", NAMESPACE.name, "hub")
VERIFY_USER = "strata-verify"
BATCH = BatchQueue(
    ("component=singleuser-server",),
    ("component=hub",),
    images=("notebook",),
    first_tenant_pods=(f"hub.jupyter.org/username={VERIFY_USER}",),
)
"""Servers submit jobs, which run in their image; the hub requests the tokens for them."""
BUCKETS = TenantBuckets("component=singleuser-server")
"""Servers download datasets from their tenant's bucket."""
MODELS = HuggingFace("component=singleuser-server")
"""Servers load models and datasets by it."""
METRICS = Metrics(port=9091)
"""Of the hub, on a port of its own: the proxy publishes all paths of the hub's port."""
VERIFY_SERVICE = "verify"
"""The hub's service that may start servers of VERIFY_USER only, for the checks."""
"""The issuer has no such user."""


def _hexadecimal() -> str:
    return secrets.token_hex(32)


DASK = DaskClusters(
    user=VERIFY_USER,
    token_key="hub.services.dask-gateway.apiToken",  # noqa: S106  # the key of an entry
    servers="component=singleuser-server",
    hub="component=hub",
    hub_port=8081,
    hub_service="hub",
)
LEAVING_SERVICE = "leaving"
"""The hub's service that removes users, for `strata users remove`; only the hub's pod has its token."""
VERIFY_TOKEN = Secret("jupyterhub_verify_token", f"hub.services.{VERIFY_SERVICE}.apiToken", _hexadecimal)
HUB_SECRETS = (
    Secret("jupyterhub_cookie_secret", "hub.config.JupyterHub.cookie_secret", _hexadecimal),
    Secret("jupyterhub_encryption_key", "hub.config.CryptKeeper.keys", _hexadecimal),
    Secret("jupyterhub_proxy_token", "hub.config.ConfigurableHTTPProxy.auth_token", _hexadecimal),
    VERIFY_TOKEN,
    Secret("jupyterhub_leaving_token", f"hub.services.{LEAVING_SERVICE}.apiToken", _hexadecimal),
)
"""Entries of hub.existingSecret, by the chart's names."""


def homes(settings: JupyterHub) -> SharedVolume:
    """The volume with all homes."""
    size = f"{settings.homes_size.gibibytes}Gi"
    limit = settings.maximum_home_size.bytes // 2**10 if settings.maximum_home_size else 0
    return SharedVolume("homes", owner=USER_ID, group=USER_ID, mode="0700", size=size, folder_limit=limit)


def shared_folders(settings: JupyterHub) -> TenantFolders | None:
    """The folders of tenants, if the site shares them with servers."""
    return TenantFolders(settings.shared_export) if settings.shared_export else None


def dataset_folder(folder: DatasetFolder) -> NfsFolder:
    """The volume of a folder that datasets may name."""
    return NfsFolder(f"dataset-{folder.name}", folder.path, folder.server or "")


def hostname(settings: JupyterHub) -> Hostname:
    """Where users reach it."""
    return Hostname(
        settings.hostname,
        "/hub/health",
        title="Notebooks",
        summary="JupyterLab in your browser: Python, your files, and accelerators where your project has them.",
    )


def client(settings: JupyterHub) -> Client:
    """Logins at the site's issuer."""
    return Client("jupyterhub", hostname=hostname(settings), redirect_paths=("/hub/oauth_callback",))


def accelerators(profile: Profile) -> Accelerators | None:
    """Of each server of a profile."""
    return next((Accelerators(count, kind) for kind, count in profile.accelerators.items()), None)


def needs(settings: JupyterHub) -> tuple[Need[Any], ...]:
    """A namespace for users' pods, the database, homes, the site's login, a name, the batch system, datasets."""
    optional = (shared_folders(settings), *map(accelerators, settings.profiles))
    unique = dict.fromkeys(need for need in optional if need is not None)
    return (
        NAMESPACE,
        DATABASE,
        HUB_PRIORITY,
        USER_PRIORITY,
        QUOTA,
        METRICS,
        BATCH,
        BUCKETS,
        MODELS,
        DASK,
        homes(settings),
        client(settings),
        hostname(settings),
        *HUB_SECRETS,
        *unique,
        *map(dataset_folder, settings.datasets.nfs),
    )
