"""What JupyterHub needs from the platform."""

from __future__ import annotations

import secrets
from typing import Any

from strata.catalogue.needs import Client, Database, Hostname, Namespace, Need, Secret, SharedVolume
from strata_services.jupyterhub.settings import JupyterHub

NAMESPACE = Namespace("jupyterhub", pod_security="restricted")
DATABASE = Database("jupyterhub")
USER_ID = 1000
"""Of all users' processes, in containers and on the volume with the homes."""
VERIFY_USER = "strata-verify"
"""User whose servers the checks start, and name of the hub's service that may do so; the issuer has no such user."""


def _hexadecimal() -> str:
    return secrets.token_hex(32)


VERIFY_TOKEN = Secret("jupyterhub_verify_token", f"hub.services.{VERIFY_USER}.apiToken", _hexadecimal)
HUB_SECRETS = (
    Secret("jupyterhub_cookie_secret", "hub.config.JupyterHub.cookie_secret", _hexadecimal),
    Secret("jupyterhub_encryption_key", "hub.config.CryptKeeper.keys", _hexadecimal),
    Secret("jupyterhub_proxy_token", "hub.config.ConfigurableHTTPProxy.auth_token", _hexadecimal),
    VERIFY_TOKEN,
)
"""Entries of hub.existingSecret, by the chart's names."""


def homes(settings: JupyterHub) -> SharedVolume:
    """The volume with all homes."""
    size = f"{settings.homes_size.gibibytes}Gi"
    return SharedVolume("homes", owner=USER_ID, group=USER_ID, mode="0700", size=size)


def hostname(settings: JupyterHub) -> Hostname:
    """Where users reach it."""
    return Hostname(settings.hostname, "/hub/health")


def client(settings: JupyterHub) -> Client:
    """Logins at the site's issuer."""
    return Client("jupyterhub", hostname=settings.hostname, redirect_paths=("/hub/oauth_callback",))


def needs(settings: JupyterHub) -> tuple[Need[Any], ...]:
    """A namespace for users' pods, the database, homes, the site's login, a name."""
    return (NAMESPACE, DATABASE, homes(settings), *HUB_SECRETS, client(settings), hostname(settings))
