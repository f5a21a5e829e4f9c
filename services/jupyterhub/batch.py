"""The parts of the chart's values that a site with a batch system has; without one, all are empty."""

from __future__ import annotations

from strata.catalogue.needs.batch_queue import BatchAccess
from strata.catalogue.service import Values
from strata.models.site import Site
from strata_services.jupyterhub.needs import VERIFY_USER

TOKEN_DIRECTORY = "/tmp/condor"  # noqa: S105,S108  # a path, of the container
CONFIG = """\
import os
from strata_hub.batch import handler, with_schedd
batch = get_config("custom.batch")
c.SiteAuthenticator.batch_url = batch["url"]
c.KubeSpawner.modify_pod_hook = with_schedd(c.KubeSpawner.modify_pod_hook, batch["schedds"], batch["users"])
c.JupyterHub.extra_handlers += handler(
    batch["url"], os.environ["BATCH_TOKEN_SECRET"], server_tenant(tenants, profiles, access), batch["users"]
)
"""
"""Python behind the rest of the hub's configuration."""


def custom(batch: BatchAccess | None, site: Site) -> Values:
    """For the hub: the schedds' addresses. The user of the checks, who has no tenant, is a member of the first."""
    if batch is None:
        return {}
    tenants = site.platform.tenants
    return {
        "batch": {
            "url": batch.server.tokens_url,
            "users": {VERIFY_USER: tenants[0].name} if tenants else {},
            "schedds": {tenant: schedd.address for tenant, schedd in batch.server.schedds.items()},
        }
    }


def hub_environment(batch: BatchAccess | None) -> Values:
    """The secret for users' tokens."""
    secret = batch.token_secret if batch else None
    return {"BATCH_TOKEN_SECRET": {"valueFrom": {"secretKeyRef": secret.value}}} if secret else {}


def server_environment(batch: BatchAccess | None) -> dict[str, str]:
    """HTCondor's configuration in users' servers; the hub adds SCHEDD_HOST to each pod, strata_notebook the token."""
    if batch is None:
        return {}
    return {
        "CONDOR_CONFIG": "/dev/null",
        "_CONDOR_UID_DOMAIN": batch.server.domain,
        "_CONDOR_TRUST_DOMAIN": batch.server.domain,
        "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS": "IDTOKENS",
        "_CONDOR_SEC_DEFAULT_ENCRYPTION": "REQUIRED",
        "_CONDOR_SEC_DEFAULT_INTEGRITY": "REQUIRED",
        "_CONDOR_SEC_TOKEN_DIRECTORY": TOKEN_DIRECTORY,
        "_CONDOR_ENABLE_IPV6": "False",
    }


def server_egress(batch: BatchAccess | None) -> list[Values]:
    """From users' servers to the tenants' schedds; the pool's own policies admit each server at that of its tenant."""
    ports = sorted(schedd.port for schedd in batch.server.schedds.values()) if batch else []
    return [_egress(batch, *ports)] if batch and ports else []


def hub_egress(batch: BatchAccess | None) -> list[Values]:
    """From the hub to the issuer of tokens."""
    return [_egress(batch, batch.server.tokens_port)] if batch else []


def _egress(batch: BatchAccess, *ports: int) -> Values:
    return {"to": [dict(batch.server.pods)], "ports": [{"port": port, "protocol": "TCP"} for port in ports]}
