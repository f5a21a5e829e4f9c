"""Alertmanager: sends the alerts of Prometheus to the operators, by e-mail and to a webhook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from strata.catalogue.needs import Secret
from strata.catalogue.service import ServiceContext
from strata.models.base import Model, Unit
from strata.models.finding import Finding, duplicates
from strata.models.types import Count, EmailAddress, HostPort, HttpsUrl, SiteFile

if TYPE_CHECKING:
    from strata.models import Site
    from strata.models.yaml_events import KeyPath

KEY: KeyPath = ("platform", "services", "prometheus_server", "alertmanager")
PASSWORD = Secret("alertmanager_smtp_password")
TOKEN = Secret("alertmanager_webhook_token")
SECRETS, CA_FILE = "/etc/alertmanager/secrets", "/etc/alertmanager/ca/ca.pem"
"""In the container."""
HTTPS = 443


class Email(Model):
    """E-mail to the operators, through a mail server of theirs."""

    to: Annotated[list[EmailAddress], Field(min_length=1, description="Addresses that receive the alerts.")]
    sender: Annotated[EmailAddress, Field(description="Address that the messages come from.")]
    smarthost: Annotated[
        HostPort,
        Field(description="HOST:PORT of the mail server that relays the messages, often mail.example.org:587."),
    ]
    username: Annotated[
        str | None,
        Field(
            min_length=1,
            description="At the mail server; its password is the secret alertmanager_smtp_password. Default: no login.",
        ),
    ] = None
    starttls: Annotated[StrictBool, Field(description="Whether the mail server must offer STARTTLS.")] = True


class Webhook(Model):
    """A POST request with the alerts as JSON."""

    url: Annotated[HttpsUrl, Field(description="Where alerts are posted.")]
    bearer_token: Annotated[
        StrictBool, Field(description="Whether requests carry the secret alertmanager_webhook_token as bearer token.")
    ] = False


class Alertmanager(Model):
    """Where alerts are sent: by e-mail, to a webhook, or both."""

    email: Annotated[Email | None, Field(description="E-mail. Default: none.")] = None
    webhook: Annotated[Webhook | None, Field(description="Webhook. Default: none.")] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(description="PEM file of the CA of the receivers' certificates. Default: the public CAs."),
    ] = None
    repeat_interval: Annotated[
        Count, Unit("hours"), Field(description="Time after which an alert that still fires is sent again.")
    ] = 4

    @model_validator(mode="after")
    def _someone_receives(self) -> Self:
        if self.email is None and self.webhook is None:
            fix = "email: {to: [ops@example.org], sender: strata@example.org, smarthost: 'mail.example.org:587'}"
            raise PydanticCustomError(
                "no_receiver", "sends alerts to no one: give email, webhook or both", {"key": "email", "fix": fix}
            )
        return self


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
    found = set()
    if settings.email is not None:
        found.add(int(settings.email.smarthost.rpartition(":")[2]))
    if settings.webhook is not None:
        found.add(urlsplit(settings.webhook.url).port or HTTPS)
    return sorted(found)


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
