"""JupyterHub: zero-to-jupyterhub's chart on every site, behind the site's issuer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM, administrators_group, tenant_group
from strata.catalogue.needs import Client, Database, Hostname, Namespace, Need, Secret, SharedVolume
from strata.catalogue.service import Service, ServiceContext, Values
from strata.models.finding import Finding
from strata.platform.accelerators import cluster_kinds
from strata_services.jupyterhub.settings import JupyterHub, Profile

if TYPE_CHECKING:
    from strata.models import Site
    from strata.models.yaml_events import KeyPath

KEY: KeyPath = ("platform", "services", "jupyterhub")
NAMESPACE = Namespace("jupyterhub", pod_security="restricted")
DATABASE = Database("jupyterhub")
USER_ID = 1000
"""Of all users' processes, in containers and on the volume with the homes."""
HOMES = SharedVolume("homes", owner=USER_ID, group=USER_ID, mode="0700")
VERIFY_USER = "strata-verify"
"""User whose servers the checks start, and name of the hub's service that may do so; the issuer has no such user."""


def _hexadecimal() -> str:
    return secrets.token_hex(32)


VERIFY_TOKEN = Secret("jupyterhub_verify_token", "hub.services.strata-verify.apiToken", _hexadecimal)
HUB_SECRETS = (
    Secret("jupyterhub_cookie_secret", "hub.config.JupyterHub.cookie_secret", _hexadecimal),
    Secret("jupyterhub_encryption_key", "hub.config.CryptKeeper.keys", _hexadecimal),
    Secret("jupyterhub_proxy_token", "hub.config.ConfigurableHTTPProxy.auth_token", _hexadecimal),
    VERIFY_TOKEN,
)
CA_FILES = Path("/etc/strata")
IMAGE_CA = "/etc/ssl/certs/ca-certificates.crt"
RESTRICTED: Values = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CLOSED: Values = {
    "cloudMetadataServer": False,
    "dnsPortsCloudMetadataServer": False,
    "dnsPortsKubeSystemNamespace": True,
    "dnsPortsPrivateIPs": False,
    "nonPrivateIPs": False,
    "privateIPs": False,
}
"""Of a NetworkPolicy: DNS, and what its rules name."""
EXTRA_CONFIG = """\
from strata_hub import profile_list
c.KubeSpawner.profile_list = profile_list(get_config("singleuser.profileList"), get_config("custom.profileAccess"))
"""
"""Python at the end of the hub's configuration; the module is in the image."""


def _hostname(settings: JupyterHub) -> Hostname:
    return Hostname(settings.hostname, "/hub/health")


def _client(settings: JupyterHub) -> Client:
    return Client("jupyterhub", hostname=settings.hostname, redirect_paths=("/hub/oauth_callback",))


def needs(settings: JupyterHub) -> tuple[Need[Any], ...]:
    """A namespace for users' pods, the database, homes, the site's login, a name."""
    return (NAMESPACE, DATABASE, HOMES, *HUB_SECRETS, _client(settings), _hostname(settings))


def check(settings: JupyterHub, site: Site, _: Path) -> Iterator[Finding]:
    """Profiles are unique, and name tenants and accelerators that the site has."""
    tenants = [tenant.name for tenant in site.platform.tenants]
    kinds = cluster_kinds(site)
    seen: set[str] = set()
    for index, profile in enumerate(settings.profiles):
        key: KeyPath = (*KEY, "profiles", index)
        if profile.name in seen:
            yield Finding((*key, "name"), "duplicate of another profile's", "another name")
        seen.add(profile.name)
        for tenant in profile.tenants:
            if tenant not in tenants:
                fix = f"one of {', '.join(tenants)}" if tenants else "add it to platform.tenants"
                yield Finding((*key, "tenants"), f"the site has no tenant {tenant}", fix, (("platform", "tenants"),))
        for kind in profile.accelerators:
            if kind not in kinds:
                fix = f"one of {', '.join(kinds)}" if kinds else "give a host the role gpu_node and accelerators"
                yield Finding((*key, "accelerators"), f"no node of the cluster has an accelerator {kind}", fix)
    if settings.profiles[0].restricted:
        key = (*KEY, "profiles", 0)
        yield Finding(key, "the first profile is the default and must be open to all users", "another order")
