"""Alertmanager: sends the alerts of Prometheus to the operators, by e-mail and to a webhook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from strata.catalogue.needs import Secret
from strata.catalogue.service import ServiceContext
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.prometheus_server.settings import Alertmanager

KEY: KeyPath = ("platform", "services", "prometheus_server", "alertmanager")
PASSWORD = Secret("alertmanager_smtp_password")
TOKEN = Secret("alertmanager_webhook_token")
SECRETS, CA_FILE = "/etc/alertmanager/secrets", "/etc/alertmanager/ca/ca.pem"
"""In the container."""
HTTPS = 443


def needs(settings: Alertmanager | None) -> Sequence[Secret]:
    """The secrets that its receivers use."""
    if settings is None:
        return ()
    used = {
        PASSWORD: settings.email is not None and settings.email.username is not None,
        TOKEN: settings.webhook is not None and settings.webhook.bearer_token,
    }
    return [secret for secret, needed in used.items() if needed]


def check(settings: Alertmanager | None, site: Site) -> Iterator[Finding]:
    """Secrets that others made cannot be generated; no one gets a message twice."""
    if settings is not None and settings.email is not None:
        yield from duplicates((to.casefold(), (*KEY, "email", "to", i)) for i, to in enumerate(settings.email.to))
    provided = {secret.name for secret in site.secrets if secret.source != "generated"}
    for secret in needs(settings):
        if secret.name not in provided:
            why = f"needs the secret {secret.name}, which the site file does not provide"
            yield Finding(KEY, why, f"secrets: [{{name: {secret.name}, source: environment}}]", (("secrets",),))


def configuration(settings: Alertmanager) -> dict[str, Any]:
    """alertmanager.yml."""
    receiver: dict[str, Any] = {"name": "operators"}
    trusted = {} if settings.ca_file is None else {"tls_config": {"ca_file": CA_FILE}}
    if (email := settings.email) is not None:
        sent: dict[str, Any] = {
            "to": ", ".join(email.to),
            "from": email.sender,
            "smarthost": email.smarthost,
            "require_tls": email.starttls,
            "send_resolved": True,
            **trusted,
        }
        if email.username is not None:
            sent |= {"auth_username": email.username, "auth_password_file": f"{SECRETS}/{PASSWORD.name}"}
        receiver["email_configs"] = [sent]
    if (webhook := settings.webhook) is not None:
        http: dict[str, Any] = {"follow_redirects": False, **trusted}
        if webhook.bearer_token:
            http["authorization"] = {"credentials_file": f"{SECRETS}/{TOKEN.name}"}
        receiver["webhook_configs"] = [{"url": webhook.url, "send_resolved": True, "http_config": http}]
    route = {
        "receiver": receiver["name"],
        "group_by": ["alertname"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": f"{settings.repeat_interval}h",
    }
    return {"route": route, "receivers": [receiver]}


def ports(settings: Alertmanager) -> list[int]:
    """Of the servers that receive the alerts."""
    numbers = set()
    if settings.email is not None:
        numbers.add(int(settings.email.smarthost.rpartition(":")[2]))
    if settings.webhook is not None:
        numbers.add(urlsplit(settings.webhook.url).port or HTTPS)
    return sorted(numbers)


def values(context: ServiceContext[Any], settings: Alertmanager | None) -> dict[str, Any]:
    """`alertmanager` of helm/prometheus-server.

    Raises:
        UserError: the file of the CA cannot be read.
    """
    if settings is None:
        return {"enabled": False}
    key = ".".join((*map(str, KEY), "ca_file"))
    return {
        "enabled": True,
        "image": context.images["alertmanager"],
        "configuration": configuration(settings),
        "ca": "" if settings.ca_file is None else context.read(key, Path(settings.ca_file)),
        "existingSecret": context.service.secret_name if needs(settings) else "",
        "ports": ports(settings),
    }
